"""Aggregates over windows of a number of records of a key, in the order in which they are processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import Change, ValueAndTimestamp, Window, Windowed
from ..state.formats.count_windows import OpenWindows
from .aggregates import StoredTableSupplier, bound_aggregator

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import (
        CountWindowDefinition,
        Forward,
        ProcessorContext,
        ValueGetter,
        ValueGetterSupplier,
    )
    from .aggregates import Aggregator, Initializer

_NEW = OpenWindows(0, ())


class KStreamCountWindowAggregate(StoredTableSupplier):
    """Aggregates per count window and key. Null keys and values are dropped.

    The store has the windows that are not full; a full one is forwarded and forgotten. Each result is
    forwarded at once, also where the store has a cache: a cache has one entry per key, not per window.
    """

    def __init__(
        self,
        windows: CountWindowDefinition,
        store: Any,
        emit_on_close: bool,
        initializer: Initializer,
        aggregator: Aggregator,
    ) -> None:
        super().__init__(store)
        self.windows = windows
        self.emit_on_close = emit_on_close
        self.initializer = initializer
        self.aggregator = aggregator

    def view(self) -> ValueGetterSupplier:
        return CountWindowGetterSupplier(self.windows, self.store_name)

    def bind(self, context: ProcessorContext) -> Forward:
        store = context.state_store(self.store_name)
        get, put = store.get, store.put
        forward, dropped = context.forward_changed, context.dropped
        initializer, aggregator = self.initializer, bound_aggregator(self.aggregator, context)
        size, advance, first_open = self.windows.size, self.windows.advance, self.windows.first_open
        only_full, send_old_values = self.emit_on_close, self.send_old_values

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                dropped("null key or value")
                return
            number, before = get(key) or _NEW
            start = first_open(number)
            windows = list(before)
            if number % advance == 0:
                windows.append((initializer(), timestamp))
            after = [
                (aggregator(key, value, old), max(timestamp, old_timestamp)) for old, old_timestamp in windows
            ]
            is_full = start + size == number + 1  # the oldest; the others have fewer records
            put(key, OpenWindows(number + 1, after[1:] if is_full else after))
            for (old, _), (new, latest) in zip(windows, after, strict=True):
                if is_full or not only_full:
                    change = Change(new, old if send_old_values else None)
                    forward(Windowed(key, Window(start, start + size)), change, latest, headers)
                if only_full:
                    return
                start += advance

        return process


class CountWindowGetter:
    """Reads the windows that are not full, by Windowed keys."""

    is_versioned = False

    def __init__(self, windows: CountWindowDefinition, store_name: str) -> None:
        self._windows = windows
        self._name = store_name

    def init(self, context: ProcessorContext) -> None:
        self._store = context.state_store(self._name)

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        number, windows = self._store.get(key.key) or _NEW
        index, rest = divmod(key.window.start - self._windows.first_open(number), self._windows.advance)
        if rest or not 0 <= index < len(windows):
            return None
        value, timestamp = windows[index]
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError(f"store {self._name!r} is not versioned: it has no value as of a timestamp")

    def close(self) -> None:
        pass


class CountWindowGetterSupplier:
    """Getters of a table of count windows."""

    def __init__(self, windows: CountWindowDefinition, store_name: str) -> None:
        self._windows = windows
        self._name = store_name

    def create(self) -> ValueGetter:
        return CountWindowGetter(self._windows, self._name)

    def store_names(self) -> tuple[str, ...]:
        return (self._name,)
