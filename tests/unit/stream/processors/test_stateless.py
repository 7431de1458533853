"""Operators of streams that keep no state."""

from __future__ import annotations

import re

import pytest
from headrace.stream import Builder, Record
from headrace.stream.errors import ProcessingError

from tests.fakes.stream_run import Run


def test_filter_and_filter_not_part_the_records() -> None:
    """Null keys and values reach the predicate."""
    builder = Builder()
    stream = builder.stream("in")
    stream.filter(lambda k, v: v is not None).to("some")
    stream.filter_not(lambda k, v: v is not None).to("none")
    run = Run(builder).send("in", ("a", 1, 0), (None, 2, 1), ("a", None, 2))
    assert run.read("some") == [("a", 1, 0), (None, 2, 1)]
    assert run.read("none") == [("a", None, 2)]


def test_map_changes_keys_and_values() -> None:
    """Timestamps and headers stay."""
    builder = Builder()
    builder.stream("in").map(lambda k, v: (v, k)).to("out")
    run = Run(builder)
    run.driver.input_topic("in").pipe_input("a", "b", 5, {"h": b"1"})
    assert run.driver.output_topic("out").read_record() == Record("b", "a", 5, (("h", b"1"),))


def test_flat_map_forwards_each_pair() -> None:
    """None of them for an empty result."""
    builder = Builder()
    builder.stream("in").flat_map(lambda k, v: [(k, n) for n in range(v)]).to("out")
    assert Run(builder).send("in", ("a", 0, 1), ("b", 2, 2)).read() == [("b", 0, 2), ("b", 1, 2)]


def test_functions_of_values_can_take_the_key_or_the_record() -> None:
    builder = Builder()
    stream = builder.stream("in")
    stream.map_values(lambda v: v + 1).to("value")
    stream.map_values(lambda k, v: k * v, with_key=True).to("key")
    stream.map_values(lambda r: r.timestamp, with_record=True).to("record")
    stream.flat_map_values(lambda v: [v, v]).to("twice")
    run = Run(builder).send("in", ("a", 2, 9))
    assert run.read("value") == [("a", 3, 9)]
    assert run.read("key") == [("a", "aa", 9)]
    assert run.read("record") == [("a", 9, 9)]
    assert run.read("twice") == [("a", 2, 9), ("a", 2, 9)]


def test_peek_runs_before_later_operators() -> None:
    """foreach ends a branch."""
    seen: list[object] = []
    builder = Builder()
    stream = builder.stream("in").peek(lambda k, v: seen.append(("peek", v)))
    stream.foreach(lambda k, v: seen.append(("each", v)))
    Run(builder).send("in", ("a", 1, 0), ("a", 2, 0))
    assert seen == [("peek", 1), ("each", 1), ("peek", 2), ("each", 2)]


def test_a_record_takes_the_first_branch_that_fits() -> None:
    """The others are dropped without a default branch."""
    builder = Builder()
    branches = builder.stream("in").split(name="size-")
    branches = branches.branch(lambda k, v: v > 10, name="big").branch(lambda k, v: v > 5, name="middle")
    streams = branches.no_default_branch()
    streams["size-big"].to("big")
    streams["size-middle"].to("middle")
    run = Run(builder).send("in", ("a", 20, 0), ("a", 7, 1), ("a", 1, 2))
    assert run.read("big") == [("a", 20, 0)]
    assert run.read("middle") == [("a", 7, 1)]


def test_merge_keeps_the_order_of_the_records() -> None:
    """As they are processed."""
    builder = Builder()
    (builder.stream("a") + builder.stream("b")).to("out")
    run = Run(builder).send("a", ("k", 1, 0)).send("b", ("k", 2, 0)).send("a", ("k", 3, 0))
    assert [value for _, value, _ in run.read()] == [1, 2, 3]


def test_a_topic_can_be_chosen_per_record() -> None:
    """By key, value and the position of the input record."""
    builder = Builder()
    builder.stream("in").to(lambda k, v, context: f"{v}-{context.offset}")
    run = Run(builder).send("in", ("a", "x", 0), ("a", "y", 1))
    assert run.driver.produced_topic_names == {"x-0", "y-1"}


def test_a_pattern_reads_all_topics_that_match() -> None:
    """Each record keeps the name of its topic."""
    builder = Builder()
    builder.stream(re.compile("in-.*")).map_values(lambda v: v).to("out")
    assert Run(builder).send("in-1", ("a", 1, 0)).send("in-2", ("a", 2, 1)).read() == [
        ("a", 1, 0),
        ("a", 2, 1),
    ]


def test_a_failing_function_names_its_processor_and_record() -> None:
    """Functions of the same kind have different names."""
    builder = Builder()
    stream = builder.stream("in").map_values(lambda v: v, name="fine")
    stream.map_values(lambda v: 1 / v, name="division").map_values(lambda v: v, name="later").to("out")
    run = Run(builder).send("in", ("a", 1, 0))
    with pytest.raises(
        ProcessingError, match="processor division of task 0_0 failed on offset 1 of in-0"
    ) as found:
        run.send("in", ("a", 0, 1))
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    assert run.send("in", ("a", 2, 2)).read() == [("a", 1.0, 0), ("a", 0.5, 2)]
