"""The interfaces of state stores, typed and of bytes, as Kafka Streams has them.

Keys of the stores below a typed store, and their values, are bytes. A read of several entries returns a
`StoreIterator`, which must be closed or read to its end. Times are in ms; bounds of keys and times are
inclusive at both ends; None as a bound of a key range: no bound. Keys are in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from ...clients.records import Headers
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from ..records import RecordContext, TaskId, VersionedRecord, Windowed
    from .engines import Engine
    from .thread_cache import ThreadCache

K = TypeVar("K")
K_in = TypeVar("K_in", contravariant=True)
V = TypeVar("V")
Row = TypeVar("Row", bound=tuple[Any, Any], covariant=True)


class ChangelogRecord(NamedTuple):
    """A record of a changelog, for `restore`. `timestamp` in ms."""

    key: bytes
    value: bytes | None
    timestamp: int
    offset: int
    headers: Headers = ()


class StoreContext(Protocol):
    """What a task offers to its stores."""

    task_id: TaskId
    record_context: RecordContext | None
    """The record that is being processed; a cache sets that of each entry while it is flushed."""
    key_serde: Any
    """The default serde; None: a store without serdes fails when it is opened."""
    value_serde: Any

    @property
    def cache(self) -> ThreadCache: ...

    def changelog_for(self, store_name: str) -> str | None:
        """The changelog topic, None without one."""

    def log_change(
        self, store_name: str, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers
    ) -> None:
        """Send a record to the changelog of a store; timestamp None: the time at which it is sent."""

    def log_rows(
        self, store_name: str, keys: list[bytes], values: list[bytes | None], timestamps: list[int]
    ) -> None:
        """Send records without headers to the changelog of a store."""

    def note_failure(self, error: BaseException) -> None:
        """An entry of a cache could not be forwarded; `record_context` is that of its record."""

    def dropped(self, reason: str) -> None:
        """Count a record that is skipped, as Kafka's dropped-records metric does."""

    def open_engine(self, store_name: str) -> Engine:
        """The files of a persistent store, opened and locked."""

    def store_folder(self, store_name: str) -> Path:
        """The folder for the files of a store of a supplier, which makes it. Errors: StateStoreError where
        the task has none."""


