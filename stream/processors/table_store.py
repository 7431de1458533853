"""The stores behind tables: one face for timestamped and versioned stores, value getters, and how changes are
forwarded.

A change is forwarded at once where the store has no cache; else the cache forwards it when the entry is
flushed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..records import Change, ValueAndTimestamp, Windowed
from ..state.stores import NOT_PUT

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import ProcessorContext, ValueGetter


ForwardChange = Callable[[Any, Any, Any, int, "Headers", bool], None]
"""Key, new value, old value, timestamp, headers, is_latest."""


def operator_store(context: ProcessorContext, name: str) -> Any:
    """A store as operators use it: one with headers is read without them, and written with none."""
    store = context.state_store(name)
    return store.for_operators() if getattr(store, "has_headers", False) else store


class TableStore:
    """A timestamped or versioned key-value store of a table."""

    __slots__ = ("get", "is_versioned", "name", "put", "store")

    get: Callable[[Any], ValueAndTimestamp[Any] | None]
    put: Callable[[Any, Any, int], bool | None]
    """True: the value is now the latest. False: a newer version exists. None: too old, nothing was
    written."""

    def __init__(self, context: ProcessorContext, name: str, own: Any = None) -> None:
        """`own`: the store as the operator reads and writes it, if that is not as all operators do."""
        self.name = name
        self.store = operator_store(context, name) if own is None else own
        self.is_versioned = hasattr(self.store, "get_as_of")
        self.get = self._get_version if self.is_versioned else self.store.get
        self.put = self._put_version if self.is_versioned else _latest_put(self.store.put)

    def _get_version(self, key: Any) -> ValueAndTimestamp[Any] | None:
        found = self.store.get(key)
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        if not self.is_versioned:
            raise TypeError(f"store {self.name!r} is not versioned: it has no value as of a timestamp")
        found = self.store.get_as_of(key, timestamp)
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp)

    def _put_version(self, key: Any, value: Any, timestamp: int) -> bool | None:
        valid_to = self.store.put(key, value, timestamp)
        return None if valid_to == NOT_PUT else valid_to is None


def _latest_put(put: Callable[[Any, Any], None]) -> Callable[[Any, Any, int], bool | None]:
    new = tuple.__new__  # in a third of the time of ValueAndTimestamp(...)

    def put_latest(key: Any, value: Any, timestamp: int) -> bool:
        put(key, None if value is None else new(ValueAndTimestamp, (value, timestamp)))
        return True

    return put_latest


def change_forwarder(
    context: ProcessorContext, store: Any, send_old_values: bool, caches: bool = True
) -> ForwardChange:
    """Forwards changes of `store`, once: at once, or by its cache. `caches` False ignores the cache."""
    forward = context.forward_changed

    def on_flush(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        if new is not None:
            new, timestamp = new
        forward(key, Change(new, None if old is None else old[0]), timestamp, headers)

    if caches and store.set_flush_listener(on_flush, send_old_values, context.forward_rows):
        return nothing
    return _change_forward(forward, send_old_values)


def session_forwarder(context: ProcessorContext, store: Any, send_old_values: bool) -> ForwardChange:
    """As `change_forwarder`, for a session store: the timestamp of a change is the end of its session."""
    forward, has_headers = context.forward_changed, store.has_headers

    def on_flush(key: Windowed[Any], new: Any, old: Any, _timestamp: int, headers: Headers) -> None:
        # As in Java, a cached session with headers is forwarded with the stored ones: operators store none.
        forward(key, Change(new, old), key.window.end, () if has_headers else headers)

    if store.set_flush_listener(on_flush, send_old_values, context.forward_rows):
        return nothing
    return _change_forward(forward, send_old_values)


def _change_forward(forward: Callable[..., None], send_old_values: bool) -> ForwardChange:
    def with_old(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool) -> None:
        forward(key, Change(new, old, is_latest), timestamp, headers)

    def without_old(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, is_latest: bool) -> None:
        forward(key, Change(new, None, is_latest), timestamp, headers)

    return with_old if send_old_values else without_old


def nothing(_key: Any, _new: Any, _old: Any, _timestamp: int, _headers: Headers, _is_latest: bool) -> None:
    """Forwards nothing: the cache does when it flushes the entry, or the window has not closed."""


def is_silent(forward: ForwardChange) -> bool:
    """Whether it forwards nothing, so that its arguments need not be made."""
    return forward is nothing


class StoreValueGetter:
    """Reads a table from its own key-value store."""

    __slots__ = ("_name", "_store", "get", "is_versioned")

    def __init__(self, store_name: str) -> None:
        self._name = store_name

    def init(self, context: ProcessorContext) -> None:
        self._store = TableStore(context, self._name)
        self.get = self._store.get
        self.is_versioned = self._store.is_versioned

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        return self._store.get_as_of(key, timestamp)

    def close(self) -> None:
        pass


class KTableMaterializedValueGetterSupplier:
    """Getters of a table that has a key-value store of its own."""

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name

    def create(self) -> ValueGetter:
        return StoreValueGetter(self.store_name)

    def store_names(self) -> tuple[str, ...]:
        return (self.store_name,)


class WindowValueGetter:
    """Reads a windowed table by Windowed keys, from a timestamped window store."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._name = store_name

    def init(self, context: ProcessorContext) -> None:
        self._store = operator_store(context, self._name)

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        found: ValueAndTimestamp[Any] | None = self._store.fetch(key.key, key.window.start)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError(f"store {self._name!r} is not versioned: it has no value as of a timestamp")

    def close(self) -> None:
        pass


class SessionValueGetter(WindowValueGetter):
    """Reads a table of sessions; the timestamp of a value is the end of its session."""

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        window = key.window
        found = self._store.fetch_session(key.key, window.start, window.end)
        return None if found is None else ValueAndTimestamp(found, window.end)


class WindowValueGetterSupplier(KTableMaterializedValueGetterSupplier):
    """Getters of a windowed table."""

    def create(self) -> ValueGetter:
        return WindowValueGetter(self.store_name)


class SessionValueGetterSupplier(KTableMaterializedValueGetterSupplier):
    """Getters of a table of sessions."""

    def create(self) -> ValueGetter:
        return SessionValueGetter(self.store_name)
