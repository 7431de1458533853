"""Suppression of changes of a table."""

from __future__ import annotations

import re

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, tumbling, until_time_limit, until_window_closes
from headrace.stream.errors import ProcessingError

from tests.fakes.stream_run import Run


def limited(**options: int) -> Run:
    """A table that waits 10 ms."""
    builder = Builder()
    table = builder.table("in", key=utf8, value=json, store="rows")
    table.suppress(until_time_limit(10, **options)).to_stream().to("out")
    return Run(builder)


def test_a_window_is_forwarded_once_when_it_closes() -> None:
    """Its last change, with the timestamp of that change."""
    builder = Builder()
    windowed = builder.stream("in", key=utf8, value=json).group_by_key().windowed_by(tumbling(10, grace=5))
    windowed.count().suppress(until_window_closes()).to_stream().to("out")
    run = Run(builder).send("in", ("a", 1, 1), ("a", 1, 7), ("a", 1, 14))
    assert run.windows() == []
    run.send("in", ("b", 1, 15))
    assert run.windows() == [("a", 0, 10, 2, 7)]


def test_a_newer_change_replaces_the_waiting_one_and_keeps_its_place() -> None:
    """The time limit counts from the first change."""
    run = limited().send("in", ("a", 1, 100), ("b", 1, 105), ("a", 2, 109))
    assert run.read() == []
    run.send("in", ("c", 1, 110))
    assert run.read() == [("a", 2, 109)]


def test_a_full_buffer_forwards_its_oldest_changes() -> None:
    """`max_records`."""
    run = limited(max_records=2).send("in", ("a", 1, 100), ("b", 1, 101), ("c", 1, 102))
    assert run.read() == [("a", 1, 100)]


def test_a_strict_buffer_stops_the_application() -> None:
    """`shut_down_when_full`: no early results."""
    run = limited(max_records=1, shut_down_when_full=True).send("in", ("a", 1, 100))
    with pytest.raises(ProcessingError, match=r"KTABLE-SUPPRESS-.* failed on offset 1 of in-0") as failed:
        run.send("in", ("b", 1, 101))
    assert re.search(r"suppress buffer .* is full: 2 of 1 records", str(failed.value.__cause__))


def test_deletions_are_forwarded_by_a_time_limit() -> None:
    """Until a window closes they are not: the window had no result before."""
    run = limited().send("in", ("a", 1, 100), ("a", None, 105), ("b", 1, 200))
    assert run.read() == [("a", None, 105)]
