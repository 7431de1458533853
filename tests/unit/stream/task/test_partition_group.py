"""Tests of stream/task/partition_group.py."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.protocol.model import TopicPartition
from headrace.stream.task.partition_group import PartitionGroup
from headrace.stream.task.record_queue import InputRecord, RecordQueue
from headrace.stream.task.timestamps import FailOnInvalidTimestamp
from headrace.stream.testing.topics import StoredRecord

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def ignored(_record: InputRecord, _error: Exception) -> None:
    """Skip the record."""


def group(max_task_idle_ms: int = 0) -> PartitionGroup:
    extractor = FailOnInvalidTimestamp()
    return PartitionGroup(
        [
            RecordQueue(p, lambda *_: None, utf8, utf8, extractor, ignored, lambda _: None, lambda: 0)
            for p in (A, B)
        ],
        max_task_idle_ms,
    )


def add(to: PartitionGroup, partition: TopicPartition, *timestamps: int) -> None:
    first = len(to.queues[partition])
    to.add(
        partition,
        [StoredRecord(partition.topic, 0, first + n, time, None, b"v") for n, time in enumerate(timestamps)],
    )


def taken(from_: PartitionGroup) -> list[tuple[str, int]]:
    found = []
    while (next_one := from_.take()) is not None:
        found.append((next_one[0].partition.topic, next_one[4]))
    return found


def test_the_record_with_the_smallest_timestamp_is_next() -> None:
    """Within a partition the order is that of offsets."""
    both = group()
    add(both, A, 5, 1)
    add(both, B, 3, 9)
    assert taken(both) == [("b", 3), ("a", 5), ("a", 1), ("b", 9)]


def test_stream_time_is_the_highest_timestamp_that_was_taken() -> None:
    """It does not go back for a late record."""
    both = group()
    add(both, A, 5, 1)
    assert both.stream_time == -1
    both.take()
    assert both.stream_time == 5
    both.take()
    assert both.stream_time == 5


def test_a_task_waits_for_records_that_are_on_their_way() -> None:
    """An empty partition with lag, or one whose lag is not known, holds up the others."""
    both = group()
    add(both, A, 5)
    assert not both.is_ready(0)
    both.use_lags({A: 0, B: 3})
    assert not both.is_ready(10_000)
    both.use_lags({A: 0, B: 0})
    assert both.is_ready(0)


def test_a_task_idles_for_records_that_are_not_written_yet() -> None:
    """max.task.idle.ms after it has read the partition to its end."""
    both = group(max_task_idle_ms=100)
    both.use_lags({A: 0, B: 0})
    add(both, A, 5)
    assert not both.is_ready(1000)
    assert not both.is_ready(1099)
    assert both.is_ready(1100)
    add(both, B, 6)
    assert both.is_ready(1101)
    both.take()
    both.take()
    add(both, A, 7)
    assert not both.is_ready(1102), "the wait starts again"


def test_task_with_idling_disabled_processes_available_records() -> None:
    """max.task.idle.ms=-1."""
    both = group(max_task_idle_ms=-1)
    assert not both.is_ready(0)
    add(both, A, 5)
    assert both.is_ready(0)


def test_partition_time_is_restored() -> None:
    """Stream time starts with it."""
    both = group()
    both.set_partition_time(A, 50)
    assert both.stream_time == 50
    both.clear()
    assert (both.stream_time, both.buffered()) == (-1, 0)
