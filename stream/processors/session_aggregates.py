"""Aggregates over sessions, which grow and merge as records arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .aggregates import Aggregator, Initializer, StoredTableSupplier
from .table_store import SessionValueGetterSupplier

if TYPE_CHECKING:
    from ..processing import SessionWindowDefinition, ValueGetterSupplier

Merger = Callable[[Any, Any, Any], Any]
"""Key and the aggregates of two sessions."""


class KStreamSessionWindowAggregate(StoredTableSupplier):
    """Aggregates per session and key. Records with a null key, and late ones for a closed session, are
    dropped."""

    def __init__(
        self,
        windows: SessionWindowDefinition,
        store: Any,
        emit_on_close: bool,
        initializer: Initializer,
        aggregator: Aggregator,
        session_merger: Merger,
    ) -> None:
        super().__init__(store)
        self.windows = windows
        self.emit_on_close = emit_on_close
        self.initializer = initializer
        self.aggregator = aggregator
        self.session_merger = session_merger

    def view(self) -> ValueGetterSupplier:
        return SessionValueGetterSupplier(self.store_name)
