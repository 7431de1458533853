"""What a cell needs of the run: servers, topics, client processes, checks and time. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .constants import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .cells.rates import Rates

    Order = dict[str, Any]  # what a client process is given: {"loop": ..., ...}, see loops/
    Report = dict[str, Any]  # what it prints at its end

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


class ChildError(RuntimeError):
    """A process failed, timed out or exited early; the text holds the end of what it printed."""


class LostDataError(RuntimeError):
    """A reader did not find all acknowledged records, or found more."""


class TlsAddress(NamedTuple):
    """A node's listeners with TLS: SASL_SSL, and SSL without a user. `ca_file`: PEM that clients trust;
    `java`: the configuration of Java clients for SASL_SSL."""

    sasl_ssl: str
    ssl: str
    ca_file: str
    java: Mapping[str, str]


class System(Protocol):
    """The servers of one system. `kafka_bootstrap`: address for Kafka's clients, "" without a listener;
    `tls`: of servers with TLS; `client_config`: what headrace's clients need, if anything."""

    kafka_bootstrap: str
    tls: TlsAddress | None

    @property
    def client_config(self) -> Mapping[str, str]: ...

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def node_dirs(self) -> list[Path]:
        """The folders of the nodes, which hold their partitions."""

    @property
    def node_pids(self) -> list[int]:
        """Processes that hold records; their memory is reported."""

    @property
    def cpu_pids(self) -> list[int]:
        """All server processes; their CPU time is reported."""

    def create_topic(self, name: str, partitions: int, *, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        """Every partition has a leader on return, and all its replicas are in sync."""

    def delete_topic(self, name: str) -> None:
        """The files are gone on return, so that nothing is written back during the next cell."""

    def end_offset(self, topic: str) -> int:
        """The sum of the end offsets of all partitions; 0 if the topic does not exist."""

    def stop(self) -> None: ...


class Replicas(NamedTuple):
    """A partition's `leader`, -1 if it has none, and how many of its replicas are in sync."""

    leader: int
    in_sync: int


class Cluster(System, Protocol):
    """Three nodes of one system; every partition has three replicas, unless `replicas` says otherwise."""

    @property
    def controller_pids(self) -> list[int]:
        """Processes that hold metadata only."""

    def create_topic(
        self, name: str, partitions: int, replicas: int = NODES, *, configs: Mapping[str, str] = NO_CONFIGS
    ) -> None: ...
    def replicas_of(self, topic: str) -> list[Replicas]:
        """By partition."""

    def wait_in_sync(self, topic: str, partitions: int, replicas: int = NODES) -> None:
        """Errors: TimeoutError when a partition has no leader, or a replica stays out of sync."""

    def node_to_kill(self, topic: str) -> int:
        """A node that leads a partition of `topic`."""

    def kill(self, node: int) -> None:
        """SIGKILL; the process is gone on return."""

    def restart(self, node: int) -> None:
        """Start a killed node with its files."""


class Process(Protocol):
    """A child process that is sent lines and prints lines."""

    name: str
    pid: int

    def line(self, timeout_s: float) -> str:
        """The next line that it prints. Errors: ChildError."""

    def send(self, line: str) -> None:
        """Errors: ChildError when the process has ended."""


class Usage(NamedTuple):
    """`cpu_s` user and system seconds so far; `rss` and `peak` in bytes; open descriptors; threads."""

    cpu_s: float
    rss: int
    peak: int
    fds: int
    threads: int


class KafkaTools(Protocol):
    """Apache Kafka's own performance tools, in one JVM for all cells."""

    def produce(self, system: System, topic: str, spec: Mapping[str, Any]) -> Report:
        """ProducerPerformance: `count` records of `size` bytes with `acks`."""

    def consume(self, system: System, topic: str, spec: Mapping[str, Any]) -> Report:
        """ConsumerPerformance: `count` records of `size` bytes from the beginning."""


class Preloaded(NamedTuple):
    """A topic that was filled before the cells of a group run, and its number of records."""

    topic: str
    count: int


class Harness(Protocol):
    """The machine, the servers of the current group, and client processes."""

    rates: Rates
    scratch: Path
    server_cores: list[int]
    client_cores: list[int]

    @property
    def nodes(self) -> int:
        """Of each system's cluster; 0 when the group runs no servers."""

    def say(self, text: str) -> None:
        """Print a line of progress."""

    def system(self, name: str) -> System:
        """The running servers of a system."""

    def start_system(self, name: str) -> AbstractContextManager[System]:
        """Servers for one cell only, stopped and deleted at its end."""

    def topic(
        self, system: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS
    ) -> AbstractContextManager[str]:
        """The name of a new topic, deleted at the end."""

    def preloaded(self, system: str) -> Preloaded:
        """The topic that the group's preload has filled."""

    def node_dir(self, system: str) -> Path:
        """The folder that holds the partitions of a system's single node."""

    def drop_page_cache(self, system: str, topic: str) -> None:
        """Write a topic's files to disk and drop their pages."""

    def profiled(self, system: System) -> AbstractContextManager[None]:
        """headrace's nodes sample their stacks meanwhile, if profiles were asked for."""

    def run_clients(
        self,
        orders: Sequence[Order],
        system: System,
        topic: str,
        *,
        profile: bool = False,
        when_ready: Callable[[], None] | None = None,
    ) -> list[Report]:
        """Run client processes that start measuring together; `when_ready` runs just before.

        An order's `client` names the client library, by default that of the system. Errors: ChildError.
        """

    def run_workers(self, orders: Sequence[Order], cores: Iterable[int] | None = None) -> list[Report]:
        """The same for loops that need no server; on the clients' cores by default."""

    def client(self, order: Order) -> AbstractContextManager[Process]:
        """A client process that is sent commands while it runs, on the clients' cores."""

    def server(self, module: str, *arguments: str) -> AbstractContextManager[Process]:
        """A process that runs `benchmarks.<module>` on the servers' cores."""

    def next_line(self, processes: Collection[Process], timeout_s: float) -> tuple[int, str] | None:
        """The next line of any process, with its index; None when none came. Errors: ChildError."""

    def verify(self, system: System, topic: str, expected: Mapping[str, Any]) -> None:
        """Read the whole topic: `count`, and `checksum` unless that is None. Errors: LostDataError."""

    def usage(self, pids: Iterable[int]) -> Usage:
        """What processes use now, in sum."""

    def memory_bytes(self, system: System) -> int:
        """Resident memory of headrace's node; of Kafka the live objects on the heap."""

    def log_copies(self, spec: Mapping[str, Any], copies: int) -> AbstractContextManager[list[Path]]:
        """Copies of a closed log of `count` records of `size` bytes under `keys` keys."""

    def clean_with_kafka(self, map_bytes: int, folders: Sequence[Path]) -> Report:
        """Kafka's cleaner over each log in turn, in one JVM; the last report. Errors: ChildError."""

    def kafka_tools(self) -> KafkaTools: ...
    def now_ns(self) -> int:
        """The monotonic clock, which all processes of the machine share."""

    def sleep(self, seconds: float) -> None: ...
