"""Typed session stores, without and with a cache. Source: MeteredSessionStore, CachingSessionStore,
ChangeLoggingSessionBytesStore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import Window, Windowed
from .flushing import FlushedRows, Flusher
from .formats.windows import MAX_TIME, session_key, session_windowed
from .segmented_cache import Read, SegmentedCache
from .typed import TypedStore
from .value_formats import PLAIN

if TYPE_CHECKING:
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from .session_bytes import SessionBytes
    from .store_spec import StoreSpec
    from .stores import StoreContext, StoreIterator
    from .typed import Rows
    from .value_formats import ValueFormat


class TypedSessionStore(TypedStore):
    """Without a cache."""

    _inner: SessionBytes

    def __init__(self, spec: StoreSpec, inner: SessionBytes, values: ValueFormat) -> None:
        serdes = spec.key_serde, spec.value_serde
        super().__init__(spec.name, inner, serdes, values, spec.is_logged)

    def init(self, context: StoreContext) -> None:
        super().init(context)
        self._split = self._inner.schema.split

    def put(self, session: Windowed[Any], aggregate: Any) -> None:
        key, data = self._bytes_of(session.key, aggregate)
        window = session.window
        self._write(key, window.start, window.end, data)

    def remove(self, session: Windowed[Any]) -> None:
        key, window = self._dumps_key(session.key), session.window
        self._inner.remove(key, window.start, window.end)
        if self._is_logged:
            self._log(session_key(key, window.start, window.end), None)

    def _write(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        self._inner.put(key, start, end, value)
        if self._is_logged:
            self._log(session_key(key, start, end), value)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        data = self._inner.fetch_session(self._dumps_key(key), start, end)
        return None if data is None else self._loads(data)

    def fetch(self, key: Any) -> StoreIterator[Any]:
        return self.find_sessions(key, 0, MAX_TIME)

    def backward_fetch(self, key: Any) -> StoreIterator[Any]:
        return self.backward_find_sessions(key, 0, MAX_TIME)

    def fetch_key_range(self, from_key: Any, to_key: Any) -> StoreIterator[Any]:
        return self.find_sessions_key_range(from_key, to_key, 0, MAX_TIME)

    def backward_fetch_key_range(self, from_key: Any, to_key: Any) -> StoreIterator[Any]:
        return self.backward_find_sessions_key_range(from_key, to_key, 0, MAX_TIME)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> StoreIterator[Any]:
        key_bytes = self._dumps_key(key)
        return self._sessions(key_bytes, key_bytes, earliest_end, latest_start, True, Read.KEY)

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> StoreIterator[Any]:
        key_bytes = self._dumps_key(key)
        return self._sessions(key_bytes, key_bytes, earliest_end, latest_start, False, Read.KEY)

    def find_sessions_key_range(
        self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int
    ) -> StoreIterator[Any]:
        start, end = self._key_bytes(from_key), self._key_bytes(to_key)
        return self._sessions(start, end, earliest_end, latest_start, True)

    def backward_find_sessions_key_range(
        self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int
    ) -> StoreIterator[Any]:
        start, end = self._key_bytes(from_key), self._key_bytes(to_key)
        return self._sessions(start, end, earliest_end, latest_start, False)

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> StoreIterator[Any]:
        return self._iterate(self._inner.rows_by_end(earliest_end, latest_end), self._session)

    def _sessions(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
        read: Read = Read.RANGE,
    ) -> StoreIterator[Any]:
        if from_key is not None and to_key is not None and from_key > to_key:
            return self._iterate(iter(()), self._session)
        return self._iterate(
            self._rows(from_key, to_key, earliest_end, latest_start, forward, read), self._session
        )

    def _session(self, data: bytes) -> Windowed[Any]:
        key, start, end = self._split(data)
        return Windowed(self._loads_key(key), Window(start, end))

    def _rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
        read: Read,
    ) -> Rows:
        return self._inner.rows(from_key, to_key, earliest_end, latest_start, forward)


class CachedSessionStore(TypedSessionStore):
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

    def put(self, session: Windowed[Any], aggregate: Any) -> None:
        key, data = self._bytes_of(session.key, aggregate)
        typed = aggregate if type(aggregate) in self._kept_types else None
        self._cached.put(self._key(key, session.window.start, session.window.end), data, typed)

    def remove(self, session: Windowed[Any]) -> None:
        self.put(session, None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        key_bytes = self._dumps_key(key)
        entry = self._cached.get(self._key(key_bytes, start, end))
        data = self._inner.fetch_session(key_bytes, start, end) if entry is None else entry[0]
        return None if data is None else self._loads(data)

    def _rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
        read: Read,
    ) -> Rows:
        under = self._inner.rows(from_key, to_key, earliest_end, latest_start, forward)
        return self._cached.rows(under, from_key, to_key, earliest_end, latest_start, forward, read)

    def set_flush_listener(
        self, listener: FlushListener, send_old_values: bool, forward_rows: ProcessRows | None = None
    ) -> bool:
        return self._flusher.listen(listener, send_old_values, self._loads, forward_rows)

    def _flushed_rows(self, context: StoreContext) -> FlushedRows | None:
        writes, schema = getattr(self._inner, "put_rows", None), self._inner.schema
        # Where entries are ordered by time their keys are not those of the changelog.
        if writes is None or self._format is not PLAIN or self.logs_headers or schema.is_time_first:
            return None
        return FlushedRows(
            self._rows_writer(context, writes),
            (session_windowed(self._key_serde), self._plain_serde),
            is_timestamped=False,
            keys_of=lambda keys: [key[8:] for key in keys],
            times_of=schema.segment_times,  # the ends of the sessions
            keeps=self._inner.keeps,  # type: ignore[attr-defined]  # of those with put_rows
        )

    def _fetch_bytes(self, cache_key: bytes) -> bytes | None:
        return self._inner.fetch_session(*self._split(cache_key[8:]))

    def _write_back(self, cache_key: bytes, value: bytes | None) -> None:
        key, start, end = self._split(cache_key[8:])
        self._write(key, start, end, value)

    def _key_of(self, cache_key: bytes) -> Windowed[Any]:
        return self._session(cache_key[8:])

    def flush(self) -> None:
        self._cached.cache.flush()

    @property
    def has_unflushed(self) -> bool:
        return bool(self._cached.cache.dirty)

    def close(self) -> None:
        if self.is_open:
            self._cached.close()
        super().close()
