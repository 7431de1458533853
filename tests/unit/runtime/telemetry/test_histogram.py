"""Histograms with buckets that double."""

import random

import pytest
from headrace.runtime.telemetry.histogram import Histogram, bound_ms


def test_percentiles_are_at_most_twice_too_high() -> None:
    """10,000 shuffled values: every percentile is the true one or up to twice as high."""
    histogram = Histogram()
    values = list(range(1, 10_001))
    random.Random(5).shuffle(values)
    for value in values:
        histogram.record(value)
    for ratio in (0.01, 0.5, 0.95, 0.99, 1.0):
        assert ratio * 10_000 <= histogram.percentile(ratio) <= ratio * 20_100
    assert histogram.percentile(1.0) == 10_000
    assert histogram.total == sum(values)


@pytest.mark.parametrize("value_ms", [0, 0.0009, 0.001, 0.064, 1, 33_554.4, 1e12])
def test_a_value_is_in_the_bucket_that_bounds_it(value_ms: float) -> None:
    """Also at a bound, below a microsecond, and beyond the last bound."""
    histogram = Histogram()
    histogram.record(value_ms)
    (number,) = [number for number, held in enumerate(histogram.buckets) if held]
    is_last = number == len(histogram.buckets) - 1
    assert value_ms <= bound_ms(number) or is_last
    assert number == 0 or value_ms >= bound_ms(number - 1)
    assert histogram.percentile(0.5) <= value_ms


def test_empty_histogram_is_zero() -> None:
    assert set(Histogram().summary().values()) == {0}


def test_percentile_ratio_is_between_0_and_1() -> None:
    """99 instead of 0.99 is refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram().percentile(99)


def test_a_copy_does_not_change() -> None:
    """Exporters read it on other threads."""
    histogram = Histogram()
    histogram.record(3)
    copy = histogram.copy()
    histogram.record(5)
    assert (copy.count, copy.total, copy.highest, sum(copy.buckets)) == (1, 3, 3, 1)
