"""Rate and duration of an event over the last 30 to 60 s. Pure.

Source: Kafka's SampledStat and Rate with their defaults, two samples of 30 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_MS = 30_000
HOUR_S = 3_600


class _Window(NamedTuple):
    begin_ms: int
    events: int
    sum_ms: float
    highest_ms: float
    lowest_ms: float


class Measured:
    """One kind of event. Written by one thread, read by any; times in ms."""

    def __init__(self) -> None:
        self.total = 0
        self.total_ms = 0.0
        # oldest first, at most two; the tuple is replaced, not changed
        self._windows: tuple[_Window, ...] = ()

    def record(self, took_ms: float, now_ms: int, events: int = 1) -> None:
        """Count an event and its duration; or several, with the duration of all of them together."""
        each_ms = took_ms / events if events > 1 else took_ms
        self._add(_Window(now_ms, events, took_ms, each_ms, each_ms))

    def record_each(self, took_ms: Sequence[float], now_ms: int) -> None:
        """Count several events, each with its duration."""
        if took_ms:
            self._add(_Window(now_ms, len(took_ms), sum(took_ms), max(took_ms), min(took_ms)))

    def _add(self, new: _Window) -> None:
        now_ms, events, sum_ms, highest_ms, lowest_ms = new
        windows = self._recent(now_ms)
        if windows and now_ms - windows[-1].begin_ms < WINDOW_MS:
            last = windows[-1]
            merged = _Window(
                last.begin_ms,
                last.events + events,
                last.sum_ms + sum_ms,
                max(last.highest_ms, highest_ms),
                min(last.lowest_ms, lowest_ms),
            )
            self._windows = (*windows[:-1], merged)
        else:
            self._windows = (*windows[-1:], new)
        self.total += events
        self.total_ms += sum_ms

    def average_ms(self, now_ms: int) -> float:
        """The mean duration; 0 without events."""
        recent = self._recent(now_ms)
        events = sum(window.events for window in recent)
        return sum(window.sum_ms for window in recent) / events if events else 0.0

    def highest_ms(self, now_ms: int) -> float:
        """The longest duration; 0 without events."""
        return max((window.highest_ms for window in self._recent(now_ms)), default=0.0)

    def lowest_ms(self, now_ms: int) -> float:
        """The shortest duration; 0 without events."""
        return min((window.lowest_ms for window in self._recent(now_ms)), default=0.0)

    def per_second(self, now_ms: int) -> float:
        """The rate of events."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        # at least one window: a single event now is not a rate of hundreds per second
        elapsed_ms = max(now_ms - recent[0].begin_ms, WINDOW_MS)
        return sum(window.events for window in recent) * 1000 / elapsed_ms

    def ratio(self, now_ms: int) -> float:
        """The part of the time that the events took, 0 to 1."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        elapsed_ms = max(now_ms - recent[0].begin_ms, 1)
        return min(sum(window.sum_ms for window in recent) / elapsed_ms, 1.0)

    def _recent(self, now_ms: int) -> tuple[_Window, ...]:
        windows = self._windows
        return tuple(window for window in windows if now_ms - window.begin_ms < 2 * WINDOW_MS)
