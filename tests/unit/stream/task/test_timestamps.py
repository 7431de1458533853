"""Tests of stream/task/timestamps.py; the rest is in test_record_queue.py."""

from __future__ import annotations

import pytest
from headrace.stream.errors import StreamsError
from headrace.stream.task.timestamps import FailOnInvalidTimestamp, WallclockTimestampExtractor
from headrace.stream.testing.topics import StoredRecord


def test_a_valid_timestamp_is_kept() -> None:
    """Zero is valid."""
    assert FailOnInvalidTimestamp().extract(StoredRecord("t", 0, 0, 0, None, None), 9, 9) == 0


def test_an_invalid_timestamp_names_the_record() -> None:
    """Topic, partition and offset."""
    with pytest.raises(StreamsError, match="offset 5 of t-3"):
        FailOnInvalidTimestamp().extract(StoredRecord("t", 3, 5, -2, None, None), 9, 9)


def test_the_wall_clock_ignores_the_record() -> None:
    """Also a valid timestamp."""
    assert WallclockTimestampExtractor().extract(StoredRecord("t", 0, 0, 1, None, None), 2, 3) == 3
