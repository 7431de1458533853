"""Aggregates over sessions, which grow and merge as records arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..records import Change, Window, Windowed
from .aggregates import Aggregator, Initializer, StoredTableSupplier, bound_aggregator
from .closed_windows import NO_TIMESTAMP, ClosedWindows
from .late_records import on_late
from .table_store import SessionValueGetterSupplier, operator_store, session_forwarder

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Forward, ProcessorContext, SessionWindowDefinition, ValueGetterSupplier
    from .late_records import LateRecords

Merger = Callable[[Any, Any, Any], Any]
"""Key and the aggregates of two sessions."""


class KStreamSessionWindowAggregate(StoredTableSupplier):
    """Aggregates per session and key. Records with a null key, and late ones for a closed session, are
    dropped; `late` gets the latter.

    A record that merges sessions forwards the removal of each of them, then the merged one.
    """

    def __init__(
        self,
        windows: SessionWindowDefinition,
        store: Any,
        emit_on_close: bool,
        initializer: Initializer,
        aggregator: Aggregator,
        session_merger: Merger,
        late: LateRecords | None = None,
    ) -> None:
        super().__init__(store)
        self.late = late
        self.windows = windows
        self.emit_on_close = emit_on_close
        self.initializer = initializer
        self.aggregator = aggregator
        self.session_merger = session_merger

    def view(self) -> ValueGetterSupplier:
        return SessionValueGetterSupplier(self.store_name)

    def bind(self, context: ProcessorContext) -> Forward:
        store = operator_store(context, self.store_name)
        find, put, remove = store.find_sessions, store.put, store.remove
        initializer, merge = self.initializer, self.session_merger
        aggregator = bound_aggregator(self.aggregator, context)
        gap_ms, grace_ms = self.windows.inactivity_gap_ms, self.windows.grace_ms
        dropped = context.dropped
        emit = self._emitter(context, store) if self.emit_on_close else None
        forward = None if self.emit_on_close else session_forwarder(context, store, self.send_old_values)
        late = on_late(self.late, context)
        stream_time = NO_TIMESTAMP

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None:
                dropped("null key")
                return
            if timestamp > stream_time:
                stream_time = timestamp
            close_time = stream_time - grace_ms - gap_ms
            start = end = timestamp
            aggregate = initializer()
            with find(key, timestamp - gap_ms, timestamp + gap_ms) as sessions:
                merged = list(sessions)
            for session, found in merged:
                aggregate = merge(key, aggregate, found)
                start = min(start, session.window.start)
                end = max(end, session.window.end)
            if end < close_time:
                dropped("closed session")
                late(key, value, timestamp, headers, Window(start, end), stream_time)
            else:
                if start != end:
                    for session, found in merged:
                        remove(session)
                        if forward is not None:
                            forward(session, None, found, session.window.end, (), True)
                aggregate = aggregator(key, value, aggregate)
                session = Windowed(key, Window(start, end))
                put(session, aggregate)
                if forward is not None:
                    forward(session, aggregate, None, end, (), True)
            if emit is not None:
                emit(close_time, headers)

        return process

    def _emitter(self, context: ProcessorContext, store: Any) -> Callable[[int, Headers], None]:
        closed = ClosedWindows(context, self.store_name)
        forward = context.forward_changed

        def emit(close_time: int, headers: Headers) -> None:
            if not closed.is_due(close_time):
                return
            first, last = max(0, closed.emitted_to), close_time - 1
            if last < first:
                return
            with store.find_sessions_by_end(first, last) as sessions:
                for session, aggregate in sessions:
                    forward(session, Change(aggregate, None), session.window.end, headers)
            closed.emitted(close_time)

        return emit
