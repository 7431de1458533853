"""Punctuators of a task on one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .priority_queue import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable


class Schedule:
    """A punctuator that is called every `interval_ms`, until it is cancelled."""

    __slots__ = ("callback", "interval_ms", "is_cancelled", "node")

    def __init__(self, node: str, interval_ms: int, callback: Callable[[int], None]) -> None:
        self.node = node
        self.interval_ms = interval_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class _Due(NamedTuple):
    timestamp: int
    schedule: Schedule


class PunctuationQueue:
    """Punctuators by the time at which each is due. One that is late by several intervals is called once."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[_Due] = PriorityQueue()
        self.elements = self._queue.elements

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, first: int, schedule: Schedule) -> None:
        self._queue.offer(_Due(first, schedule))

    def punctuate(self, now: int, call: Callable[[Schedule, int], None]) -> bool:
        """`call` each punctuator that is due at `now`; True if there was one."""
        called = False
        queue = self._queue
        while (top := queue.peek()) is not None and top.timestamp <= now:
            queue.poll()
            schedule = top.schedule
            if schedule.is_cancelled:
                continue
            call(schedule, now)
            called = True
            if not schedule.is_cancelled:
                queue.offer(_Due(next_time(top.timestamp, schedule.interval_ms, now), schedule))
        return called

    def next_due(self) -> int | None:
        """The time of the next punctuator."""
        while (top := self._queue.peek()) is not None:
            if not top.schedule.is_cancelled:
                return top.timestamp
            self._queue.poll()
        return None


def next_time(previous: int, interval_ms: int, now: int) -> int:
    """The first multiple of the interval after `previous` that is not due at `now`."""
    following = previous + interval_ms
    if now >= following:
        following = previous + ((now - previous) // interval_ms + 1) * interval_ms
    return following
