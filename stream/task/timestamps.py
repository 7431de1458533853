"""Extractors of record timestamps."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..errors import StreamsError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("headrace.stream")


class FailOnInvalidTimestamp:
    """The timestamp of the record; a negative one stops the task. The default."""

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        timestamp: int = record.timestamp
        if timestamp < 0:
            raise StreamsError(
                f"offset {record.offset} of {record.topic}-{record.partition} has timestamp {timestamp}:"
                " LogAndSkipOnInvalidTimestamp drops such records"
            )
        return timestamp


class LogAndSkipOnInvalidTimestamp:
    """The timestamp of the record; one with a negative timestamp is dropped."""

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        timestamp: int = record.timestamp
        if timestamp < 0:
            log.warning(
                "offset %d of %s-%d has timestamp %d: the record is dropped",
                record.offset, record.topic, record.partition, timestamp,
            )  # fmt: skip
        return timestamp


class UsePartitionTimeOnInvalidTimestamp:
    """The highest timestamp of the partition so far where that of the record is negative."""

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        timestamp: int = record.timestamp
        if timestamp >= 0:
            return timestamp
        if partition_time < 0:
            raise StreamsError(
                f"offset {record.offset} of {record.topic}-{record.partition} has timestamp {timestamp},"
                " and no record before it had a valid one"
            )
        return partition_time


class WallclockTimestampExtractor:
    """The time at which the record is read."""

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        return wall_ms


class FunctionTimestampExtractor:
    """The result of `function(record)`; None: the timestamp of the record."""

    def __init__(self, function: Callable[[Any], int | None]) -> None:
        self.function = function

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        timestamp = self.function(record)
        return record.timestamp if timestamp is None else timestamp
