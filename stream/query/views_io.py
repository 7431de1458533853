"""The views of IQv1: a store of the application, over all of its tasks on this instance.

Source: Kafka CompositeReadOnlyKeyValueStore.java, CompositeReadOnlyWindowStore.java,
CompositeReadOnlySessionStore.java, StreamThreadStateStoreProvider.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..state.stores import StoreIterator
from .errors import StoreMigratedError, StoreUnavailableError, WrongStoreKindError
from .execute import KEY_VALUE, SESSION, VERSIONED, WINDOW, plain
from .local_io import LocalStores, StoreInfo, check_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..records import VersionedRecord, Windowed
    from .gate_io import QueryGate


class ViewOptions(NamedTuple):
    """`partition` None: all partitions on this instance. `stale`: also read standbys and stores that are
    being restored. `isolation` None: that of the application. `values_only`: values without timestamps and
    headers."""

    partition: int | None = None
    stale: bool = False
    isolation: str | None = None
    values_only: bool = False


class _View:
    """Each call uses the tasks that are on this instance at that moment. Errors of all calls:
    StoreMigratedError without any task, StoreUnavailableError while one of them is being restored; both
    retriable."""

    def __init__(self, stores: LocalStores, info: StoreInfo, options: ViewOptions) -> None:
        self._stores = stores
        self._info = info
        self._options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._info.name!r})"

    def _readers(self) -> list[tuple[Any, QueryGate]]:
        info, options = self._info, self._options
        if info.sub_topology is None:
            return [self._stores.global_reader(info)]
        here = self._stores.here(info, stale=options.stale)
        if options.partition is not None:
            check_partition(options.partition, self._stores.partitions(info), info.name)
            here = {number: each for number, each in here.items() if number == options.partition}
        if not here:
            self._stores.plan()
            raise StoreMigratedError(f"no task of store {info.name!r} is on this instance (now)")
        if not options.stale:
            for holder in here.values():
                if not holder.is_running():
                    raise StoreUnavailableError(
                        f"store {info.name!r} of task {holder.id} is not complete yet: retry, or read with"
                        " stale=True"
                    )
        return [
            (self._stores.reader(info, each, options.isolation), each.gate)
            for _, each in sorted(here.items())
        ]

    def _value(self, found: Any) -> Any:
        return plain(self._info.kind, found) if self._options.values_only else found

    def _first(self, read: Callable[[Any], Any]) -> Any:
        for reader, gate in self._readers():
            with gate:
                found = read(reader)
            if found is not None:
                return self._value(found)
        return None

    def _rows(self, read: Callable[[Any], StoreIterator[Any]]) -> StoreIterator[Any]:
        """The rows of all tasks, task by task."""
        opened: list[StoreIterator[Any]] = []
        try:
            for reader, gate in self._readers():
                with gate:
                    opened.append(read(reader))
        except BaseException:
            _close(opened)
            raise
        return StoreIterator(self._typed(opened), lambda: _close(opened))

    def _typed(self, opened: list[StoreIterator[Any]]) -> Iterator[Any]:
        for rows in opened:
            for key, found in rows:
                yield key, self._value(found)


def _close(opened: list[StoreIterator[Any]]) -> None:
    for rows in opened:
        rows.close()


class ReadOnlyKeyValueStore(_View):
    """Values by key. Iterators go by task, and in each task by the bytes of the keys."""

    def get(self, key: Any) -> Any:
        """The value, None without one."""
        return self._first(lambda reader: reader.get(key))

    def range(self, from_key: Any, to_key: Any) -> StoreIterator[tuple[Any, Any]]:
        """Both bounds inclusive, None: no bound."""
        return self._rows(lambda reader: reader.range(from_key, to_key))

    def reverse_range(self, from_key: Any, to_key: Any) -> StoreIterator[tuple[Any, Any]]:
        """`range` from the last key on."""
        return self._rows(lambda reader: reader.reverse_range(from_key, to_key))

    def all(self) -> StoreIterator[tuple[Any, Any]]:
        """All entries."""
        return self._rows(lambda reader: reader.all())

    def reverse_all(self) -> StoreIterator[tuple[Any, Any]]:
        """`all` from the last key on."""
        return self._rows(lambda reader: reader.reverse_all())

    def prefix_scan(self, prefix: bytes) -> StoreIterator[tuple[Any, Any]]:
        """Entries whose serialized key starts with `prefix`."""
        return self._rows(lambda reader: reader.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        """The approximate number of entries."""
        total = 0
        for reader, gate in self._readers():
            with gate:
                total += reader.approximate_num_entries()
        return total


class ReadOnlyWindowStore(_View):
    """Values by key and window start; times in ms, inclusive."""

    def fetch(self, key: Any, time: int) -> Any:
        """The value of the window that starts at `time`, None without one."""
        return self._first(lambda reader: reader.fetch(key, time))

    def fetch_range(self, key: Any, from_time: int, to_time: int) -> StoreIterator[tuple[int, Any]]:
        """Window starts and values of one key."""
        return self._rows(lambda reader: reader.fetch_range(key, from_time, to_time))

    def backward_fetch_range(self, key: Any, from_time: int, to_time: int) -> StoreIterator[tuple[int, Any]]:
        """`fetch_range` from the latest window on."""
        return self._rows(lambda reader: reader.backward_fetch_range(key, from_time, to_time))

    def fetch_key_range(
        self, from_key: Any, to_key: Any, from_time: int, to_time: int
    ) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """Windows of several keys."""
        return self._rows(lambda reader: reader.fetch_key_range(from_key, to_key, from_time, to_time))

    def backward_fetch_key_range(
        self, from_key: Any, to_key: Any, from_time: int, to_time: int
    ) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`fetch_key_range` from the end."""
        return self._rows(
            lambda reader: reader.backward_fetch_key_range(from_key, to_key, from_time, to_time)
        )

    def fetch_all(self, from_time: int, to_time: int) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """Windows of all keys that start between the times."""
        return self._rows(lambda reader: reader.fetch_all(from_time, to_time))

    def backward_fetch_all(self, from_time: int, to_time: int) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`fetch_all` from the end."""
        return self._rows(lambda reader: reader.backward_fetch_all(from_time, to_time))

    def all(self) -> StoreIterator[tuple[Windowed[Any], Any]]:
        return self._rows(lambda reader: reader.all())

    def backward_all(self) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`all` from the end."""
        return self._rows(lambda reader: reader.backward_all())


