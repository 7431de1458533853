"""Typed window stores, without and with a cache. Source: MeteredWindowStore, CachingWindowStore,
ChangeLoggingWindowBytesStore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import ValueAndTimestamp, Windowed
from .flushing import FlushedRows, Flusher
from .formats.windows import MAX_SEQNUM, MAX_TIME, time_windowed, window_key, window_of
from .segmented_cache import Read, SegmentedCache
from .typed import TypedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from ...clients.serdes import Serde
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from ..records import RecordContext
    from .deferred import DeferredWrites
    from .store_spec import StoreSpec
    from .stores import ChangelogRecord, StoreContext, StoreIterator
    from .thread_cache import CacheEntry
    from .typed import Rows
    from .value_formats import ValueFormat
    from .window_bytes import WindowBytes


class TypedWindowStore(TypedStore):
    """Without a cache."""

    _inner: WindowBytes

    def __init__(self, spec: StoreSpec, inner: WindowBytes, values: ValueFormat) -> None:
        serdes = spec.key_serde, spec.value_serde
        super().__init__(spec.name, inner, serdes, values, spec.is_logged)
        self._window_size_ms = spec.window_size_ms
        self._retain_duplicates = spec.retain_duplicates
        self._seqnum = 0

    def init(self, context: StoreContext) -> None:
        super().init(context)
        self._split = self._inner.schema.split
        self._continue_after(self._inner.committed_offset() or 0)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        batch = list(records)
        super().restore(batch)
        if batch:
            self._continue_after(batch[-1].offset + 1)

    def _continue_after(self, offset: int) -> None:
        """Duplicates of a key and time differ in their sequence number. Kafka Streams begins at 0 after a
        restart and overwrites earlier ones; the changelog has one record for each, so its offset is above
        all of them."""
        if self._retain_duplicates:
            self._seqnum = self._inner.seqnum = offset & MAX_SEQNUM

    def put(self, key: Any, value: Any, window_start: int) -> None:
        key_bytes, data = self._bytes_of(key, value)
        self._write(key_bytes, data, window_start)

    def _write(self, key: bytes, value: bytes | None, start: int) -> None:
        self._inner.put(key, value, start)
        if self._is_logged:
            if self._retain_duplicates:
                self._seqnum = (self._seqnum + 1) & MAX_SEQNUM
            self._log(window_key(key, start, self._seqnum), value)

    def fetch(self, key: Any, time: int) -> Any:
        data = self._inner.fetch(self._dumps_key(key), time)
        return None if data is None else self._loads(data)

    def fetch_range(self, key: Any, from_time: int, to_time: int) -> StoreIterator[Any]:
        return self._fetch_range(key, from_time, to_time, True)

    def backward_fetch_range(self, key: Any, from_time: int, to_time: int) -> StoreIterator[Any]:
        return self._fetch_range(key, from_time, to_time, False)

    def fetch_key_range(self, from_key: Any, to_key: Any, from_time: int, to_time: int) -> StoreIterator[Any]:
        return self._fetch_key_range(from_key, to_key, from_time, to_time, True)

    def backward_fetch_key_range(
        self, from_key: Any, to_key: Any, from_time: int, to_time: int
    ) -> StoreIterator[Any]:
        return self._fetch_key_range(from_key, to_key, from_time, to_time, False)

    def fetch_all(self, from_time: int, to_time: int) -> StoreIterator[Any]:
        return self._iterate(self._all_rows(from_time, to_time, True), self._windowed)

    def backward_fetch_all(self, from_time: int, to_time: int) -> StoreIterator[Any]:
        return self._iterate(self._all_rows(from_time, to_time, False), self._windowed)

    def all(self) -> StoreIterator[Any]:
        return self.fetch_all(0, MAX_TIME)

    def backward_all(self) -> StoreIterator[Any]:
        return self.backward_fetch_all(0, MAX_TIME)

    def _fetch_range(self, key: Any, from_time: int, to_time: int, forward: bool) -> StoreIterator[Any]:
        key_bytes, split = self._dumps_key(key), self._split
        rows = self._rows(key_bytes, key_bytes, from_time, to_time, forward, Read.KEY)
        return self._iterate(rows, lambda data: split(data)[1])

    def _fetch_key_range(
        self, from_key: Any, to_key: Any, from_time: int, to_time: int, forward: bool
    ) -> StoreIterator[Any]:
        start, end = self._key_bytes(from_key), self._key_bytes(to_key)
        if start is not None and end is not None and start > end:
            return self._iterate(iter(()), self._windowed)
        rows = self._rows(start, end, from_time, to_time, forward, Read.RANGE)
        return self._iterate(rows, self._windowed)

    def _windowed(self, data: bytes) -> Windowed[Any]:
        key, start, _ = self._split(data)
        return Windowed(self._loads_key(key), window_of(start, self._window_size_ms))

    def _rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        from_time: int,
        to_time: int,
        forward: bool,
        read: Read,
    ) -> Rows:
        return self._inner.rows(from_key, to_key, from_time, to_time, forward)

    def _all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        return self._inner.all_rows(from_time, to_time, forward)


class CachedWindowStore(TypedWindowStore):
    """With a cache, which writes to the store and the changelog when an entry leaves it or is flushed."""

    is_cached = True

    def init(self, context: StoreContext) -> None:
        super().init(context)
        schema, interval = self._inner.schema, self._inner.segment_interval_ms
        self._flusher = Flusher(
            context, self._key_of, self._fetch_bytes, self._write_back, self._flushed_rows(context)
        )
        self._cached = SegmentedCache(context, self.name, schema, interval, self._flusher.flush)
        self._key = schema.key
        self._deferred = self._defer(self._cached.cache, self._entry_of)

    @property
    def deferred(self) -> DeferredWrites:
        """The writes in front of the cache."""
        return self._deferred

    def of_values(self, serde: Serde[Any], can_wait: Callable[[Any], bool]) -> Self:
        same = super().of_values(serde, can_wait)
        beside = self._deferred.beside(can_wait, same._entry_of, same._dumps)  # noqa: SLF001  # a copy of this
        same._deferred = beside  # noqa: SLF001  # as above
        return same

    def put(self, key: Any, value: Any, window_start: int) -> None:
        if not self._deferred.put(key, (key, window_start), value):
            place = key, window_start
            cache_key, entry = self._entry_of(place, value, self._context.record_context)
            self._cached.cache.put(cache_key, entry, True)

    def _entry_of(
        self, place: tuple[Any, int], value: Any, context: RecordContext | None
    ) -> tuple[bytes, CacheEntry]:
        key, window_start = place
        key_bytes, data = self._bytes_of(key, value)
        plain = value[0] if self._is_timestamped and type(value) is ValueAndTimestamp else value
        typed = value if type(plain) in self._kept_types else None
        return self._cached.entry_of(self._key(key_bytes, window_start), data, context, typed)

    def fetch(self, key: Any, time: int) -> Any:
        found = self._deferred.get(key, (key, time))
        if found is not None:
            return found
        key_bytes = self._dumps_key(key)
        entry = self._cached.get(self._key(key_bytes, time))
        if entry is None:
            data = self._inner.fetch(key_bytes, time)
        elif entry[3] is not None:
            return entry[3]
        else:
            data = entry[0]
        return None if data is None else self._loads(data)

    def _rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        from_time: int,
        to_time: int,
        forward: bool,
        read: Read,
    ) -> Rows:
        self._deferred.settle_for_read()
        under = self._inner.rows(from_key, to_key, from_time, to_time, forward)
        return self._cached.rows(under, from_key, to_key, from_time, to_time, forward, read)

    def _all_rows(self, from_time: int, to_time: int, forward: bool) -> Rows:
        self._deferred.settle_for_read()
        under = self._inner.all_rows(from_time, to_time, forward)
        return self._cached.rows(under, None, None, from_time, to_time, forward, Read.ALL)

    def set_flush_listener(
        self, listener: FlushListener, send_old_values: bool, forward_rows: ProcessRows | None = None
    ) -> bool:
        return self._flusher.listen(listener, send_old_values, self._loads, forward_rows)

    def _flushed_rows(self, context: StoreContext) -> FlushedRows | None:
        writes = getattr(self._inner, "put_rows", None)
        # Where entries are ordered by time their keys are not those of the changelog.
        if writes is None or self.logs_headers or self._inner.schema.is_time_first:
            return None
        return FlushedRows(
            self._rows_writer(context, writes),
            (time_windowed(self._key_serde, self._window_size_ms), self._plain_serde),
            is_timestamped=self._is_timestamped,
            keys_of=lambda keys: [key[8:] for key in keys],
            data_of=lambda keys: [key[:-4] for key in keys],  # without the sequence number
            keeps=self._inner.keeps,  # type: ignore[attr-defined]  # of those with put_rows
        )

    def _fetch_bytes(self, cache_key: bytes) -> bytes | None:
        key, start, _ = self._split(cache_key[8:])
        return self._inner.fetch(key, start)

    def _write_back(self, cache_key: bytes, value: bytes | None) -> None:
        key, start, _ = self._split(cache_key[8:])
        self._write(key, value, start)

    def _key_of(self, cache_key: bytes) -> Windowed[Any]:
        return self._windowed(cache_key[8:])

    def flush(self) -> None:
        self._deferred.settle()
        self._cached.cache.flush()

    @property
    def has_unflushed(self) -> bool:
        return self._deferred.holds or bool(self._cached.cache.dirty)

    def close(self) -> None:
        if self.is_open:
            self._deferred.waiting.clear()
            self._cached.close()
        super().close()
