"""A read-only, typed twin of a store of a task, for threads other than its stream thread.

Values move downwards: deferred writes, cache, store of bytes. Each is written to the layer below before it is
removed above, so a read from top to bottom never returns an older value than the current one at its start
(ADR 38).
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..state.key_value_store import TypedKeyValueStore
from ..state.merging import merged
from ..state.session_store import TypedSessionStore
from ..state.stores import StoreIterator
from ..state.versioned_store import TypedVersionedStore
from ..state.window_store import TypedWindowStore
from .byte_reads_io import ByteReads, knows_committed
from .errors import WrongStoreKindError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..state.deferred import DeferredWrites
    from ..state.thread_cache import CacheEntry, NamedCache
    from .gate_io import QueryGate

    Rows = Iterator[tuple[bytes, bytes]]
    Over = list[tuple[bytes, bytes | None]]

_MOST_TRIES = 100
_ROWS = 64  # that are read within the gate at a time


class Above:
    """Writes that a store of bytes does not have yet: entries of its cache and deferred writes. `cache_key`
    returns the key in the cache."""

    def __init__(self, store: Any) -> None:
        cached = getattr(store, "_cached", None)
        self._cache: NamedCache | None = getattr(store, "_cache", None) if cached is None else cached.cache
        self._cached = cached
        self._deferred: DeferredWrites | None = getattr(store, "_deferred", None)
        self._dumps_key = store._dumps_key  # noqa: SLF001  # the twin of this store
        self._schema = None if cached is None else store._inner.schema  # noqa: SLF001  # as above

    def get(self, key: Any, place: Any, stored_key: bytes) -> tuple[bytes | None] | None:
        """The value in a tuple (None: deleted); None without one. `stored_key`: of the store of bytes."""
        if self._deferred is not None:
            found = self._deferred.peek(key, place)
            if found is not None:
                return (found,)
        if self._cache is None:
            return None
        if self._cached is not None:
            stored_key = self._cached.cache_key(stored_key)
        entry = self._cache.entries.get(stored_key) or self._cache.leaving.get(stored_key)
        return None if entry is None else (entry[0],)

    def cache_key(self, stored_key: bytes) -> bytes:
        """The key in the cache of a segmented store, where there are entries."""
        assert self._cached is not None
        key: bytes = self._cached.cache_key(stored_key)
        return key

    def entries(self) -> dict[bytes, bytes | None]:
        """All, by the key in the cache."""
        waiting = {} if self._deferred is None else self._deferred.snapshot()
        found: dict[bytes, bytes | None] = {}
        if self._cache is not None:
            for key, entry in _copied(self._cache).items():
                found[key] = entry[0]
        for place, value in waiting.items():
            found[self._key_of(place)] = value
        return found

    def _key_of(self, place: Any) -> bytes:
        if self._cached is None:
            key: bytes = self._dumps_key(place)
            return key
        assert self._schema is not None
        stored: bytes = self._cached.cache_key(self._schema.key(self._dumps_key(place[0]), place[1]))
        return stored


def _copied(cache: NamedCache) -> dict[bytes, CacheEntry]:
    """Order: an entry that is evicted meanwhile is in `leaving`, or already in the store below."""
    for _ in range(_MOST_TRIES):
        try:
            entries = dict(cache.entries)
            break
        except RuntimeError:  # it changed size meanwhile
            continue
    else:
        raise WrongStoreKindError("the cache changes without a pause")
    for key, entry in list(cache.leaving.items()):
        entries.setdefault(key, entry)
    return entries


class _KeyValueReader(TypedKeyValueStore):
    _reads: ByteReads
    _above: Above
    _typed_key: Any

    def get(self, key: Any) -> Any:
        key_bytes = self._dumps_key(key)
        typed = self._typed_key(key)
        found = self._above.get(typed, typed, key_bytes)
        data = self._reads.twin().get(key_bytes) if found is None else found[0]
        return None if data is None else self._loads(data)

    def _rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        over: Over = [
            (key, value)
            for key, value in self._above.entries().items()
            if (from_key is None or from_key <= key) and (to_key is None or key < to_key)
        ]
        under: Rows = self._reads.twin().rows(from_key, to_key, forward)
        if not over:
            return under
        over.sort(key=_key_of, reverse=not forward)
        return merged(iter(over), under, forward)

    def approximate_num_entries(self) -> int:
        count: int = self._reads.twin().approximate_num_entries()
        return count


def _key_of(entry: tuple[bytes, bytes | None]) -> bytes:
    return entry[0]


class _Segmented:
    """The cached entries of a window or session store over those of the store of bytes."""

    _reads: ByteReads
    _above: Above
    _inner: Any

    def _merge(
        self, read: Callable[[], Rows], from_key: bytes | None, to_key: bytes | None, from_time: int,
        to_time: int, forward: bool,
    ) -> Rows:  # fmt: skip
        schema, entries = self._inner.schema, self._above.entries()
        under = read()  # order: behind the copy of the entries above
        over: Over = [
            (key, value)
            for key, value in entries.items()
            if schema.is_inside(key[8:], from_key, to_key, from_time, to_time)
        ]
        if not over:
            return under
        over.sort(key=_key_of, reverse=not forward)
        cache_key = self._above.cache_key
        segmented = ((cache_key(key), value) for key, value in under)
        return ((key[8:], value) for key, value in merged(iter(over), segmented, forward))


class _WindowReader(_Segmented, TypedWindowStore):
    _typed_key: Any

    def fetch(self, key: Any, time: int) -> Any:
        key_bytes = self._dumps_key(key)
        typed = self._typed_key(key)
        found = self._above.get(typed, (typed, time), self._inner.schema.key(key_bytes, time))
        data = self._reads.twin().fetch(key_bytes, time) if found is None else found[0]
        return None if data is None else self._loads(data)

    def _rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool,
        _read: Any,
    ) -> Rows:  # fmt: skip
        bounds = from_key, to_key, from_time, to_time, forward
        return self._merge(lambda: self._reads.twin().rows(*bounds), *bounds)

    def _all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        def read() -> Rows:
            rows: Rows = self._reads.twin().all_rows(from_time, to_time, forward)
            return rows

        return self._merge(read, None, None, from_time, to_time, forward)


class _SessionReader(_Segmented, TypedSessionStore):
    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        key_bytes = self._dumps_key(key)
        found = self._above.get(None, None, self._inner.schema.key(key_bytes, start, end))
        data = self._reads.twin().fetch_session(key_bytes, start, end) if found is None else found[0]
        return None if data is None else self._loads(data)

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> StoreIterator[Any]:
        return self._iterate(self._reads.twin().rows_by_end(earliest_end, latest_end), self._session)

    def _rows(
        self, from_key: bytes | None, to_key: bytes | None, earliest_end: int, latest_start: int,
        forward: bool, _read: Any,
    ) -> Rows:  # fmt: skip
        bounds = from_key, to_key, earliest_end, latest_start, forward
        return self._merge(lambda: self._reads.twin().rows(*bounds), *bounds)


class _VersionedReader(TypedVersionedStore):
    _reads: ByteReads


_READERS: tuple[tuple[type[Any], type[Any]], ...] = (
    (TypedKeyValueStore, _KeyValueReader),
    (TypedWindowStore, _WindowReader),
    (TypedSessionStore, _SessionReader),
    (TypedVersionedStore, _VersionedReader),
)


class OpenQueryIterators:
    """Counts the open iterators of all queries of an instance. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, change: int) -> None:
        """One more, or one less."""
        with self._lock:
            self.count += change


