"""Window stores of bytes: in memory and persistent.

Rows have keys of `schema`. Source: InMemoryWindowStore, RocksDBWindowStore, RocksDBTimeOrderedWindowStore.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .formats.windows import MAX_SEQNUM, split_window_key
from .key_schemas import TimeFirstWindowKeys, WindowKeys
from .segments import EXPIRED, SegmentedBytes

if TYPE_CHECKING:
    from .stores import StoreContext

Rows = Iterator[tuple[bytes, bytes]]


class WindowBytes(Protocol):
    """Below the typed store, the cache and the changelog. Bounds of keys and times are inclusive."""

    schema: Any
    segment_interval_ms: int
    seqnum: int
    """The last one, where duplicates are retained."""

    @property
    def persistent(self) -> bool: ...

    def open(self, context: StoreContext, name: str) -> None: ...

    def put(self, key: bytes, value: bytes | None, start: int) -> None: ...

    def fetch(self, key: bytes, start: int) -> bytes | None: ...

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Rows: ...

    def all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        """Of all keys."""

    def restore(self, key: bytes, value: bytes | None) -> None:
        """`key` is that of the changelog."""

    def commit(self, changelog_offset: int | None) -> None: ...

    def committed_offset(self) -> int | None: ...

    def close(self) -> None: ...


class PersistentWindowBytes:
    """Segments of entries by key, or by time."""

    def __init__(
        self,
        retention_ms: int,
        segment_interval_ms: int,
        retain_duplicates: bool = False,
        is_time_ordered: bool = False,
        has_index: bool = False,
        has_headers: bool = False,
    ) -> None:
        self.schema: Any = TimeFirstWindowKeys() if is_time_ordered else WindowKeys()
        index = WindowKeys() if has_index else None
        # Stores with duplicates are those of stream-stream joins, whose values have no timestamps either.
        self._segmented = SegmentedBytes(
            *(self.schema, retention_ms, segment_interval_ms, index),
            has_headers=has_headers,
            can_upgrade=not retain_duplicates,
        )
        self._retain_duplicates = retain_duplicates
        self.seqnum = 0
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

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        if self._retain_duplicates:
            if value is None:
                return
            self.seqnum = (self.seqnum + 1) & MAX_SEQNUM
        self._segmented.put(self.schema.key(key, start, self.seqnum), value)

    def fetch(self, key: bytes, start: int) -> bytes | None:
        return self._segmented.get(self.schema.key(key, start, self.seqnum))

    def all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        return self._segmented.rows(None, None, from_time, to_time, forward, is_all_keys=True)

    def restore(self, key: bytes, value: bytes | None) -> None:
        self._segmented.restore(self.schema.key(*split_window_key(key)), value)


class InMemoryWindowBytes:
    """Dicts by window start. With duplicates, all values of a key and window start are kept in order."""

    persistent = False
    segment_interval_ms = 1
    _context: StoreContext

    def __init__(self, retention_ms: int, retain_duplicates: bool = False) -> None:
        self.schema: Any = WindowKeys()
        self._retention_ms = retention_ms
        self._retain_duplicates = retain_duplicates
        self.seqnum = 0
        self._stream_time = -1
        self._starts: list[int] = []  # sorted
        # keys are those of the store, followed by the sequence number where duplicates are retained
        self._windows: dict[int, dict[bytes, bytes]] = {}

    def open(self, context: StoreContext, name: str) -> None:
        self._context = context

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        if not self._put(key, value, start):
            self._context.dropped(EXPIRED)

    def restore(self, key: bytes, value: bytes | None) -> None:
        key, start, _ = split_window_key(key)
        self._put(key, value, start)

    def _put(self, key: bytes, value: bytes | None, start: int) -> bool:
        self._drop_expired()
        if start > self._stream_time:
            self._stream_time = start
        if start <= self._stream_time - self._retention_ms:
            return False
        window = self._windows.get(start)
        if value is not None:
            if self._retain_duplicates:
                self.seqnum = (self.seqnum + 1) & MAX_SEQNUM
                key += self.seqnum.to_bytes(4, "big")
            if window is None:
                window = self._windows[start] = {}
                insort(self._starts, start)
            window[key] = value
        elif not self._retain_duplicates and window is not None:
            window.pop(key, None)
            if not window:
                del self._windows[start]
                del self._starts[bisect_left(self._starts, start)]
        return True

    def _drop_expired(self) -> None:
        end = bisect_left(self._starts, self._stream_time - self._retention_ms + 1)
        if end:
            for start in self._starts[:end]:
                del self._windows[start]
            del self._starts[:end]

    def fetch(self, key: bytes, start: int) -> bytes | None:
        self._drop_expired()
        window = self._windows.get(start)
        return None if window is None else window.get(key)

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Rows:
        self._drop_expired()
        from_time = max(from_time, self._stream_time - self._retention_ms + 1)
        first, last = bisect_left(self._starts, from_time), bisect_right(self._starts, to_time)
        starts = self._starts[first:last]
        if not forward:
            starts.reverse()
        return self._rows_of(from_key, to_key, starts, forward)

    def _rows_of(
        self, from_key: bytes | None, to_key: bytes | None, starts: list[int], forward: bool
    ) -> Rows:
        found = [(start, window) for start in starts if (window := self._windows.get(start)) is not None]
        if from_key is not None and from_key == to_key and not self._retain_duplicates:
            return self._rows_of_key(from_key, found)
        return self._rows_between(from_key, to_key, found, forward)

    # for readers in other threads: `fetch` and `rows` that drop nothing

    def peek(self, key: bytes, start: int) -> bytes | None:
        """`fetch`."""
        window = None if start <= self._stream_time - self._retention_ms else self._windows.get(start)
        return None if window is None else window.get(key)

    def peek_rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Rows:
        from_time = max(from_time, self._stream_time - self._retention_ms + 1)
        starts = [start for start in self._starts[:] if from_time <= start <= to_time]
        if not forward:
            starts.reverse()
        return self._rows_of(from_key, to_key, starts, forward)

    def all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        return self.rows(None, None, from_time, to_time, forward)

    def _rows_of_key(self, key: bytes, found: list[tuple[int, dict[bytes, bytes]]]) -> Rows:
        store_key = self.schema.key
        for start, window in found:
            value = window.get(key)
            if value is not None:
                yield store_key(key, start), value

    def _rows_between(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        found: list[tuple[int, dict[bytes, bytes]]],
        forward: bool,
    ) -> Rows:
        store_key, has_seqnum = self.schema.key, self._retain_duplicates
        for start, window in found:
            for key in sorted(window, reverse=not forward):
                value = window.get(key)
                if value is None:
                    continue
                plain = key[:-4] if has_seqnum else key
                if (from_key is None or plain >= from_key) and (to_key is None or plain <= to_key):
                    seqnum = int.from_bytes(key[-4:], "big") if has_seqnum else 0
                    yield store_key(plain, start, seqnum), value

    def commit(self, changelog_offset: int | None) -> None:
        """Nothing is durable."""

    def committed_offset(self) -> int | None:
        return None

    def close(self) -> None:
        self._windows.clear()
        self._starts.clear()
