"""The lag of groups after a round of counts, bounded: the largest ones. Pure."""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...runtime.telemetry import coordinator_table as table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.model import TopicPartition
    from ...runtime.telemetry.samples import Samples
    from ...storage_node.embedded.contract import PartitionKey

    Counted = dict[TopicPartition, tuple[int, float]]  # records and seconds

_PIECE = 250  # groups or partitions in a turn of the event loop


class GroupFigure(NamedTuple):
    """The sum of the records, and the largest age. Ordered by size."""

    records: int
    seconds: float
    group_id: str
    shard: PartitionKey  # that coordinates the group


class PartitionFigure(NamedTuple):
    """The lag of a group in a partition. Ordered by size."""

    records: int
    seconds: float
    group_id: str
    topic: str
    partition: int
    shard: PartitionKey


Figure = TypeVar("Figure", GroupFigure, PartitionFigure)


class LagFigures:
    """Bound: `limit` groups and `limit` partitions, those with the largest lag; `left_out` counts the
    others."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.groups: list[GroupFigure] = []
        self.partitions: list[PartitionFigure] = []
        self.left_out = 0

    def add(self, shard: PartitionKey, group_id: str, counted: Counted) -> None:
        """A group whose partitions were counted."""
        records = sum(lag for lag, _ in counted.values())
        seconds = max((age for _, age in counted.values()), default=0.0)
        self._add(self.groups, GroupFigure(records, seconds, group_id, shard))
        for (topic, partition), (lag, age) in counted.items():
            self._add(self.partitions, PartitionFigure(lag, age, group_id, topic, partition, shard))

    def drop(self, shard: PartitionKey) -> None:
        """Another node coordinates these groups now."""
        self.groups = [each for each in self.groups if each.shard != shard]
        self.partitions = [each for each in self.partitions if each.shard != shard]

    def pieces(self, samples: Samples) -> Iterator[None]:
        """Write the metrics; between two pieces other work may run, and the figures may be replaced."""
        samples.set(table.LAG_LEFT_OUT, self.left_out)
        for number, group in enumerate(self.groups, 1):
            samples.set(table.LAG_SUM, group.records, group.group_id)
            samples.set(table.LAG_SECONDS_MAX, group.seconds, group.group_id)
            if number % _PIECE == 0:
                yield
        for number, each in enumerate(self.partitions, 1):
            labels = (each.group_id, each.topic, str(each.partition))
            samples.set(table.LAG, each.records, *labels)
            samples.set(table.LAG_SECONDS, each.seconds, *labels)
            if number % _PIECE == 0:
                yield

    def as_json(self) -> dict[str, dict[str, int]]:
        """Records by group and partition."""
        found: dict[str, dict[str, int]] = {}
        for each in sorted(self.partitions, key=lambda each: (each.group_id, each.topic, each.partition)):
            found.setdefault(each.group_id, {})[f"{each.topic}-{each.partition}"] = each.records
        return found

    def _add(self, heap: list[Figure], figure: Figure) -> None:
        if len(heap) < self._limit:
            heappush(heap, figure)
        else:
            self.left_out += 1
            if heap:
                heappushpop(heap, figure)
