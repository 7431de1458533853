"""Aggregates over sliding windows.

A record at time t belongs to windows of length d that start between t - d and t. Windows exist only where
their set of records differs: one ends at each record (its left window, from t - d) and one starts behind each
(its right window, from t + 1), unless it would be empty. A record before d would have a left window with a
negative start; all of these share one combined window from 0. Source: KStreamSlidingWindowAggregate; KIP-450.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import ValueAndTimestamp, Window, Windowed
from .aggregates import bound_aggregator
from .closed_windows import NO_TIMESTAMP, ClosedWindows
from .late_records import on_late
from .table_store import operator_store
from .window_aggregates import WindowedTableSupplier, emit_windows

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Processor, ProcessorContext, SlidingWindowDefinition
    from .aggregates import Aggregator, Initializer
    from .late_records import LateRecords

Found = ValueAndTimestamp[Any]


class KStreamSlidingWindowAggregate(WindowedTableSupplier):
    """Aggregates per sliding window and key. Null keys and values, and late records, are dropped;
    `late` gets the latter, once per window."""

    def __init__(
        self,
        windows: SlidingWindowDefinition,
        store: Any,
        emit_on_close: bool,
        initializer: Initializer,
        aggregator: Aggregator,
        late: LateRecords | None = None,
    ) -> None:
        super().__init__(store)
        self.late = late
        self.windows = windows
        self.emit_on_close = emit_on_close
        self.initializer = initializer
        self.aggregator = aggregator

    def create(self) -> Processor:
        return SlidingWindowProcessor(self)


class SlidingWindowProcessor:
    """Updates the windows that contain a record, and adds those that it makes necessary."""

    def __init__(self, supplier: KStreamSlidingWindowAggregate) -> None:
        self._supplier = supplier
        self._length = supplier.windows.time_difference_ms
        self._grace_ms = supplier.windows.grace_ms
        self._initializer = supplier.initializer
        self._stream_time = NO_TIMESTAMP
        self._closed: ClosedWindows | None = None

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._dropped = context.dropped
        self._aggregator = bound_aggregator(self._supplier.aggregator, context)
        self._late = on_late(self._supplier.late, context)
        self._store = operator_store(context, self._supplier.store_name)
        self._forward = self._supplier.update_forwarder(context, self._store)
        if self._supplier.emit_on_close:
            self._closed = ClosedWindows(context, self._supplier.store_name)

    def close(self) -> None:
        pass

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self._dropped("null key or value")
            return
        self._stream_time = max(self._stream_time, timestamp)
        self._close_time = self._stream_time - self._grace_ms
        if timestamp + self._length < self._close_time:
            self._dropped("closed window")
            window = Window(max(0, timestamp - self._length), timestamp)
            self._late(key, value, timestamp, headers, window, self._stream_time)
            return
        self._record = (key, value, timestamp, headers)
        if timestamp < self._length:
            self._process_early(key, timestamp)
            return
        self._process_late(key, timestamp)
        self._emit_closed(headers)

    def _process_late(self, key: Any, timestamp: int) -> None:
        """A record at or after the length of a window: its left window starts at 0 or later."""
        length = self._length
        starts: set[int] = set()
        left: Found | None = None  # aggregate of the last window that ends before the record
        right: Found | None = None  # aggregate of the last window that contains the record and goes on
        has_left = has_right = False
        previous: int | None = None  # time of the last record before this one
        with self._store.backward_fetch_range(key, max(0, timestamp - 2 * length), timestamp + 1) as windows:
            for start, found in windows:
                starts.add(start)
                end = start + length
                if start == timestamp + 1:
                    has_right = True
                elif end > timestamp:
                    if right is None:
                        right = found
                    self._update(start, found)
                elif end == timestamp:
                    has_left = True
                    self._update(start, found)
                    if found.timestamp >= timestamp:
                        return  # a record with this timestamp has made all windows
                    previous = found.timestamp
                else:
                    left = found
                    previous = found.timestamp
                    break
        if previous is not None and previous + 1 not in starts and previous + 1 + length >= timestamp:
            self._add_behind(previous)
        if not has_left:
            if previous is not None and timestamp - length <= previous:
                assert left is not None
                start_value = left.value
            else:
                start_value = self._initializer()
            self._update(timestamp - length, ValueAndTimestamp(start_value, timestamp))
        if not has_right:
            self._add_right(key, timestamp, right)

    def _process_early(self, key: Any, timestamp: int) -> None:
        """A record before the length of a window: its left window is the combined window."""
        if timestamp < 0:
            raise ValueError(f"a record for sliding windows needs a timestamp of at least 0, not {timestamp}")
        starts: set[int] = set()
        combined: Found | None = None
        right: Found | None = None
        has_right = False
        previous: int | None = None
        with self._store.fetch_range(key, 0, timestamp + 1) as windows:
            for start, found in windows:
                starts.add(start)
                if start == 0:
                    combined = found
                    if found.timestamp < timestamp:
                        previous = found.timestamp
                elif start <= timestamp:
                    right = found
                    self._update(start, found)
                else:
                    has_right = True
        if right is None and combined is not None and combined.timestamp > timestamp:
            right = combined
        if not has_right:
            self._add_right(key, timestamp, right)
        if previous is not None and previous + 1 not in starts:
            self._add_behind(previous)
        self._update(0, combined or ValueAndTimestamp(self._initializer(), timestamp))

    def _add_right(self, key: Any, timestamp: int, right: Found | None) -> None:
        """The window behind this record, which has the later records of `right`, unless it is empty."""
        if right is None or right.timestamp <= timestamp:
            return
        start = timestamp + 1
        self._store.put(key, right, start)
        headers = self._record[3]
        self._forward(self._windowed(start), right.value, None, right.timestamp, headers, True)

    def _add_behind(self, previous: int) -> None:
        """The window behind the record before this one; this record is its first."""
        self._update(previous + 1, ValueAndTimestamp(self._initializer(), self._record[2]))

    def _update(self, start: int, found: Found) -> None:
        """Add the record to a window."""
        if start + self._length < self._close_time:
            self._dropped("closed window")
            self._late(*self._record, Window(start, start + self._length), self._stream_time)
            return
        key, value, timestamp, headers = self._record
        old = found.value
        new = self._aggregator(key, value, old)
        if old is not None:
            timestamp = max(timestamp, found.timestamp)
        self._store.put(key, None if new is None else ValueAndTimestamp(new, timestamp), start)
        self._forward(self._windowed(start), new, old, timestamp, headers, True)

    def _windowed(self, start: int) -> Windowed[Any]:
        return Windowed(self._record[0], Window(start, start + self._length))

    def _emit_closed(self, headers: Headers) -> None:
        closed, close_time = self._closed, self._close_time
        if closed is None or not closed.is_due(close_time):
            return
        last = close_time - self._length - 1
        if last < 0:
            return
        first = 0 if closed.emitted_to == NO_TIMESTAMP else max(0, closed.emitted_to - self._length)
        emit_windows(self._context, self._store, first, last, headers)
        closed.emitted(close_time)
