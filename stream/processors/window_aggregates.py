"""Aggregates over time windows and sliding windows, emitted on every update or once, when the window has
closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import Change, ValueAndTimestamp, Windowed
from ..state.formats.windows import window_of
from .aggregate_runs import RunAggregation
from .aggregates import Aggregator, Initializer, StoredTableSupplier, StoreFunctions, bound_aggregator
from .closed_windows import NO_TIMESTAMP, ClosedWindows
from .late_records import on_late
from .table_store import WindowValueGetterSupplier, change_forwarder, is_silent, nothing, operator_store

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import InputRun, ProcessorContext, TimeWindowDefinition, ValueGetterSupplier
    from .binding import Bound
    from .late_records import LateRecords
    from .table_store import ForwardChange

MAX_TIME = 2**63 - 1


def is_tumbling(windows: TimeWindowDefinition) -> bool:
    """Whether each timestamp is in one window of a fixed size."""
    return getattr(windows, "advance_ms", None) == windows.size_ms


class WindowedTableSupplier(StoredTableSupplier):
    """A supplier of a windowed table."""

    emit_on_close: bool

    def view(self) -> ValueGetterSupplier:
        return WindowValueGetterSupplier(self.store_name)

    def update_forwarder(self, context: ProcessorContext, store: Any) -> ForwardChange:
        """Forwards updates, or with `emit_on_close` nothing."""
        return nothing if self.emit_on_close else change_forwarder(context, store, self.send_old_values)


def emit_windows(
    context: ProcessorContext, store: Any, from_start: int, to_start: int, headers: Headers
) -> None:
    """Forward the windows of a timestamped store that start in a span of time, both ends included."""
    forward = context.forward_changed
    with store.fetch_all(from_start, to_start) as windows:
        for key, (value, timestamp) in windows:
            forward(key, Change(value, None), timestamp, headers)


class KStreamWindowAggregate(WindowedTableSupplier):
    """Aggregates per time window and key. Records with a null key, and late ones for a closed window, are
    dropped; `late` gets the latter, once per window.

    Errors: ValueError for `emit_on_close` and windows that do not end.
    """

    def __init__(
        self,
        windows: TimeWindowDefinition,
        store: Any,
        emit_on_close: bool,
        initializer: Initializer,
        aggregator: Aggregator,
        late: LateRecords | None = None,
    ) -> None:
        super().__init__(store)
        self.late = late
        if emit_on_close and windows.size_ms == MAX_TIME:
            raise ValueError("windows without end never close: emit them on update")
        self.windows = windows
        self.emit_on_close = emit_on_close
        self.initializer = initializer
        self.aggregator = aggregator

    def functions(self, context: ProcessorContext, store: Any) -> StoreFunctions:
        """Of one task."""
        return StoreFunctions(store, self.initializer, bound_aggregator(self.aggregator, context))

    def bind(self, context: ProcessorContext) -> Bound:
        stored = operator_store(context, self.store_name)
        store, initializer, aggregator = self.functions(context, stored)
        fetch, put = store.fetch, store.put
        forward = self.update_forwarder(context, stored)
        dropped = context.dropped
        forwards = not is_silent(forward)
        starts_for = self.windows.starts_for
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        emit = self._emitter(context, stored) if self.emit_on_close else None
        late = on_late(self.late, context)
        observed = [NO_TIMESTAMP]  # stream time
        make = tuple.__new__  # in a third of the time of ValueAndTimestamp(...)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                dropped("null key")
                return
            if timestamp > observed[0]:
                observed[0] = timestamp
            close_time = observed[0] - grace_ms
            for start in starts_for(timestamp):
                if start + size_ms <= close_time:
                    dropped("closed window")
                    late(key, value, timestamp, headers, window_of(start, size_ms), observed[0])
                    continue
                found = fetch(key, start)
                new_timestamp = timestamp
                if found is None:
                    old = initializer()
                else:
                    old, found_timestamp = found
                    if found_timestamp > timestamp:
                        new_timestamp = found_timestamp
                new = aggregator(key, value, old)
                put(key, None if new is None else make(ValueAndTimestamp, (new, new_timestamp)), start)
                if forwards:
                    window = window_of(start, size_ms)
                    forward(Windowed(key, window), new, old, new_timestamp, headers, True)
            if emit is not None:
                emit(close_time, headers)

        if forwards or emit is not None or not is_tumbling(self.windows) or not hasattr(store, "deferred"):
            return process

        is_bound = aggregator is not self.aggregator
        aggregation = RunAggregation(process, store, initializer, aggregator, is_bound=is_bound)

        def process_run(run: InputRun) -> None:
            aggregation.by_tumbling_window(run, size_ms, grace_ms, observed)

        return process, process_run

    def _emitter(self, context: ProcessorContext, store: Any) -> Any:
        closed = ClosedWindows(context, self.store_name)
        windows_for, size_ms = self.windows.windows_for, self.windows.size_ms

        def emit(close_time: int, headers: Headers) -> None:
            if not closed.is_due(close_time):
                return
            last = close_time - size_ms
            if last < 0:
                return
            first = 0
            if closed.emitted_to != NO_TIMESTAMP:
                first = max(0, closed.emitted_to - size_ms) + 1
                if list(windows_for(last)) == list(windows_for(first - 1)):
                    return  # no window has closed since
            emit_windows(context, store, first, last, headers)
            closed.emitted(close_time)

        return emit
