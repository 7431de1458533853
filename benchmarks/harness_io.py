"""The harness on this machine: real servers, client processes, topics, files and clocks."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import let_pass

from . import machine_io
from .cells.rates import Rates
from .constants import KAFKA, PARTITIONS
from .harness import NO_CONFIGS, LostDataError, Preloaded, Usage
from .servers import kafka_tools_io
from .servers.headrace_io import Headrace, HeadraceCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from .harness import KafkaTools, Order, Process, Report, System
    from .servers.children_io import Child, Children
    from .servers.pool_io import ServerPool

WORK_TIMEOUT_S, MAKE_LOG_TIMEOUT_S, JCMD_TIMEOUT_S = 90.0, 300.0, 60.0
_HEAP_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)


class LocalHarness:
    """Implements `harness.Harness`."""

    def __init__(
        self,
        children: Children,
        scratch: Path,
        pool: ServerPool,
        say: Callable[[str], None],
        profile: str = "",
    ) -> None:
        self.children, self.scratch, self.pool, self.say, self.profile = children, scratch, pool, say, profile
        self.server_cores, self.client_cores = machine_io.split_cores()
        self.rates = Rates()
        self.preloads: dict[str, Preloaded] = {}
        self._topic_count = 0
        self.kafka_tools = cache(self._start_kafka_tools)

    @property
    def nodes(self) -> int:
        """Of each system's cluster."""
        return self.pool.servers.nodes

    # --- servers and topics -----------------------------------------------------------------------------

    def system(self, name: str) -> System:
        """Errors: KeyError when it does not run."""
        return self.pool.systems[name]

    def start_system(self, name: str) -> contextlib.AbstractContextManager[System]:
        """A fresh instance."""
        return self.pool.extra(name)

    def new_topic(self, system: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> str:
        """A topic whose name no other cell uses."""
        self._topic_count += 1
        topic = f"bench{self._topic_count}"
        self.system(system).create_topic(topic, partitions, configs=configs)
        return topic

    @contextlib.contextmanager
    def topic(self, system: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> Iterator[str]:
        """A new topic, deleted at the end."""
        topic = self.new_topic(system, partitions, configs)
        try:
            yield topic
        finally:
            self.system(system).delete_topic(topic)

    def preloaded(self, system: str) -> Preloaded:
        """Errors: KeyError when the group has no preload."""
        return self.preloads[system]

    def node_dir(self, system: str) -> Path:
        """The single node's folder."""
        (folder,) = self.system(system).node_dirs
        return folder

    def drop_page_cache(self, system: str, topic: str) -> None:
        """See `Harness.drop_page_cache`."""
        machine_io.drop_page_cache(self.node_dir(system), topic)

    @contextlib.contextmanager
    def profiled(self, system: System) -> Iterator[None]:
        """headrace's nodes sample their stacks meanwhile, if profiles were asked for."""
        if not self.profile or not isinstance(system, Headrace | HeadraceCluster):
            yield
            return
        system.begin_profile()
        try:
            yield
        finally:
            system.end_profile()

    # --- client processes -------------------------------------------------------------------------------

    def run_clients(
        self,
        orders: Sequence[Order],
        system: System,
        topic: str,
        *,
        profile: bool = False,
        when_ready: Callable[[], None] | None = None,
    ) -> list[Report]:
        """See `Harness.run_clients`."""

        def complete(order: Order) -> Order:
            is_kafka = order.get("client") == KAFKA
            address = {"system": KAFKA if is_kafka else system.name,
                       "bootstrap": system.kafka_bootstrap if is_kafka else system.bootstrap}  # fmt: skip
            config = {"config": dict(system.client_config)} if system.client_config else {}
            return {"topic": topic, "server_pids": system.cpu_pids, **address, **config, **order}

        orders = [complete(order) for order in orders]
        if profile:
            orders = [self._with_profile(order, f"-{number}") for number, order in enumerate(orders)]
        return self.children.work(
            orders, cores=self.client_cores, timeout_s=WORK_TIMEOUT_S, when_ready=when_ready
        )

    def run_workers(self, orders: Sequence[Order], cores: Iterable[int] | None = None) -> list[Report]:
        """See `Harness.run_workers`."""
        orders = [self._with_profile(order) for order in orders]
        return self.children.work(
            orders, cores=self.client_cores if cores is None else cores, timeout_s=MAKE_LOG_TIMEOUT_S
        )

    def client(self, order: Order) -> contextlib.AbstractContextManager[Child]:
        """See `Harness.client`."""
        order = self._with_profile(order, f"-{order['numbers'][0]}" if "numbers" in order else "")
        child = self.children.start(order["loop"], "worker", json.dumps(order), cores=self.client_cores)
        return self.children.running(child)

    def server(self, module: str, *arguments: str) -> contextlib.AbstractContextManager[Child]:
        """See `Harness.server`."""
        name = module.rpartition(".")[2]
        return self.children.running(self.children.start(name, module, *arguments, cores=self.server_cores))

    def next_line(self, processes: Collection[Process], timeout_s: float) -> tuple[int, str] | None:
        """See `Harness.next_line`."""
        return self.children.next_line(processes, timeout_s)

    def verify(self, system: System, topic: str, expected: Mapping[str, Any]) -> None:
        """Read the whole topic in processes of their own. Errors: LostDataError."""
        readers = min(len(self.client_cores), PARTITIONS)
        orders = [{"loop": "verify", "partitions": list(range(part, PARTITIONS, readers))}
                  for part in range(readers)]  # fmt: skip
        reports = self.run_clients(orders, system, topic)
        count, checksum = (sum(report[name] for report in reports) for name in ("count", "checksum"))
        if count != expected["count"] or expected["checksum"] not in (None, checksum):
            raise LostDataError(f"{system.name}: sent {expected}, read {count} records, checksum {checksum}")

    def _with_profile(self, order: Order, suffix: str = "") -> Order:
        return {**order, "profile": f"{self.profile}.{order['loop']}{suffix}"} if self.profile else order

    # --- Kafka's programs, logs, memory and time --------------------------------------------------------

    def _start_kafka_tools(self) -> KafkaTools:
        return kafka_tools_io.KafkaToolsJvm(self.children, self.scratch, self.client_cores)

    def clean_with_kafka(self, map_bytes: int, folders: Sequence[Path]) -> Report:
        """See `Harness.clean_with_kafka`."""
        return kafka_tools_io.clean(map_bytes, folders, self.client_cores)

    @contextlib.contextmanager
    def log_copies(self, spec: Mapping[str, Any], copies: int) -> Iterator[list[Path]]:
        """See `Harness.log_copies`; the log itself is written once per session."""
        name = "-".join(str(spec[part]) for part in ("size", "count", "compression", "keys"))
        original = self.scratch / f"log-{name}" / "cleaned-0"
        if not original.exists():
            original.parent.mkdir()
            order = {**spec, "loop": "makelog", "folder": str(original)}
            self.children.work([order], cores=self.client_cores, timeout_s=MAKE_LOG_TIMEOUT_S)
        with contextlib.ExitStack() as stack:
            folders = []
            for _ in range(copies):
                parent = stack.enter_context(tempfile.TemporaryDirectory(prefix="clean-", dir=self.scratch))
                folders.append(shutil.copytree(original, Path(parent) / original.name))
            yield folders

    def usage(self, pids: Iterable[int]) -> Usage:
        """See `Harness.usage`."""
        return machine_io.sample_all(pids)

    def memory_bytes(self, system: System) -> int:
        """Resident memory, or of Kafka the live heap: a JVM's resident memory is what it has ever touched."""
        (pid,) = system.node_pids
        if system.name != KAFKA:
            return machine_io.sample(pid).rss
        command = ["jcmd", str(pid), "GC.class_histogram"]  # collects all garbage first
        done = subprocess.run(command, capture_output=True, text=True, timeout=JCMD_TIMEOUT_S, check=True)
        found = _HEAP_TOTAL.search(done.stdout)
        assert found is not None, done.stdout[-500:]
        return int(found[1])

    def now_ns(self) -> int:
        """The monotonic clock."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """For the length of a measurement."""
        let_pass(seconds)
