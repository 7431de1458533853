"""Versioned key-value stores: the latest version of each key, older ones in segments by the time they ended.

A segment holds the versions that ended within it, so that old history is dropped with its segment. Source:
RocksDBVersionedStore, MeteredVersionedKeyValueStore, ChangeLoggingVersionedKeyValueBytesStore; KIP-889.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import VersionedRecord
from .formats.timestamped import pack_long, timestamp_of
from .formats.versions import SegmentValue, min_timestamp_of, next_timestamp_of
from .formats.windows import MAX_TIME
from .overlay import Overlay
from .segments import Segments
from .stores import NOT_PUT
from .typed import TypedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .store_spec import StoreSpec
    from .stores import ChangelogRecord, StoreContext, StoreIterator

_LATEST = "latest"
_NO_TIME = -(2**63)


def default_segment_ms(history_retention_ms: int) -> int:
    """Source: RocksDbVersionedKeyValueBytesStoreSupplier."""
    for limit, parts, least in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_retention_ms <= limit:
            return max(history_retention_ms // parts, least)
    return max(history_retention_ms // 24, 300_000)


class VersionedBytes:
    """Versions of bytes. Writes older than the history retention are refused.

    Invariant: the end of each version in a segment is the begin of the next version of the key.
    """

    persistent = True

    def __init__(self, history_retention_ms: int, segment_interval_ms: int) -> None:
        self._history_ms = history_retention_ms
        self._interval_ms = segment_interval_ms
        self._stream_time = -1
        self.changes = 0
        """Odd while a write or commit changes several entries: for readers in other threads."""

    def open(self, context: StoreContext, name: str) -> None:
        self._overlay = Overlay(context.open_engine(name))
        self._segments = Segments(self._overlay, self._interval_ms, self._history_ms)
        self._stream_time = self._overlay.stream_time()

    @property
    def uncommitted_bytes(self) -> int:
        return self._overlay.uncommitted_bytes

    def is_expired(self, timestamp: int) -> bool:
        return timestamp < self._stream_time - self._history_ms

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int | None:
        """When the version ends; None for the latest, NOT_PUT if it is older than the history retention.

        A version whose segment has expired is not kept; as in Java, None says so, too.
        """
        if self.is_expired(timestamp):
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        self.changes += 1
        try:
            return self._put(key, value, timestamp, self._stream_time)
        finally:
            self.changes += 1

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Segments that are expired at the end of the batch are not written."""
        batch = list(records)
        end = max([self._stream_time, *(record.timestamp for record in batch)])
        self.changes += 1
        try:
            for record in batch:
                if not self.is_expired(record.timestamp):
                    self._stream_time = max(self._stream_time, record.timestamp)
                    self._put(record.key, record.value, record.timestamp, end)
        finally:
            self.changes += 1

    def _put(self, key: bytes, value: bytes | None, timestamp: int, stream_time: int) -> int | None:
        self._segments.drop_expired(stream_time)
        next_version = _NO_TIME
        latest = self._overlay.get(_LATEST, key)
        if latest is not None:
            latest_time = timestamp_of(latest)
            if timestamp >= latest_time:
                if timestamp > latest_time:
                    self._append_ended(key, latest[8:], latest_time, timestamp, stream_time)
                self._overlay.put(_LATEST, key, None if value is None else pack_long(timestamp) + value)
                return None
            next_version = latest_time
        return self._put_older(key, value, timestamp, stream_time, next_version)

    def _put_older(
        self, key: bytes, value: bytes | None, timestamp: int, stream_time: int, next_version: int
    ) -> int | None:
        for space in self._segments.between(timestamp, MAX_TIME, forward=False):
            data = self._overlay.get(space, key)
            if data is None:
                continue
            if next_timestamp_of(data) <= timestamp:
                break
            first = min_timestamp_of(data)
            if first <= timestamp:
                return self._put_into(space, data, key, value, timestamp, stream_time)
            if first < stream_time - self._history_ms:
                return None
            next_version = first
        if next_version == _NO_TIME:
            return self._put_first(key, value, timestamp, stream_time)
        space_of_end = self._live_segment(next_version, stream_time)
        if space_of_end is None:
            return None
        data = self._overlay.get(space_of_end, key)
        if data is None:
            segment = SegmentValue(value, timestamp, next_version)
        else:
            segment = SegmentValue.decode(data)
            if segment.next_timestamp <= timestamp:
                segment.insert_as_latest(timestamp, next_version, value)
            else:
                segment.insert_as_earliest(timestamp, value)
        self._overlay.put(space_of_end, key, segment.encode())
        return next_version

    def _put_first(self, key: bytes, value: bytes | None, timestamp: int, stream_time: int) -> int | None:
        """A version that no other one follows, of a key without a latest value."""
        if value is not None:
            self._overlay.put(_LATEST, key, pack_long(timestamp) + value)
            return None
        space = self._live_segment(timestamp, stream_time)
        if space is None:
            return None
        data = self._overlay.get(space, key)
        if data is None:
            segment = SegmentValue(None, timestamp, timestamp)
        else:
            segment = SegmentValue.decode(data)
            if segment.next_timestamp == timestamp:
                return None
            segment.insert_as_latest(segment.next_timestamp, timestamp, None)
        self._overlay.put(space, key, segment.encode())
        return None

    def _put_into(
        self, space: str, data: bytes, key: bytes, value: bytes | None, timestamp: int, stream_time: int
    ) -> int:
        """A version within the times of a segment value: it ends the version before it."""
        segment = SegmentValue.decode(data)
        found = segment.find(timestamp)
        if found.valid_from == timestamp:
            segment.update(timestamp, value, found.position)
        elif str(self._segments.number_of(timestamp)) != space:
            self._append_ended(key, found.value, found.valid_from, timestamp, stream_time)
            segment.update(timestamp, value, found.position)
        else:
            segment.insert(timestamp, value, found.position)
        self._overlay.put(space, key, segment.encode())
        return found.valid_to

    def _append_ended(
        self, key: bytes, value: bytes | None, valid_from: int, valid_to: int, stream_time: int
    ) -> None:
        """Move a version into the segment of its end; nothing if that has expired."""
        space = self._live_segment(valid_to, stream_time)
        if space is None:
            return
        data = self._overlay.get(space, key)
        if data is None:
            segment = SegmentValue(value, valid_from, valid_to)
        else:
            segment = SegmentValue.decode(data)
            segment.insert_as_latest(valid_from, valid_to, value)
        self._overlay.put(space, key, segment.encode())

    def _live_segment(self, timestamp: int, stream_time: int) -> str | None:
        return self._segments.create_if_live(self._segments.number_of(timestamp), stream_time)

    def get(self, key: bytes) -> VersionedRecord[bytes] | None:
        latest = self._overlay.get(_LATEST, key)
        return None if latest is None else VersionedRecord(latest[8:], timestamp_of(latest))

    def get_as_of(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        latest = self.get(key)
        if latest is not None and latest.timestamp <= timestamp:
            return latest
        if self.is_expired(timestamp):
            return None
        for space in self._segments.between(timestamp, MAX_TIME, forward=False):
            data = self._overlay.get(space, key)
            if data is None:
                continue
            if next_timestamp_of(data) <= timestamp:
                return None
            if min_timestamp_of(data) > timestamp:
                continue
            found = SegmentValue.decode(data).find(timestamp)
            if found.value is None:
                return None
            return VersionedRecord(found.value, found.valid_from, found.valid_to)
        return None

    def versions(
        self, key: bytes, from_time: int, to_time: int, ascending: bool
    ) -> Iterator[VersionedRecord[bytes]]:
        """Versions with a value that are valid between the times, both inclusive."""
        found: list[VersionedRecord[bytes]] = []
        latest = self.get(key)
        if latest is not None and latest.timestamp <= to_time:
            found.append(latest)
        if not self.is_expired(to_time):
            for space in self._segments.between(_NO_TIME, MAX_TIME, forward=False):
                data = self._overlay.get(space, key)
                if data is not None:
                    for version in SegmentValue.decode(data).find_all(from_time, to_time):
                        assert version.value is not None
                        found.append(VersionedRecord(version.value, version.valid_from, version.valid_to))
        return iter(found[::-1] if ascending else found)

    def commit(self, changelog_offset: int | None) -> None:
        self.changes += 1
        try:
            self._overlay.commit(changelog_offset, self._stream_time)
        finally:
            self.changes += 1

    def committed_offset(self) -> int | None:
        return self._overlay.committed_offset()

    def close(self) -> None:
        self._overlay.close()


class TypedVersionedStore(TypedStore):
    """All writes are logged, with their timestamps, also those that are too old."""

    is_versioned = True
    _inner: VersionedBytes

    def __init__(self, spec: StoreSpec, inner: Any = None) -> None:
        """`inner`: a store of bytes in place of the one that is built in."""
        if inner is None:
            interval = spec.segment_interval_ms or default_segment_ms(spec.history_retention_ms)
            inner = VersionedBytes(spec.history_retention_ms, interval)
        serdes = spec.key_serde, spec.value_serde
        super().__init__(spec.name, inner, serdes, is_logged=spec.is_logged)

    def put(self, key: Any, value: Any, timestamp: int) -> int | None:
        key_bytes, data = self._bytes_of(key, value)
        return self._put_and_log(key_bytes, data, timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        key_bytes = self._dumps_key(key)
        is_expired = self._inner.is_expired(timestamp)
        found = None if is_expired else self._inner.get_as_of(key_bytes, timestamp)
        self._put_and_log(key_bytes, None, timestamp)
        return self._typed(found)

    def _put_and_log(self, key: bytes, value: bytes | None, timestamp: int) -> int | None:
        if self._inner.is_expired(timestamp):
            self._context.dropped("expired-version")
        valid_to = self._inner.put(key, value, timestamp)
        if self._is_logged:
            self._context.log_change(self.name, key, value, timestamp, ())
        return valid_to

    def get(self, key: Any) -> VersionedRecord[Any] | None:
        return self._typed(self._inner.get(self._dumps_key(key)))

    def get_as_of(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        return self._typed(self._inner.get_as_of(self._dumps_key(key), timestamp))

    def get_versions(
        self, key: Any, from_time: int, to_time: int, ascending: bool = False
    ) -> StoreIterator[Any]:
        typed: Callable[[VersionedRecord[bytes]], VersionedRecord[Any] | None] = self._typed
        found = self._inner.versions(self._dumps_key(key), from_time, to_time, ascending)
        return self._iterators.open((version.timestamp, typed(version)) for version in found)

    def _typed(self, version: VersionedRecord[bytes] | None) -> VersionedRecord[Any] | None:
        if version is None:
            return None
        return VersionedRecord(self._loads(version.value), version.timestamp, version.valid_to)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        self._inner.restore(records)
