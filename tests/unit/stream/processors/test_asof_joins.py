"""Joins as of a time, beside a naive model."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, LateRecord, Store, TopologyError, Window
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

SIDES = st.sampled_from(["left", "right"])
STEPS = st.lists(st.sampled_from([0, 1, 2, 5, 80]), min_size=25, max_size=25)


def with_steps(records: list[tuple[Any, Any, int]], steps: list[int]) -> list[tuple[Any, Any, int]]:
    """The records with stream time that sometimes jumps past everything that waits."""
    clock, moved = 0, []
    for (key, value, timestamp), step in zip(records, steps, strict=False):
        clock += step
        moved.append((key, value, clock + timestamp))
    return moved


RECORDS = st.builds(
    with_steps,
    out_of_order(
        st.tuples(SIDES, st.sampled_from("aab") | st.none()),
        st.integers(0, 99),
        max_size=25,
        max_step_ms=1,
        max_lateness_ms=30,
        tombstones=True,
    ),
    STEPS,
)
OPTIONS = st.fixed_dictionaries(
    {
        "tolerance": st.integers(0, 12),
        "grace": st.sampled_from([0, 0, 1, 5, 20]),
        "direction": st.sampled_from(["backward", "forward", "nearest"]),
        "how": st.sampled_from(["inner", "left"]),
    }
)


class Model:
    """A join that keeps everything, and looks at all of it."""

    def __init__(self, *, tolerance: int, grace: int, direction: str, how: str) -> None:
        self.before = 0 if direction == "forward" else tolerance
        self.after = 0 if direction == "backward" else tolerance
        self.grace = grace
        self.is_left_join = how == "left"
        self.stream_time = -1
        self.right: dict[tuple[Any, int], Any] = {}
        self.waiting: list[tuple[int, int, Any, Any]] = []  # timestamp, number, key, value
        self.output: list[tuple[Any, Any, int]] = []
        self.late: list[tuple[Any, int]] = []
        self.nulls = 0

    def process(self, number: int, side: str, key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and (side == "right" or not self.is_left_join)):
            self.nulls += 1
            return
        self.stream_time = max(self.stream_time, timestamp)
        size = self.before + self.after + self.grace
        if side == "right":
            if timestamp < self.stream_time - size - self.before:
                self.late.append((value, timestamp))
            else:
                self.right[key, timestamp] = value
            self.join_waiting()
            return
        self.join_waiting()
        if timestamp < self.stream_time - size:
            self.late.append((value, timestamp))
        elif key is None or timestamp + self.after + self.grace <= self.stream_time:
            self.join(key, value, timestamp)
        else:
            self.waiting.append((timestamp, number, key, value))

    def join_waiting(self) -> None:
        due = [each for each in self.waiting if each[0] + self.after + self.grace <= self.stream_time]
        self.waiting = [each for each in self.waiting if each not in due]
        for timestamp, _, key, value in sorted(due, key=lambda each: (each[0], each[2], each[1])):
            self.join(key, value, timestamp)

    def join(self, key: Any, value: Any, timestamp: int) -> None:
        near = [
            (abs(time - timestamp), time > timestamp, right)
            for (each, time), right in self.right.items()
            if each == key and -self.before <= time - timestamp <= self.after
        ]
        if near or self.is_left_join:
            self.output.append((key, [value, min(near)[2] if near else None], timestamp))


def application(late: Any = None, **options: Any) -> Builder:
    builder = Builder()
    left, right = builder.stream("left", key=utf8), builder.stream("right", key=utf8)
    left.join_asof(right, lambda one, other: [one, other], late=late, **options).to("out")
    return builder


def send(run: Run, records: list[tuple[Any, Any, int]]) -> Run:
    for (side, key), value, timestamp in records:
        run.send(side, (key, value, timestamp))
    return run


@given(RECORDS, OPTIONS)
@settings(max_examples=150)
def test_results_equal_those_of_a_naive_model(
    records: list[tuple[Any, Any, int]], options: dict[str, Any]
) -> None:
    """Pairs, their order and timestamps, late records and counts of dropped ones."""
    late: list[LateRecord[Any, Any]] = []
    run = send(Run(application(late.append, **options)), records)
    model = Model(**options)
    for number, ((side, key), value, timestamp) in enumerate(records):
        model.process(number, side, key, value, timestamp)
    assert run.read() == model.output
    assert [(record.value, record.timestamp) for record in late] == model.late
    dropped = run.driver.dropped_records
    assert dropped.get("late record", 0) == len(model.late)
    assert dropped.get("null key or value", 0) == model.nulls
    assert "expired-window" not in dropped
    run.close()


@given(RECORDS, OPTIONS, st.sets(st.integers(1, 120), max_size=4))
@settings(max_examples=50)
def test_a_crash_changes_no_result(
    records: list[tuple[Any, Any, int]], options: dict[str, Any], crash_at: set[int]
) -> None:
    """Waiting records, right records and stream time come back. Keys of the buffer's changelog have a
    sequence number, which begins again where the buffer was empty: their values are compared."""
    runs = [
        send(Run(application("late", **options), crash_at=steps), records)
        for steps in (frozenset(), crash_at)
    ]
    topics = [sorted(run.driver.produced_topic_names) for run in runs]
    assert topics[0] == topics[1]
    for topic in topics[0]:
        one, other = (run.driver.producer_records(topic) for run in runs)
        if topic.endswith("-buffer-changelog"):
            one, other = ([each._replace(key=None) for each in found] for found in (one, other))
        assert one == other


def test_a_trade_gets_the_quote_of_its_time() -> None:
    """The quote that comes late, within grace, is found; one that is too old is not."""
    run = Run(application(tolerance=10, grace=5, how="left"))
    run.send("right", ("a", "q1", 100)).send("left", ("a", "t1", 104)).send("right", ("a", "q2", 103))
    assert run.read() == []
    run.send("right", ("b", "q3", 109))
    assert run.read() == [("a", ["t1", "q2"], 104)]
    run.send("left", ("a", "t2", 120), ("a", "t3", 130))
    assert run.read() == [("a", ["t2", None], 120)]


def test_headers_and_position_are_those_of_the_left_record() -> None:
    """Also where a record of the other side ends the wait."""
    builder = Builder()
    left, right = builder.stream("left", key=utf8), builder.stream("right", key=utf8)
    joined = left.join_asof(right, lambda one, other: [one, other], tolerance=5, grace=5)
    positions: list[Any] = []

    class Positions:
        def init(self, context: Any) -> None:
            self.context = context

        def process(self, record: Any) -> None:
            positions.append((self.context.record_metadata, record.headers, record.timestamp))

    joined.process(Positions)
    run = Run(builder)
    run.send("right", ("a", 1, 10))
    run.driver.input_topic("left").pipe_input("a", 2, timestamp=11, headers=[("h", b"x")])
    run.send("right", ("a", 3, 30))
    assert positions == [(("left", 0, 0), (("h", b"x"),), 11)]


def test_late_records_have_the_interval_that_they_missed() -> None:
    """Of each side."""
    late: list[LateRecord[Any, Any]] = []
    run = Run(application(late.append, tolerance=5, direction="nearest"))
    run.send("left", ("a", 1, 100), ("a", 2, 89)).send("right", ("a", 3, 84), ("a", 4, 85))
    assert [(record.value, record.window, record.stream_time) for record in late] == [
        (2, Window(84, 94), 100),
        (3, Window(79, 89), 100),
    ]


@given(
    out_of_order(
        st.tuples(SIDES, st.sampled_from("ab")),
        st.integers(0, 9),
        max_size=15,
        max_lateness_ms=10,
        tombstones=True,
    ),
    st.integers(0, 12) | st.none(),
    st.sampled_from(["inner", "left"]),
)
@settings(max_examples=60)
def test_a_versioned_table_gives_the_row_of_the_time(
    records: list[tuple[Any, Any, int]], tolerance: int | None, how: str
) -> None:
    """Without tolerance a row is joined however old it is."""
    builder = Builder()
    stream = builder.stream("left", key=utf8)
    table = builder.table("right", key=utf8, store=Store("versions", history=1000))
    stream.join_asof(table, lambda one, other: [one, other], tolerance=tolerance, how=how).to("out")  # type: ignore[call-overload]
    run = send(Run(builder), records)
    rows: dict[tuple[str, int], Any] = {}
    expected = []
    for (side, key), value, timestamp in records:
        if side == "right":
            rows[key, timestamp] = value
        elif value is not None:
            time = max((time for each, time in rows if each == key and time <= timestamp), default=None)
            row = None if time is None else rows[key, time]
            if time is not None and tolerance is not None and timestamp - time > tolerance:
                row = None
            if row is not None or how == "left":
                expected.append((key, [value, row], timestamp))
    assert run.read() == expected
    run.close()


def test_names_and_stores() -> None:
    """Numbers as for a join, or the name of the operator; nothing waits without grace."""
    text = application(tolerance=5, grace=1, name="quotes").describe()
    assert "Processor: quotes-asof-this (stores: [quotes-asof-other-store, quotes-asof-this-buffer])" in text
    text = application(tolerance=5).describe()
    assert "Processor: KSTREAM-ASOFTHIS-0000000002 (stores: [KSTREAM-ASOFOTHER-0000000003-store])" in text
    builder = application(tolerance=5, grace=1, store="quotes")
    names = {store.name for store in builder.build("app").all_tasks().stores}
    assert names == {"quotes-asof-this-buffer", "quotes-asof-other-store"}


def test_sides_with_new_keys_are_repartitioned_and_copartitioned() -> None:
    """A stream may be joined with another stream of the same topic as well."""
    builder = Builder()
    stream = builder.stream("in", key=utf8, value=json)
    moved = stream.map(lambda key, value: (value[0], value[1]))
    moved.join_asof(
        builder.stream("in", key=utf8, value=json).select_key(lambda key, value: value[0]),
        lambda one, other: [one, other],
        tolerance=5,
        name="pairs",
    ).to("out")
    text = builder.describe()
    assert "(topic: pairs-left-repartition)" in text
    assert "(topic: pairs-right-repartition)" in text
    run = Run(builder).send("in", ("x", ["a", 1], 1), ("y", ["a", 2], 3))
    assert [value[0] for _, value, _ in run.read()] in ([1, 2], [2])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, r"needs tolerance="),
        ({"tolerance": 5, "direction": "sideways"}, 'direction must be "backward"'),
        ({"tolerance": 5, "how": "outer"}, 'how must be "inner" or "left"'),
        ({"tolerance": 5, "late": 7}, "name of a topic or a function"),
    ],
)
def test_wrong_options_fail_where_they_are_written(options: dict[str, Any], problem: str) -> None:
    """With the line of the program."""
    with pytest.raises(TopologyError, match=rf"{problem}.*test_asof_joins\.py:"):
        application(**options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"direction": "nearest"}, "a table is joined backward"),
        ({"late": "late"}, "late= of join_asof needs a stream"),
        ({"store": "name"}, "store= of join_asof needs a stream"),
    ],
)
def test_a_table_has_fewer_options(options: dict[str, Any], problem: str) -> None:
    """It has a store and a history of its own."""
    builder = Builder()
    table = builder.table("t", store=Store("versions", history=10))
    with pytest.raises(TopologyError, match=problem):
        builder.stream("in").join_asof(table, lambda one, other: one, **options)


@pytest.mark.parametrize("grace", [0, 5])
def test_a_table_must_be_versioned(grace: int) -> None:
    """A filtered one is known when the topology is complete."""
    builder = Builder()
    builder.stream("in").join_asof(
        builder.table("t").filter(lambda key, value: True), lambda one, other: one, grace=grace
    )
    with pytest.raises(TopologyError, match=r"needs a versioned table, unlike t.*test_asof_joins\.py"):
        builder.describe()
    stream = Builder().stream("in")
    table = stream.to_table()
    with pytest.raises(TopologyError, match="needs a versioned table, unlike KSTREAM-TOTABLE"):
        stream.join_asof(table, lambda one, other: one)
