"""The offset index of one segment: sparse, from record offset to file position, in memory as two arrays.

Shape on disk: 8-byte big-endian entries (offset relative to the segment's base i32, position i32), both
strictly rising. An entry holds the last offset of the batch that starts at the position, so every batch
before that position ends below that offset.
Source: Kafka OffsetIndex.java.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import NamedTuple

from ...protocol.model import NO_OFFSET

ENTRY_BYTES = 8
MAX_RELATIVE_OFFSET = 2**31 - 1


class OffsetPosition(NamedTuple):
    """`offset` is the last offset of the batch at `position`; NO_OFFSET for the start of the segment."""

    offset: int
    position: int


class OffsetIndex:
    """One owner appends; other threads may look up at the same time."""

    __slots__ = ("_positions", "_relative_offsets", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._relative_offsets = array("i")
        self._positions = array("i")

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> OffsetIndex:
        """The whole entries in a file's bytes; `fault` says whether they can be trusted."""
        index = cls(base_offset)
        flat = array("i")
        flat.frombytes(data[: len(data) - len(data) % ENTRY_BYTES])
        if sys.byteorder == "little":
            flat.byteswap()
        index._relative_offsets = flat[0::2]
        index._positions = flat[1::2]
        return index

    def to_bytes(self) -> bytes:
        flat = array("i", bytes(ENTRY_BYTES * len(self._positions)))
        flat[0::2] = self._relative_offsets
        flat[1::2] = self._positions
        if sys.byteorder == "little":
            flat.byteswap()
        return flat.tobytes()

    def __len__(self) -> int:
        return len(self._relative_offsets)

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * len(self._relative_offsets)

    @property
    def last(self) -> OffsetPosition:
        """The start of the segment without any entry."""
        return self._entry(len(self._relative_offsets) - 1)

    def entries(self) -> list[OffsetPosition]:
        return [self._entry(number) for number in range(len(self))]

    def append(self, offset: int, position: int) -> None:
        """Add the batch at `position` whose last offset is `offset`."""
        positions = self._positions
        if positions:
            assert position > positions[-1], f"position {position} after {self.last}"
            assert offset - self.base_offset > self._relative_offsets[-1], (
                f"offset {offset} after {self.last}"
            )
        # Order: positions first, so that a reader never sees an offset without its position.
        positions.append(position)
        self._relative_offsets.append(offset - self.base_offset)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`: no batch before its position has `offset`."""
        relative = min(offset - self.base_offset, MAX_RELATIVE_OFFSET)
        return self._entry(bisect_right(self._relative_offsets, relative) - 1)

    def last_within(self, position: int, offset: int) -> OffsetPosition | None:
        """The last entry at or before `position` and at or below `offset`, or None."""
        relative = min(offset - self.base_offset, MAX_RELATIVE_OFFSET)
        number = min(bisect_right(self._positions, position), bisect_right(self._relative_offsets, relative))
        return self._entry(number - 1) if number else None

    def position_before(self, position: int) -> int:
        """The position of the last entry at or before `position`, or 0."""
        number = bisect_right(self._positions, position) - 1
        return self._positions[number] if number >= 0 else 0

    def truncate(self, end_offset: int) -> None:
        kept = bisect_right(self._relative_offsets, end_offset - 1 - self.base_offset)
        del self._relative_offsets[kept:]
        del self._positions[kept:]

    def fault(self, log_bytes: int) -> str | None:
        """Why these entries cannot belong to a log of that many bytes, or None. The first batch has none."""
        offsets, positions = self._relative_offsets, self._positions
        for number in range(len(offsets)):
            if offsets[number] < 0 or not 0 < positions[number] < log_bytes:
                return f"entry {number} ({offsets[number]}, {positions[number]}) is out of bounds"
            if number and (
                offsets[number] <= offsets[number - 1] or positions[number] <= positions[number - 1]
            ):
                return f"entry {number} ({offsets[number]}, {positions[number]}) does not rise"
        return None

    def _entry(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(NO_OFFSET, 0)
        return OffsetPosition(self.base_offset + self._relative_offsets[number], self._positions[number])
