"""Typed key-value stores: serdes, changelog and cache over a store of bytes.

The layers are functions that are bound once when the store is opened: a read or write takes few calls.
Order: a write goes to the store of bytes, then to the changelog. Source: MeteredKeyValueStore,
CachingKeyValueStore, ChangeLoggingKeyValueBytesStore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...clients.serdes import BAD_DATA
from ..records import ValueAndTimestamp
from .flushing import FlushedRows, Flusher
from .formats.buffers import record_context_size
from .formats.timestamped import unpack_long
from .formats.windows import next_key
from .key_value_bytes import ListValueBytes, LruKeyValueBytes
from .merging import cached_rows, merged
from .typed import TypedStore
from .value_formats import PLAIN

if TYPE_CHECKING:
    from typing import Self

    from ...clients.serdes import Serde
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from ..records import RecordContext
    from .deferred import DeferredWrites
    from .key_value_bytes import KeyValueBytes, Rows
    from .stores import StoreContext, StoreIterator
    from .thread_cache import CacheEntry, NamedCache
    from .value_formats import ValueFormat

Write = Callable[[bytes, "bytes | None"], None]


class TypedKeyValueStore(TypedStore):
    """Without a cache."""

    _inner: KeyValueBytes

    def init(self, context: StoreContext) -> None:
        super().init(context)
        self._get_bytes = self._inner.get
        self._write: Write = self._inner.put
        if self._is_logged:
            self._write = _logged(self._inner, context, self.name, self._format, self.logs_headers)

    def get(self, key: Any) -> Any:
        data = self._get_bytes(self._dumps_key(key))
        return None if data is None else self._loads(data)

    def put(self, key: Any, value: Any) -> None:
        try:
            key_bytes = self._dumps_key(key)
            data = None if value is None else self._dumps(value)
        except BAD_DATA:
            key_bytes, data = self._bytes_of(key, value)  # raises what names the store
        self._write(key_bytes, data)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        if isinstance(self._inner, ListValueBytes):
            # As in Java: only a stream-stream join calls it, to delete the values of a key that has some.
            if self._get_bytes(self._dumps_key(key)) is not None:
                self.put(key, value)
            return None
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, from_key: Any, to_key: Any) -> StoreIterator[Any]:
        return self._range(from_key, to_key, True)

    def reverse_range(self, from_key: Any, to_key: Any) -> StoreIterator[Any]:
        return self._range(from_key, to_key, False)

    def all(self) -> StoreIterator[Any]:
        return self._iterate(self._rows(None, None, True), self._loads_key)

    def reverse_all(self) -> StoreIterator[Any]:
        return self._iterate(self._rows(None, None, False), self._loads_key)

    def prefix_scan(self, prefix: bytes) -> StoreIterator[Any]:
        return self._iterate(self._rows(prefix, next_key(prefix), True), self._loads_key)

    def _range(self, from_key: Any, to_key: Any, forward: bool) -> StoreIterator[Any]:
        start, end = self._key_bytes(from_key), self._key_bytes(to_key)
        is_empty = start is not None and end is not None and start > end
        rows = iter(()) if is_empty else self._rows(start, None if end is None else end + b"\0", forward)
        return self._iterate(rows, self._loads_key)

    def _rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        return self._inner.rows(from_key, to_key, forward)

    def approximate_num_entries(self) -> int:
        return self._inner.approximate_num_entries()


class CachedKeyValueStore(TypedKeyValueStore):
    """With a cache, which writes to the store and the changelog when an entry leaves it or is flushed."""

    is_cached = True

    _cache: NamedCache

    def init(self, context: StoreContext) -> None:
        super().init(context)
        self._cache_name = f"{context.task_id}-{self.name}"
        self._flusher = Flusher(
            context, self._loads_key, self._get_bytes, self._write, self._flushed_rows(context)
        )
        self._cache = context.cache.open(self._cache_name, self._flusher.flush)
        self._deferred = self._defer(self._cache, self._entry_of)

    @property
    def deferred(self) -> DeferredWrites:
        """The writes in front of the cache."""
        return self._deferred

    def of_values(self, serde: Serde[Any], can_wait: Callable[[Any], bool]) -> Self:
        same = super().of_values(serde, can_wait)
        beside = self._deferred.beside(can_wait, same._entry_of, same._dumps)  # noqa: SLF001  # a copy of this
        same._deferred = beside  # noqa: SLF001  # as above
        return same

    def get(self, key: Any) -> Any:
        found = self._deferred.get(key, key)
        if found is not None:
            return found
        key_bytes = self._dumps_key(key)
        entries = self._cache.entries
        entry = entries.get(key_bytes)
        if entry is None:
            data = self._get_bytes(key_bytes)
            if data is None:
                return None
            self._cache.put_clean(key_bytes, data)
            return self._loads(data)
        entries.move_to_end(key_bytes)
        if entry[3] is not None:
            return entry[3]
        return None if entry[0] is None else self._loads(entry[0])

    def put(self, key: Any, value: Any) -> None:
        if not self._deferred.put(key, key, value):
            self._put(key, value)

    def put_once(self, key: Any, value: Any) -> None:
        """`put` of a key that is not expected to be written again before a commit: it goes to the cache at
        once, where `put` would have it wait."""
        self._deferred.settle_any()
        self._put(key, value)

    def _put(self, key: Any, value: Any) -> None:
        key_bytes, entry = self._entry_of(key, value, self._context.record_context)
        self._cache.put(key_bytes, entry, True)

    def _entry_of(self, key: Any, value: Any, context: RecordContext | None) -> tuple[bytes, CacheEntry]:
        try:
            key_bytes = self._dumps_key(key)
            data = None if value is None else self._dumps(value)
        except BAD_DATA:
            key_bytes, data = self._bytes_of(key, value)  # raises what names the store
        assert context is not None
        size = 21 + len(context[2]) if not context[4] else 1 + record_context_size(context)
        typed = None
        if data is not None:
            size += len(data)
            if self._is_timestamped:
                if type(value) is ValueAndTimestamp and type(value[0]) in self._kept_types:
                    typed = value
            elif type(value) in self._kept_types:
                typed = value
        return key_bytes, (data, context, size, typed)

    def _rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        self._deferred.settle_for_read()
        under = self._inner.rows(from_key, to_key, forward)
        keys = self._cache.keys(from_key, to_key, to_inclusive=False, forward=forward)
        return merged(cached_rows(self._cache, keys), under, forward) if keys else under

    def set_flush_listener(
        self, listener: FlushListener, send_old_values: bool, forward_rows: ProcessRows | None = None
    ) -> bool:
        return self._flusher.listen(listener, send_old_values, self._loads, forward_rows)

    def _flushed_rows(self, context: StoreContext) -> FlushedRows | None:
        put_rows = getattr(self._inner, "put_rows", None)
        if put_rows is None or not self._is_timestamped or self.logs_headers:
            return None
        write = self._rows_writer(context, put_rows)
        return FlushedRows(write, (self._key_serde, self._plain_serde))

    def flush(self) -> None:
        self._deferred.settle()
        self._cache.flush()

    @property
    def has_unflushed(self) -> bool:
        return self._deferred.holds or bool(self._cache.dirty)

    def close(self) -> None:
        if self.is_open:
            self._deferred.waiting.clear()
            self._context.cache.close(self._cache_name)
        super().close()


def _logged(
    inner: KeyValueBytes, context: StoreContext, name: str, values: ValueFormat, logs_headers: bool
) -> Write:
    put, log, logged = inner.put, context.log_change, values.logged
    if isinstance(inner, LruKeyValueBytes) and values is PLAIN:  # timestamped: Java logs none either
        inner.on_evicted = lambda key: log(name, key, None, _timestamp(context), ())

    def write(key: bytes, value: bytes | None) -> None:
        put(key, value)
        log(name, key, value, _timestamp(context), ())

    def write_timestamped(key: bytes, value: bytes | None) -> None:
        put(key, value)
        if value is None:
            log(name, key, None, _timestamp(context), ())
        else:
            log(name, key, value[8:], unpack_long(value)[0], ())

    def write_with_headers(key: bytes, value: bytes | None) -> None:
        put(key, value)
        record = context.record_context
        assert record is not None
        if value is None:
            log(name, key, None, record.timestamp, record.headers)
        else:
            plain, timestamp, headers = logged(value)
            log(name, key, plain, timestamp, headers if values.has_headers else record.headers)

    def write_list(key: bytes, value: bytes | None) -> None:
        put(key, value)
        log(name, key, None if value is None else inner.get(key), _timestamp(context), ())

    if isinstance(inner, ListValueBytes):
        return write_list
    if values is PLAIN:
        return write
    return write_with_headers if logs_headers else write_timestamped


def _timestamp(context: StoreContext) -> int:
    record = context.record_context
    assert record is not None
    return record.timestamp
