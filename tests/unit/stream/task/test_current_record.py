"""Tests of stream/task/current_record.py."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.stream.records import RecordContext, RecordMetadata, TaskId
from headrace.stream.task.current_record import CurrentRecord
from headrace.stream.testing.topics import StoredRecord

TASK = TaskId(0, 2)
INPUT = StoredRecord("t", 2, 7, 100, b"k", b"v", (("h", b"1"),))


def started() -> CurrentRecord:
    current = CurrentRecord()
    current.start(INPUT, 90)
    return current


def test_the_context_has_the_extracted_timestamp() -> None:
    """The rest is that of the input record."""
    current = started()
    assert current.context == RecordContext(90, 7, "t", 2, (("h", b"1"),), b"k", b"v")
    assert current.metadata == RecordMetadata("t", 2, 7)


def test_context_has_the_forwarded_timestamp_and_is_restored() -> None:
    """Stores behind the processor log with the timestamp of what was forwarded."""
    current = started()
    seen: list[Any] = []
    forward = current.changing(lambda *_: seen.append(current.context))
    forward("k", "v", 95, ())
    assert seen == [RecordContext(95, 7, "t", 2, (), b"k", b"v")]
    assert current.context == RecordContext(90, 7, "t", 2, (("h", b"1"),), b"k", b"v")


def test_context_is_restored_after_an_exception() -> None:
    """The error handler sees the record of the processor that failed."""
    current = started()

    def fail(*_: Any) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        current.changing(fail)("k", "v", 95, ())
    assert current.context is not None
    assert current.context.timestamp == 90


def test_a_cache_sets_the_context_of_its_entry() -> None:
    """A changed timestamp keeps the position of that entry."""
    current = started()
    current.context = RecordContext(1, 2, "other", 3)
    seen: list[Any] = []
    current.changing(lambda *_: seen.append(current.context))("k", "v", 4, ())
    assert seen == [RecordContext(4, 2, "other", 3)]


def test_a_punctuator_has_no_position() -> None:
    """Its timestamp is that of the punctuation."""
    current = CurrentRecord()
    current.start_without_record(55)
    assert current.metadata is None
    assert current.context is not None
    assert current.context.timestamp == 55
    current.finish()
    assert current.context is None


def test_a_context_keeps_the_bytes_of_its_input_record() -> None:
    """For the dead letter of a failure while a cache is flushed, and of a later one."""
    current = started()
    before = current.context
    current.context = RecordContext(1, 2, "other", 3, (), b"k2", b"v2")
    assert current.error_context("n", TASK).raw_value == b"v2"
    current.context = before
    assert (current.raw_value, current.timestamp) == (b"v", 90)
