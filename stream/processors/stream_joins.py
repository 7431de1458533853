"""Joins of two streams within a window of time.

Each side writes its records into a window store (`KStreamJoinWindow`) and looks up those of the other side.
The records without a partner wait in a store that both sides share, until their window has closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..records import ValueTimestampHeaders, Window
from ..state.formats.joins import LeftOrRightValue, TimestampedKeyAndJoinSide
from ..state.stores import StoreIterator
from .binding import BindingSupplier
from .late_records import on_late
from .table_store import operator_store

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Forward, JoinWindowDefinition, Processor, ProcessorContext
    from ..records import TaskId
    from .late_records import LateRecords

Joiner = Callable[[Any, Any, Any], Any]
"""Key, value of this side, value of the other side."""

NO_TIMESTAMP = -1
MAX_TIMESTAMP = (1 << 63) - 1


class TimeTracker:
    """The stream time that both sides of a join share in a task, and the time of the oldest record that waits
    without a partner: MAX_TIMESTAMP if none is known, as after a restart; then the store is read."""

    __slots__ = ("emit_interval_ms", "min_time", "next_time_to_emit_ms", "stream_time")

    def __init__(self) -> None:
        self.emit_interval_ms = 1000
        self.stream_time = NO_TIMESTAMP
        self.min_time = MAX_TIMESTAMP
        self.next_time_to_emit_ms = 0


class TimeTrackers:
    """The time trackers of a join, by task (Java: TimeTrackerSupplier). Both sides get the same object."""

    def __init__(self) -> None:
        self._trackers: dict[TaskId, TimeTracker] = {}

    def get(self, task_id: TaskId) -> TimeTracker:
        return self._trackers.setdefault(task_id, TimeTracker())

    def remove(self, task_id: TaskId) -> None:
        self._trackers.pop(task_id, None)


class KStreamJoinWindow(BindingSupplier):
    """Forwards a record to the join, then writes it into the window store of its side.

    A record that is older than the retention of the store is late: `late` gets it. It was joined with the
    records that are there, but no later record will find it.
    """

    def __init__(
        self, window_store: Any, late: LateRecords | None = None, bounds_ms: tuple[int, int] = (0, 0)
    ) -> None:
        """`bounds_ms`: how much older and newer records of the other side may be."""
        self.window_store = window_store
        self.late = late
        self.bounds_ms = bounds_ms

    def stores(self) -> tuple[Any, ...]:
        return (self.window_store,)

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        store = context.state_store(self.window_store.name)
        put = store.put

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                put(key, value, timestamp)

        def process_with_headers(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                stored = None if value is None else ValueTimestampHeaders(value, timestamp, headers)
                put(key, stored, timestamp)

        stores: Forward = process_with_headers if store.has_headers else process
        return stores if self.late is None else self._with_late(stores, self.late, context)

    def _with_late(self, process: Forward, late: LateRecords, context: ProcessorContext) -> Forward:
        send, retention_ms = on_late(late, context), self.window_store.retention_ms
        before_ms, after_ms = self.bounds_ms
        stream_time = NO_TIMESTAMP

        def process_with_late(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            process(key, value, timestamp, headers)
            if key is None or value is None:
                return
            stream_time = max(stream_time, timestamp)
            if timestamp <= stream_time - retention_ms:
                window = Window(max(0, timestamp - before_ms), timestamp + after_ms)
                send(key, value, timestamp, headers, window, stream_time)

        return process_with_late


def _fetcher(context: ProcessorContext, store_name: str) -> Callable[[Any, int, int], StoreIterator[Any]]:
    """Reads the times and values of a key between two times, both included."""
    store = operator_store(context, store_name)
    fetch: Callable[[Any, int, int], StoreIterator[Any]] = store.fetch_range
    if not store.has_headers:
        return fetch

    def fetch_values(key: Any, from_time: int, to_time: int) -> StoreIterator[Any]:
        found = fetch(key, from_time, to_time)
        return StoreIterator(((time, value[0]) for time, value in found), found.close)

    return fetch_values


class KStreamKStreamJoin(BindingSupplier):
    """One side of a join. `joiner` takes (key, value of this side, value of the other side).

    `outer`: a record of this side without a partner is joined with None once its window has closed.
    """

    is_left: bool

    def __init__(
        self,
        windows: JoinWindowDefinition,
        joiner: Joiner,
        outer: bool,
        time_trackers: TimeTrackers,
        other_window_store: Any,
        outer_join_store: Any = None,
    ) -> None:
        self.windows = windows
        self.joiner = joiner
        self.outer = outer
        self.time_trackers = time_trackers
        self.other_window_store = other_window_store
        self.outer_join_store = outer_join_store

    def stores(self) -> tuple[Any, ...]:
        if self.outer_join_store is None:
            return (self.other_window_store,)
        return (self.other_window_store, self.outer_join_store)

    def create(self) -> Processor:
        return StreamStreamJoinProcessor(self)


class KStreamKStreamJoinLeftSide(KStreamKStreamJoin):
    """The left side of a join."""

    is_left = True


class KStreamKStreamJoinRightSide(KStreamKStreamJoin):
    """The right side of a join."""

    is_left = False


class StreamStreamJoinProcessor:
    """Joins the records of one side with those in the window store of the other side."""

    def __init__(self, supplier: KStreamKStreamJoin) -> None:
        windows = supplier.windows
        self._supplier = supplier
        self._is_left = supplier.is_left
        self._outer = supplier.outer
        self._joiner = supplier.joiner
        self._before_ms, self._after_ms = windows.before_ms, windows.after_ms
        # A record of the left side may wait for later ones of the right side, and the reverse.
        self._waits_left_ms = windows.after_ms + windows.grace_ms
        self._waits_right_ms = windows.before_ms + windows.grace_ms
        if not self._is_left:
            self._before_ms, self._after_ms = self._after_ms, self._before_ms
        self._waits_ms = self._after_ms + windows.grace_ms

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._dropped = context.dropped
        self._forward = context.forward_changed
        self._wall_ms = context.current_system_time_ms
        self._fetch = _fetcher(context, self._supplier.other_window_store.name)
        self._time = self._supplier.time_trackers.get(context.task_id)
        outer_store = self._supplier.outer_join_store
        self._waiting = None if outer_store is None else context.state_store(outer_store.name)
        self._time.emit_interval_ms = context.config.outer_join_emit_interval_ms

    def close(self) -> None:
        self._supplier.time_trackers.remove(self._context.task_id)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        time, forward, joiner = self._time, self._forward, self._joiner
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        if key is None or value is None:
            if self._outer and value is not None:
                forward(key, joiner(key, value, None), timestamp, headers)
            else:
                self._dropped("null key or value")
            return
        waiting = self._waiting
        if waiting is not None and timestamp == time.stream_time:
            self._emit_without_partner(waiting, headers)
        to_time = max(0, timestamp + self._after_ms)
        found = False
        with self._fetch(key, max(0, timestamp - self._before_ms), to_time) as others:
            for other_timestamp, other in others:
                found = True
                if waiting is not None:
                    waiting.put_if_absent(
                        TimestampedKeyAndJoinSide(not self._is_left, key, other_timestamp), None
                    )
                forward(key, joiner(key, value, other), max(timestamp, other_timestamp), headers)
        if found or not self._outer:
            return
        if waiting is None or to_time < time.stream_time:
            forward(key, joiner(key, value, None), timestamp, headers)
            return
        time.min_time = min(time.min_time, timestamp)
        values = LeftOrRightValue(value, None) if self._is_left else LeftOrRightValue(None, value)
        waiting.put(TimestampedKeyAndJoinSide(self._is_left, key, timestamp), values)

    def _emit_without_partner(self, waiting: Any, headers: Headers) -> None:
        """Forward the waiting records of both sides whose window has closed; they are in order of time."""
        time = self._time
        now = self._wall_ms()
        is_open = time.min_time < MAX_TIMESTAMP and time.stream_time <= time.min_time + self._waits_ms
        if is_open or now < time.next_time_to_emit_ms:
            return
        time.next_time_to_emit_ms = now + time.emit_interval_ms
        time.min_time = MAX_TIMESTAMP
        is_left_open = is_right_open = False
        done = None
        with waiting.all() as records:
            for place, values in records:
                time.min_time = place.timestamp
                if is_left_open and is_right_open:
                    break
                wait_ms = self._waits_left_ms if place.is_left else self._waits_right_ms
                if time.min_time + wait_ms >= time.stream_time:
                    if place.is_left:
                        is_left_open = True
                    else:
                        is_right_open = True
                    continue
                own, other = values if self._is_left else (values.right, values.left)
                self._forward(place.key, self._joiner(place.key, own, other), place.timestamp, headers)
                if done is not None and done != place:  # the last record of a key and time has been forwarded
                    waiting.put(done, None)
                done = place
            if done is not None:
                waiting.put(done, None)


class KStreamKStreamSelfJoin(BindingSupplier):
    """An inner join of a stream with itself, over one window store."""

    def __init__(
        self, window_store: Any, windows: JoinWindowDefinition, joiner: Joiner, retention_ms: int
    ) -> None:
        self.window_store = window_store
        self.windows = windows
        self.joiner = joiner
        self.retention_ms = retention_ms

    def stores(self) -> tuple[Any, ...]:
        return (self.window_store,)

    def bind(self, context: ProcessorContext) -> Forward:
        fetch = _fetcher(context, self.window_store.name)
        forward, dropped, joiner = context.forward_changed, context.dropped, self.joiner
        before_ms, after_ms, retention_ms = self.windows.before_ms, self.windows.after_ms, self.retention_ms
        stream_time = NO_TIMESTAMP

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None or value is None:
                dropped("null key or value")
                return
            # The join with itself goes out between earlier and later partners, as in a join of two streams.
            with_itself = joiner(key, value, value)
            if timestamp > stream_time:
                stream_time = timestamp
            is_pending = timestamp > stream_time - retention_ms + 1
            with fetch(key, max(0, timestamp - before_ms), max(0, timestamp + after_ms)) as others:
                for other_timestamp, other in others:
                    forward(key, joiner(key, value, other), max(timestamp, other_timestamp), headers)
            with fetch(key, max(0, timestamp - after_ms), max(0, timestamp + before_ms)) as others:
                for other_timestamp, other in others:
                    if is_pending and other_timestamp > timestamp:
                        is_pending = False
                        forward(key, with_itself, timestamp, headers)
                    forward(key, joiner(key, other, value), max(timestamp, other_timestamp), headers)
            if is_pending:
                forward(key, with_itself, timestamp, headers)

        return process
