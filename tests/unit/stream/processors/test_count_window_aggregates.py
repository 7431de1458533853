"""Aggregates over windows of a number of records."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, json, utf8
from headrace.stream import (
    Builder,
    CountWindows,
    First,
    Sum,
    TopologyError,
    count_windows,
    tumbling,
    until_window_closes,
)
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

RECORDS = out_of_order(
    st.sampled_from("ab") | st.none(), st.integers(-5, 5), max_size=25, max_lateness_ms=12, tombstones=True
)
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 5)).filter(lambda shape: shape[1] <= shape[0])


def collected(key: Any, value: Any, aggregate: list[Any]) -> list[Any]:
    return [*aggregate, value]


@given(RECORDS, SHAPES, st.booleans(), st.sampled_from([0, 10**6]))
@settings(max_examples=60)
def test_windows_equal_a_naive_model(
    records: list[tuple[Any, Any, int]], shape: tuple[int, int], only_full: bool, cache_bytes: int
) -> None:
    """Windows of the numbers of the records of a key; all results in order, with caching as well."""
    size, advance = shape
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(count_windows(size, advance=advance))
    if only_full:
        windowed = windowed.emit("close")
    windowed.aggregate(list, collected).to_stream().to("out")
    run = Run(builder, cache_bytes=cache_bytes).send("in", *records)
    seen: dict[str, list[tuple[int, int]]] = {}
    expected = []
    for key, value, timestamp in records:
        if key is None or value is None:
            continue
        own = seen.setdefault(key, [])
        own.append((value, timestamp))
        for start in range(0, len(own), advance):
            window = own[start : start + size]
            if start + size < len(own) or (only_full and start + size != len(own)):
                continue
            values, times = zip(*window, strict=True)
            expected.append((key, start, start + size, list(values), max(times)))
    assert run.windows() == expected
    assert sum(run.driver.dropped_records.values()) == len(records) - sum(map(len, seen.values()))
    run.close()


def application() -> Builder:
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    overlapping = grouped.windowed_by(count_windows(3, advance=2))
    overlapping.count(store="counts").to_stream().to("counts", value=int64)
    overlapping.reduce(lambda one, other: one + other).to_stream().to("sums")
    tumbled = grouped.windowed_by(count_windows(2)).emit("close")
    tumbled.aggregate(total=Sum(), first=First(), value=json).to_stream().to("rows")
    return builder


@given(RECORDS, st.sets(st.integers(1, 100), max_size=4))
@settings(max_examples=30)
def test_a_crash_changes_no_window(records: list[tuple[Any, Any, int]], crash_at: set[int]) -> None:
    """Numbers of records and open windows come back from the changelog."""
    runs = [Run(application(), crash_at=steps).send("in", *records) for steps in (frozenset(), crash_at)]
    topics = [sorted(run.driver.produced_topic_names) for run in runs]
    assert topics[0] == topics[1]
    for topic in topics[0]:
        assert runs[0].driver.producer_records(topic) == runs[1].driver.producer_records(topic)


def test_count_reduce_and_named_aggregates() -> None:
    """Each with the serde of its results."""
    run = Run(application()).send("in", ("a", 1, 5), ("a", 2, 4), ("a", 4, 9))
    assert run.windows("sums") == [
        ("a", 0, 3, 1, 5),
        ("a", 0, 3, 3, 5),
        ("a", 0, 3, 7, 9),
        ("a", 2, 5, 4, 9),
    ]
    assert [row for *_, row, _ in run.windows("counts")] == [1, 2, 3, 1]
    assert run.windows("rows") == [("a", 0, 2, {"total": 3, "first": 2}, 5)]


def test_a_table_of_count_windows_can_be_joined() -> None:
    """It has the windows that are not full, with their old values."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(count_windows(2))
    table = windowed.reduce(lambda one, other: one + other)
    table.join(table.map_values(lambda value: -value), lambda one, other: [one, other]).to_stream().to("out")
    table.filter(lambda key, value: value < 3).to_stream().to("small")
    run = Run(builder).send("in", ("a", 1, 1), ("a", 4, 2), ("a", 2, 3))
    assert run.windows()[-1] == ("a", 2, 4, [2, -2], 3)
    assert run.windows("small") == [("a", 0, 2, 1, 1), ("a", 0, 2, None, 2), ("a", 2, 4, 2, 3)]


@pytest.mark.parametrize(("size", "advance"), [(0, None), (-1, None), (3, 0), (3, 4), (True, None), (2.5, 1)])
def test_wrong_sizes_are_refused(size: Any, advance: Any) -> None:
    """Where the windows are made."""
    with pytest.raises(ValueError, match=r"count window|advance by"):
        count_windows(size, advance=advance)


@given(SHAPES, st.integers(0, 30))
def test_first_open_window(shape: tuple[int, int], count: int) -> None:
    """The oldest start whose window needs more records."""
    windows = CountWindows(*shape)
    starts = range(0, count + windows.size + 1, windows.advance)
    assert windows.first_open(count) == next(start for start in starts if start + windows.size > count)


def test_suppression_until_windows_close_needs_time_windows() -> None:
    """`emit("close")` gives the final results of count windows."""
    table = Builder().stream("in").group_by_key().windowed_by(count_windows(2)).count()
    with pytest.raises(TopologyError, match="until_window_closes needs an aggregation by time windows"):
        table.suppress(until_window_closes())
    Builder().stream("in").group_by_key().windowed_by(tumbling(2)).count().suppress(until_window_closes())
