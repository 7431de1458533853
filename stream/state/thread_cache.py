"""The record cache of a worker: bounded over all of its stores, least recently used entries leave first.

Sizes are Kafka's estimates, so that entries leave at the same records as in Java. Source: ThreadCache,
NamedCache.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .interpreted import entries_of
from .sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import RecordContext

    Flush = Callable[[list[tuple[bytes, "CacheEntry"]]], None]

_LINKS = 24  # of an entry in Java's list and map
_DEFERRED_BYTES = 250  # of the cache for each entry that waits in front of it
_FEW = 64  # fewer are not worth it


CacheEntry = tuple["bytes | None", "RecordContext | None", int, Any]
"""Value (None: deleted), the context of its write, its size without the key, and the deserialized value if it
is kept. A plain tuple: one is made for each write."""


class NamedCache:
    """The entries of one store.

    Invariant: `size` is the sum over `entries`; each key of `dirty` is in `entries`, in the order of writes.
    """

    __slots__ = ("_flush", "_keys", "_thread_cache", "dirty", "entries", "leaving", "size")

    def __init__(self, thread_cache: ThreadCache, flush: Flush) -> None:
        self._thread_cache = thread_cache
        self._flush = flush
        self._keys: SortedKeys | None = None  # from the first range on
        self.entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        self.dirty: dict[bytes, None] = {}
        self.leaving: dict[bytes, CacheEntry] = {}
        """Dirty entries that are being evicted, until the store has them: for readers in other threads."""
        self.size = 0

    def get(self, key: bytes) -> CacheEntry | None:
        """The entry, which becomes the most recently used."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: CacheEntry, is_dirty: bool) -> None:
        """Add or replace an entry, then evict entries of this store while the cache is too large."""
        entries = self.entries
        old = entries.get(key)
        if old is None:
            grown = len(key) + _LINKS + entry[2]
            if self._keys is not None:
                self._keys.add(key)
        else:
            grown = entry[2] - old[2]
            entries.move_to_end(key)
        entries[key] = entry
        if is_dirty:
            dirty = self.dirty
            if key in dirty:
                del dirty[key]
            dirty[key] = None
        thread_cache = self._thread_cache
        if grown:
            self.size += grown
            thread_cache.size += grown
        if thread_cache.size > thread_cache.max_bytes:
            thread_cache.evict(self)

    def put_clean(self, key: bytes, value: bytes, typed: Any = None) -> None:
        """Keep a value that was read from the store."""
        self.put(key, (value, None, 21 + len(value), typed), False)

    def delete(self, key: bytes) -> None:
        entry = self.entries.pop(key, None)
        if entry is None:
            return
        self.dirty.pop(key, None)
        if self._keys is not None:
            self._keys.discard(key)
        shrunk = len(key) + _LINKS + entry[2]
        self.size -= shrunk
        self._thread_cache.size -= shrunk

    def flush(self) -> None:
        """Write all dirty entries to the store, in the order of their last writes."""
        self._flush_dirty(None)

    def evict(self) -> int:
        """Remove the least recently used entry, return its size; a dirty one flushes all dirty ones."""
        entries = self.entries
        key = next(iter(entries))
        entry = entries[key]
        freed = len(key) + _LINKS + entry[2]
        is_dirty = key in self.dirty
        if is_dirty:
            self.leaving[key] = entry
        del entries[key]
        if self._keys is not None:
            self._keys.discard(key)
        self.size -= freed
        if is_dirty:
            del self.dirty[key]
            try:
                self._flush_dirty((key, entry))
            finally:
                self.leaving.pop(key, None)
        return freed

    def _flush_dirty(self, evicted: tuple[bytes, CacheEntry] | None) -> None:
        flushed, deleted = entries_of(self.dirty, self.entries)
        if evicted is not None:
            flushed.insert(0, evicted)
        if not flushed:
            return
        self.dirty.clear()
        self._flush(flushed)
        for key in deleted:
            if key not in self.dirty:
                self.delete(key)

    def keys(
        self, from_key: bytes | None, to_key: bytes | None, to_inclusive: bool = True, forward: bool = True
    ) -> list[bytes]:
        """The cached keys of a range, in order."""
        if self._keys is None:
            self._keys = SortedKeys(self.entries)
        keys = self._keys.between(from_key, to_key, to_inclusive)
        if not forward:
            keys.reverse()
        return keys

    def clear(self) -> None:
        """Forget all entries, dirty ones as well."""
        self._thread_cache.size -= self.size
        self.size = 0
        self.entries.clear()
        self.dirty.clear()
        self._keys = None

    def check(self) -> None:
        assert self.size == sum(len(key) + _LINKS + entry[2] for key, entry in self.entries.items())
        assert all(key in self.entries for key in self.dirty)


class ThreadCache:
    """All caches of a worker. `max_bytes` 0: each write is flushed at once.

    `most_deferred`: the entries of one store that may wait in front of its cache (see `DeferredWrites`).
    """

    __slots__ = ("_caches", "max_bytes", "most_deferred", "size")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._caches: dict[str, NamedCache] = {}
        self._share()

    def _share(self) -> None:
        most = self.max_bytes // _DEFERRED_BYTES // max(len(self._caches), 1)
        self.most_deferred = most if most >= _FEW else 0

    def open(self, name: str, flush: Flush) -> NamedCache:
        """The cache of a store, by task id and store name. `flush` gets keys and entries in order."""
        assert name not in self._caches, name
        cache = self._caches[name] = NamedCache(self, flush)
        self._share()
        return cache

    def close(self, name: str) -> None:
        """Forget a store; its entries must have been flushed, or are dropped."""
        cache = self._caches.pop(name, None)
        if cache is not None:
            cache.clear()
            self._share()

    def forget(self, name: str) -> None:
        """Forget the entries of a store, which stays open: its next values come from its changelog."""
        cache = self._caches.get(name)
        if cache is not None:
            cache.clear()

    def evict(self, cache: NamedCache) -> None:
        """Evict entries of `cache` until all caches together fit."""
        while self.size > self.max_bytes and cache.entries:
            freed = cache.evict()
            self.size -= freed

    def resize(self, max_bytes: int) -> None:
        """Change the limit; the stores give up entries in turns."""
        if max_bytes == self.max_bytes:
            return
        self.max_bytes = max_bytes
        self._share()
        while self.size > max_bytes:
            for cache in list(self._caches.values()):
                if cache.entries and self.size > max_bytes:
                    freed = cache.evict()  # what it flushes may reach other caches
                    self.size -= freed

    def check(self) -> None:
        for cache in self._caches.values():
            cache.check()
        assert self.size == sum(cache.size for cache in self._caches.values())