class StoreIterator(Iterator[Row], Generic[Row]):
    """Entries of a store in order. Close it, or use it in a `with` statement; at its end it closes itself."""

    __slots__ = ("_on_close", "_peeked", "_rows")

    def __init__(self, rows: Iterator[Row], on_close: Callable[[], None] | None = None) -> None:
        self._rows: Iterator[Row] | None = rows
        self._on_close = on_close
        self._peeked: list[Row] = []

    def __next__(self) -> Row:
        if self._peeked:
            return self._peeked.pop()
        if self._rows is None:
            raise StopIteration
        for row in self._rows:
            return row
        self.close()
        raise StopIteration

    def peek_next_key(self) -> Any:
        """The key of the next entry, or its timestamp in a window fetch. Errors: StopIteration at the end."""
        if not self._peeked:
            self._peeked.append(next(self))
        return self._peeked[0][0]

    def close(self) -> None:
        """Idempotent. The iterator is at its end afterwards."""
        rows, self._rows = self._rows, None
        if rows is None:
            return
        self._peeked.clear()
        if hasattr(rows, "close"):
            rows.close()
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> StoreIterator[Row]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StateStore(Protocol):
    """A store of one task."""

    @property
    def name(self) -> str: ...

    @property
    def persistent(self) -> bool: ...

    @property
    def is_open(self) -> bool: ...

    def init(self, context: StoreContext) -> None:
        """Open the store."""

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Apply changelog records, in order; nothing is logged or forwarded."""

    def flush(self) -> None:
        """Forward and log what caches and buffers hold; comes before the commit of the producer."""

    @property
    def has_unflushed(self) -> bool:
        """Whether a `flush` would write something. What a flush forwards may come back to the store."""

    def commit(self, changelog_offset: int | None) -> None:
        """Make all writes durable, with the next offset of the changelog to restore from (None: unchanged).

        Errors: StateStoreError; the writes are kept and the commit can be repeated.
        """

    def committed_offset(self) -> int | None:
        """The offset of the last commit, None without one: restore from the beginning."""

    def close(self) -> None:
        """Writes since the last commit are dropped."""


class CachedStore(Protocol):
    """A store that may have a cache."""

    def set_flush_listener(
        self, listener: FlushListener, send_old_values: bool, forward_rows: ProcessRows | None = None
    ) -> bool:
        """False without a cache: then nothing is passed to the listener. `forward_rows` may get several
        entries at a time instead, without their old values."""


@runtime_checkable
class KeyValueStore(StateStore, Protocol[K, V]):
    """Of a timestamped store, `V` is `ValueAndTimestamp`."""

    def get(self, key: K) -> V | None: ...

    def put(self, key: K, value: V | None) -> None:
        """None deletes."""

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """The value before."""

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None: ...

    def delete(self, key: K) -> V | None:
        """The value before."""

    def range(self, from_key: K | None, to_key: K | None) -> StoreIterator[tuple[K, V]]: ...

    def reverse_range(self, from_key: K | None, to_key: K | None) -> StoreIterator[tuple[K, V]]: ...

    def prefix_scan(self, prefix: bytes) -> StoreIterator[tuple[K, V]]:
        """Entries whose serialized key starts with `prefix`."""

    def all(self) -> StoreIterator[tuple[K, V]]: ...

    def reverse_all(self) -> StoreIterator[tuple[K, V]]: ...

    def approximate_num_entries(self) -> int: ...


@runtime_checkable
class WindowStore(StateStore, Protocol[K, V]):
    """Values by key and window start. Of a timestamped store, `V` is `ValueAndTimestamp`."""

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """None deletes; in a store that retains duplicates it is ignored."""

    def fetch(self, key: K, time: int) -> V | None:
        """The value of the window that starts at `time`."""

    def fetch_range(self, key: K, from_time: int, to_time: int) -> StoreIterator[tuple[int, V]]:
        """Window starts and values of one key."""

    def backward_fetch_range(self, key: K, from_time: int, to_time: int) -> StoreIterator[tuple[int, V]]: ...

    def fetch_key_range(
        self, from_key: K | None, to_key: K | None, from_time: int, to_time: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_fetch_key_range(
        self, from_key: K | None, to_key: K | None, from_time: int, to_time: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def fetch_all(self, from_time: int, to_time: int) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_fetch_all(self, from_time: int, to_time: int) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def all(self) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]: ...


@runtime_checkable
class SessionStore(StateStore, Protocol[K, V]):
    """Aggregates by session. A session overlaps a span of time if neither ends before the other starts."""

    def put(self, session: Windowed[K], aggregate: V | None) -> None:
        """None removes."""

    def remove(self, session: Windowed[K]) -> None: ...

    def fetch_session(self, key: K, start: int, end: int) -> V | None: ...

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def fetch_key_range(
        self, from_key: K | None, to_key: K | None
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_fetch_key_range(
        self, from_key: K | None, to_key: K | None
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def find_sessions_key_range(
        self, from_key: K | None, to_key: K | None, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def backward_find_sessions_key_range(
        self, from_key: K | None, to_key: K | None, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]: ...

    def find_sessions_by_end(
        self, earliest_end: int, latest_end: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end between the two times."""


NOT_PUT = -(2**63)
"""`VersionedKeyValueStore.put` returns it for a record that is older than the history retention."""


@runtime_checkable
class VersionedKeyValueStore(StateStore, Protocol[K_in, V]):
    """Versions of values by timestamp. `is_versioned` is True; other stores have no such attribute."""

    is_versioned: bool

    def put(self, key: K_in, value: V | None, timestamp: int) -> int | None:
        """The timestamp at which the version ends, None for the latest one, or NOT_PUT."""

    def delete(self, key: K_in, timestamp: int) -> VersionedRecord[V] | None:
        """Put a tombstone. The version that was valid at `timestamp`."""

    def get(self, key: K_in) -> VersionedRecord[V] | None:
        """The latest version."""

    def get_as_of(self, key: K_in, timestamp: int) -> VersionedRecord[V] | None:
        """The version that is valid at `timestamp`."""

    def get_versions(
        self, key: K_in, from_time: int, to_time: int, ascending: bool = False
    ) -> StoreIterator[tuple[int, VersionedRecord[V]]]:
        """Versions that are valid in a span of time, with their timestamps; the newest first by default."""


class Eviction(NamedTuple):
    """A record that leaves a time-ordered buffer, with the context with which it was put."""

    key: Any
    value: Any
    context: RecordContext


class TimeOrderedBuffer(StateStore, Protocol):
    """Records by time, for suppress (values are `Change`) and stream-table joins with grace."""

    @property
    def num_records(self) -> int: ...

    @property
    def buffer_size(self) -> int:
        """Kafka's estimate of the memory, in bytes."""

    @property
    def min_timestamp(self) -> int:
        """Of the buffered records; the largest timestamp without any."""

    def put(self, time: int, key: Any, value: Any, context: RecordContext) -> bool:
        """False for a record that is too late to be buffered."""

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Pass on the oldest record while `predicate` holds."""

    def prior_value_for_buffered(self, key: Any) -> tuple[bool, Any]:
        """Whether the key is buffered, and the value of the table before its buffered changes."""
