"""Where batches of a segment start, as far as that is known without its index: the newest, and the ends of
what readers got, where they will go on."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

# Bound: ends of runs kept for the readers that go on there: so many readers of a segment at a time.
_RUN_ENDS = 64
# Bound: batch starts of the newest batches kept in memory: enough to cover the index interval many times.
_NEWEST = 1024


class BatchStart(NamedTuple):
    """Where a batch starts, and what its header must say: its first offset or, from the index, its last."""

    position: int
    base_offset: int | None
    last_offset: int | None


class NewestStarts:
    """The newest batches, in order. One thread adds; others may look at the same time."""

    __slots__ = ("_pair",)

    def __init__(self) -> None:
        self._pair = (array("q"), array("q"))  # base offsets and positions

    def add(self, base_offset: int, position: int) -> None:
        """One more."""
        base_offsets, positions = self._pair
        if len(base_offsets) >= 2 * _NEWEST:
            # Order: a reader holds the old pair or takes the new one, never one of each.
            base_offsets, positions = base_offsets[_NEWEST:], positions[_NEWEST:]
            self._pair = (base_offsets, positions)
        positions.append(position)
        base_offsets.append(base_offset)

    def find(self, offset: int) -> BatchStart | None:
        """The batch that holds the offset, or would; None if it is older than all."""
        base_offsets, positions = self._pair
        number = bisect_right(base_offsets, offset) - 1
        return BatchStart(positions[number], base_offsets[number], None) if number >= 0 else None


class RunEnds:
    """Offsets where readers go on. The owner's alone."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}  # by offset, oldest first

    def note(self, offset: int, position: int) -> None:
        """A reader got what lies before `position`, and will go on at `offset`."""
        ends = self._positions
        if len(ends) >= _RUN_ENDS:
            del ends[next(iter(ends))]
        ends[offset] = position

    def forget(self, offset: int) -> None:
        """It is not what lies there: the index is to be asked."""
        self._positions.pop(offset, None)

    def find(self, offset: int) -> BatchStart | None:
        """The batch that starts there, if a run ended before it: exact, so that nothing is read twice."""
        position = self._positions.get(offset)
        return None if position is None else BatchStart(position, offset, None)
