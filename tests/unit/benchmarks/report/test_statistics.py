"""Ratios of pairs, their interval, and verdicts on goals."""

import pytest
from headrace.benchmarks.report.statistics import MET, MISSED, UNRESOLVED, Estimate, estimate, ratios, verdict


def test_interval_contains_the_median_and_is_deterministic() -> None:
    """It lies within the values."""
    values = [1.9, 2.0, 2.1, 2.05, 1.95]
    found = estimate(values)
    assert found == estimate(values)
    assert (found.median, found.pairs) == (2.0, 5)
    assert 1.9 <= found.low <= 2.0 <= found.high <= 2.1


def test_equal_pairs_have_no_spread() -> None:
    """They are resolved, from two pairs on."""
    assert estimate([3.0, 3.0]) == Estimate(3.0, 3.0, 3.0, 2)
    assert estimate([3.0, 3.0]).is_resolved
    assert not estimate([3.0]).is_resolved


def test_outlier_widens_the_interval() -> None:
    """One of three pairs."""
    found = estimate([1.0, 1.0, 9.0])
    assert found.median == 1.0
    assert found.high == 9.0
    assert not found.is_resolved


def test_ratios_are_pairwise() -> None:
    """Not ratios of the medians."""
    assert ratios([2, 9], [1, 3]) == [2, 3]


@pytest.mark.parametrize(("above", "below"), [([1], [1, 2]), ([1], [0]), ([-1], [1])])
def test_ratios_need_positive_values_of_equal_number(above: list[float], below: list[float]) -> None:
    """Errors: ValueError."""
    with pytest.raises(ValueError, match=r"pairs|above 0"):
        ratios(above, below)


def test_estimate_needs_values() -> None:
    """Errors: ValueError."""
    with pytest.raises(ValueError, match="no values"):
        estimate([])


@pytest.mark.parametrize(
    ("median", "goal", "at_least", "expected"),
    [(2.0, 2.0, True, MET), (1.99, 2.0, True, MISSED), (1.0, 1.0, False, MET), (1.01, 1.0, False, MISSED)],
)
def test_resolved_ratio_is_met_or_missed(median: float, goal: float, at_least: bool, expected: str) -> None:
    """By its median; the goal is a lower or an upper limit."""
    found = Estimate(median, median * 0.9, median * 1.1, 5)
    assert verdict(found, goal, at_least=at_least) == expected


@pytest.mark.parametrize(("low", "high"), [(0.84, 1.0), (1.0, 1.16)])
def test_ratio_with_a_wide_interval_is_not_resolved(low: float, high: float) -> None:
    """15 % on one side is enough."""
    assert verdict(Estimate(1.0, low, high, 5), 0.5, at_least=True) == UNRESOLVED
