"""Positions of stores in the input topics, and bounds on them. Pure. Source: Kafka Position.java,
PositionBound.java (KIP-796)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.model import TopicPartition


class Position(Mapping["TopicPartition", int]):
    """The offset of the last record that a store has processed, by input partition. Immutable."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._offsets = dict(offsets or {})

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._offsets[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"Position({self._offsets})"

    def merged(self, other: Mapping[TopicPartition, int]) -> Position:
        """The larger offset of each partition."""
        found = dict(self._offsets)
        for partition, offset in other.items():
            found[partition] = max(offset, found.get(partition, -1))
        return Position(found)

    def missing(self, bound: Mapping[TopicPartition, int], partition: int) -> dict[TopicPartition, int]:
        """The offsets that a store of the task of this partition must still reach for the bound; empty: none.
        Other
        partitions of the bound are those of other tasks."""
        return {
            tp: offset
            for tp, offset in bound.items()
            if tp.partition == partition and tp in self._offsets and self._offsets[tp] < offset
        }


def position_of(value: Any) -> Position | None:
    """A bound as callers give it: None, a Position, or offsets by partition."""
    if value is None or isinstance(value, Position):
        return value
    return Position(value)
