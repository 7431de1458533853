"""Joins as of a time: each record of the left side with one record of the right side, the nearest in time.

A left record is joined when stream time, that of both sides, has passed it by the time that it waits:
`after_ms` and the grace period. Until then it is in a buffer. A record of the right side that comes later
changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import Window
from .binding import BindingSupplier
from .late_records import on_late

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from ..processing import Processor, ProcessorContext
    from ..state.stores import Eviction
    from .late_records import LateRecords
    from .stream_joins import TimeTrackers


class AsofWindow(NamedTuple):
    """A left record joins the nearest right one that is at most `before_ms` older or `after_ms` newer.

    Of two that are equally near, the older; of two with one timestamp, that which came last.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    @property
    def wait_ms(self) -> int:
        """How long a left record waits for right ones."""
        return self.after_ms + self.grace_ms

    @property
    def lateness_ms(self) -> int:
        """A left record that is older than stream time by more is late."""
        return self.before_ms + self.after_ms + self.grace_ms

    @property
    def retention_ms(self) -> int:
        """So long the right records are kept that a left record may join that is not late."""
        return self.lateness_ms + self.before_ms + 1


class AsofJoinSide(BindingSupplier):
    """One side of a join as of a time. `buffer`: the store of left records that wait, None if they do not.

    `name`: under which stream time is kept with the committed offsets; the same for both sides.
    """

    is_left: bool

    def __init__(
        self,
        window: AsofWindow,
        joiner: Callable[[Any, Any, Any], Any],
        is_left_join: bool,
        trackers: TimeTrackers,
        stores: tuple[Any, Any],
        name: str,
        late: LateRecords | None = None,
    ) -> None:
        self.window = window
        self.joiner = joiner
        self.is_left_join = is_left_join
        self.trackers = trackers
        self.right_store, self.buffer = stores
        self.name = name
        self.late = late

    def stores(self) -> tuple[Any, ...]:
        return (self.right_store,) if self.buffer is None else (self.right_store, self.buffer)


class AsofJoinLeftSide(AsofJoinSide):
    """Joins its records, or lets them wait. Null values are dropped, null keys have no right record."""

    def create(self) -> Processor:
        return LeftSideProcessor(self)


class AsofJoinRightSide(AsofJoinSide):
    """Keeps its records, and joins the left records that have waited for them. Null keys and values are
    dropped."""

    def create(self) -> Processor:
        return RightSideProcessor(self)


class SideProcessor:
    """What both sides of a task do: advance stream time, and join what has waited long enough."""

    def __init__(self, supplier: AsofJoinSide) -> None:
        self._supplier = supplier
        self._window = supplier.window
        self._joiner = supplier.joiner

    def init(self, context: ProcessorContext) -> None:
        supplier = self._supplier
        self._context = context
        self._dropped = context.dropped
        self._forward = context.forward_changed
        self._late = on_late(supplier.late, context)
        self._right = context.state_store(supplier.right_store.name)
        self._buffer = None if supplier.buffer is None else context.state_store(supplier.buffer.name)
        self._time = supplier.trackers.get(context.task_id)
        kept = context.kept(supplier.name)
        self._time.stream_time = -1 if kept is None else kept

    def close(self) -> None:
        self._supplier.trackers.remove(self._context.task_id)

    def _advance(self, timestamp: int) -> int:
        """Stream time, which is kept with the offsets: a restart decides as if there had been none."""
        time = self._time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
            self._context.keep(self._supplier.name, timestamp)
        return time.stream_time

    def _join_waiting(self, stream_time: int) -> None:
        buffer = self._buffer
        if buffer is not None:
            buffer.advance(stream_time)
            buffer.evict_while(_always, self._join_evicted)

    def _join_evicted(self, record: Eviction) -> None:
        before = self._context.record_context
        self._context.record_context = context = record.context
        try:
            self._join(record.key, record.value, context.timestamp, context.headers)
        finally:
            self._context.record_context = before

    def _join(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        right = None if key is None else self._nearest(key, timestamp)
        if right is not None or self._supplier.is_left_join:
            self._forward(key, self._joiner(key, value, right), timestamp, headers)

    def _nearest(self, key: Any, timestamp: int) -> Any:
        window = self._window
        older = newer = None
        with self._right.backward_fetch_range(key, max(0, timestamp - window.before_ms), timestamp) as rows:
            older = next(rows, None)
        if window.after_ms and (older is None or older[0] < timestamp):
            with self._right.fetch_range(key, timestamp, timestamp + window.after_ms) as rows:
                newer = next(rows, None)
        if older is None or (newer is not None and newer[0] - timestamp < timestamp - older[0]):
            return None if newer is None else newer[1]
        return older[1]


class LeftSideProcessor(SideProcessor):
    """The left side in a task."""

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None or (key is None and not self._supplier.is_left_join):
            self._dropped("null key or value")
            return
        window = self._window
        stream_time = self._advance(timestamp)
        self._join_waiting(stream_time)
        if timestamp < stream_time - window.lateness_ms:
            self._dropped("late record")
            interval = Window(max(0, timestamp - window.before_ms), timestamp + window.after_ms)
            self._late(key, value, timestamp, headers, interval, stream_time)
        elif key is None or self._buffer is None or timestamp + window.wait_ms <= stream_time:
            self._join(key, value, timestamp, headers)
        else:
            self._buffer.put(timestamp, key, value, self._context.record_context)


class RightSideProcessor(SideProcessor):
    """The right side in a task."""

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self._dropped("null key or value")
            return
        window = self._window
        stream_time = self._advance(timestamp)
        self._join_waiting(stream_time - 1)  # before the store forgets records that they join
        if timestamp <= stream_time - window.retention_ms:
            self._dropped("late record")
            interval = Window(max(0, timestamp - window.after_ms), timestamp + window.before_ms)
            self._late(key, value, timestamp, headers, interval, stream_time)
        else:
            self._right.put(key, value, timestamp)
        self._join_waiting(stream_time)


def _always() -> bool:
    return True
