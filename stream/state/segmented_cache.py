"""The cache of a window or session store: keys are the segment (8 bytes) and the key of the store.

Source: SegmentedCacheFunction, CachingWindowStore, CachingSessionStore, TimeOrderedCachingWindowStore.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any

from .formats.buffers import record_context_size
from .formats.windows import MAX_TIME
from .merging import merged_with_cache

if TYPE_CHECKING:
    from .stores import StoreContext
    from .thread_cache import CacheEntry, Flush

Rows = Iterator[tuple[bytes, bytes]]

_SEGMENT = Struct(">q")


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
        context = self._context.record_context
        assert context is not None
        size = 1 + record_context_size(context) + (0 if value is None else len(value))
        time = self._schema.segment_time(key)
        if time > self._max_time:
            self._max_time = time
        cache_key = _SEGMENT.pack(time // self._interval_ms) + key
        self.cache.put(cache_key, (value, context, size, typed), True)

    def rows(
        self,
        under: Rows,
        from_key: bytes | None,
        to_key: bytes | None,
        from_time: int,
        to_time: int,
        forward: bool,
    ) -> Rows:
        """Entries of the store with those of the cache over them."""
        keys = self._keys(from_key, to_key, from_time, to_time, forward)
        if not keys:
            return under
        cache_key = self.cache_key
        segmented = ((cache_key(key), value) for key, value in under)
        merged = merged_with_cache(self.cache, keys, segmented, forward)
        return ((key[8:], value) for key, value in merged)

    def _keys(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> list[bytes]:
        schema, interval = self._schema, self._interval_ms
        first = max(0, from_time) // interval
        last = min(to_time if schema.is_window else MAX_TIME, self._max_time) // interval
        found: list[bytes] = []
        if interval > 1 and last - first <= len(self.cache.entries):
            if from_key is not None and from_key == to_key:
                lower, upper = schema.key_bounds(from_key, from_time, to_time)
            else:
                lower, upper = schema.range_bounds(from_key, to_key, from_time, to_time)
            for number in range(first, last + 1):
                segment = _SEGMENT.pack(number)
                end = _SEGMENT.pack(number + 1) if upper is None else segment + upper
                found += self.cache.keys(segment + (lower or b""), end, to_inclusive=False)
        else:
            found = self.cache.keys(_SEGMENT.pack(first), _SEGMENT.pack(last + 1), to_inclusive=False)
        is_inside = schema.is_inside
        found = [key for key in found if is_inside(key[8:], from_key, to_key, from_time, to_time)]
        if not forward:
            found.reverse()
        return found

    def close(self) -> None:
        self._context.cache.close(self._name)
