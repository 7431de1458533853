"""Session stores of bytes: in memory and persistent.

Rows have keys of `schema`. Source: InMemorySessionStore, RocksDBSessionStore, RocksDBTimeOrderedSessionStore.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .formats.windows import MAX_TIME, session_key, split_session_key
from .key_schemas import SessionKeys, TimeFirstSessionKeys
from .segments import EXPIRED, SegmentedBytes

if TYPE_CHECKING:
    from .stores import StoreContext

Rows = Iterator[tuple[bytes, bytes]]


class SessionBytes(Protocol):
    """Below the typed store, the cache and the changelog. Bounds of keys and times are inclusive."""

    schema: Any
    segment_interval_ms: int

    @property
    def persistent(self) -> bool: ...

    def open(self, context: StoreContext, name: str) -> None: ...

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None: ...

    def remove(self, key: bytes, start: int, end: int) -> None: ...

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None: ...

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Rows: ...

    def rows_by_end(self, earliest_end: int, latest_end: int) -> Rows: ...

    def restore(self, key: bytes, value: bytes | None) -> None:
        """`key` is that of the changelog."""

    def commit(self, changelog_offset: int | None) -> None: ...

    def committed_offset(self) -> int | None: ...

    def close(self) -> None: ...


class PersistentSessionBytes:
    """Segments of sessions by key, or by end."""

    def __init__(
        self,
        retention_ms: int,
        segment_interval_ms: int,
        is_time_ordered: bool = False,
        has_index: bool = False,
        has_headers: bool = False,
    ) -> None:
        self.schema: Any = TimeFirstSessionKeys() if is_time_ordered else SessionKeys()
        index = SessionKeys() if has_index else None
        self._segmented = SegmentedBytes(
            self.schema, retention_ms, segment_interval_ms, index, has_headers=has_headers
        )
        self.persistent = True
        self.segment_interval_ms = segment_interval_ms
        self.open = self._segmented.open
        self.rows = self._segmented.rows
        self.put_rows = self._segmented.put_rows
        self.keeps = self._segmented.keeps
        self.commit = self._segmented.commit
        self.committed_offset = self._segmented.committed_offset
        self.close = self._segmented.close

    @property
    def uncommitted_bytes(self) -> int:
        return self._segmented.uncommitted_bytes

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        self._segmented.put(self.schema.key(key, start, end), value)

    def remove(self, key: bytes, start: int, end: int) -> None:
        self._segmented.remove(self.schema.key(key, start, end))

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        return self._segmented.get(self.schema.key(key, start, end))

    def rows_by_end(self, earliest_end: int, latest_end: int) -> Rows:
        """Errors: NotImplementedError if sessions are ordered by key, as in Java."""
        if not self.schema.is_time_first:
            raise NotImplementedError("only session stores in memory or ordered by time find sessions by end")
        split = self.schema.split
        rows = self._segmented.rows(None, None, earliest_end, MAX_TIME, is_all_keys=True, with_expired=True)
        return (row for row in rows if split(row[0])[2] <= latest_end)

    def restore(self, key: bytes, value: bytes | None) -> None:
        self._segmented.restore(self.schema.key(*split_session_key(key)), value)


class InMemorySessionBytes:
    """Dicts by session end, key and session start."""

    persistent = False
    segment_interval_ms = 1
    _context: StoreContext

    def __init__(self, retention_ms: int) -> None:
        self.schema: Any = SessionKeys()
        self._retention_ms = retention_ms
        self._stream_time = -1
        self._ends: list[int] = []  # sorted
        self._sessions: dict[int, dict[bytes, dict[int, bytes]]] = {}

    def open(self, context: StoreContext, name: str) -> None:
        self._context = context

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        if not self._put(key, start, end, value):
            self._context.dropped(EXPIRED)

    def restore(self, key: bytes, value: bytes | None) -> None:
        key, start, end = split_session_key(key)
        self._put(key, start, end, value)

    def _put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        self._drop_expired()
        if end > self._stream_time:
            self._stream_time = end
        if end <= self._stream_time - self._retention_ms:
            return False
        if value is None:
            self.remove(key, start, end)
            return True
        if end not in self._sessions:
            self._sessions[end] = {}
            insort(self._ends, end)
        self._sessions[end].setdefault(key, {})[start] = value
        return True

    def remove(self, key: bytes, start: int, end: int) -> None:
        by_key = self._sessions.get(end)
        starts = None if by_key is None else by_key.get(key)
        if by_key is None or starts is None:
            return
        starts.pop(start, None)
        if not starts:
            del by_key[key]
            if not by_key:
                del self._sessions[end]
                del self._ends[bisect_left(self._ends, end)]

    def _drop_expired(self) -> None:
        last = bisect_left(self._ends, self._stream_time - self._retention_ms + 1)
        if last:
            for end in self._ends[:last]:
                del self._sessions[end]
            del self._ends[:last]

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        self._drop_expired()
        return self._sessions.get(end, {}).get(key, {}).get(start)

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Rows:
        """By end, key and descending start; backwards in the reverse order."""
        self._drop_expired()
        ends = self._ends[bisect_left(self._ends, earliest_end) :]
        if not forward:
            ends.reverse()
        return self._rows_of(ends, from_key, to_key, latest_start, forward)

    def rows_by_end(self, earliest_end: int, latest_end: int) -> Rows:
        self._drop_expired()
        ends = self._ends[bisect_left(self._ends, earliest_end) : bisect_right(self._ends, latest_end)]
        return self._rows_of(ends, None, None, MAX_TIME, True)

    # for readers in other threads: reads that drop nothing

    def peek(self, key: bytes, start: int, end: int) -> bytes | None:
        """`fetch_session`."""
        if end <= self._stream_time - self._retention_ms:
            return None
        return self._sessions.get(end, {}).get(key, {}).get(start)

    def peek_rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Rows:
        ends = self._live_ends(earliest_end, MAX_TIME)
        if not forward:
            ends.reverse()
        return self._rows_of(ends, from_key, to_key, latest_start, forward)

    def peek_rows_by_end(self, earliest_end: int, latest_end: int) -> Rows:
        return self._rows_of(self._live_ends(earliest_end, latest_end), None, None, MAX_TIME, True)

    def _live_ends(self, earliest_end: int, latest_end: int) -> list[int]:
        earliest_end = max(earliest_end, self._stream_time - self._retention_ms + 1)
        return [end for end in self._ends[:] if earliest_end <= end <= latest_end]

    def _rows_of(
        self, ends: list[int], from_key: bytes | None, to_key: bytes | None, latest_start: int, forward: bool
    ) -> Rows:
        for end in ends:
            by_key = self._sessions.get(end, {})
            if from_key is not None and from_key == to_key:
                keys = [from_key] if from_key in by_key else []
            else:
                keys = sorted(by_key, reverse=not forward)
            for key in keys:
                if (from_key is not None and key < from_key) or (to_key is not None and key > to_key):
                    continue
                starts = by_key.get(key, {})
                for start in sorted(starts, reverse=forward):
                    value = starts.get(start)
                    if start <= latest_start and value is not None:
                        yield session_key(key, start, end), value

    def commit(self, changelog_offset: int | None) -> None:
        """Nothing is durable."""

    def committed_offset(self) -> int | None:
        return None

    def close(self) -> None:
        self._sessions.clear()
        self._ends.clear()
