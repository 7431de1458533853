"""Joins of two streams within a window of time.

Each side writes its records into a window store (`KStreamJoinWindow`) and looks up those of the other side.
The records without a partner wait in a store that both sides share, until their window has closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .binding import BindingSupplier

if TYPE_CHECKING:
    from ..processing import JoinWindowDefinition, TaskId

Joiner = Callable[[Any, Any, Any], Any]
"""Key, left value, right value."""

NO_TIMESTAMP = -1
MAX_TIMESTAMP = (1 << 63) - 1


class TimeTracker:
    """The stream time that both sides of a join share in a task, and the oldest record that waits without a
    partner."""

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
    """Forwards a record to the join, then writes it into the window store of its side."""

    def __init__(self, window_store: Any) -> None:
        self.window_store = window_store

    def stores(self) -> tuple[Any, ...]:
        return (self.window_store,)


class KStreamKStreamJoin(BindingSupplier):
    """One side of a join. `joiner` takes (key, left, right) on both sides.

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


class KStreamKStreamJoinLeftSide(KStreamKStreamJoin):
    """The left side of a join."""

    is_left = True


class KStreamKStreamJoinRightSide(KStreamKStreamJoin):
    """The right side of a join."""

    is_left = False


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
