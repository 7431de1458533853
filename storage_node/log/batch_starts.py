"""Batch positions that are known without the offset index: of the newest batches, and at the ends of earlier
reads, where the next reads start."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

# Bound: run ends of one segment, one per concurrent reader.
_RUN_ENDS = 64
# Bound: newest batches of one segment, enough to cover many index intervals.
_NEWEST = 1024


class BatchStart(NamedTuple):
    """The position of a batch, and an offset for checking its header: the first or, from the index, the
    last."""

    position: int
    base_offset: int | None
    last_offset: int | None


class NewestStarts:
    """The newest batches, in order. One thread adds; others may call `find` at the same time."""

    __slots__ = ("_pair",)

    def __init__(self) -> None:
        self._pair = (array("q"), array("q"))  # base offsets and positions

    def add(self, base_offset: int, position: int) -> None:
        base_offsets, positions = self._pair
        if len(base_offsets) >= 2 * _NEWEST:
            # Order: a reader holds the old pair or takes the new one, never one of each.
            base_offsets, positions = base_offsets[_NEWEST:], positions[_NEWEST:]
            self._pair = (base_offsets, positions)
        positions.append(position)
        base_offsets.append(base_offset)

    def find(self, offset: int) -> BatchStart | None:
        """The batch with `offset`; None if it is older than all."""
        base_offsets, positions = self._pair
        number = bisect_right(base_offsets, offset) - 1
        return BatchStart(positions[number], base_offsets[number], None) if number >= 0 else None


class RunEnds:
    """The ends of reads. Owner's thread."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}  # by offset, oldest first

    def note(self, offset: int, position: int) -> None:
        """A read ended before `position`; the next one starts at `offset`."""
        ends = self._positions
        if len(ends) >= _RUN_ENDS:
            del ends[next(iter(ends))]
        ends[offset] = position

    def forget(self, offset: int) -> None:
        """The position is wrong: use the index."""
        self._positions.pop(offset, None)

    def find(self, offset: int) -> BatchStart | None:
        """The batch that starts at `offset`, if a read ended there."""
        position = self._positions.get(offset)
        return None if position is None else BatchStart(position, offset, None)
