"""Values of versioned stores. The latest value: timestamp (8 bytes) and value, as in timestamped stores.

A segment holds the older versions of a key: timestamp at which the newest ends (8), timestamp of the oldest
(8), then timestamp (8) and size (4, -1 for a tombstone) of each version, newest first, then the values,
oldest first. Source: RocksDBVersionedStoreSegmentValueFormatter; KIP-889.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

_TIMES = Struct(">qq")
_VERSION = Struct(">qi")


class FoundVersion(NamedTuple):
    """A version in a segment, valid from `valid_from` to before `valid_to`; position 0 is the newest."""

    position: int
    valid_from: int
    valid_to: int
    value: bytes | None


def next_timestamp_of(data: bytes) -> int:
    """When the newest version of the segment ends."""
    timestamp: int = _TIMES.unpack_from(data)[0]
    return timestamp


def min_timestamp_of(data: bytes) -> int:
    """When the oldest version of the segment begins."""
    timestamp: int = _TIMES.unpack_from(data)[1]
    return timestamp


class SegmentValue:
    """The versions of one key in one segment.

    Invariant: `versions` are in descending order of time and not empty; the newest is before
    `next_timestamp`, except for a single tombstone that begins and ends at the same time.
    """

    __slots__ = ("next_timestamp", "versions")

    def __init__(self, value: bytes | None, valid_from: int, valid_to: int) -> None:
        self.next_timestamp = valid_to
        self.versions = [(valid_from, value)]

    @classmethod
    def decode(cls, data: bytes) -> SegmentValue:
        """The versions of a stored segment value."""
        next_timestamp, min_timestamp = _TIMES.unpack_from(data)
        versions: list[tuple[int, bytes | None]] = []
        position, end = 16, len(data)
        while True:
            timestamp, size = _VERSION.unpack_from(data, position)
            position += 12
            if size < 0:
                versions.append((timestamp, None))
            else:
                versions.append((timestamp, data[end - size : end]))
                end -= size
            if timestamp == min_timestamp:
                break
        segment = cls(None, min_timestamp, next_timestamp)
        segment.versions = versions
        return segment

    def encode(self) -> bytes:
        """The stored bytes."""
        parts = [_TIMES.pack(self.next_timestamp, self.versions[-1][0])]
        parts += [
            _VERSION.pack(timestamp, -1 if value is None else len(value))
            for timestamp, value in self.versions
        ]
        parts += [value for _, value in reversed(self.versions) if value]
        return b"".join(parts)

    @property
    def min_timestamp(self) -> int:
        return self.versions[-1][0]

    @property
    def is_degenerate(self) -> bool:
        """True for a tombstone without a version before it."""
        return self.next_timestamp == self.min_timestamp

    def find(self, timestamp: int) -> FoundVersion:
        """The version that is valid at `timestamp`. Errors: ValueError outside of the segment's times."""
        if not self.min_timestamp <= timestamp < self.next_timestamp:
            raise ValueError(f"{timestamp} is not in {self.min_timestamp} to {self.next_timestamp}")
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if valid_from <= timestamp:
                return FoundVersion(index, valid_from, valid_to, value)
            valid_to = valid_from
        raise AssertionError("the oldest version begins at min_timestamp")

    def find_all(self, from_timestamp: int, to_timestamp: int) -> list[FoundVersion]:
        """Versions with a value that are valid between the two timestamps, both inclusive; newest first."""
        found = []
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if value is not None and valid_from <= to_timestamp and valid_to > from_timestamp:
                found.append(FoundVersion(index, valid_from, valid_to, value))
            valid_to = valid_from
        return found

    def insert_as_latest(self, valid_from: int, valid_to: int, value: bytes | None) -> None:
        """Append a newer version; a gap before it becomes a tombstone.

        Versions from `valid_from` on are dropped: they were written before a crash and are replayed.
        """
        if valid_from < self.next_timestamp:
            self._truncate(valid_from)
        if self.next_timestamp > valid_from:
            raise AssertionError("the segment was truncated")
        if self.next_timestamp < valid_from:
            if self.is_degenerate:
                self.versions = [(self.next_timestamp, None)]
            else:
                self.versions.insert(0, (self.next_timestamp, None))
            self.versions.insert(0, (valid_from, value))
        elif self.is_degenerate:
            self.versions = [(valid_from, value)]
        else:
            self.versions.insert(0, (valid_from, value))
        self.next_timestamp = valid_to

    def insert_as_earliest(self, timestamp: int, value: bytes | None) -> None:
        """Add a version before all others."""
        if self.is_degenerate:
            self.versions = [(timestamp, value)]
        else:
            self.versions.append((timestamp, value))

    def insert(self, timestamp: int, value: bytes | None, position: int) -> None:
        """Add a version that is newer than the one at `position`, which it ends."""
        self.versions.insert(position, (timestamp, value))

    def update(self, timestamp: int, value: bytes | None, position: int) -> None:
        """Replace the version at `position`."""
        self.versions[position] = (timestamp, value)

    def _truncate(self, timestamp: int) -> None:
        if timestamp <= self.min_timestamp:
            self.versions = [(timestamp, None)]
        else:
            self.versions = [version for version in self.versions if version[0] < timestamp]
        self.next_timestamp = timestamp
