"""Tests of stream/worker/partition_runs.py."""

from __future__ import annotations

from itertools import chain

from headrace.protocol.model import TopicPartition
from headrace.stream.testing.topics import StoredRecord
from headrace.stream.worker.partition_runs import partition_runs


def records(topic: str, partition: int, *offsets: int) -> list[StoredRecord]:
    return [StoredRecord(topic, partition, offset, 1, b"k", b"v") for offset in offsets]


def test_runs_end_where_topic_or_partition_changes() -> None:
    runs = [
        records("a", 0, 1, 2), records("a", 1, 3), records("b", 1, 4, 5), records("a", 0, 9),
    ]  # fmt: skip
    assert partition_runs([*chain(*runs)]) == [
        (TopicPartition("a", 0), runs[0]),
        (TopicPartition("a", 1), runs[1]),
        (TopicPartition("b", 1), runs[2]),
        (TopicPartition("a", 0), runs[3]),  # another run: the order of the poll stays
    ]


def test_no_records_are_no_runs() -> None:
    assert partition_runs([]) == []
