"""Metrics of a process: counters, gauges and histograms with dotted names.

No dependencies and no clock: exporters read `snapshot()`. Names follow `<part>.<thing>.<unit or total>`.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LEGAL_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*\Z")
# Bound: names are constants in code; thousands of them mean that client data became part of one.
MAX_METRICS = 10_000
# 1, 1.25, 1.56 ... to about 1e9: 94 buckets bound the error of a percentile by 25 percent.
_GROWTH = 1.25
DEFAULT_BOUNDS: tuple[float, ...] = tuple(_GROWTH**step for step in range(94))


class Counter:
    """A number that only increases."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        """Add `amount`, which must not be negative."""
        assert amount >= 0, "a counter only increases"
        self.value += amount


class Histogram:
    """A distribution of values in fixed buckets: constant memory.

    Shape: bucket i counts values up to and including `bounds[i]`; one more counts all larger values.
    """

    __slots__ = ("_bounds", "_buckets", "count", "highest", "total")

    def __init__(self, bounds: Sequence[float] = DEFAULT_BOUNDS) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError("the bounds of a histogram must increase")
        self._bounds = tuple(bounds)
        self._buckets = [0] * (len(self._bounds) + 1)
        self.count = 0
        self.total = 0.0
        self.highest = 0.0

    def record(self, value: float) -> None:
        self._buckets[bisect.bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.total += value
        self.highest = max(self.highest, value)

    def percentile(self, ratio: float) -> float:
        """The upper bound of the bucket with the value at `ratio` (0 to 1); 0 if empty."""
        if not 0 <= ratio <= 1:
            raise ValueError(f"the ratio must be between 0 and 1, not {ratio}")
        if self.count == 0:
            return 0.0
        wanted = max(1, ratio * self.count)
        seen = 0
        for bound, held in zip(self._bounds, self._buckets, strict=False):
            seen += held
            if seen >= wanted:
                return min(bound, self.highest)
        return self.highest

    def summary(self) -> dict[str, float]:
        """Count, mean, maximum and the usual percentiles."""
        mean = self.total / self.count if self.count else 0.0
        return {
            "count": self.count,
            "mean": mean,
            "p50": self.percentile(0.5),
            "p95": self.percentile(0.95),
            "p99": self.percentile(0.99),
            "max": self.highest,
        }


class Metrics:
    """The registry of one process part. Repeated calls with a name return the same counter or histogram."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._histograms: dict[str, Histogram] = {}

    def counter(self, name: str) -> Counter:
        """The counter of this name, created at the first call."""
        if name not in self._counters:
            self._claim(name)
            self._counters[name] = Counter()
        return self._counters[name]

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register `read` as a gauge; `snapshot` calls it, so it must not block."""
        self._claim(name)
        self._gauges[name] = read

    def histogram(self, name: str, bounds: Sequence[float] = DEFAULT_BOUNDS) -> Histogram:
        """The histogram of this name, created at the first call; later `bounds` are ignored."""
        if name not in self._histograms:
            self._claim(name)
            self._histograms[name] = Histogram(bounds)
        return self._histograms[name]

    def snapshot(self) -> dict[str, float | dict[str, float]]:
        """All metrics by name, sorted; histograms as their summaries."""
        values: dict[str, float | dict[str, float]] = {}
        values.update({name: counter.value for name, counter in self._counters.items()})
        values.update({name: read() for name, read in self._gauges.items()})
        values.update({name: histogram.summary() for name, histogram in self._histograms.items()})
        return dict(sorted(values.items()))

    def _claim(self, name: str) -> None:
        if not _LEGAL_NAME.match(name):
            raise ValueError(f"a metric name must be lower case words separated by dots: {name[:60]!r}")
        if name in self._counters or name in self._gauges or name in self._histograms:
            raise ValueError(f"metric {name} exists with another kind")
        if len(self._counters) + len(self._gauges) + len(self._histograms) >= MAX_METRICS:
            raise ValueError(f"more than {MAX_METRICS} metrics")
