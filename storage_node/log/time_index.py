"""The time index of one segment: sparse, from timestamp to offset, in memory as two arrays.

Shape on disk: 12-byte big-endian entries (timestamp ms i64, offset relative to the segment's base i32);
timestamps rise strictly. An entry says: no record before that offset has a larger timestamp than this one,
and the batch that ends at the offset reaches it.
Source: Kafka TimeIndex.java.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import NamedTuple

from ...protocol.model import NO_TIMESTAMP

ENTRY_BYTES = 12
_ENTRY = struct.Struct(">qi")


class TimestampOffset(NamedTuple):
    """`offset` is the last offset of the batch that reaches `timestamp_ms`."""

    timestamp_ms: int
    offset: int


class TimeIndex:
    """One owner appends; other threads may look up at the same time."""

    __slots__ = ("_relative_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._relative_offsets = array("i")

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> TimeIndex:
        """The whole entries in a file's bytes; `fault` says whether they can be trusted."""
        index = cls(base_offset)
        for timestamp_ms, relative in _ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES]):
            index._timestamps.append(timestamp_ms)
            index._relative_offsets.append(relative)
        return index

    def to_bytes(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._timestamps, self._relative_offsets))

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * len(self._timestamps)

    @property
    def last(self) -> TimestampOffset:
        """(NO_TIMESTAMP, base offset) without any entry."""
        return self._entry(len(self._timestamps) - 1)

    def entries(self) -> list[TimestampOffset]:
        return [self._entry(number) for number in range(len(self))]

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry unless its timestamp is no larger than the last one's."""
        if timestamp_ms > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            # Order: offsets first, so that a reader never sees a timestamp without its offset.
            self._relative_offsets.append(offset - self.base_offset)
            self._timestamps.append(timestamp_ms)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or below `timestamp_ms`."""
        return self._entry(bisect_right(self._timestamps, timestamp_ms) - 1)

    def lookup_before(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry below `timestamp_ms`: every record up to its offset is older than `timestamp_ms`."""
        return self._entry(bisect_right(self._timestamps, timestamp_ms - 1) - 1)

    def truncate(self, end_offset: int) -> None:
        kept = bisect_right(self._relative_offsets, end_offset - 1 - self.base_offset)
        del self._timestamps[kept:]
        del self._relative_offsets[kept:]

    def fault(self) -> str | None:
        """Why these entries cannot be a time index, or None."""
        timestamps, offsets = self._timestamps, self._relative_offsets
        for number in range(len(timestamps)):
            if offsets[number] < 0 or timestamps[number] < 0:
                return f"entry {number} ({timestamps[number]}, {offsets[number]}) is out of bounds"
            if number and (
                timestamps[number] <= timestamps[number - 1] or offsets[number] < offsets[number - 1]
            ):
                return f"entry {number} ({timestamps[number]}, {offsets[number]}) does not rise"
        return None

    def _entry(self, number: int) -> TimestampOffset:
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._timestamps[number], self.base_offset + self._relative_offsets[number])
