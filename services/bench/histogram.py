"""A log-linear histogram of durations: fixed memory, an error of at most 0.4 %, mergeable across processes.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# Values below 256 have a bucket each; every octave above has 128 buckets. A bucket is 1/128 of its octave's
# start wide and its value is its middle, so percentiles are at most 1/256 (0.4 %) off.
PRECISION_BITS = 7
# Bound: 2**43 ns are 2.4 hours; longer values share the last bucket (`max` and `mean` stay exact).
HIGHEST_BITS = 43

_STEP = 1 << PRECISION_BITS
_SHIFT = PRECISION_BITS + 1
_BUCKETS = (HIGHEST_BITS - _SHIFT) * _STEP + 2 * _STEP
_NS_PER_MS = 1_000_000

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}


class Histogram:
    """Counts whole numbers, by convention nanoseconds."""

    __slots__ = ("_counts", "count", "max", "min", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0
        self.total = 0
        self.min: int | None = None
        self.max: int | None = None

    def record(self, value: int, count: int = 1) -> None:
        """Count `value` `count` times. Errors: ValueError for a negative value or a count below 1."""
        if value < 0 or count < 1:
            raise ValueError(f"a duration must be >= 0 and its count >= 1, not {value} and {count}")
        shift = value.bit_length() - _SHIFT
        if shift <= 0:
            self._counts[value] += count
        else:
            index = (shift << PRECISION_BITS) + (value >> shift)
            self._counts[index if index < _BUCKETS else -1] += count
        self.count += count
        self.total += value * count
        if self.max is None or value > self.max:
            self.max = value
        if self.min is None or value < self.min:
            self.min = value

    def record_many(self, values: Iterable[int]) -> None:
        """Count each of `values` once, faster than `record`. Errors: ValueError for a negative value; then
        none is counted."""
        found = values if isinstance(values, list) else list(values)
        if not found:
            return
        lowest, highest = min(found), max(found)
        if lowest < 0:
            raise ValueError(f"a duration must be >= 0, not {lowest}")
        counts = self._counts
        for value in found:
            shift = value.bit_length() - _SHIFT
            if shift <= 0:
                counts[value] += 1
            else:
                index = (shift << PRECISION_BITS) + (value >> shift)
                counts[index if index < _BUCKETS else -1] += 1
        self.count += len(found)
        self.total += sum(found)
        self.min = lowest if self.min is None else min(self.min, lowest)
        self.max = highest if self.max is None else max(self.max, highest)

    def merge(self, other: Histogram) -> None:
        if other.min is None or other.max is None:
            return
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self.count += other.count
        self.total += other.total
        self.min = other.min if self.min is None else min(self.min, other.min)
        self.max = other.max if self.max is None else max(self.max, other.max)

    def percentile(self, percent: float) -> float | None:
        """The smallest value that at least `percent` of all values do not exceed; None if empty.

        Errors: ValueError outside 0..100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile must be within 0..100, not {percent}")
        if self.min is None or self.max is None:
            return None
        # rounded: 99.9 has no exact binary form, and 99.9 % of 1000 is 999, not 999.0000001
        rank = max(-int(-round(percent * self.count, 6) // 100), 1)
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if count and seen >= rank:
                if rank == self.count:
                    return float(self.max)
                return min(max(_middle(index), float(self.min)), float(self.max))
        raise AssertionError("the bucket counts add up to `count`")

    @property
    def mean(self) -> float | None:
        """Exact mean; None if empty."""
        return self.total / self.count if self.count else None

    def summary_ms(self) -> dict[str, float | int | None]:
        """`p50 p90 p99 p99_9 max mean` in ms from recorded nanoseconds, None if empty, and `count`."""
        found: dict[str, float | int | None] = {
            name: _ms(self.percentile(percent)) for name, percent in PERCENTILES.items()
        }
        return {**found, "max": _ms(self.max), "mean": _ms(self.mean), "count": self.count}

    def __getstate__(self) -> dict[str, Any]:
        """Used buckets only: a few hundred bytes between processes."""
        used = {index: count for index, count in enumerate(self._counts) if count}
        return {"used": used, "count": self.count, "total": self.total, "min": self.min, "max": self.max}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        for index, count in state["used"].items():
            self._counts[index] = count
        self.count, self.total = state["count"], state["total"]
        self.min, self.max = state["min"], state["max"]


def _middle(index: int) -> float:
    if index < 2 * _STEP:
        return float(index)
    shift = (index >> PRECISION_BITS) - 1
    low = (index - (shift << PRECISION_BITS)) << shift
    return low + ((1 << shift) - 1) / 2


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else round(value_ns / _NS_PER_MS, 4)
