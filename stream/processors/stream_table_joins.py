"""Joins of a stream with a table or a global table: each record of the stream looks its row up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .binding import BindingSupplier
from .table_lookups import TableLookups

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..column_rows import ProcessRows, Rows
    from ..processing import Processor, ProcessorContext, ValueGetter, ValueGetterSupplier
    from ..state.stores import Eviction, TimeOrderedBuffer

Joiner = Callable[[Any, Any, Any], Any]
"""Key and value of the record, value of the row."""


class KStreamKTableJoin(BindingSupplier):
    """Joins with a table by the key of the record.

    With `grace_ms` the records wait in `buffer_store` (time-ordered) until stream time has passed them by
    that much, and see the version of the row at their own time: the table must be versioned. A row that is
    older than the record by more than `tolerance_ms` is not joined.
    """

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        joiner: Joiner,
        left_join: bool,
        grace_ms: int | None = None,
        buffer_store: Any = None,
        tolerance_ms: int | None = None,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.left_join = left_join
        self.grace_ms = grace_ms
        self.buffer_store = buffer_store
        self.tolerance_ms = tolerance_ms

    def stores(self) -> tuple[Any, ...]:
        return () if self.buffer_store is None else (self.buffer_store,)

    def create(self) -> Processor:
        getter = self.value_getter_supplier.create()
        store_name = None if self.buffer_store is None else self.buffer_store.name
        return KStreamKTableJoinProcessor(
            getter, None, self.joiner, self.left_join, store_name, self.tolerance_ms
        )


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

    def create(self) -> Processor:
        getter = self.value_getter_supplier.create()
        return KStreamKTableJoinProcessor(getter, self.mapper, self.joiner, self.left_join, None)


class KStreamKTableJoinProcessor:
    """Looks up the row of each record. `mapper` None: by the key of the record."""

    def __init__(
        self,
        getter: ValueGetter,
        mapper: Callable[[Any, Any], Any] | None,
        joiner: Joiner,
        left_join: bool,
        buffer_name: str | None,
        tolerance_ms: int | None = None,
    ) -> None:
        self._getter = getter
        self._mapper = mapper
        self._joiner = joiner
        self._left_join = left_join
        self._buffer_name = buffer_name
        self._tolerance_ms = tolerance_ms

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._dropped = context.dropped
        self._forward = context.forward_changed
        self._getter.init(context)
        self._is_versioned = self._getter.is_versioned
        self._buffer: TimeOrderedBuffer | None = None
        if self._buffer_name is not None:
            if not self._is_versioned:
                raise ValueError("a stream-table join with grace needs a versioned table")
            self._buffer = context.state_store(self._buffer_name)
        self._lookups = TableLookups(
            self._row_of, self._mapper, self._joiner, self._dropped, is_left=self._left_join
        )
        takes_rows = self._buffer is None and context.forward_rows is not None
        self.process_rows: ProcessRows | None = self._process_rows if takes_rows else None

    def close(self) -> None:
        self._getter.close()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        table_key = key if self._mapper is None else self._mapper(key, value)
        if value is None or (table_key is None and not self._left_join):
            self._dropped("null join key or value")
            return
        buffer = self._buffer
        if buffer is None:
            self._join(key, value, timestamp, headers, table_key)
            return
        context = self._context.record_context
        assert context is not None
        if buffer.put(timestamp, key, value, context):
            buffer.evict_while(lambda: True, self._emit)
        else:
            self._join(key, value, timestamp, headers, table_key)

    def _process_rows(self, rows: Rows) -> None:
        found, place, error = self._lookups.joined(rows)
        assert self._context.forward_rows is not None
        if found.timestamps:
            self._context.forward_rows(found)
        if error is not None:
            self._context.record_context = rows.contexts.items[place]
            raise error

    def _emit(self, record: Eviction) -> None:
        before = self._context.record_context
        self._context.record_context = context = record.context
        try:
            key, value = record.key, record.value
            table_key = key if self._mapper is None else self._mapper(key, value)
            self._join(key, value, context.timestamp, context.headers, table_key)
        finally:
            self._context.record_context = before

    def _join(self, key: Any, value: Any, timestamp: int, headers: Headers, table_key: Any) -> None:
        row = None if table_key is None else self._row_of(table_key, timestamp)
        if row is not None:
            self._forward(key, self._joiner(key, value, row[0]), timestamp, headers)
        elif self._left_join:
            self._forward(key, self._joiner(key, value, None), timestamp, headers)

    def _row_of(self, table_key: Any, timestamp: int) -> Any:
        """The row that a record of this time is joined with."""
        getter = self._getter
        row = getter.get_as_of(table_key, timestamp) if self._is_versioned else getter.get(table_key)
        if row is not None and self._tolerance_ms is not None and timestamp - row[1] > self._tolerance_ms:
            return None
        return row
