"""Custom stores of bytes in dicts, one class for each kind of store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.stream import (
    BytesStore,
    KeyValueBytesStore,
    SessionBytesStore,
    StoreKind,
    StoreSpec,
    VersionedBytesStore,
    WindowBytesStore,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOWS = (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW)


class DictKeyValue(KeyValueBytesStore):
    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        found = [
            (key, value)
            for key, value in self.values.items()
            if (from_key is None or from_key <= key) and (to_key is None or key < to_key)
        ]
        return iter(sorted(found, reverse=not forward))

    def approximate_num_entries(self) -> int:
        return len(self.values)


class DictWindow(WindowBytesStore):
    """Values by start, key and number."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, bytes, int], bytes] = {}

    def get(self, key: bytes, start: int, number: int) -> bytes | None:
        return self.values.get((start, key, number))

    def put(self, key: bytes, start: int, number: int, value: bytes | None) -> None:
        if value is None:
            self.values.pop((start, key, number), None)
        else:
            self.values[start, key, number] = value

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Iterator[tuple[bytes, int, int, bytes]]:
        for start, key, number in sorted(self.values, reverse=not forward):
            inside = (from_key is None or from_key <= key) and (to_key is None or key <= to_key)
            if inside and from_time <= start <= to_time and (start, key, number) in self.values:
                yield key, start, number, self.values[start, key, number]

    def expire(self, before: int) -> None:
        self.values = {place: value for place, value in self.values.items() if place[0] >= before}


class DictSession(SessionBytesStore):
    """Aggregates by end, key and start."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, bytes, int], bytes] = {}

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        return self.values.get((end, key, -start))

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        if value is None:
            self.values.pop((end, key, -start), None)
        else:
            self.values[end, key, -start] = value

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Iterator[tuple[bytes, int, int, bytes]]:
        for end, key, start in sorted(self.values, reverse=not forward):
            inside = (from_key is None or from_key <= key) and (to_key is None or key <= to_key)
            fits = end >= earliest_end and -start <= latest_start
            if inside and fits and (end, key, start) in self.values:
                yield key, -start, end, self.values[end, key, start]

    def expire(self, before: int) -> None:
        self.values = {place: value for place, value in self.values.items() if place[0] >= before}


class DictVersioned(VersionedBytesStore):
    """Versions by key and timestamp."""

    def __init__(self) -> None:
        self.values: dict[tuple[bytes, int], bytes | None] = {}

    def put(self, key: bytes, timestamp: int, value: bytes | None) -> None:
        self.values[key, timestamp] = value

    def remove(self, key: bytes, timestamp: int) -> None:
        del self.values[key, timestamp]

    def rows(
        self, key: bytes, from_time: int, to_time: int, forward: bool
    ) -> Iterator[tuple[int, bytes | None]]:
        times = sorted((time for each, time in self.values if each == key), reverse=not forward)
        return iter([(time, self.values[key, time]) for time in times if from_time <= time <= to_time])


def dict_store(spec: StoreSpec) -> BytesStore | None:
    """A supplier of all kinds."""
    if spec.kind in WINDOWS:
        return DictWindow()
    if spec.kind is StoreKind.SESSION:
        return DictSession()
    return DictVersioned() if spec.kind is StoreKind.VERSIONED_KEY_VALUE else DictKeyValue()
