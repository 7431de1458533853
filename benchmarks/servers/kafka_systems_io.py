"""Apache Kafka under test: one KRaft node, or three."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.runtime.ports_io import reserve_ports

from ..constants import KAFKA, NODES
from ..harness import NO_CONFIGS
from . import kafka_cluster_io, kafka_io
from .topics_io import KafkaTopics, TopicServers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .secured_io import TlsListeners


class Kafka(TopicServers):
    """One node; defaults but for SETTINGS and `settings`."""

    name = KAFKA
    SETTINGS: ClassVar = {
        "auto.create.topics.enable": "false",
        "log.segment.delete.delay.ms": "0",  # deleted topics free their disk before the next cell
        "log.initial.task.delay.ms": "500",  # the same for topics deleted in the first half minute
        "log.retention.check.interval.ms": "600000",
        "group.initial.rebalance.delay.ms": "3000",  # the default of both systems
    }

    def __init__(
        self,
        scratch: Path,
        cores: Iterable[int],
        settings: Mapping[str, str] = NO_CONFIGS,
        listeners: TlsListeners | None = None,
    ) -> None:
        self.data_dir = scratch / "kafka-data"
        self.data_dir.mkdir()
        broker, controller = reserve_ports(2)
        settings = {**self.SETTINGS, **settings}
        if listeners is not None:
            settings |= listeners.kafka_settings(broker, controller)
            self.tls = listeners.address
        self._node = kafka_io.start_node(
            self.data_dir, settings, jvm=kafka_io.SERVER_JVM, cores=cores, ports=(broker, controller)
        )
        self.bootstrap = self.kafka_bootstrap = self._node.bootstrap
        self.node_pids = self.cpu_pids = [self._node.pid]
        try:
            self._topics = KafkaTopics(self.bootstrap)
        except BaseException:
            self._node.stop()
            raise

    @property
    def node_dirs(self) -> list[Path]:
        """The only node's folder."""
        return [self.data_dir]

    def stop(self) -> None:
        """May be called again."""
        self._topics.close()
        self._node.stop()


class KafkaCluster(TopicServers):
    """Three JVMs, each broker and controller."""

    name = KAFKA
    replicas = NODES
    controller_pids: ClassVar[list[int]] = []

    def __init__(self, scratch: Path, cores: Iterable[int]) -> None:
        self.data_dir = scratch / "kafka-nodes"
        self._cluster = kafka_cluster_io.KafkaCluster(self.data_dir, NODES, Kafka.SETTINGS, cores)
        self.bootstrap = self.kafka_bootstrap = self._cluster.bootstrap
        self.kill, self.restart = self._cluster.kill, self._cluster.start
        try:
            self._topics = KafkaTopics(self.bootstrap)
            self._wait_for_nodes()
        except BaseException:
            self._cluster.stop()
            raise

    @property
    def node_pids(self) -> list[int]:
        """Of the three JVMs."""
        return self._cluster.pids

    @property
    def cpu_pids(self) -> list[int]:
        """The same."""
        return self._cluster.pids

    def node_to_kill(self, topic: str) -> int:
        """The first leader that is not the active controller, whose loss would cost more."""
        active = self._cluster.active_controller()
        return next(leader for leader, _ in self.replicas_of(topic) if leader != active)

    def stop(self) -> None:
        """May be called again."""
        self._topics.close()
        self._cluster.stop()
