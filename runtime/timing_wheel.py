"""Hierarchical timing wheels: timers with constant cost to add and to cancel.

A wheel has `wheel_size` buckets of `tick_ms` each. Deadlines beyond its range go to the next wheel, whose
tick is the whole range of the one below; when time has reached such a coarse bucket, the next `advance` moves
its timers to finer ones. A small heap of bucket times gives the next bucket, so empty ticks cost nothing.
Time is an argument.

Invariant: a timer is in exactly one bucket, and every non-empty bucket is in the heap exactly once. Source:
Varghese and Lauck 1987; Kafka TimingWheel.java and SystemTimer.java.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Timer(Generic[T]):
    """One entry of the wheel; `item` is due at `deadline_ms`."""

    __slots__ = ("bucket", "deadline_ms", "item", "sequence")

    def __init__(self, item: T, deadline_ms: int, sequence: int) -> None:
        self.item = item
        self.deadline_ms = deadline_ms
        self.sequence = sequence
        self.bucket: _Bucket[T] | None = None

    @property
    def is_pending(self) -> bool:
        """True until it was cancelled or returned by `advance`."""
        return self.bucket is not None


class _Bucket(Generic[T]):
    """The timers of one tick of one wheel. `starts_ms` is -1 while the bucket is not in the heap; until then
    no timer that was put into it was due before `earliest_ms`."""

    __slots__ = ("earliest_ms", "starts_ms", "timers")

    def __init__(self) -> None:
        self.starts_ms = self.earliest_ms = -1
        self.timers: dict[Timer[T], None] = {}


class _Level(Generic[T]):
    """One wheel of the hierarchy; `time_ms` is the current time rounded down to this tick."""

    __slots__ = ("buckets", "reach_ms", "tick_ms", "time_ms")

    def __init__(self, tick_ms: int, wheel_size: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.reach_ms = tick_ms * wheel_size
        self.time_ms = now_ms - now_ms % tick_ms
        self.buckets: list[_Bucket[T]] = [_Bucket() for _ in range(wheel_size)]


class TimingWheel(Generic[T]):
    """Timers for items of one type. With the default tick of 1 ms deadlines are exact.

    Unit: with a longer tick an item is due up to `tick_ms - 1` before its deadline, as in Kafka.
    """

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, now_ms: int = 0) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"tick_ms must be at least 1 and wheel_size 2, not {tick_ms} and {wheel_size}")
        self._wheel_size = wheel_size
        self._now_ms = now_ms
        self._levels: list[_Level[T]] = [_Level(tick_ms, wheel_size, now_ms)]
        self._heap: list[tuple[int, int, _Bucket[T]]] = []
        self._overdue: _Bucket[T] = _Bucket()
        self._sequence = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: T, deadline_ms: int) -> Timer[T]:
        """Add a timer. An item with a past deadline is returned by the next `advance`."""
        self._sequence += 1
        timer = Timer(item, deadline_ms, self._sequence)
        self._count += 1
        if not self._place(timer):
            self._put(timer, self._overdue)
        return timer

    def cancel(self, timer: Timer[T]) -> bool:
        """Cancel a timer; False if it was returned or cancelled before."""
        if timer.bucket is None:
            return False
        del timer.bucket.timers[timer]
        timer.bucket = None
        self._count -= 1
        return True

    def advance(self, now_ms: int) -> list[T]:
        """Advance time to `now_ms` and return the due items by deadline, equal ones in the order of addition.

        An earlier time than the last one has no effect: time does not go back.
        """
        self._now_ms = max(self._now_ms, now_ms)
        reached = list(self._overdue.timers)
        self._overdue.timers.clear()
        # Order: empty every bucket that time has reached before moving the wheels, because after the move the
        # same slot represents a tick one turn later.
        while self._heap and self._heap[0][0] <= self._now_ms:
            bucket = heapq.heappop(self._heap)[2]
            reached.extend(bucket.timers)
            bucket.timers.clear()
            bucket.starts_ms = -1
        for level in self._levels:
            level.time_ms = self._now_ms - self._now_ms % level.tick_ms
        due = [timer for timer in reached if not self._place(timer)]
        due.sort(key=lambda timer: (timer.deadline_ms, timer.sequence))
        for timer in due:
            timer.bucket = None
        self._count -= len(due)
        return [timer.item for timer in due]

    def next_deadline_ms(self) -> int | None:
        """The time of the next `advance` with work: not after the earliest deadline, None without timers.

        It can be before that deadline: the timer with an earlier one was cancelled, or it is not known which
        one of a coarse bucket's timers is the first of all.
        """
        if self._overdue.timers:
            return self._now_ms
        heap = self._heap
        while heap:
            starts_ms, tick_ms, bucket = heap[0]
            if bucket.timers:
                if tick_ms == self._levels[0].tick_ms:
                    return starts_ms
                # Timers of a coarse bucket need not move before one is due: the next bucket comes first only
                # if it starts before that. The children of the heap's root are the candidates.
                earliest_ms = bucket.earliest_ms
                for starts_ms, _, _ in heap[1:3]:
                    if starts_ms < earliest_ms:
                        earliest_ms = starts_ms
                return earliest_ms
            heapq.heappop(heap)
            bucket.starts_ms = -1
        return None

    def _place(self, timer: Timer[T]) -> bool:
        """Add a timer to the finest bucket in range; False if it is due."""
        level = self._levels[0]
        if timer.deadline_ms < level.time_ms + level.tick_ms:
            return False
        depth = 0
        while timer.deadline_ms >= level.time_ms + level.reach_ms:
            depth += 1
            if depth == len(self._levels):
                self._levels.append(_Level(level.reach_ms, self._wheel_size, self._now_ms))
            level = self._levels[depth]
        tick = timer.deadline_ms // level.tick_ms
        bucket = level.buckets[tick % self._wheel_size]
        if bucket.starts_ms == -1:
            bucket.starts_ms, bucket.earliest_ms = tick * level.tick_ms, timer.deadline_ms
            # start and tick together identify one bucket, so the comparison never reaches the bucket itself
            heapq.heappush(self._heap, (bucket.starts_ms, level.tick_ms, bucket))
        elif timer.deadline_ms < bucket.earliest_ms:
            bucket.earliest_ms = timer.deadline_ms
        assert bucket.starts_ms == tick * level.tick_ms, "one slot would hold two ticks"
        self._put(timer, bucket)
        return True

    def _put(self, timer: Timer[T], bucket: _Bucket[T]) -> None:
        timer.bucket = bucket
        bucket.timers[timer] = None