class _GatedIterators:
    """Makes the iterators of one reader: rows are read within the gate, some at a time."""

    def __init__(self, gate: QueryGate, opened: OpenQueryIterators) -> None:
        self._gate = gate
        self._opened = opened

    def open(self, rows: Iterator[Any]) -> StoreIterator[Any]:
        """An iterator that counts until it is closed. Errors of rows: StoreMigratedError."""
        self._opened.add(1)
        return StoreIterator(self._gated(rows), lambda: self._opened.add(-1))

    def _gated(self, rows: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._gate:
                found = list(islice(rows, _ROWS))
            yield from found
            if len(found) < _ROWS:
                return


def reader_of(
    store: Any,
    gate: QueryGate,
    opened: OpenQueryIterators,
    *,
    is_committed: bool,
    in_bytes: bool = False,
) -> Any:
    """The reads of a typed, open store. `is_committed`: only the state of the last commit. `in_bytes`: keys
    and values as bytes of the store. Errors: WrongStoreKindError for a store that cannot be queried."""
    kind = next((reader for base, reader in _READERS if isinstance(store, base)), None)
    if kind is None:
        raise WrongStoreKindError(f"store {store.name!r} ({type(store).__name__}) answers no queries")
    reads = ByteReads(store._inner, is_committed=is_committed)  # noqa: SLF001  # the twin of this store
    reader: Any = object.__new__(kind)
    own = vars(reader)
    own.update(vars(store))
    own.update(
        _iterators=_GatedIterators(gate, opened),
        _reads=reads,
        _above=_Nothing() if is_committed else Above(store),
        _typed_key=_same,
    )
    if in_bytes:
        own["_typed_key"] = own["_loads_key"]
        own.update(dict.fromkeys(("_dumps_key", "_loads_key", "_dumps", "_loads"), _same))
    if kind is _VersionedReader:
        own["_inner"] = _VersionedTwin(reads)
    return reader


def default_isolation(store: Any, *, is_committed: bool) -> bool:
    """Whether a query of this store reads committed state by default: an in-memory store does not track
    commits."""
    return is_committed and knows_committed(getattr(store, "_inner", None))


class _VersionedTwin:
    def __init__(self, reads: ByteReads) -> None:
        self._of = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of.twin(), name)


class _Nothing:
    """Above a store that is read as of its last commit."""

    def cache_key(self, stored_key: bytes) -> bytes:
        return stored_key

    def get(self, _key: Any, _place: Any, _stored_key: bytes) -> None:
        return None

    def entries(self) -> dict[bytes, bytes | None]:
        return {}


def _same(value: Any) -> Any:
    return value
