"""Tests of stream/task/record_queue.py."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import utf8
from headrace.protocol.model import TopicPartition
from headrace.stream.errors import StreamsError
from headrace.stream.task.record_queue import InputRecord, RecordQueue
from headrace.stream.task.timestamps import (
    FailOnInvalidTimestamp,
    FunctionTimestampExtractor,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from headrace.stream.testing.topics import StoredRecord

PARTITION = TopicPartition("t", 0)


class Queue:
    """A queue, and what it reported."""

    def __init__(self, extractor: Any = None) -> None:
        self.failed: list[int] = []
        self.dropped: list[str] = []
        self.queue = RecordQueue(
            PARTITION, lambda *_: None, utf8, utf8, extractor or FailOnInvalidTimestamp(), self.on_failed,
            self.dropped.append, lambda: 1234,
        )  # fmt: skip

    def on_failed(self, record: InputRecord, _error: Exception) -> None:
        self.failed.append(record.offset)

    def add(self, *timestamps: int, value: bytes | None = b"v") -> None:
        first = len(self.queue)
        self.queue.add(
            StoredRecord("t", 0, first + number, timestamp, b"k", value)
            for number, timestamp in enumerate(timestamps)
        )

    def timestamps(self) -> list[int]:
        found = []
        while self.queue.head is not None:
            found.append(self.queue.timestamp)
            self.queue.advance()
        return found


def test_records_leave_in_offset_order() -> None:
    """Their timestamps do not matter within a partition."""
    queue = Queue()
    queue.add(5, 3, 9)
    assert queue.timestamps() == [5, 3, 9]
    assert queue.queue.partition_time == 9


def test_null_is_not_passed_to_serdes() -> None:
    """A tombstone stays None."""
    queue = Queue()
    queue.add(1, value=None)
    assert (queue.queue.key, queue.queue.value) == ("k", None)


def test_an_unreadable_record_is_skipped() -> None:
    """The next readable one is the head."""
    queue = Queue()
    queue.queue.add([StoredRecord("t", 0, 0, 1, b"k", b"\xff"), StoredRecord("t", 0, 1, 2, b"k", b"fine")])
    assert queue.failed == [0]
    assert (queue.queue.value, queue.queue.is_skipped) == ("fine", False)


def test_a_last_unreadable_record_is_the_head_for_its_offset() -> None:
    """Its offset is to be committed, though nothing is processed."""
    queue = Queue()
    queue.queue.add([StoredRecord("t", 0, 0, 1, b"k", b"\xff")])
    assert queue.queue.is_skipped
    assert (len(queue.queue), queue.queue.timestamp) == (1, -1)


def test_a_negative_timestamp_stops_the_task_by_default() -> None:
    """The producer wrote none."""
    with pytest.raises(StreamsError, match="offset 0 of t-0 has timestamp -1"):
        Queue().add(-1)


def test_negative_timestamps_can_be_dropped() -> None:
    """LogAndSkipOnInvalidTimestamp."""
    queue = Queue(LogAndSkipOnInvalidTimestamp())
    queue.add(4, -1, 6)
    assert queue.timestamps() == [4, 6]
    assert queue.dropped == ["negative timestamp"]


def test_negative_timestamps_can_take_the_partition_time() -> None:
    """The highest timestamp before; without one the task stops."""
    queue = Queue(UsePartitionTimeOnInvalidTimestamp())
    queue.add(4, 2, -1)
    assert queue.timestamps() == [4, 2, 4]
    with pytest.raises(StreamsError, match="no record before it"):
        Queue(UsePartitionTimeOnInvalidTimestamp()).add(-1)


def test_the_wall_clock_can_be_the_timestamp() -> None:
    """The time at which the record is read."""
    queue = Queue(WallclockTimestampExtractor())
    queue.add(4)
    assert queue.timestamps() == [1234]


def test_a_function_extracts_from_the_value() -> None:
    """It sees the record with its key and value read; None keeps the timestamp of the record."""
    queue = Queue(FunctionTimestampExtractor(lambda record: int(record.value) if record.value else None))
    queue.add(4, value=b"77")
    queue.add(5, value=b"")
    assert queue.timestamps() == [77, 5]


@pytest.mark.parametrize("wrong", [lambda _: {}["time"], lambda _: 1.5, lambda _: "5"])
def test_an_error_of_an_extractor_names_the_record(wrong: Any) -> None:
    """An exception, or what is not a number of ms."""
    with pytest.raises(StreamsError, match=r"the timestamp extractor failed on offset 0 of t-0: [KT]"):
        Queue(FunctionTimestampExtractor(wrong)).add(4)


def test_clear_forgets_the_partition_time() -> None:
    """As after a partition was revoked."""
    queue = Queue()
    queue.add(5, 6)
    queue.queue.advance()
    queue.queue.clear()
    assert (len(queue.queue), queue.queue.partition_time) == (0, -1)


def test_the_next_offset_is_that_of_the_first_buffered_record() -> None:
    """What a commit must not pass; without one, that behind the last processed record."""
    queue = Queue()
    assert queue.queue.next_offset() is None
    queue.add(5, 6)
    assert queue.queue.next_offset() == 0
    queue.queue.consumed = 0
    queue.queue.advance()
    assert queue.queue.next_offset() == 1
    queue.queue.consumed = 1
    queue.queue.advance()
    assert queue.queue.next_offset() == 2
