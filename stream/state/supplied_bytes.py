"""Stores of bytes over those of a supplier: retention, stream time, duplicates and the keys of changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import VersionedRecord
from .formats.windows import MAX_SEQNUM, MAX_TIME, split_session_key, split_window_key
from .key_schemas import SessionKeys, WindowKeys
from .segments import EXPIRED
from .stores import NOT_PUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .stores import ChangelogRecord, StoreContext
    from .suppliers import BytesStore, SessionBytesStore, VersionedBytesStore, WindowBytesStore

    Rows = Iterator[tuple[bytes, bytes]]

_FIRST_TIME = -(2**63)
_LAST_TIME = 2**63 - 1


class _Supplied:
    """What all have in common. `retention_ms`: of windows and sessions, else the history retention."""

    _context: StoreContext

    def __init__(self, store: BytesStore, retention_ms: int) -> None:
        self._base = store
        self._retention_ms = retention_ms
        self._stream_time = -1
        self.persistent = store.persistent
        self.commit = store.commit
        self.committed_offset = store.committed_offset
        self.close = store.close

    def open(self, context: StoreContext, name: str) -> None:
        self._context = context
        self._base.open(context, name)

    @property
    def _horizon(self) -> int:
        """The earliest time that has not expired."""
        return self._stream_time - self._retention_ms + 1


class SuppliedWindowBytes(_Supplied):
    """It is a WindowBytes, ordered by start."""

    segment_interval_ms = 1

    def __init__(self, store: WindowBytesStore, retention_ms: int, retain_duplicates: bool) -> None:
        super().__init__(store, retention_ms)
        self._store = store
        self._retain_duplicates = retain_duplicates
        self.schema: Any = WindowKeys()
        self.seqnum = 0

    def open(self, context: StoreContext, name: str) -> None:
        super().open(context, name)
        latest = next(iter(self._store.rows(None, None, 0, MAX_TIME, False)), None)
        if latest is not None:
            self._stream_time = latest[1]

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        """With duplicates, None deletes nothing; its time is stream time all the same, as in memory."""
        if self._retain_duplicates and value is not None:
            self.seqnum = (self.seqnum + 1) & MAX_SEQNUM
        if not self._put(key, value, start, self.seqnum):
            self._context.dropped(EXPIRED)

    def restore(self, key: bytes, value: bytes | None) -> None:
        key, start, number = split_window_key(key)
        self.seqnum = max(self.seqnum, number)
        self._put(key, value, start, number)

    def _put(self, key: bytes, value: bytes | None, start: int, number: int) -> bool:
        if start > self._stream_time:
            self._stream_time = start
            self._store.expire(self._horizon)
        if start < self._horizon:
            return False
        if value is not None or not self._retain_duplicates:
            self._store.put(key, start, number, value)
        return True

    def fetch(self, key: bytes, start: int) -> bytes | None:
        return None if start < self._horizon else self._store.get(key, start, self.seqnum)

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Rows:
        store_key = self.schema.key
        found = self._store.rows(from_key, to_key, max(from_time, self._horizon), to_time, forward)
        return ((store_key(key, start, number), value) for key, start, number, value in found)

    def all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        return self.rows(None, None, from_time, to_time, forward)


class SuppliedSessionBytes(_Supplied):
    """It is a SessionBytes, ordered by end."""

    segment_interval_ms = 1

    def __init__(self, store: SessionBytesStore, retention_ms: int) -> None:
        super().__init__(store, retention_ms)
        self._store = store
        self.schema: Any = SessionKeys()

    def open(self, context: StoreContext, name: str) -> None:
        super().open(context, name)
        latest = next(iter(self._store.rows(None, None, 0, MAX_TIME, False)), None)
        if latest is not None:
            self._stream_time = latest[2]

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        if not self._put(key, start, end, value):
            self._context.dropped(EXPIRED)

    def restore(self, key: bytes, value: bytes | None) -> None:
        key, start, end = split_session_key(key)
        self._put(key, start, end, value)

    def _put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        if end > self._stream_time:
            self._stream_time = end
            self._store.expire(self._horizon)
        if end < self._horizon:
            return False
        self._store.put(key, start, end, value)
        return True

    def remove(self, key: bytes, start: int, end: int) -> None:
        self._store.put(key, start, end, None)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        return None if end < self._horizon else self._store.get(key, start, end)

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Rows:
        store_key = self.schema.key
        first = max(earliest_end, self._horizon)
        found = self._store.rows(from_key, to_key, first, latest_start, forward)
        return ((store_key(key, start, end), value) for key, start, end, value in found)

    def rows_by_end(self, earliest_end: int, latest_end: int) -> Rows:
        store_key = self.schema.key
        for key, start, end, value in self._store.rows(
            None, None, max(earliest_end, self._horizon), MAX_TIME, True
        ):
            if end > latest_end:
                return
            yield store_key(key, start, end), value


class SuppliedVersionedBytes(_Supplied):
    """It has the methods of VersionedBytes."""

    def __init__(self, store: VersionedBytesStore, history_retention_ms: int) -> None:
        super().__init__(store, history_retention_ms)
        self._store = store

    def is_expired(self, timestamp: int) -> bool:
        return timestamp < self._stream_time - self._retention_ms

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int | None:
        """When the version ends; None for the latest, NOT_PUT if it is older than the history retention."""
        if self.is_expired(timestamp):
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        self._store.put(key, timestamp, value)
        self._prune(key)
        return self._end_of(key, timestamp)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        for record in records:
            self.put(record.key, record.value, record.timestamp)

    def _prune(self, key: bytes) -> None:
        """Remove versions that ended before the history: all but the last one that begins before it."""
        horizon = self._stream_time - self._retention_ms
        old = list(self._store.rows(key, _FIRST_TIME, horizon, True))
        keeps_last = bool(old) and old[-1][1] is not None
        for timestamp, _ in old[:-1] if keeps_last else old:
            self._store.remove(key, timestamp)

    def _end_of(self, key: bytes, timestamp: int) -> int | None:
        """The timestamp of the next version."""
        following = next(iter(self._store.rows(key, timestamp + 1, _LAST_TIME, True)), None)
        return None if following is None else following[0]

    def get(self, key: bytes) -> VersionedRecord[bytes] | None:
        latest = next(iter(self._store.rows(key, _FIRST_TIME, _LAST_TIME, False)), None)
        return None if latest is None or latest[1] is None else VersionedRecord(latest[1], latest[0])

    def get_as_of(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        found = next(iter(self._store.rows(key, _FIRST_TIME, timestamp, False)), None)
        if found is None or found[1] is None:
            return None
        end = self._end_of(key, timestamp)
        if end is not None and self.is_expired(timestamp):
            return None
        return VersionedRecord(found[1], found[0], end)

    def versions(
        self, key: bytes, from_time: int, to_time: int, ascending: bool
    ) -> Iterator[VersionedRecord[bytes]]:
        """Versions with a value that are valid between the times, both inclusive."""
        found: list[VersionedRecord[bytes]] = []
        end = self._end_of(key, to_time)
        for timestamp, value in self._store.rows(key, _FIRST_TIME, to_time, False):
            if end is not None and (end <= from_time or self.is_expired(to_time)):
                break
            if value is not None:
                found.append(VersionedRecord(value, timestamp, end))
            end = timestamp
        return iter(found[::-1] if ascending else found)
