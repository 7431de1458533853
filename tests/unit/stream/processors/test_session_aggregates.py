"""Aggregates over sessions."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.stream import Builder, session
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run


@given(st.lists(st.integers(0, 80), max_size=20))
def test_sessions_equal_a_naive_model(timestamps: list[int]) -> None:
    """Records at most the gap apart share a session, in whatever order they come."""
    builder = Builder()
    builder.stream("in", key=utf8).group_by_key().windowed_by(session(5, grace=1000)).count(store="sessions")
    run = Run(builder).send("in", *(("a", 1, timestamp) for timestamp in timestamps))
    expected: list[list[int]] = []
    for timestamp in sorted(timestamps):
        if expected and timestamp - expected[-1][1] <= 5:
            expected[-1][1:] = [timestamp, expected[-1][2] + 1]
        else:
            expected.append([timestamp, timestamp, 1])
    with run.driver.store("sessions").fetch("a") as rows:
        assert [[key.window.start, key.window.end, count] for key, count in rows] == expected
    run.close()


def test_a_record_between_two_sessions_merges_them() -> None:
    """Both are removed, then the merged one is forwarded; its timestamp is the end of the session."""
    builder = Builder()
    builder.stream("in", key=utf8).group_by_key().windowed_by(session(5, grace=10)).count().to_stream().to(
        "out"
    )
    run = Run(builder, cache_bytes=0).send("in", ("a", 1, 0), ("a", 1, 8), ("a", 1, 4))
    assert run.windows() == [
        ("a", 0, 0, 1, 0), ("a", 8, 8, 1, 8), ("a", 0, 0, None, 0), ("a", 8, 8, None, 8), ("a", 0, 8, 3, 8),
    ]  # fmt: skip


def test_late_records_are_dropped() -> None:
    """Unless they join a session that is still open."""
    builder = Builder()
    builder.stream("in", key=utf8).group_by_key().windowed_by(session(5, grace=10)).count().to_stream().to(
        "out"
    )
    run = Run(builder).send("in", ("a", 1, 100), ("b", 1, 84), ("b", 1, 85))
    assert run.driver.dropped_records == {"closed session": 1}
    assert [row[:3] for row in run.windows()] == [("a", 100, 100), ("b", 85, 85)]


def test_a_closed_session_is_emitted_once() -> None:
    """When the gap and the grace period have passed."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(session(5, grace=0))
    windowed.emit("close").count().to_stream().to("out")
    run = Run(builder).send("in", ("a", 1, 0), ("a", 1, 3), ("b", 1, 5), ("a", 1, 9), ("c", 1, 100))
    assert run.windows() == [("a", 0, 3, 2, 3), ("b", 5, 5, 1, 5), ("a", 9, 9, 1, 9)]
