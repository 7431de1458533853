"""Joins of a stream with a table or a global table: each record of the stream looks its row up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .binding import BindingSupplier

if TYPE_CHECKING:
    from ..processing import ValueGetterSupplier

Joiner = Callable[[Any, Any, Any], Any]
"""Key and value of the record, value of the row."""


class KStreamKTableJoin(BindingSupplier):
    """Joins with a table by the key of the record.

    With `grace_ms` the records wait in `buffer_store` (time-ordered) until stream time has passed them by
    that much, and see the version of the row at their own time: the table must be versioned.
    """

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        joiner: Joiner,
        left_join: bool,
        grace_ms: int | None = None,
        buffer_store: Any = None,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.left_join = left_join
        self.grace_ms = grace_ms
        self.buffer_store = buffer_store

    def stores(self) -> tuple[Any, ...]:
        return () if self.buffer_store is None else (self.buffer_store,)


class KStreamGlobalKTableJoin(BindingSupplier):
    """Joins with a global table by the key that `mapper(key, value)` returns."""

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        joiner: Joiner,
        mapper: Callable[[Any, Any], Any],
        left_join: bool,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.mapper = mapper
        self.left_join = left_join
