"""Rate and duration of an event over the last 30 to 60 s. Pure.

Source: Kafka's SampledStat and Rate with their defaults, two samples of 30 s.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_MS = 30_000
HOUR_S = 3_600


class _Window(NamedTuple):
    begin_ms: int
    events: int
    sum_ms: float
    highest_ms: float


class Measured:
    """One kind of event. Written by one thread, read by any; times in ms."""

    def __init__(self) -> None:
        self.total = 0
        self.total_ms = 0.0
        # oldest first, at most two; the tuple is replaced, not changed
        self._windows: tuple[_Window, ...] = ()

    def record(self, took_ms: float, now_ms: int) -> None:
        """Count an event and its duration."""
        windows = self._recent(now_ms)
        if not windows or now_ms - windows[-1].begin_ms >= WINDOW_MS:
            windows = (*windows[-1:], _Window(now_ms, 0, 0.0, 0.0))
        begin_ms, events, sum_ms, highest_ms = windows[-1]
        last = _Window(begin_ms, events + 1, sum_ms + took_ms, max(highest_ms, took_ms))
        self._windows = (*windows[:-1], last)
        self.total += 1
        self.total_ms += took_ms

    def average_ms(self, now_ms: int) -> float:
        """The mean duration; 0 without events."""
        recent = self._recent(now_ms)
        events = sum(window.events for window in recent)
        return sum(window.sum_ms for window in recent) / events if events else 0.0

    def highest_ms(self, now_ms: int) -> float:
        """The longest duration; 0 without events."""
        return max((window.highest_ms for window in self._recent(now_ms)), default=0.0)

    def per_second(self, now_ms: int) -> float:
        """The rate of events."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        # at least one window: a single event now is not a rate of hundreds per second
        elapsed_ms = max(now_ms - recent[0].begin_ms, WINDOW_MS)
        return sum(window.events for window in recent) * 1000 / elapsed_ms

    def _recent(self, now_ms: int) -> tuple[_Window, ...]:
        windows = self._windows
        return tuple(window for window in windows if now_ms - window.begin_ms < 2 * WINDOW_MS)
