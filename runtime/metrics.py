"""Numbers that a process tells about itself: counters, gauges and histograms under dotted names.

No dependency and no clock: exporters read `snapshot()`. Names follow `<part>.<thing>.<unit or total>`.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LEGAL_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*\Z")
# Bound: names are written in code, so thousands of them mean that something of a client's got into one.
MAX_METRICS = 10_000
# 1, 1.25, 1.56 ... to about 1e9: 94 buckets bound the error of a percentile by 25 percent.
_GROWTH = 1.25
DEFAULT_BOUNDS: tuple[float, ...] = tuple(_GROWTH**step for step in range(94))


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        """Grow by `amount`, which is not negative."""
        assert amount >= 0, "a counter only grows"
        self.value += amount


class Histogram:
    """How values are spread, in fixed buckets: constant memory whatever is recorded.

    Shape: bucket i holds values up to and including `bounds[i]`; one more holds everything above.
    """

    __slots__ = ("_bounds", "_buckets", "count", "highest", "total")

    def __init__(self, bounds: Sequence[float] = DEFAULT_BOUNDS) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError("the bounds of a histogram must rise")
        self._bounds = tuple(bounds)
        self._buckets = [0] * (len(self._bounds) + 1)
        self.count = 0
        self.total = 0.0
        self.highest = 0.0

    def record(self, value: float) -> None:
        """Add one value."""
        self._buckets[bisect.bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.total += value
        self.highest = max(self.highest, value)

    def percentile(self, ratio: float) -> float:
        """The upper bound of the bucket that holds the value at `ratio` (0 to 1); 0 while empty."""
        if not 0 <= ratio <= 1:
            raise ValueError(f"a ratio lies between 0 and 1, not at {ratio}")
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
        """Count, mean, highest and the usual percentiles."""
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
    """The registry of one process part. Asking again for a name gives the same counter or histogram."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._histograms: dict[str, Histogram] = {}

    def counter(self, name: str) -> Counter:
        """The counter of this name, made at the first call."""
        if name not in self._counters:
            self._claim(name)
            self._counters[name] = Counter()
        return self._counters[name]

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Tell `read()` under this name; it is called by `snapshot` and must not block."""
        self._claim(name)
        self._gauges[name] = read

    def histogram(self, name: str, bounds: Sequence[float] = DEFAULT_BOUNDS) -> Histogram:
        """The histogram of this name, made at the first call; later bounds are ignored."""
        if name not in self._histograms:
            self._claim(name)
            self._histograms[name] = Histogram(bounds)
        return self._histograms[name]

    def snapshot(self) -> dict[str, float | dict[str, float]]:
        """Every metric by its name, sorted; histograms as their summary."""
        values: dict[str, float | dict[str, float]] = {}
        values.update({name: counter.value for name, counter in self._counters.items()})
        values.update({name: read() for name, read in self._gauges.items()})
        values.update({name: histogram.summary() for name, histogram in self._histograms.items()})
        return dict(sorted(values.items()))

    def _claim(self, name: str) -> None:
        if not _LEGAL_NAME.match(name):
            raise ValueError(f"a metric's name has lower case words with dots between: {name[:60]!r}")
        if name in self._counters or name in self._gauges or name in self._histograms:
            raise ValueError(f"the metric {name} exists and is of another kind")
        if len(self._counters) + len(self._gauges) + len(self._histograms) >= MAX_METRICS:
            raise ValueError(f"more than {MAX_METRICS} metrics")
