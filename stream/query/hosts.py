"""The host table: which instance has which partitions, to route queries. Pure.

Source of the concepts: Kafka StreamsMetadata.java, KeyQueryMetadata.java (KIP-535).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...clients.admin.streams_groups import StreamsGroupDescription

    HostTable = Mapping["HostInfo", "HostMetadata"]


class HostInfo(NamedTuple):
    """The application.server of an instance."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HostMetadata(NamedTuple):
    """The input partitions (topic, partition) of the active and of the standby tasks of one instance."""

    host: HostInfo
    active: frozenset[tuple[str, int]] = frozenset()
    standby: frozenset[tuple[str, int]] = frozenset()


class KeyQueryMetadata(NamedTuple):
    """The location of a key: the partition, the host of its active task (None during a move), those of
    standbys."""

    partition: int
    active: HostInfo | None
    standbys: tuple[HostInfo, ...]


def find(table: HostTable, topics: Iterable[str], partition: int) -> KeyQueryMetadata:
    """The hosts of a task, from one of its input partitions: a source pattern may have topics with fewer."""
    wanted = {(topic, partition) for topic in topics}
    active = [host for host, each in table.items() if each.active & wanted]
    standbys = [host for host, each in table.items() if each.standby & wanted and not each.active & wanted]
    return KeyQueryMetadata(partition, min(active, default=None), tuple(sorted(standbys)))


def table_of_group(group: StreamsGroupDescription) -> HostTable:
    """From the description of a streams group."""
    topics = {
        each.subtopology_id: (*each.source_topics, *each.repartition_source_topics)
        for each in group.subtopologies or ()
    }
    found: dict[HostInfo, HostMetadata] = {}
    for member in group.members:
        if member.endpoint is None:
            continue
        host = HostInfo(*member.endpoint)
        known = found.get(host, HostMetadata(host))
        active, standby = (
            {(topic, task.partition) for task in tasks for topic in topics.get(task.subtopology_id, ())}
            for tasks in (member.tasks.active, member.tasks.standby)
        )
        found[host] = HostMetadata(host, known.active | active, known.standby | standby)
    return found
