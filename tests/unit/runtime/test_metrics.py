"""Counters, gauges and histograms have the right values, in constant memory."""

import random

import pytest
from headrace.runtime.metrics import MAX_METRICS, Histogram, Metrics


def test_snapshot_has_every_metric_by_name() -> None:
    """A counter by value, a gauge as read now, a histogram as its summary, sorted by name."""
    registry = Metrics()
    registry.histogram("b.latency.ms").record(10)
    registry.counter("c.requests.total").add(3)
    level = [5]
    registry.gauge("a.parked", lambda: level[0])
    level[0] = 7
    snapshot = registry.snapshot()
    assert list(snapshot) == ["a.parked", "b.latency.ms", "c.requests.total"]
    assert snapshot["a.parked"] == 7
    assert snapshot["c.requests.total"] == 3
    summary = snapshot["b.latency.ms"]
    assert isinstance(summary, dict)
    assert summary["count"] == 1
    assert summary["max"] == summary["mean"] == 10


def test_same_name_returns_the_same_counter() -> None:
    registry = Metrics()
    registry.counter("a.total").add()
    registry.counter("a.total").add()
    assert registry.snapshot() == {"a.total": 2}
    assert registry.histogram("h") is registry.histogram("h")


def test_name_of_another_kind_is_refused() -> None:
    registry = Metrics()
    registry.counter("a")
    with pytest.raises(ValueError, match="another kind"):
        registry.gauge("a", lambda: 1)
    with pytest.raises(ValueError, match="another kind"):
        registry.histogram("a")


@pytest.mark.parametrize("name", ["", "A", "a b", "a..b", ".a", "a\n", "topic-1"])
def test_invalid_names_are_refused(name: str) -> None:
    """They would break an exporter's format."""
    with pytest.raises(ValueError, match="lower case"):
        Metrics().counter(name)


def test_number_of_metrics_is_bounded() -> None:
    """Names could come from a client's input."""
    registry = Metrics()
    for number in range(MAX_METRICS):
        registry.counter(f"name{number}")
    with pytest.raises(ValueError, match=f"more than {MAX_METRICS}"):
        registry.counter("one.more")


def test_percentiles_are_exact_within_a_bucket() -> None:
    """10,000 shuffled values: every percentile is the true one or up to 25 percent above it."""
    histogram = Histogram()
    values = list(range(1, 10_001))
    random.Random(5).shuffle(values)
    for value in values:
        histogram.record(value)
    for ratio in (0.01, 0.5, 0.95, 0.99, 1.0):
        assert ratio * 10_000 <= histogram.percentile(ratio) <= ratio * 12_500
    assert histogram.percentile(1.0) == 10_000
    assert histogram.total == sum(values)


def test_values_above_the_last_bound_count() -> None:
    """As the highest value."""
    histogram = Histogram([1, 2])
    for value in (0, 1, 2, 50):
        histogram.record(value)
    assert histogram.percentile(0.5) == 1
    assert histogram.percentile(0.75) == 2
    assert histogram.percentile(0.99) == 50


def test_empty_histogram_is_zero() -> None:
    assert set(Histogram().summary().values()) == {0}


@pytest.mark.parametrize("bounds", [[], [2, 1], [1, 1]])
def test_bounds_must_increase(bounds: list[float]) -> None:
    with pytest.raises(ValueError, match="increase"):
        Histogram(bounds)


def test_percentile_ratio_is_between_0_and_1() -> None:
    """99 instead of 0.99 is refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram().percentile(99)
