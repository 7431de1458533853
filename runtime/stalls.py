"""Pauses of an event loop, measured by the delay of a timer. Pure.

A late timer means that the loop, the process or the machine was busy: Python code that does not yield, a
write that waits for the disk, pages that are read back after reclaim, other processes on the cores.
"""

from __future__ import annotations

from .recent_maximum import RecentMaximum

WINDOW_MS = 60_000
# The shortest stall to log, and the interval between such log lines.
LONG_STALL_MS = 500
REPORT_EVERY_MS = 10_000


class StallMeter:
    """Fed by a timer with the interval `interval_ms`."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._last_ms = now_ms
        self._longest = RecentMaximum(WINDOW_MS)
        self._unreported_ms = 0
        self._report_at_ms = now_ms
        self.count = 0  # of long stalls

    def look(self, now_ms: int) -> int:
        """The timer has fired. Returns the longest stall to report now in ms; 0 for none."""
        late_ms = max(0, now_ms - self._last_ms - self._interval_ms)
        self._last_ms = now_ms
        self._longest.add(late_ms, now_ms)
        if late_ms >= LONG_STALL_MS:
            self.count += 1
            self._unreported_ms = max(self._unreported_ms, late_ms)
        if not self._unreported_ms or now_ms < self._report_at_ms:
            return 0
        report_ms, self._unreported_ms = self._unreported_ms, 0
        self._report_at_ms = now_ms + REPORT_EVERY_MS
        return report_ms

    def longest_ms(self, now_ms: int) -> int:
        """The longest stall of the last minute, including one in progress."""
        return max(self._longest.at(now_ms), now_ms - self._last_ms - self._interval_ms)
