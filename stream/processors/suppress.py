"""Suppression of changes of a table: they wait in a buffer until their time has come, and newer ones replace
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import StreamsError
from ..records import ValueAndTimestamp
from .binding import BindingSupplier

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Processor, ProcessorContext, Table, ValueGetter, ValueGetterSupplier
    from ..state.stores import Eviction, TimeOrderedBuffer

UNBOUNDED = (1 << 63) - 1


class KTableSuppress(BindingSupplier):
    """Buffers changes in `store` and forwards each when stream time has passed its time by `wait_ms`.

    The time of a change is the end of its window if `by_window_end`, else its timestamp. A buffer above
    `max_records` or `max_bytes` forwards its oldest changes if `emit_when_full`; else the task fails.
    """

    keeps_records_back = True  # for its metrics

    def __init__(
        self,
        parent: Table,
        store: Any,
        wait_ms: int,
        *,
        by_window_end: bool = False,
        drop_tombstones: bool = False,
        max_records: int = UNBOUNDED,
        max_bytes: int = UNBOUNDED,
        emit_when_full: bool = False,
    ) -> None:
        parent.enable_sending_old_values(True)
        self.parent = parent
        self.store = store
        self.wait_ms = wait_ms
        self.by_window_end = by_window_end
        self.drop_tombstones = drop_tombstones
        self.max_records = max_records
        self.max_bytes = max_bytes
        self.emit_when_full = emit_when_full

    def stores(self) -> tuple[Any, ...]:
        return (self.store,)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        return self.parent.enable_sending_old_values(force_materialization)

    def view(self) -> ValueGetterSupplier:
        return SuppressedValueGetterSupplier(self.parent.value_getter_supplier(), self.store.name)

    def create(self) -> Processor:
        return SuppressProcessor(self)


class SuppressProcessor:
    """The buffer of one task, and what leaves it."""

    def __init__(self, supplier: KTableSuppress) -> None:
        self._supplier = supplier
        self._stream_time = -1

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._forward = context.forward
        self._buffer: TimeOrderedBuffer = context.state_store(self._supplier.store.name)

    def close(self) -> None:
        pass

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        supplier, buffer = self._supplier, self._buffer
        self._stream_time = max(self._stream_time, timestamp)
        context = self._context.record_context
        assert context is not None
        buffer.put(key.window.end if supplier.by_window_end else timestamp, key, value, context)
        expired = self._stream_time - supplier.wait_ms
        if buffer.min_timestamp <= expired:
            buffer.evict_while(lambda: buffer.min_timestamp <= expired, self._emit)
        if not self._is_full():
            return
        if not supplier.emit_when_full:
            raise StreamsError(
                f"suppress buffer {supplier.store.name} is full: {buffer.num_records} of"
                f" {supplier.max_records} records, {buffer.buffer_size} of {supplier.max_bytes} bytes"
            )
        buffer.evict_while(self._is_full, self._emit)

    def _is_full(self) -> bool:
        supplier, buffer = self._supplier, self._buffer
        return buffer.num_records > supplier.max_records or buffer.buffer_size > supplier.max_bytes

    def _emit(self, record: Eviction) -> None:
        if record.value.new is None and self._supplier.drop_tombstones:
            return
        before = self._context.record_context
        self._context.record_context = context = record.context
        try:
            self._forward(record.key, record.value, context.timestamp, context.headers)
        finally:
            self._context.record_context = before


class SuppressedValueGetterSupplier:
    """Getters of a suppressed table: a key that is buffered has the value from before."""

    def __init__(self, parent: ValueGetterSupplier, store_name: str) -> None:
        self.parent = parent
        self.store_name = store_name

    def create(self) -> ValueGetter:
        return SuppressedValueGetter(self.parent.create(), self.store_name)

    def store_names(self) -> tuple[str, ...]:
        return (self.store_name, *self.parent.store_names())


class SuppressedValueGetter:
    """Reads a suppressed table. The timestamp of a buffered value is not known: -1."""

    is_versioned = False

    def __init__(self, parent: ValueGetter, store_name: str) -> None:
        self._parent = parent
        self._store_name = store_name

    def init(self, context: ProcessorContext) -> None:
        self._parent.init(context)
        self._buffer: TimeOrderedBuffer = context.state_store(self._store_name)

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        is_buffered, prior = self._buffer.prior_value_for_buffered(key)
        if not is_buffered:
            return self._parent.get(key)
        return None if prior is None else ValueAndTimestamp(prior, -1)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError("a suppressed table is not versioned: it has no value as of a timestamp")

    def close(self) -> None:
        self._parent.close()
