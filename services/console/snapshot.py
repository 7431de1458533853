"""The state of the cluster that the lists of the console show: read in the background, never changed.
Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...clients.admin.admin_types import (
        ClusterDescription,
        LogDirInfo,
        NodeState,
        PartitionDescription,
        PartitionReassignment,
        QuorumDescription,
        TopicDescription,
    )
    from ...clients.admin.group_types import GroupListing

MOST_POINTS = 60  # Bound: of a series that a chart shows


class Offsets(NamedTuple):
    """The log start offset and the end offset of a partition."""

    start: int
    end: int


class Point(NamedTuple):
    """Totals at one time."""

    at_ms: int
    appended: float  # records per second
    committed: (
        float | None
    )  # records per second by which groups have moved on; None before the second reading


class TopicRow(NamedTuple):
    """One topic in the list. `size` is that of all replicas, None if the log dirs could not be read."""

    name: str
    partitions: int
    replication: int
    under_replicated: int
    offline: int
    is_internal: bool
    records: int | None
    size: int | None
    rate: float | None


class NodeRow(NamedTuple):
    """One registered node. Sizes of the disk are -1 if unknown."""

    node_id: int
    endpoint: str
    rack: str | None
    state: str
    leaders: int
    replicas: int
    out_of_sync: int
    size: int | None
    disk_total: int
    disk_usable: int
    problems: tuple[str, ...]

    @property
    def disk_used_percent(self) -> int | None:
        """Used space of the file systems of its log dirs."""
        if self.disk_total <= 0 or self.disk_usable < 0:
            return None
        return round(100 * (self.disk_total - self.disk_usable) / self.disk_total)


class GroupRow(NamedTuple):
    """One group in the list. `lag` in records; it and `topics` are None until its offsets were read."""

    group_id: str
    group_type: str
    state: str
    lag: int | None
    topics: tuple[str, ...] | None


@dataclass(frozen=True)
class Snapshot:
    """One reading of the cluster. `counts`: the records from committed offsets on, as the leaders count
    them. `troubles` has the parts that could not be read, with the reason."""

    taken_ms: int
    took_ms: int
    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    offsets: Mapping[TopicPartition, Offsets] = field(default_factory=dict)
    quorum: QuorumDescription | None = None
    log_dirs: Mapping[int, tuple[LogDirInfo, ...]] = field(default_factory=dict)
    groups: tuple[GroupListing, ...] = ()
    committed: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    committed_ms: int = 0
    counts: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    reassignments: Mapping[TopicPartition, PartitionReassignment] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    history: tuple[Point, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> tuple[PartitionDescription, ...]:
        """All partitions of all topics."""
        return tuple(part for topic in self.topics.values() for part in topic.partitions)

    @cached_property
    def offline(self) -> tuple[PartitionDescription, ...]:
        """Partitions without a leader."""
        return tuple(part for part in self.partitions if part.is_unavailable)

    @cached_property
    def under_replicated(self) -> tuple[PartitionDescription, ...]:
        """Partitions whose ISR lacks replicas."""
        return tuple(part for part in self.partitions if part.is_under_replicated)

    @cached_property
    def not_preferred(self) -> int:
        """Partitions whose leader is not the preferred one."""
        return sum(
            1 for part in self.partitions if part.replicas and part.leader not in (-1, part.replicas[0])
        )

    @cached_property
    def topic_rows(self) -> tuple[TopicRow, ...]:
        """The list of topics, by name."""
        sizes = self._sizes()
        rows = []
        for name, topic in sorted(self.topics.items()):
            parts = topic.partitions
            found = [self.offsets.get(TopicPartition(name, part.partition)) for part in parts]
            known = [each.end - each.start for each in found if each is not None]
            rows.append(
                TopicRow(
                    name,
                    len(parts),
                    max((part.replication_factor for part in parts), default=0),
                    sum(part.is_under_replicated for part in parts),
                    sum(part.is_unavailable for part in parts),
                    topic.is_internal,
                    sum(known) if len(known) == len(parts) else None,
                    sizes.get(name, 0) if self.log_dirs else None,
                    self.rates.get(name),
                )
            )
        return tuple(rows)

    @cached_property
    def node_rows(self) -> tuple[NodeRow, ...]:
        """The list of nodes, by id."""
        leaders: dict[int, int] = {}
        replicas: dict[int, int] = {}
        out_of_sync: dict[int, int] = {}
        for part in self.partitions:
            leaders[part.leader] = leaders.get(part.leader, 0) + 1
            for node in part.replicas:
                replicas[node] = replicas.get(node, 0) + 1
                if node not in part.isr:
                    out_of_sync[node] = out_of_sync.get(node, 0) + 1
        return tuple(
            self._node_row(
                node.node_id,
                f"{node.address.host}:{node.address.port}",
                node.rack,
                node.state,
                (
                    leaders.get(node.node_id, 0),
                    replicas.get(node.node_id, 0),
                    out_of_sync.get(node.node_id, 0),
                ),
            )
            for node in sorted(self.cluster.nodes, key=lambda each: each.node_id)
        )

    @cached_property
    def group_rows(self) -> tuple[GroupRow, ...]:
        """The list of groups, by id."""
        rows = []
        for group in sorted(self.groups, key=lambda each: each.group_id):
            committed = self.committed.get(group.group_id)
            topics = None if committed is None else tuple(sorted({tp.topic for tp in committed}))
            rows.append(
                GroupRow(
                    group.group_id,
                    group.group_type.value,
                    group.state.value,
                    None if committed is None else self.lag_of(committed),
                    topics,
                )
            )
        return tuple(rows)

    def lag_of(self, committed: Mapping[TopicPartition, int]) -> int | None:
        """The sum of the exact lags; None if there is no offset, or if one was not counted."""
        if not committed:
            return None
        total = 0
        for tp, offset in committed.items():
            records = self.counts.get(tp, {}).get(offset)
            if records is None:
                return None
            total += records
        return total

    def groups_of(self, topic: str) -> list[GroupRow]:
        """The groups with committed offsets in a topic."""
        return [row for row in self.group_rows if row.topics and topic in row.topics]

    def group_lag_in(self, group_id: str, topic: str) -> int | None:
        """The lag of a group in one topic."""
        committed = self.committed.get(group_id, {})
        return self.lag_of({tp: offset for tp, offset in committed.items() if tp.topic == topic})

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for dirs in self.log_dirs.values():
            for each in dirs:
                for replica in each.replicas:
                    sizes[replica.topic] = sizes.get(replica.topic, 0) + replica.size_bytes
        return sizes

    def _node_row(
        self, node_id: int, endpoint: str, rack: str | None, state: NodeState, counts: tuple[int, int, int]
    ) -> NodeRow:
        dirs = self.log_dirs.get(node_id)
        problems = [f"{each.path}: {each.error}" for each in dirs or () if each.error is not None]
        problems += [f"{each.path}: {each.detail}" for each in dirs or () if each.detail]
        total, usable = _disk_of(dirs or ())
        return NodeRow(
            node_id,
            endpoint,
            rack,
            state.value,
            *counts,
            None if dirs is None else sum(replica.size_bytes for each in dirs for replica in each.replicas),
            total,
            usable,
            tuple(problems),
        )


def _disk_of(dirs: Sequence[LogDirInfo]) -> tuple[int, int]:
    """(total, usable) of the file systems: log dirs with equal figures are on one file system."""
    systems = {(each.total_bytes, each.usable_bytes) for each in dirs if each.total_bytes >= 0}
    if not systems:
        return -1, -1
    return sum(total for total, _ in systems), sum(usable for _, usable in systems)


def rates_between(
    before: Snapshot, offsets: Mapping[TopicPartition, Offsets], now_ms: int
) -> dict[str, float]:
    """Records per second that were appended to each topic since the snapshot before."""
    seconds = (now_ms - before.taken_ms) / 1000
    if seconds <= 0:
        return {}
    grown: dict[str, int] = {}
    for tp, found in offsets.items():
        old = before.offsets.get(tp)
        if old is not None:
            grown[tp.topic] = grown.get(tp.topic, 0) + max(found.end - old.end, 0)
    return {topic: records / seconds for topic, records in grown.items()}


def commit_rate(
    before: Mapping[str, Mapping[TopicPartition, int]],
    after: Mapping[str, Mapping[TopicPartition, int]],
    elapsed_ms: int,
) -> float | None:
    """Records per second by which the committed offsets of all groups have moved forward."""
    if elapsed_ms <= 0 or not before:
        return None
    moved = 0
    for group, offsets in after.items():
        old = before.get(group, {})
        moved += sum(max(offset - old[tp], 0) for tp, offset in offsets.items() if tp in old)
    return moved * 1000 / elapsed_ms


def sparkline(values: Iterable[float], width: int = 240, height: int = 40) -> str:
    """The points of an SVG polyline, scaled to the size."""
    found = list(values)
    if len(found) < 2:
        return ""
    most = max(*found, 1e-9)
    step = width / (len(found) - 1)
    return " ".join(
        f"{index * step:.1f},{height - 2 - (height - 4) * value / most:.1f}"
        for index, value in enumerate(found)
    )
