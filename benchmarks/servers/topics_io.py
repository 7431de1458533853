"""Topics of both systems through one interface, and the base class of their servers."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Protocol

from headrace.runtime.waiting_io import until

from ..constants import NODES
from ..harness import NO_CONFIGS, Replicas

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..harness import TlsAddress

TOPIC_TIMEOUT_S = 60.0
DELETE_TIMEOUT_S = 15.0
IN_SYNC_TIMEOUT_S = 90.0
MIN_IN_SYNC = {"min.insync.replicas": "2"}


class Topics(Protocol):
    """The admin client of one system."""

    def create(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None: ...
    def delete(self, name: str) -> None: ...
    def replicas_of(self, name: str) -> list[Replicas]: ...
    def end_offset(self, name: str) -> int: ...
    def node_count(self) -> int: ...
    def close(self) -> None: ...


class HeadraceTopics:
    """By headrace's Admin."""

    def __init__(self, bootstrap: str, config: Mapping[str, str] = NO_CONFIGS) -> None:
        from headrace import Admin

        self._admin = Admin(bootstrap, config=dict(config))
        self.close = self._admin.close

    def create(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        from headrace import NewTopic

        topic = NewTopic(name, partitions, replicas, configs)
        self._admin.create_topics(topic, timeout=TOPIC_TIMEOUT_S).raise_for_errors()

    def delete(self, name: str) -> None:
        self._admin.delete_topics(name, timeout=TOPIC_TIMEOUT_S).raise_for_errors()

    def replicas_of(self, name: str) -> list[Replicas]:
        partitions = self._admin.describe_topics(name)[name].partitions
        return [
            Replicas(part.leader, len(part.isr)) for part in sorted(partitions, key=lambda p: p.partition)
        ]

    def end_offset(self, name: str) -> int:
        from headrace import LATEST, TopicPartition

        if name not in {listing.name for listing in self._admin.list_topics(internal=True)}:
            return 0
        partitions = self._admin.describe_topics(name)[name].partitions
        ends = self._admin.list_offsets({TopicPartition(name, part.partition): LATEST for part in partitions})
        return sum(end.offset for end in ends.values())

    def node_count(self) -> int:
        return len(self._admin.describe_cluster().nodes)


class KafkaTopics:
    """By confluent-kafka's AdminClient."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin: Any = AdminClient({"bootstrap.servers": bootstrap}, logger=silent())

    def create(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, partitions, replicas, config={"file.delete.delay.ms": "0", **configs})
        self._admin.create_topics([topic])[name].result(TOPIC_TIMEOUT_S)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(TOPIC_TIMEOUT_S)

    def _partitions(self, name: str) -> dict[int, Any]:
        found: dict[int, Any] = self._admin.list_topics(name, TOPIC_TIMEOUT_S).topics[name].partitions
        return found

    def replicas_of(self, name: str) -> list[Replicas]:
        return [Replicas(part.leader, len(part.isrs)) for _, part in sorted(self._partitions(name).items())]

    def end_offset(self, name: str) -> int:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        latest = {TopicPartition(name, number): OffsetSpec.latest() for number in self._partitions(name)}
        ends = self._admin.list_offsets(latest)
        return sum(end.result(TOPIC_TIMEOUT_S).offset for end in ends.values())

    def node_count(self) -> int:
        return len(self._admin.list_topics(timeout=10).brokers)

    def close(self) -> None:
        """Before the servers stop: the client would log that its connection broke."""
        self._admin = None


class TopicServers:
    """The part that the servers of both systems share. `replicas`: of a topic by default."""

    name: str
    bootstrap: str
    kafka_bootstrap: str
    data_dir: Path
    replicas = 1
    tls: TlsAddress | None = None
    client_config: Mapping[str, str] = NO_CONFIGS
    _topics: Topics

    @property
    def node_dirs(self) -> list[Path]:
        """The folders of the nodes, which hold their partitions."""
        return sorted(self.data_dir.iterdir())

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int | None = None,
        *,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """Every partition has a leader and all replicas in sync on return. Errors: TimeoutError."""
        replicas = replicas or self.replicas
        configs = {**(MIN_IN_SYNC if replicas == NODES else {}), **configs}
        self._topics.create(name, partitions, replicas, configs)
        self.wait_in_sync(name, partitions, replicas)

    def delete_topic(self, name: str) -> None:
        """The files are gone on return, so that nothing is written back during the next cell."""
        self._topics.delete(name)
        for folder in self.node_dirs:
            until(lambda folder=folder: not any(folder.glob(f"{name}-*")), DELETE_TIMEOUT_S)  # type: ignore[misc]

    def end_offset(self, topic: str) -> int:
        """The sum of the end offsets of all partitions; 0 if the topic does not exist."""
        return self._topics.end_offset(topic)

    def replicas_of(self, topic: str) -> list[Replicas]:
        """By partition."""
        return self._topics.replicas_of(topic)

    def wait_in_sync(self, topic: str, partitions: int, replicas: int = NODES) -> None:
        """Until every partition has a leader and all replicas in sync. Errors: TimeoutError."""

        def is_in_sync() -> bool:
            # a new topic may be unknown to a node, and a killed node does not answer
            with contextlib.suppress(Exception):
                found = self._topics.replicas_of(topic)
                return len(found) == partitions and all(
                    leader >= 0 and in_sync == replicas for leader, in_sync in found
                )
            return False

        if not until(is_in_sync, IN_SYNC_TIMEOUT_S):
            raise TimeoutError(f"{self.name}: not all replicas of {topic} are in sync")

    def _wait_for_nodes(self) -> None:
        if not until(lambda: self._topics.node_count() == NODES, TOPIC_TIMEOUT_S):
            raise TimeoutError(f"{self.name}: not all nodes have registered")


def silent() -> logging.Logger:
    """For librdkafka's log lines; errors are raised by its calls."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return logger