class ReadOnlySessionStore(_View):
    """Aggregates by session; times in ms, inclusive."""

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The aggregate of exactly this session, None without one."""
        return self._first(lambda reader: reader.fetch_session(key, start, end))

    def fetch(self, key: Any) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """All sessions of a key."""
        return self._rows(lambda reader: reader.fetch(key))

    def backward_fetch(self, key: Any) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`fetch` from the end."""
        return self._rows(lambda reader: reader.backward_fetch(key))

    def fetch_key_range(self, from_key: Any, to_key: Any) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """All sessions of several keys."""
        return self._rows(lambda reader: reader.fetch_key_range(from_key, to_key))

    def backward_fetch_key_range(
        self, from_key: Any, to_key: Any
    ) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`fetch_key_range` from the end."""
        return self._rows(lambda reader: reader.backward_fetch_key_range(from_key, to_key))

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """Sessions of a key that overlap a span of time."""
        return self._rows(lambda reader: reader.find_sessions(key, earliest_end, latest_start))

    def backward_find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> StoreIterator[tuple[Windowed[Any], Any]]:
        """`find_sessions` from the end."""
        return self._rows(lambda reader: reader.backward_find_sessions(key, earliest_end, latest_start))


class ReadOnlyVersionedStore(_View):
    """Versions of values by timestamp; times in ms, inclusive."""

    def get(self, key: Any) -> VersionedRecord[Any] | None:
        """The latest version, None without one."""
        found: VersionedRecord[Any] | None = self._first(lambda reader: reader.get(key))
        return found

    def get_as_of(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        """The version that was valid at `timestamp`."""
        found: VersionedRecord[Any] | None = self._first(lambda reader: reader.get_as_of(key, timestamp))
        return found

    def get_versions(
        self, key: Any, from_time: int, to_time: int, ascending: bool = False
    ) -> StoreIterator[tuple[int, VersionedRecord[Any]]]:
        """Versions that were valid in a span of time, with their timestamps; the newest first by default."""
        return self._rows(lambda reader: reader.get_versions(key, from_time, to_time, ascending))


_VIEWS: tuple[tuple[frozenset[Any], type[_View], str], ...] = (
    (KEY_VALUE, ReadOnlyKeyValueStore, "key_value"),
    (WINDOW, ReadOnlyWindowStore, "window"),
    (SESSION, ReadOnlySessionStore, "session"),
    (VERSIONED, ReadOnlyVersionedStore, "versioned"),
)


def view_of(stores: LocalStores, name: str, kind: str | None, options: ViewOptions) -> Any:
    """Errors: UnknownStoreError; WrongStoreKindError if `kind` is given and the store has another kind."""
    info = stores.info(name)
    for kinds, view, title in _VIEWS:
        if info.kind in kinds:
            if kind is not None and kind != title:
                raise WrongStoreKindError(f"store {name!r} is a {info.kind.value} store, not {kind!r}")
            return view(stores, info, options)
    raise WrongStoreKindError(f"store {name!r} is a {info.kind.value} store, which answers no queries")
