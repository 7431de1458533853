"""The histogram against sorted lists."""

import math
import pickle
import random

import pytest
from headrace.services.bench.histogram import PERCENTILES, Histogram


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def samples(seed: int, count: int = 5000) -> list[int]:
    generator = random.Random(seed)
    return [int(math.exp(generator.uniform(0, 28))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_match_a_sorted_list(seed: int) -> None:
    """Nearest rank, at most 1 % off over twelve orders of magnitude; mean, max and count exact."""
    values = samples(seed)
    histogram = filled(values)
    ordered = sorted(values)
    for percent in (0, 0.1, 1, 10, 50, 90, 99, 99.9, 99.99, 100):
        exact = ordered[max(math.ceil(round(percent * len(ordered) / 100, 9)), 1) - 1]
        found = histogram.percentile(percent)
        assert found is not None
        assert abs(found - exact) <= 0.005 * exact, percent
    assert histogram.percentile(100) == histogram.max == ordered[-1]
    assert histogram.min == ordered[0]
    assert histogram.mean == sum(values) / len(values)
    assert histogram.count == len(values)


def test_small_values_are_exact() -> None:
    """Below 256 each value has its own bucket."""
    histogram = filled(list(range(256)))
    for percent in range(1, 101):
        assert histogram.percentile(percent) == math.ceil(256 * percent / 100) - 1


@pytest.mark.parametrize("value", [0, 1, 255, 256, 257, 511, 512, 10**6, 2**40 - 1, 2**40, 2**43 - 1])
def test_one_value_is_every_percentile(value: int) -> None:
    """No percentile is outside of the recorded range."""
    histogram = filled([value])
    assert {histogram.percentile(percent) for percent in (0, 50, 99.9, 100)} == {float(value)}


def test_all_ways_to_record_are_equal() -> None:
    """`record`, `record` with a count, `record_many`, `merge` and a pickled copy."""
    values = samples(7) + [5] * 10
    many = filled(values)
    single, left, right = Histogram(), filled(values[:100]), filled(values[100:])
    for value in values[:-10]:
        single.record(value)
    single.record(5, 10)
    left.merge(right)
    left.merge(Histogram())
    empty = Histogram()
    empty.merge(many)
    copy = pickle.loads(pickle.dumps(many))
    for other in (single, left, empty, copy):
        assert other.__getstate__() == many.__getstate__()
    assert copy.percentile(99) == many.percentile(99)
    copy.record(1)  # a copy can record, too


def test_memory_is_fixed() -> None:
    """All long durations share the last bucket."""
    histogram = filled([2**43, 2**60, 10**30])
    assert histogram.count == 3
    assert histogram.max == 10**30
    assert histogram.percentile(10) >= 2**43 * 0.99  # type: ignore[operator]
    assert len(histogram.__getstate__()["used"]) == 1


def test_summary_is_in_milliseconds() -> None:
    """Recorded values are nanoseconds; an empty histogram has no figures."""
    summary = filled([1_000_000] * 99 + [5_000_000]).summary_ms()
    assert list(summary) == [*PERCENTILES, "max", "mean", "count"] == [
        "p50", "p90", "p99", "p99_9", "max", "mean", "count"
    ]  # fmt: skip
    assert summary["p50"] == pytest.approx(1, rel=0.005)
    assert summary["p99"] == pytest.approx(1, rel=0.005)
    assert summary["p99_9"] == summary["max"] == 5
    assert summary["mean"] == 1.04
    assert summary["count"] == 100
    assert set(Histogram().summary_ms().values()) == {None, 0}


def test_invalid_durations_and_percentiles_are_errors() -> None:
    """An invalid value in a list rejects the whole list."""
    histogram = Histogram()
    with pytest.raises(ValueError, match="must be >= 0"):
        histogram.record(-1)
    with pytest.raises(ValueError, match="count >= 1"):
        histogram.record(1, 0)
    with pytest.raises(ValueError, match="must be >= 0"):
        histogram.record_many([1, -1])
    assert histogram.count == 0
    assert histogram.__getstate__()["used"] == {}
    for percent in (-1, 100.1):
        with pytest.raises(ValueError, match=r"0\.\.100"):
            histogram.percentile(percent)
