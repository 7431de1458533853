"""A distribution of durations in buckets that double: constant memory, and one increment per value.

Bucket i counts the values of i binary digits in microseconds: below 2**i, and at least 2**(i - 1).
"""

from __future__ import annotations

_BUCKETS = 40
_MICROSECONDS = 1000  # of the unit, milliseconds


class Histogram:
    """Of values in milliseconds; they must not be negative."""

    __slots__ = ("buckets", "count", "highest", "total")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.count = 0
        self.total = 0.0
        self.highest = 0.0

    def record(self, value_ms: float) -> None:
        digits = int(value_ms * _MICROSECONDS).bit_length()
        self.buckets[digits if digits < _BUCKETS else _BUCKETS - 1] += 1
        self.count += 1
        self.total += value_ms
        if value_ms > self.highest:
            self.highest = value_ms

    def percentile(self, ratio: float) -> float:
        """The upper bound of the bucket with the value at `ratio` (0 to 1), at most the highest value; 0 if
        it is empty."""
        if not 0 <= ratio <= 1:
            raise ValueError(f"the ratio must be between 0 and 1, not {ratio}")
        wanted, seen = max(1, ratio * self.count), 0
        for number, held in enumerate(self.buckets):
            seen += held
            if seen >= wanted:
                return min(bound_ms(number), self.highest)
        return self.highest

    def summary(self) -> dict[str, float]:
        """Count, mean, maximum and the usual percentiles, which are at most twice too high."""
        return {
            "count": self.count,
            "mean": self.total / self.count if self.count else 0.0,
            "p50": self.percentile(0.5),
            "p95": self.percentile(0.95),
            "p99": self.percentile(0.99),
            "max": self.highest,
        }

    def copy(self) -> Histogram:
        """The values so far: a reader on another thread sees them unchanged."""
        made = Histogram()
        made.buckets = self.buckets.copy()
        made.count, made.total, made.highest = self.count, self.total, self.highest
        return made


def bound_ms(number: int) -> float:
    """The upper bound of a bucket in milliseconds."""
    return float(1 << number) / _MICROSECONDS
