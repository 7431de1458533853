"""Medians of per-pair ratios with a bootstrap interval, and the verdict on a goal. Pure."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

RESAMPLES = 4000
CONFIDENCE = 0.95
SPREAD = 0.15  # a ratio whose interval reaches further than this from its median is not resolved

MET, MISSED, UNRESOLVED = "met", "missed", "not resolved"


class Estimate(NamedTuple):
    """The `median` over the pairs, with the 95 % interval `low`..`high` of a bootstrap."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def is_resolved(self) -> bool:
        """Whether the interval stays within 15 % of the median; one pair has no interval."""
        return (
            self.pairs > 1
            and self.low >= self.median * (1 - SPREAD)
            and self.high <= self.median * (1 + SPREAD)
        )


def estimate(values: Sequence[float]) -> Estimate:
    """The median of `values` with its bootstrap interval. Deterministic. Errors: ValueError."""
    if not values:
        raise ValueError("no values to estimate from")
    # a fixed seed: equal results give an equal page
    generator = random.Random(len(values))
    found = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    low, high = found[int(tail * RESAMPLES)], found[int((1 - tail) * RESAMPLES) - 1]
    return Estimate(statistics.median(values), low, high, len(values))


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Pairwise above/below. Errors: ValueError for unequal lengths, or a zero or negative value."""
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} values do not make pairs")
    if min([*above, *below], default=1) <= 0:
        raise ValueError("ratios need values above 0")
    return [one / other for one, other in zip(above, below, strict=True)]


def verdict(found: Estimate, goal: float, *, at_least: bool) -> str:
    """MET or MISSED; UNRESOLVED when the interval is too wide."""
    if not found.is_resolved:
        return UNRESOLVED
    is_met = found.median >= goal if at_least else found.median <= goal
    return MET if is_met else MISSED
