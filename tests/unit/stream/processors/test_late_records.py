"""Records that come too late go to a function or a topic, and are counted as dropped all the same."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import (
    Builder,
    LateRecord,
    Store,
    Sum,
    TestDriver,
    TopologyError,
    Window,
    count_windows,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    unlimited,
)
from headrace.stream.errors import ProcessingError
from headrace.stream.task.settings import TaskSettings
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

WINDOWS = {
    "tumbling": tumbling(10, grace=5),
    "hopping": hopping(10, advance=5, grace=3),
    "sliding": sliding(10, grace=5),
    "session": session(5, grace=5),
}
RECORDS = out_of_order(
    st.sampled_from("ab") | st.none(), st.integers(0, 5), max_size=25, max_step_ms=9, max_lateness_ms=60
)


@pytest.mark.parametrize("kind", WINDOWS)
@given(records=RECORDS)
@settings(max_examples=30)
def test_each_dropped_window_is_reported_once(kind: str, records: list[tuple[Any, int, int]]) -> None:
    """As often as the metric counts closed windows; results are those without `late`."""
    late: list[LateRecord[Any, Any]] = []
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    for topic, where in (("with", late.append), ("without", None)):
        windowed = grouped.windowed_by(WINDOWS[kind], late=where)  # type: ignore[call-overload]
        windowed.aggregate(total=Sum(), value=json).to_stream().to(topic)
    run = Run(builder).send("in", *records)
    dropped = run.driver.dropped_records
    counted = dropped.get("closed window", 0) + dropped.get("closed session", 0)
    assert 2 * len(late) == counted
    assert run.windows("with") == run.windows("without")
    for record in late:
        assert record.window is not None
        assert record.window.start <= record.timestamp <= record.window.end
        assert record.metadata is not None
        assert records[record.metadata.offset] == record[:3]
        assert record.stream_time == max(
            time for key, _, time in records[: record.metadata.offset + 1] if key is not None
        )
        assert record.lateness_ms == record.stream_time - record.timestamp > 0
    run.close()


def test_a_hopping_record_misses_some_windows_and_meets_others() -> None:
    """One late record for each window that it missed."""
    late: list[LateRecord[str, int]] = []
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    grouped.windowed_by(hopping(10, advance=5), late=late.append).count().to_stream().to("out")
    run = Run(builder).send("in", ("a", 1, 21), ("a", 2, 13))
    assert [(record.window, record.value) for record in late] == [(Window(5, 15), 2), (Window(10, 20), 2)]
    late.clear()
    run.send("in", ("a", 3, 16))
    assert [record.window for record in late] == [Window(10, 20)]
    assert run.windows()[-1] == ("a", 15, 25, 2, 21)


def late_topic() -> Builder:
    builder = Builder()
    stream = builder.stream("in", key=utf8)
    changed = stream.group_by(lambda key, value: key * 2, key=utf8, value=json, name="twice")
    windowed = changed.windowed_by(tumbling(10), late="too-late").count(name="counts")
    windowed.to_stream().to("out")
    return builder


def test_a_topic_gets_key_value_and_context() -> None:
    """In the format of the stream that was grouped; the record comes from the repartition topic."""
    driver = TestDriver(late_topic(), settings=TaskSettings(key_serde=utf8, value_serde=json))
    driver.input_topic("in").pipe_input("a", 1, timestamp=25, headers=[("h", b"1")])
    driver.input_topic("in").pipe_input("a", [2], timestamp=7, headers=[("h", b"2")])
    assert driver.output_topic("too-late").read_records() == [
        (
            "aa",
            [2],
            7,
            (
                ("h", b"2"),
                ("__streams.late.processor", b"counts"),
                ("__streams.late.stream.time", b"25"),
                ("__streams.late.window.start", b"0"),
                ("__streams.late.window.end", b"10"),
                ("__streams.late.ms", b"18"),
                ("__streams.late.topic", b"test-driver-twice-repartition"),
                ("__streams.late.partition", b"0"),
                ("__streams.late.offset", b"1"),
            ),
        )
    ]
    assert driver.dropped_records == {"closed window": 1}
    assert len(driver.producer_records("out")) == 1


@pytest.mark.parametrize("windows", [tumbling(10, grace=0), session(5, grace=0), sliding(10, grace=0)])
@pytest.mark.parametrize("has_table", [True, False])
def test_results_do_not_go_to_the_topic(windows: Any, has_table: bool) -> None:
    """Neither when a cache is flushed: the only other child, or none, gets the rows."""
    builder = Builder()
    table: Any = builder.stream("in").group_by_key().windowed_by(windows, late="late").count()
    if has_table:
        table.to_stream(lambda key, _count: key.key).to("out")
    driver = TestDriver(builder, settings=TaskSettings(key_serde=utf8, value_serde=json), cache_bytes=10**6)
    for timestamp in (5, 6, 100):
        driver.input_topic("in").pipe_input("a", 1, timestamp=timestamp)
    assert driver.producer_records("late") == []
    assert bool(driver.producer_records("out")) == has_table


def test_the_sink_is_named_after_its_operator() -> None:
    """Or by a number. Nothing else goes to it."""
    text = late_topic().describe()
    assert "Sink: counts-late (topic: too-late)\n      <-- counts\n" in text
    builder = Builder()
    builder.stream("in").group_by_key().windowed_by(tumbling(5), late="late").count().to_stream().to("out")
    assert "Sink: KSTREAM-SINK-0000000003 (topic: late)\n      <-- KSTREAM-AGGREGATE-0000000002\n" in (
        builder.describe()
    )


@given(RECORDS, st.sets(st.integers(1, 90), max_size=3))
@settings(max_examples=25)
def test_late_records_are_written_exactly_once(
    records: list[tuple[Any, int, int]], crash_at: set[int]
) -> None:
    """A crash does not write one twice, and loses none but those that a new stream time accepts."""
    builder = Builder()
    stream = builder.stream("in", key=utf8)
    stream.to_table(store=Store("versions", history=20), late="late").to_stream().to("out")
    runs = [Run(builder, crash_at=steps).send("in", *records) for steps in (frozenset(), crash_at)]
    for topic in ("late", "out"):
        assert runs[0].driver.producer_records(topic) == runs[1].driver.producer_records(topic)


def test_stream_join_reports_records_too_late_for_its_store() -> None:
    """The late record meets what is there; a later record of the other side does not find it."""
    late: list[LateRecord[str, Any]] = []
    builder = Builder()
    left, right = builder.stream("left", key=utf8), builder.stream("right", key=utf8)
    joined = left.join(
        right,
        lambda one, other: [one, other],
        window=join_window(0, before=2, after=5, grace=3),
        late=late.append,
    )
    joined.to("out")
    run = Run(builder).send("left", ("a", 1, 100), ("a", 2, 91), ("a", 3, 90), (None, 4, 1))
    assert [(record.value, record.window, record.lateness_ms) for record in late] == [(3, Window(88, 95), 10)]
    late.clear()
    run.send("right", ("a", 5, 200), ("a", 6, 190))
    assert [(record.value, record.window) for record in late] == [(6, Window(185, 192))]


def test_a_join_has_a_late_sink_per_side() -> None:
    """The values of both sides may have other formats."""
    builder = Builder()
    left, right = builder.stream("left", key=utf8, value=utf8), builder.stream("right", key=utf8, value=json)
    left.join(right, lambda one, other: one, window=join_window(1), late="late", name="pair").to("out")
    driver = TestDriver(builder, settings=TaskSettings(key_serde=utf8, value_serde=json))
    for topic, value in (("left", "x"), ("right", {"y": 1})):
        for timestamp in (100, 5):
            driver.input_topic(topic).pipe_input("a", value, timestamp=timestamp)
    values = [(record.value, dict(record.headers)["__streams.late.processor"]) for record in (
        driver.producer_records("late")
    )]  # fmt: skip
    assert values == [(b"x", b"pair-this-windowed"), (b'{"y":1}', b"pair-other-windowed")]
    assert "Sink: pair-other-late (topic: late)\n      <-- pair-other-windowed\n" in builder.describe()


def test_a_versioned_table_reports_updates_before_its_history() -> None:
    """They have no window."""
    late: list[LateRecord[str, Any]] = []
    builder = Builder()
    table = builder.table("in", key=utf8, store=Store("versions", history=10), late=late.append)
    table.to_stream().to("out")
    Run(builder).send("in", ("a", 1, 100), ("a", 2, 95), ("a", 3, 80))
    assert [(record.value, record.window, record.stream_time) for record in late] == [(3, None, 100)]


def test_cogrouped_streams_report_their_own_values() -> None:
    """Each aggregation with its sink."""
    builder = Builder()
    one = builder.stream("one", key=utf8, value=utf8).group_by_key()
    two = builder.stream("two", key=utf8, value=json).group_by_key()
    cogrouped = one.cogroup(lambda key, value, total: total + 1).cogroup(
        two, lambda key, value, total: total + 1
    )
    cogrouped.windowed_by(tumbling(5), late="late").aggregate(int, name="both").to_stream().to("out")
    driver = TestDriver(builder, settings=TaskSettings(key_serde=utf8, value_serde=json))
    for topic, value in (("one", "x"), ("two", [1])):
        for timestamp in (100, 5):
            driver.input_topic(topic).pipe_input("a", value, timestamp=timestamp)
    assert [record.value for record in driver.producer_records("late")] == [b"x", b"[1]"]


def test_a_failing_function_names_its_operator() -> None:
    """It is a function of the user as any other."""

    def fail(record: LateRecord[Any, Any]) -> None:
        raise ValueError(record.key)

    builder = Builder()
    windowed = builder.stream("in", key=utf8).group_by_key().windowed_by(tumbling(5), late=fail)
    windowed.count(name="counts")
    with pytest.raises(ProcessingError, match="processor counts of task 0_0 failed on offset 1 of in-0"):
        Run(builder).send("in", ("a", 1, 100), ("a", 1, 1))


@pytest.mark.parametrize("late", ["", 7, ["topic"]])
def test_late_is_a_topic_or_a_function(late: Any) -> None:
    """With the line of the program."""
    grouped = Builder().stream("in").group_by_key()
    with pytest.raises(TopologyError, match=r"name of a topic or a function.*test_late_records\.py:"):
        grouped.windowed_by(tumbling(5), late=late)


def test_windows_that_never_close_have_no_late_records() -> None:
    """Nor has a table without versions."""
    builder = Builder()
    grouped = builder.stream("in").group_by_key()
    for windows in (count_windows(5), unlimited()):
        with pytest.raises(TopologyError, match="late= needs windows that close by time"):
            grouped.windowed_by(windows, late="late")
    with pytest.raises(TopologyError, match="late= needs a versioned table"):
        builder.table("t", late="late")
