"""Joins of two streams in a window of time."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, join_window
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run


def joined(how: str = "inner", grace: int = 0, **window: Any) -> Run:
    """The values of both streams as a pair."""
    builder = Builder()
    left, right = builder.stream("left", key=utf8, value=json), builder.stream("right", key=utf8, value=json)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    join(right, lambda a, b: [a, b], window=join_window(10, grace=grace, **window)).to("out")
    return Run(builder)


def test_records_join_within_the_window_on_both_sides() -> None:
    """Bounds are included; the result has the higher timestamp."""
    run = (
        joined().send("left", ("k", "a", 100)).send("right", ("k", "x", 90), ("k", "y", 110), ("k", "z", 111))
    )
    assert run.read() == [("k", ["a", "x"], 100), ("k", ["a", "y"], 110)]


def test_before_and_after_can_differ() -> None:
    """`after`: how much later the other record may be."""
    run = joined(before=0, after=50).send("left", ("k", "a", 100))
    run.send("right", ("k", "x", 99), ("k", "y", 100), ("k", "z", 150))
    assert [value for _, value, _ in run.read()] == [["a", "y"], ["a", "z"]]


def test_a_left_record_without_partner_waits_for_the_end_of_its_window() -> None:
    """And of the grace period; then it joins None, with its own timestamp."""
    run = joined("left", grace=5).send("left", ("k", "a", 100), ("k", "b", 115))
    assert run.read() == []
    run.send("left", ("k", "c", 116))
    assert run.read() == [("k", ["a", None], 100)]
    run.send("right", ("k", "x", 116))
    assert run.read() == [("k", ["b", "x"], 116), ("k", ["c", "x"], 116)]


def test_an_outer_join_waits_on_both_sides() -> None:
    """Results of both sides come in order of time."""
    run = joined("outer").send("right", ("k", "x", 101)).send("left", ("j", "a", 100), ("l", "b", 200))
    assert run.read() == [("j", ["a", None], 100), ("k", [None, "x"], 101)]


def test_partner_within_the_window_prevents_an_unmatched_result() -> None:
    """The waiting record is forgotten."""
    run = (
        joined("left")
        .send("left", ("k", "a", 100))
        .send("right", ("k", "x", 105))
        .send("left", ("l", "b", 500))
    )
    assert run.read() == [("k", ["a", "x"], 105)]


def test_a_null_key_joins_nothing() -> None:
    """It is dropped, but on the outer side it joins None at once."""
    run = joined().send("left", (None, "a", 100))
    assert (run.read(), run.driver.dropped_records) == ([], {"null key or value": 1})
    run = joined("outer").send("left", (None, "a", 100)).send("right", (None, "x", 100), ("k", None, 100))
    assert run.read() == [(None, ["a", None], 100), (None, [None, "x"], 100)]


def test_a_self_join_uses_one_store_and_gives_the_same() -> None:
    """With the optimization single.store.self.join."""
    results = []
    for optimization in ("none", "single.store.self.join"):
        builder = Builder(optimization=optimization)
        stream = builder.stream("in", key=utf8, value=json)
        stream.join(stream, lambda a, b: f"{a}{b}", window=join_window(10)).to("out")
        run = Run(builder).send("in", ("k", "a", 100), ("k", "b", 105), ("k", "c", 98))
        results.append(run.read())
        assert len(run.driver.stores) == (2 if optimization == "none" else 1)
    assert results[0] == results[1]
    assert [value for _, value, _ in results[0]] == ["aa", "ba", "ab", "bb", "ca", "cb", "cc", "ac", "bc"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("jk"), st.integers(0, 40)), max_size=20))
def test_an_inner_join_gives_all_pairs(records: list[tuple[bool, str, int]]) -> None:
    """With a grace period that keeps all records, the order of arrival does not matter."""
    run = joined(grace=1000)
    seen: list[tuple[bool, str, int, int]] = []
    for number, (is_left, key, timestamp) in enumerate(records):
        run.send("left" if is_left else "right", (key, number, timestamp))
        seen.append((is_left, key, timestamp, number))
    expected = sorted(
        [a[3], b[3]]
        for a in seen
        for b in seen
        if a[0] and not b[0] and a[1] == b[1] and abs(a[2] - b[2]) <= 10
    )
    assert sorted(value for _, value, _ in run.read()) == expected
    run.close()
