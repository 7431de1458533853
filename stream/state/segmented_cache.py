"""The cache of a window or session store: keys are the segment (8 bytes) and the key of the store.

Source: SegmentedCacheFunction, CachingWindowStore, CachingSessionStore, TimeOrderedCachingWindowStore.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Any

from .formats.buffers import record_context_size
from .formats.windows import MAX_TIME
from .merging import cached_rows, merged

if TYPE_CHECKING:
    from ..records import RecordContext
    from .stores import StoreContext
    from .thread_cache import CacheEntry, Flush

Rows = Iterator[tuple[bytes, bytes]]

_SEGMENT = Struct(">q")


class Read(Enum):
    """What a read asks for."""

    KEY = "one key"
    RANGE = "a range of keys"
    ALL = "all keys"


class SegmentedCache:
    """`interval_ms` is the segment interval of the store below, so that both have the same order."""

    def __init__(self, context: StoreContext, name: str, schema: Any, interval_ms: int, flush: Flush) -> None:
        self._context = context
        self._name = f"{context.task_id}-{name}"
        self._schema = schema
        self._interval_ms = interval_ms
        self._max_time = -1
        self.cache = context.cache.open(self._name, flush)

    def cache_key(self, key: bytes) -> bytes:
        return _SEGMENT.pack(self._schema.segment_time(key) // self._interval_ms) + key

    def get(self, key: bytes) -> CacheEntry | None:
        return self.cache.get(self.cache_key(key))

    def put(self, key: bytes, value: bytes | None, typed: Any) -> None:
        cache_key, entry = self.entry_of(key, value, self._context.record_context, typed)
        self.cache.put(cache_key, entry, True)

    def entry_of(
        self, key: bytes, value: bytes | None, context: RecordContext | None, typed: Any
    ) -> tuple[bytes, CacheEntry]:
        """The key and the entry of a write."""
        assert context is not None
        size = 1 + record_context_size(context) + (0 if value is None else len(value))
        time = self._schema.segment_time(key)
        if time > self._max_time:
            self._max_time = time
        return _SEGMENT.pack(time // self._interval_ms) + key, (value, context, size, typed)

    def rows(
        self,
        under: Rows,
        from_key: bytes | None,
        to_key: bytes | None,
        from_time: int,
        to_time: int,
        forward: bool,
        read: Read,
    ) -> Rows:
        """Entries of the store with those of the cache over them. Which entries are looked at, and become the
        most recently used, depends on the kind of the read and of the store, as in Java."""
        if read is Read.ALL and not self._schema.is_time_first:
            keys = self.cache.keys(None, None)
        elif self._interval_ms > 1 and (self._schema.is_window or read is Read.KEY):
            keys = self._keys_by_segment(from_key, to_key, from_time, to_time, forward)
        else:
            is_key = read is Read.KEY
            keys = self._keys_in_one_range(from_key, to_key, from_time, to_time, is_key)
        if not keys:
            return under
        if not forward:
            keys.reverse()
        cache_key, is_inside, segment_time = self.cache_key, self._schema.is_inside, self._schema.segment_time

        def accepts(key: bytes) -> bool:
            inside: bool = is_inside(key[8:], from_key, to_key, from_time, to_time)
            return inside

        def is_behind(key: bytes) -> bool:
            time: int = segment_time(key[8:])
            return time > to_time if forward else time < from_time

        stops = self._schema.is_window and self._schema.is_time_first
        over = cached_rows(self.cache, keys, accepts, is_behind if stops else None)
        segmented = ((cache_key(key), value) for key, value in under)
        return ((key[8:], value) for key, value in merged(over, segmented, forward))

    def _bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, is_key: bool
    ) -> tuple[bytes | None, bytes | None]:
        if is_key and from_key is not None:
            bounds: tuple[bytes | None, bytes | None] = self._schema.key_bounds(from_key, from_time, to_time)
        else:
            bounds = self._schema.range_bounds(from_key, to_key, from_time, to_time)
        return bounds

    def _keys_in_one_range(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, is_key: bool
    ) -> list[bytes]:
        lower, upper = self._bounds(from_key, to_key, from_time, to_time, is_key)
        start = None if lower is None else self.cache_key(lower)
        end = None if upper is None else self.cache_key(upper[:-1]) + b"\0"
        return self.cache.keys(start, end, to_inclusive=False)

    def _keys_by_segment(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> list[bytes]:
        interval = self._interval_ms
        first = max(0, from_time) // interval
        last = min(to_time if self._schema.is_window else MAX_TIME, self._max_time) // interval
        if first > last:  # as in Java, the segment in which a read begins is always looked at
            first = last = first if forward else last
        found: list[bytes] = []
        for segment in self._segments(first, last):
            begin: int = _SEGMENT.unpack(segment)[0] * interval
            earliest = max(from_time, begin) if forward else begin
            lower, upper = self._bounds_in_segment(from_key, to_key, earliest, to_time, begin + interval - 1)
            end = segment + b"\xff" if upper is None else segment + upper
            found += self.cache.keys(segment + (lower or b""), end, to_inclusive=False)
        return found

    def _bounds_in_segment(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, end_time: int
    ) -> tuple[bytes | None, bytes | None]:
        schema = self._schema
        if from_key is None or from_key != to_key:
            return self._bounds(from_key, to_key, from_time, to_time, False)
        if schema.is_window:
            return self._bounds(from_key, to_key, from_time, min(to_time, end_time), True)
        lower: bytes = schema.key(from_key, 0, max(0, from_time))
        return lower, schema.key(from_key, min(to_time, end_time), end_time) + b"\0"

    def _segments(self, first: int, last: int) -> list[bytes]:
        """Prefixes of the segments between first and last; only those that have entries if that is less."""
        if last - first <= len(self.cache.entries):
            return [_SEGMENT.pack(number) for number in range(first, last + 1)]
        lower, upper = _SEGMENT.pack(first), _SEGMENT.pack(last)
        return sorted({key[:8] for key in self.cache.entries if lower <= key[:8] <= upper})

    def close(self) -> None:
        self._context.cache.close(self._name)
