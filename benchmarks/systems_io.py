"""The two systems under test behind one face: start, topics, files, stop."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headrace.runtime.ports_io import reserve_ports
from headrace.runtime.waiting_io import until

from . import kafka_io
from .machine_io import set_affinity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .children_io import Child, Children

START_TIMEOUT_S = 30.0
TOPIC_TIMEOUT_S = 60.0
DELETE_TIMEOUT_S = 15.0


NO_CONFIGS: Mapping[str, str] = MappingProxyType({})
# of the coordinators' topics, where there is one node
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
LISTENERS, PLAINTEXT = "listeners", "PLAINTEXT://"


class System(Protocol):
    """Servers with a client address, and one for Kafka's clients, "" without. `node_pids`: the processes that
    hold records, whose memory is told; `cpu_pids`: all processes whose CPU time is the servers'."""

    data_dir: Path
    kafka_bootstrap: str

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def node_pids(self) -> list[int]: ...
    @property
    def cpu_pids(self) -> list[int]: ...
    def create_topic(
        self, name: str, partitions: int, *, configs: Mapping[str, str] = NO_CONFIGS
    ) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def stop(self) -> None: ...


class Headrace:
    """One storage node, alone in its process, and a controller in another one; defaults but `settings`."""

    name = "headrace"

    def __init__(
        self,
        children: Children,
        scratch: Path,
        cores: Iterable[int],
        profile: str = "",
        settings: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        from headrace import Admin

        self.data_dir = scratch / "headrace-data"
        self._children = children
        cores = list(cores)
        self._controller = self._start("controller", cores, "", "")
        port = self._ready(self._controller)
        settings = {**ONE_REPLICA, **settings}
        pairs = (f"{name}={value}" for name, value in settings.items())
        self._node = self._start("node", cores, str(port), profile, *pairs)
        self.bootstrap, self.pid = f"127.0.0.1:{self._ready(self._node)}", self._node.pid
        self.kafka_bootstrap = settings.get(LISTENERS, "").removeprefix(PLAINTEXT)
        self.node_pids = [self.pid]
        self.cpu_pids = [self.pid, self._controller.pid]  # Kafka's one JVM holds both, too
        self._admin = Admin(self.bootstrap)

    def create_topic(self, name: str, partitions: int, *, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        """With a leader for each partition on return."""
        from headrace import NewTopic

        self._admin.create_topics(NewTopic(name, partitions, configs=configs)).raise_for_errors()

    def delete_topic(self, name: str) -> None:
        """Its files are gone on return, so that nothing of it is written back into the next cell."""
        self._admin.delete_topics(name).raise_for_errors()
        wait_gone(self.data_dir / "node", name)

    def end_offset(self, topic: str) -> int:
        """The sum of the end offsets of its partitions; 0 while it does not exist."""
        from headrace import LATEST, TopicPartition

        if topic not in {listing.name for listing in self._admin.list_topics(internal=True)}:
            return 0
        found = self._admin.describe_topics(topic)[topic].partitions
        ends = self._admin.list_offsets({TopicPartition(topic, part.partition): LATEST for part in found})
        return sum(end.offset for end in ends.values())

    def begin_profile(self) -> None:
        """Start the sampling profiler of the node."""
        os.kill(self.pid, signal.SIGUSR1)

    def end_profile(self) -> None:
        """End it: the node writes its file."""
        os.kill(self.pid, signal.SIGUSR2)

    def stop(self) -> None:
        """Node first, so that the controller sees it go."""
        self._admin.close()
        self._children.end(self._node)
        self._children.end(self._controller)

    def _start(self, kind: str, cores: list[int], port: str, profile: str, *pairs: str) -> Child:
        arguments = (kind, str(self.data_dir / kind), port, profile, *pairs)
        return self._children.start(kind, "server_process", *arguments, cores=cores)

    @staticmethod
    def _ready(child: Child) -> int:
        return int(child.line(START_TIMEOUT_S).removeprefix("ready "))


class Kafka:
    """One KRaft node; settings are defaults but for those here and `settings`."""

    name = "kafka"
    SETTINGS: ClassVar = {
        "auto.create.topics.enable": "false",
        "log.segment.delete.delay.ms": "0",  # deleted topics give their disk back before the next cell
        "log.initial.task.delay.ms": "500",  # the same, for topics deleted in the first half minute
        "log.retention.check.interval.ms": "600000",
        "group.initial.rebalance.delay.ms": "3000",  # the default of both
    }

    def __init__(self, scratch: Path, cores: Iterable[int], settings: Mapping[str, str] = NO_CONFIGS) -> None:
        from confluent_kafka.admin import AdminClient

        self.data_dir = scratch / "kafka-data"
        self.data_dir.mkdir()
        self._node = kafka_io.start_node(
            self.data_dir, self.SETTINGS | dict(settings), jvm=kafka_io.SERVER_JVM, cores=cores
        )
        self.bootstrap, self.pid = self._node.bootstrap, self._node.pid
        self.kafka_bootstrap = self.bootstrap
        self.node_pids = self.cpu_pids = [self.pid]
        try:
            self._admin: Any = AdminClient({"bootstrap.servers": self.bootstrap}, logger=silent())
        except BaseException:
            self._node.stop()
            raise

    def create_topic(self, name: str, partitions: int, *, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        """With a leader for each partition on return."""
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, partitions, 1, config={"file.delete.delay.ms": "0", **configs})
        self._admin.create_topics([topic])[name].result(TOPIC_TIMEOUT_S)

        def has_leaders() -> bool:
            found = self._admin.list_topics(name, TOPIC_TIMEOUT_S).topics[name].partitions
            return len(found) == partitions and all(part.leader >= 0 for part in found.values())

        if not until(has_leaders, TOPIC_TIMEOUT_S):
            raise TimeoutError(f"topic {name} has no leaders")

    def delete_topic(self, name: str) -> None:
        """Its files are gone on return."""
        self._admin.delete_topics([name])[name].result(TOPIC_TIMEOUT_S)
        wait_gone(self.data_dir, name)

    def end_offset(self, topic: str) -> int:
        """The sum of the end offsets of its partitions; 0 while it does not exist."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        found = self._admin.list_topics(topic, TOPIC_TIMEOUT_S).topics[topic].partitions
        ends = self._admin.list_offsets(
            {TopicPartition(topic, number): OffsetSpec.latest() for number in found}
        )
        return sum(end.result(TOPIC_TIMEOUT_S).offset for end in ends.values())

    def stop(self) -> None:
        """Cleanly; safe to call again. The client goes first: it would tell that its connection broke."""
        self._admin = None
        self._node.stop()


def listening() -> dict[str, str]:
    """With it Kafka's clients reach a node of headrace, too."""
    return {LISTENERS: f"{PLAINTEXT}127.0.0.1:{reserve_ports(1)[0]}"}


def silent() -> logging.Logger:
    """For what librdkafka says of itself; errors come back from its calls."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return logger


def wait_gone(folder: Path, topic: str) -> bool:
    """Wait until no folder of a topic is left; False when they stay."""
    return until(lambda: not any(folder.glob(f"{topic}-*")), DELETE_TIMEOUT_S)


def move(system: System, cores: Iterable[int]) -> None:
    """Let a server run on other cores."""
    for pid in system.node_pids:
        set_affinity(pid, set(cores))


def drop_cached(folder: Path, topic: str) -> int:
    """Write the files of a topic to the disk and ask the kernel to forget them; how many bytes they hold."""
    total = 0
    for path in folder.glob(f"{topic}-*/*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            total += os.fstat(fd).st_size
        finally:
            os.close(fd)
    return total


def touch_memory(folder: Path, size: int) -> float:
    """Write and delete a file, so that the page cache is made of pages the machine has already; seconds.

    Without it whoever writes first pays for the first touch of each page, up to ten times the price.
    """
    path, block = folder / "touch", bytes(1 << 22)
    started = time.monotonic()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for offset in range(0, size, len(block)):
            os.pwrite(fd, block, offset)
    finally:
        os.close(fd)
        path.unlink()
    return time.monotonic() - started
