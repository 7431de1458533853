"""Joins of a stream with a table, a versioned table with grace, and a global table."""

from __future__ import annotations

from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, Store

from tests.fakes.stream_run import Run


def test_a_record_joins_the_row_of_its_time_of_arrival() -> None:
    """Whatever the timestamp of the row; the timestamp of the record stays."""
    builder = Builder()
    table = builder.table("rows", key=utf8, value=json)
    builder.stream("in", key=utf8, value=json).join(table, lambda v, row: [v, row]).to("out")
    run = Run(builder).send("in", ("k", 1, 5)).send("rows", ("k", "a", 100)).send("in", ("k", 2, 6))
    assert run.read() == [("k", [2, "a"], 6)]


def test_a_left_join_keeps_records_without_a_row() -> None:
    """A null key has none; a null value is dropped."""
    builder = Builder()
    table = builder.table("rows", key=utf8, value=json)
    builder.stream("in", key=utf8, value=json).left_join(table, lambda v, row: [v, row]).to("out")
    run = Run(builder).send("in", ("k", 1, 5), (None, 2, 6), ("k", None, 7))
    assert run.read() == [("k", [1, None], 5), (None, [2, None], 6)]
    assert run.driver.dropped_records == {"null join key or value": 1}


def test_with_grace_a_record_joins_the_version_of_its_own_time() -> None:
    """It waits until stream time has passed it by the grace period."""
    builder = Builder()
    table = builder.table("rows", key=utf8, value=json, store=Store("rows", history=1000))
    stream = builder.stream("in", key=utf8, value=json)
    stream.join(table, lambda v, row: [v, row], grace=20, name="joined").to("out")
    run = (
        Run(builder).send("rows", ("k", "old", 0), ("k", "new", 100)).send("in", ("k", 1, 99), ("k", 2, 100))
    )
    assert run.read() == []
    run.send("in", ("k", 3, 119))
    assert run.read() == [("k", [1, "old"], 99)]
    run.send("in", ("k", 4, 120), ("k", 5, 90))
    assert run.read() == [("k", [2, "new"], 100), ("k", [5, "old"], 90)], "too late to wait: joined at once"


def test_a_global_table_is_joined_by_any_key() -> None:
    """The mapper sees key and value; a None is no key."""
    builder = Builder()
    table = builder.global_table("rows", key=utf8, value=json)
    stream = builder.stream("in", key=utf8, value=json)
    stream.join(table, lambda v, row: row, key=lambda k, v: v["user"]).to("out")
    run = (
        Run(builder)
        .send("rows", ("u1", "Ada", 0))
        .send("in", ("k", {"user": "u1"}, 5), ("k", {"user": None}, 6))
    )
    assert run.read() == [("k", "Ada", 5)]
