"""The maximum over a sliding time window, in constant memory. Pure.

Shape: time is divided into buckets of equal length; each keeps its largest value. Whole buckets expire, so a
value counts for between `window_ms - window_ms / BUCKETS` and `window_ms`. Invariant: at most BUCKETS
buckets, ordered by time.
"""

from __future__ import annotations

from collections import deque

BUCKETS = 12


class RecentMaximum:
    """Non-negative values by the time of their addition; time must not go back."""

    __slots__ = ("_buckets", "_width_ms")

    def __init__(self, window_ms: int) -> None:
        assert window_ms >= BUCKETS, "a bucket is at least a millisecond long"
        self._width_ms = window_ms // BUCKETS
        self._buckets: deque[tuple[int, int]] = deque(maxlen=BUCKETS)  # (number of the bucket, largest value)

    def add(self, value: int, now_ms: int) -> None:
        """Add a value."""
        number = now_ms // self._width_ms
        if self._buckets and self._buckets[-1][0] == number:
            value = max(value, self._buckets.pop()[1])
        self._buckets.append((number, value))

    def at(self, now_ms: int) -> int:
        """The largest value of the window; 0 if it is empty."""
        oldest = now_ms // self._width_ms - BUCKETS + 1
        return max((value for number, value in self._buckets if number >= oldest), default=0)
