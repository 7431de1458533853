"""Aggregates over sliding windows."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.stream import Builder, sliding
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run


@given(st.lists(st.integers(0, 60), max_size=20), st.sampled_from([5, 10, 100]))
def test_sums_equal_a_naive_model(timestamps: list[int], length: int) -> None:
    """A window ends at each record, and one begins behind each that has later records; early ones start at
    0."""
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    grouped.windowed_by(sliding(length, grace=1000)).aggregate(
        lambda: 0, lambda k, v, total: total + v, store="sums"
    )
    run = Run(builder)
    records = []
    for number, timestamp in enumerate(timestamps):
        run.send("in", ("a", 1 << number, timestamp))
        records.append((timestamp, 1 << number))
    expected = {}
    for timestamp, _ in records:
        for start in (max(0, timestamp - length), timestamp + 1):
            total = sum(value for time, value in records if start <= time <= start + length)
            if total:
                expected[start] = total
    with run.driver.store("sums").fetch_range("a", 0, 1000) as rows:
        assert {start: row.value for start, row in rows} == expected
    run.close()


def test_late_records_are_dropped() -> None:
    """Where even their right window has closed."""
    builder = Builder()
    builder.stream("in", key=utf8).group_by_key().windowed_by(sliding(10, grace=5)).count().to_stream().to(
        "out"
    )
    run = Run(builder).send("in", ("a", 1, 100), ("a", 1, 84), ("a", 1, 85))
    assert run.driver.dropped_records == {"closed window": 2}, "the record at 84, and the left window of 85"
    assert [row[1:4] for row in run.windows()] == [(90, 100, 1)]


def test_a_closed_window_is_emitted_once() -> None:
    """In order of time."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(sliding(10, grace=20))
    windowed.emit("close").count().to_stream().to("out")
    run = Run(builder).send("in", ("a", 1, 20), ("a", 1, 25), ("b", 1, 45))
    assert [row[1:4] for row in run.windows()] == [(10, 20, 1)]
    run.send("in", ("b", 1, 52))
    assert [row[1:4] for row in run.windows()] == [(15, 25, 2), (21, 31, 1)]
