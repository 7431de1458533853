"""Aggregates of streams and tables without windows."""

from __future__ import annotations

import pytest
from headrace.stream import Builder
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5), st.integers(0, 50)), max_size=25)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_count_takes_the_highest_timestamp(cache_bytes: int) -> None:
    """A late record counts, and the result keeps its time."""
    builder = Builder()
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    run = Run(builder, cache_bytes=cache_bytes).send("in", ("a", 1, 10), ("a", 1, 5), ("b", 1, 7))
    assert run.read() == [("a", 1, 10), ("a", 2, 10), ("b", 1, 7)]
    changelog = run.driver.producer_records("app-counts-changelog")
    assert [(record.key, record.timestamp) for record in changelog] == [(b"a", 10), (b"a", 10), (b"b", 7)]
    run.close()


def test_records_without_key_or_value_are_dropped() -> None:
    """And counted."""
    builder = Builder()
    builder.stream("in").group_by_key().count().to_stream().to("out")
    run = Run(builder).send("in", (None, 1, 10), ("a", None, 5))
    assert run.read() == []
    assert run.driver.dropped_records == {"null key or value": 2}


def test_an_aggregate_of_none_deletes_the_row() -> None:
    """The next record begins with the initializer."""
    builder = Builder()
    grouped = builder.stream("in").group_by_key()
    grouped.aggregate(lambda: 0, lambda k, v, total: None if v == 0 else total + v).to_stream().to("out")
    assert Run(builder).send("in", ("a", 1, 0), ("a", 2, 1), ("a", 0, 2), ("a", 5, 3)).read() == [
        ("a", 1, 0), ("a", 3, 1), ("a", None, 2), ("a", 5, 3),
    ]  # fmt: skip


def test_reduce_starts_with_the_first_value() -> None:
    """Without an initializer."""
    builder = Builder()
    builder.stream("in").group_by_key().reduce(max).to_stream().to("out")
    assert Run(builder).send("in", ("a", 1, 0), ("a", 3, 1), ("a", 2, 2)).read() == [
        ("a", 1, 0), ("a", 3, 1), ("a", 3, 2),
    ]  # fmt: skip


@given(RECORDS)
def test_a_regrouped_table_counts_its_rows_by_value(records: list[tuple[str, int, int]]) -> None:
    """Each row moves from the group of its old value to that of its new one; 0 stands for a deletion."""
    builder = Builder()
    table = builder.table("in")
    table.group_by(lambda k, v: (f"group {v}", v)).count(store="sizes")
    run = Run(builder)
    expected: dict[str, int] = {}
    for key, value, timestamp in records:
        run.send("in", (key, value or None, timestamp))
        expected.pop(key, None)
        if value:
            expected[key] = value
    with run.driver.store("sizes").all() as rows:
        found = {key: row.value for key, row in rows if row.value}
    sizes: dict[str, int] = {}
    for value in expected.values():
        sizes[f"group {value}"] = sizes.get(f"group {value}", 0) + 1
    assert found == sizes
    run.close()


def test_a_table_reduce_removes_before_it_adds() -> None:
    """In one change, if old and new value are in one group."""
    builder = Builder()
    grouped = builder.table("in").group_by(lambda k, v: ("all", v))
    grouped.reduce(lambda total, v: total + v, lambda total, v: total - v).to_stream().to("out")
    run = Run(builder).send("in", ("a", 5, 0), ("b", 2, 1), ("a", 1, 2), ("b", None, 3))
    assert run.read() == [("all", 5, 0), ("all", 7, 1), ("all", 3, 2), ("all", 1, 3)]


def test_a_cogroup_aggregates_several_streams_into_one_row() -> None:
    """Each with its own aggregator."""
    builder = Builder()
    carts, clicks = builder.stream("carts").group_by_key(), builder.stream("clicks").group_by_key()
    cogrouped = carts.cogroup(lambda k, v, row: {**row, "cart": v}).cogroup(
        clicks, lambda k, v, row: {**row, "clicks": row.get("clicks", 0) + 1}
    )
    cogrouped.aggregate(dict).to_stream().to("out")
    run = (
        Run(builder)
        .send("clicks", ("a", "x", 0))
        .send("carts", ("a", "milk", 1))
        .send("clicks", ("a", "y", 2))
    )
    assert [value for _, value, _ in run.read()] == [
        {"clicks": 1}, {"clicks": 1, "cart": "milk"}, {"clicks": 2, "cart": "milk"},
    ]  # fmt: skip
