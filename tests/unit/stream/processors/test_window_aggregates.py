"""Aggregates over time windows, on every update and on close."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.stream import Builder, hopping, tumbling
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30)


@given(RECORDS, st.sampled_from([(10, 10), (10, 4), (7, 2)]), st.integers(0, 30))
def test_counts_equal_a_naive_model(
    records: list[tuple[str, int]], shape: tuple[int, int], grace: int
) -> None:
    """Per key and window; a record is dropped from the windows that ended before stream time minus grace."""
    size, advance = shape
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    grouped.windowed_by(hopping(size, advance=advance, grace=grace)).count().to_stream().to("out")
    run = Run(builder)
    counts: dict[tuple[str, int], int] = {}
    expected = []
    stream_time = dropped = 0
    for key, timestamp in records:
        run.send("in", (key, 1, timestamp))
        stream_time = max(stream_time, timestamp)
        for start in range(0, timestamp + 1, advance):
            if timestamp >= start + size:
                continue
            if start + size <= stream_time - grace:
                dropped += 1
                continue
            counts[key, start] = counts.get((key, start), 0) + 1
            expected.append((key, start, start + size, counts[key, start]))
    assert [row[:4] for row in run.windows()] == expected
    assert run.driver.dropped_records.get("closed window", 0) == dropped
    run.close()


def test_a_closed_window_is_emitted_once() -> None:
    """When stream time has passed its end by the grace period, with the timestamp of its last record."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(tumbling(10, grace=5))
    windowed.emit("close").count().to_stream().to("out")
    run = Run(builder).send("in", ("a", 1, 1), ("a", 1, 8), ("b", 1, 3), ("a", 1, 12))
    assert run.windows() == []
    run.send("in", ("a", 1, 4), ("a", 1, 15))
    assert run.windows() == [("a", 0, 10, 3, 8), ("b", 0, 10, 1, 3)]
    run.send("in", ("a", 1, 5), ("c", 1, 100))
    assert run.windows() == [("a", 10, 20, 2, 15)]


def test_windows_are_read_as_a_table() -> None:
    """A join of a windowed table with another reads the row of the window."""
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    counts = grouped.windowed_by(tumbling(10)).count()
    totals = grouped.windowed_by(tumbling(10)).reduce(lambda a, b: a + b)
    counts.join(totals, lambda n, total: total / n).to_stream().to("out")
    run = Run(builder).send("in", ("a", 4, 1), ("a", 8, 2), ("a", 1, 11))
    assert [row[3] for row in run.windows()][-1] == 1.0
    assert [row[3] for row in Run(builder).send("in", ("a", 4, 1), ("a", 8, 2)).windows()][-1] == 6.0
