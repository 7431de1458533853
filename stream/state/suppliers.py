"""The bases of stores of your own: maps of bytes, below serdes, cache and changelog.

`Store(supplier=f)` and `App(store_supplier=f)` take a function that makes the store of one task: it gets the
StoreSpec, and returns a store of the kind, or None for one that is built in. The task opens the store,
restores it from its changelog, commits and closes it, all in one thread. Timestamps are in ms; None as a
bound of keys: no bound. The store may be written while rows are read: an entry that is deleted then is left
out, or has its old value.

Source: Kafka KeyValueBytesStoreSupplier, WindowBytesStoreSupplier, SessionBytesStoreSupplier,
VersionedBytesStoreSupplier, DslStoreSuppliers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .store_spec import StoreSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .stores import StoreContext


class BytesStore:
    """What stores of all kinds have in common. The defaults are those of a store in memory."""

    persistent = False
    """Whether committed writes are there when the store is opened again. A store that is not is restored from
    the start of its changelog."""
    thread_safe = False
    """Whether other threads may read while the task's thread writes. Only then, and only a key-value store,
    answers queries."""

    def open(self, context: StoreContext, name: str) -> None:
        """Open the store of task `context.task_id`. Files belong into `context.store_folder(name)`, which is
        deleted when the store has to be restored from the start. Errors: StateStoreError."""

    def commit(self, changelog_offset: int | None) -> None:
        """The writes so far are committed. A persistent store makes them durable, together with the offset
        (None: unchanged), all or nothing. Errors: StateStoreError; the commit can be repeated."""

    def committed_offset(self) -> int | None:
        """The offset of the last commit, from which the store is restored; None: from the start."""
        return None

    def close(self) -> None:
        """A persistent store drops writes since the last commit: their records are processed again."""


class KeyValueBytesStore(BytesStore):
    """Values by key. Also that of tables, and of the list of values by key of an outer join."""

    def get(self, key: bytes) -> bytes | None:
        """The value, None without one."""
        raise NotImplementedError

    def put(self, key: bytes, value: bytes | None) -> None:
        """None deletes."""
        raise NotImplementedError

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with `from_key` <= key < `to_key`, in the order of the bytes of their keys."""
        raise NotImplementedError

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        raise NotImplementedError

    def restore(self, key: bytes, value: bytes | None) -> None:
        """`put` of a record of the changelog."""
        self.put(key, value)


class WindowBytesStore(BytesStore):
    """Values by key, start of the window, and number. The number is 0, but in stores that retain duplicates,
    where it tells apart the values of one key and start."""

    def get(self, key: bytes, start: int, number: int) -> bytes | None:
        """The value, None without one."""
        raise NotImplementedError

    def put(self, key: bytes, start: int, number: int, value: bytes | None) -> None:
        """None deletes."""
        raise NotImplementedError

    def rows(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int, forward: bool
    ) -> Iterator[tuple[bytes, int, int, bytes]]:
        """(key, start, number, value) with `from_key` <= key <= `to_key` and `from_time` <= start <=
        `to_time`, in the order of start, key, number; all reversed if not `forward`."""
        raise NotImplementedError

    def expire(self, before: int) -> None:
        """Delete what has a start below `before`: the retention has passed."""
        raise NotImplementedError


class SessionBytesStore(BytesStore):
    """Aggregates by key, start and end of the session."""

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate, None without one."""
        raise NotImplementedError

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """None deletes."""
        raise NotImplementedError

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end: int,
        latest_start: int,
        forward: bool,
    ) -> Iterator[tuple[bytes, int, int, bytes]]:
        """(key, start, end, aggregate) with `from_key` <= key <= `to_key`, end >= `earliest_end` and start <=
        `latest_start`, in the order of end, key, descending start; all reversed if not `forward`."""
        raise NotImplementedError

    def expire(self, before: int) -> None:
        """Delete what has an end below `before`: the retention has passed."""
        raise NotImplementedError


class VersionedBytesStore(BytesStore):
    """Versions by key and the timestamp from which they are valid, up to the next version of the key. None is
    stored, too: from then on the key has no value."""

    def put(self, key: bytes, timestamp: int, value: bytes | None) -> None:
        """Store a version, in place of one with the same timestamp."""
        raise NotImplementedError

    def remove(self, key: bytes, timestamp: int) -> None:
        """Delete a version: the history retention has passed since its end."""
        raise NotImplementedError

    def rows(
        self, key: bytes, from_time: int, to_time: int, forward: bool
    ) -> Iterator[tuple[int, bytes | None]]:
        """(timestamp, value) of the versions of a key with `from_time` <= timestamp <= `to_time`, by
        timestamp; reversed if not `forward`."""
        raise NotImplementedError


Supplier = Callable[[StoreSpec], BytesStore | None]
"""Makes the store of one task; None for one that is built in."""
S = TypeVar("S", bound=BytesStore)


def supplied(spec: StoreSpec, kind: type[S]) -> S | None:
    """The store that the supplier of `spec` makes; None for one that is built in. Errors: TypeError for a
    store of another kind."""
    if spec.supplier is None:
        return None
    store = spec.supplier(spec)
    if store is None or isinstance(store, kind):
        return store
    raise TypeError(
        f"the supplier of store {spec.name}, whose kind is {spec.kind.value}, must return a"
        f" {kind.__name__} or None, not {store!r}"
    )
