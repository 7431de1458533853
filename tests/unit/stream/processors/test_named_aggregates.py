"""Rows of aggregates over streams, windows, sessions and tables, beside a naive model."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import (
    Aggregate,
    Builder,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Min,
    Row,
    Sum,
    rows,
    session,
    session_windowed,
    sliding,
    tumbling,
)
from headrace.stream.errors import ProcessingError
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

RECORDS = out_of_order(
    st.sampled_from("ab"), st.integers(-5, 5), max_size=20, max_step_ms=6, max_lateness_ms=12, tombstones=True
)
AGGREGATES: dict[str, Aggregate[Any]] = {
    "n": Count(),
    "values": Count(lambda value: value),
    "total": Sum(),
    "odd": Sum(lambda value: value if value % 2 else None),
    "mean": Mean(),
    "low": Min(),
    "high": Max(),
    "first": First(),
    "last": Last(),
    "all": Collect(),
}


def naive(records: list[tuple[int | None, int]]) -> dict[str, Any]:
    """The row of the values and timestamps of one key or window, in order of arrival."""
    values = [value for value, _ in records if value is not None]
    timed = sorted(
        (timestamp, number) for number, (value, timestamp) in enumerate(records) if value is not None
    )
    return {
        "n": len(records),
        "values": len(values),
        "total": sum(values),
        "odd": sum(value for value in values if value % 2),
        "mean": sum(values) / len(values) if values else None,
        "low": min(values, default=None),
        "high": max(values, default=None),
        "first": records[timed[0][1]][0] if timed else None,
        "last": records[timed[-1][1]][0] if timed else None,
        "all": values,
    }


@given(RECORDS, st.sampled_from([0, 10**6]))
@settings(max_examples=40)
def test_rows_of_a_stream_equal_a_naive_model(records: list[tuple[str, Any, int]], cache_bytes: int) -> None:
    """Each record gives a row with the highest timestamp so far; null values are dropped."""
    builder = Builder()
    grouped = builder.stream("in").group_by_key()
    grouped.aggregate(**AGGREGATES, store="rows").to_stream().to("out", value=rows)
    run = Run(builder, cache_bytes=cache_bytes).send("in", *records)
    seen: dict[str, list[tuple[int, int]]] = {}
    expected = []
    for key, value, timestamp in records:
        if value is not None:
            seen.setdefault(key, []).append((value, timestamp))
            expected.append((key, naive(seen[key]), max(time for _, time in seen[key])))  # type: ignore[arg-type]
    assert run.driver.output_topic("out", value=rows).read_key_values() == [
        (key, row) for key, row, _ in expected
    ]
    assert {key: run.driver.store("rows").get(key) for key in seen} == {
        key: (row, timestamp) for key, row, timestamp in expected
    }
    run.close()


@given(RECORDS)
@settings(max_examples=40)
def test_rows_of_time_windows_equal_a_naive_model(records: list[tuple[str, Any, int]]) -> None:
    """A record without value is counted, as `count` does, and no function gets it."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(tumbling(10, grace=100))
    windowed.aggregate(**AGGREGATES, value=json).to_stream().to("out")
    run = Run(builder).send("in", *records)
    seen: dict[tuple[str, int], list[tuple[int | None, int]]] = {}
    expected = []
    for key, value, timestamp in records:
        start = timestamp // 10 * 10
        window = seen.setdefault((key, start), [])
        window.append((value, timestamp))
        expected.append((key, start, start + 10, naive(window), max(time for _, time in window)))
    assert run.windows() == expected
    run.close()


@given(
    out_of_order(st.sampled_from("ab"), st.integers(-5, 5), max_size=15, max_step_ms=9, max_lateness_ms=20)
)
@settings(max_examples=40)
def test_rows_of_sessions_are_merged(records: list[tuple[str, int, int]]) -> None:
    """Each session has the row of its own records; a merged one is in order of sessions, then of arrival."""
    builder = Builder()
    windowed = builder.stream("in").group_by_key().windowed_by(session(5, grace=1000))
    windowed.aggregate(**AGGREGATES, store="rows")
    run = Run(builder).send("in", *records)
    for key in {key for key, _, _ in records}:
        own = sorted(timestamp for each, _, timestamp in records if each == key)
        bounds: list[list[int]] = []
        for timestamp in own:
            if bounds and timestamp - bounds[-1][1] <= 5:
                bounds[-1][1] = timestamp
            else:
                bounds.append([timestamp, timestamp])
        with run.driver.store("rows").fetch(key) as sessions:
            found = {(each.window.start, each.window.end): row for each, row in sessions}
        assert sorted(found) == [tuple(each) for each in bounds]
        for (start, end), row in found.items():
            values = [(v, t) for each, v, t in records if each == key and start <= t <= end]
            times = [timestamp for _, timestamp in values]
            assert sorted(row["all"]) == sorted(value for value, _ in values)
            compared = {"n", "values", "total", "odd", "low", "high"}
            if len(set(times)) == len(times):  # of equal timestamps, merged sessions know no order
                compared |= {"first", "last"}
            expected = naive(values)  # type: ignore[arg-type]
            assert {name: row[name] for name in compared} == {name: expected[name] for name in compared}
    run.close()


