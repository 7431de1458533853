"""Aggregates over time windows and sliding windows, emitted on every update or once, when the window has
closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .aggregates import Aggregator, Initializer, StoredTableSupplier
from .table_store import WindowValueGetterSupplier

if TYPE_CHECKING:
    from ..processing import SlidingWindowDefinition, TimeWindowDefinition, ValueGetterSupplier


class WindowedTableSupplier(StoredTableSupplier):
    """A supplier of a windowed table."""

    def view(self) -> ValueGetterSupplier:
        return WindowValueGetterSupplier(self.store_name)


class KStreamWindowAggregate(WindowedTableSupplier):
    """Aggregates per time window and key. Records with a null key, and late ones for a closed window, are
    dropped."""

    def __init__(
        self,
        windows: TimeWindowDefinition,
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


class KStreamSlidingWindowAggregate(WindowedTableSupplier):
    """Aggregates per sliding window and key. Null keys and values, and late records, are dropped."""

    def __init__(
        self,
        windows: SlidingWindowDefinition,
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