def test_sliding_windows_and_emission_on_close() -> None:
    """The windows are those of every aggregation; a closed one is emitted once, as its last row."""
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    sliding_rows = grouped.windowed_by(sliding(10, grace=5)).aggregate(total=Sum(), last=Last(), value=json)
    sliding_rows.to_stream().to("sliding")
    closed = grouped.windowed_by(tumbling(10)).emit("close").aggregate(total=Sum(), n=Count(), value=json)
    closed.to_stream().to("closed")
    run = Run(builder).send("in", ("a", 1, 11), ("a", 2, 15), ("a", 4, 12), ("a", 0, 40))
    assert run.windows("closed") == [("a", 10, 20, {"total": 7, "n": 3}, 15)]
    rows_by_start = {start: row for _, start, _, row, _ in run.windows("sliding")}
    assert rows_by_start == {
        1: {"total": 1, "last": 1},
        2: {"total": 5, "last": 4},
        5: {"total": 7, "last": 2},
        12: {"total": 6, "last": 2},
        13: {"total": 2, "last": 2},
        30: {"total": 0, "last": 0},
    }


@given(RECORDS)
@settings(max_examples=40)
def test_rows_of_a_table_follow_its_changes(records: list[tuple[str, Any, int]]) -> None:
    """A changed or deleted row is taken away from its group."""
    builder = Builder()
    table = builder.table("in").group_by(lambda key, value: (str(value % 3), value))
    table.aggregate(n=Count(), total=Sum(), mean=Mean(), store="rows").to_stream().to("out")
    run = Run(builder).send("in", *records)
    table_rows: dict[str, int] = {}
    for key, value, _ in records:
        table_rows.pop(key, None)
        if value is not None:
            table_rows[key] = value
    for group in "012":
        values = [value for value in table_rows.values() if str(value % 3) == group]
        found = run.driver.store("rows").get(group)
        if found is None:
            assert values == []
        else:
            mean = sum(values) / len(values) if values else None
            assert found.value == {"n": len(values), "total": sum(values), "mean": mean}
    run.close()


def sessions_and_rows() -> Builder:
    builder = Builder()
    grouped = builder.stream("in").group_by(lambda key, value: key + key)
    grouped.aggregate(**AGGREGATES, store="rows").to_stream().to("out", value=json)
    windowed = grouped.windowed_by(session(5, grace=1000))
    windowed.aggregate(**AGGREGATES, value=json).to_stream().to("sessions", key=session_windowed(utf8))
    return builder


@given(RECORDS, st.sets(st.integers(1, 120), max_size=4))
@settings(max_examples=30)
def test_a_crash_changes_no_row(records: list[tuple[str, Any, int]], crash_at: set[int]) -> None:
    """States come back from the changelogs: output and changelogs are those of a run without crashes."""
    with_value = [record for record in records if record[1] is not None]
    runs = [
        Run(sessions_and_rows(), crash_at=steps).send("in", *with_value) for steps in (frozenset(), crash_at)
    ]
    topics = [sorted(run.driver.produced_topic_names) for run in runs]
    assert topics[0] == topics[1]
    for topic in topics[0]:
        assert runs[0].driver.producer_records(topic) == runs[1].driver.producer_records(topic)


def test_rows_pass_through_table_operators() -> None:
    """Filters, joins and suppression see results."""
    builder = Builder()
    table = builder.stream("in").group_by_key().aggregate(total=Sum(), n=Count())
    large = table.filter(lambda key, row: row.total > 3, store="large")
    large.join(table, lambda one, other: [one.total, other["n"]]).to_stream().to("out")
    run = Run(builder, cache_bytes=0).send("in", ("a", 2, 1), ("a", 3, 2))
    assert run.read()[-1] == ("a", [5, 2], 2)
    assert run.driver.store("large").get("a").value == {"total": 5, "n": 2}


class Range(Aggregate[float]):
    """The distance between the largest and the smallest value: an aggregate of a user."""

    kind = "range"

    def add(self, state: Any, value: Any) -> Any:
        return [value, value] if state is None else [min(state[0], value), max(state[1], value)]

    def merge(self, state: Any, other: Any) -> Any:
        return self.add_all(state, other or ())

    def result(self, state: Any) -> Any:
        return None if state is None else state[1] - state[0]


def test_users_add_aggregates_of_their_own() -> None:
    """By deriving from Aggregate; here it also merges sessions."""
    builder = Builder()
    windowed = builder.stream("in").group_by_key().windowed_by(session(5, grace=100))
    windowed.aggregate(spread=Range(), value=json).to_stream().to("out", key=session_windowed(utf8))
    run = Run(builder).send("in", ("a", 3, 10), ("a", 7, 20), ("a", 5, 15))
    assert run.windows()[-1] == ("a", 10, 20, {"spread": 4}, 20)


def test_a_row_is_read_by_name_and_cannot_be_changed() -> None:
    """A cache may hold it: a change would reach the store."""
    row = Row(total=3, items=1)
    assert (row.total, row["items"], row) == (3, 1, {"total": 3, "items": 1})
    with pytest.raises(AttributeError, match="the row has no mean, but total, items"):
        row.mean  # noqa: B018
    with pytest.raises(TypeError, match="a row cannot be changed"):
        row["total"] = 4
    with pytest.raises(TypeError, match="a row cannot be changed"):
        row.update(total=4)


def test_a_failing_function_names_processor_and_offset() -> None:
    """As in every operator."""
    builder = Builder()
    builder.stream("in").group_by_key().aggregate(total=Sum(lambda value: value["amount"]), name="totals")
    with pytest.raises(ProcessingError, match="processor totals of task 0_0 failed on offset 0 of in-0"):
        Run(builder).send("in", ("a", {}, 1))
