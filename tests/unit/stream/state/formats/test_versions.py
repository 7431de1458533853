"""The versions of a key in a segment; tests/golden has Java's bytes."""

from __future__ import annotations

import pytest
from headrace.stream.state.formats.versions import (
    FoundVersion,
    SegmentValue,
    min_timestamp_of,
    next_timestamp_of,
)


def test_find_returns_the_version_valid_at_a_time() -> None:
    """The version at its first and its last millisecond; outside of the segment is an error."""
    value = SegmentValue(b"one", 10, 20)
    value.insert_as_latest(20, 30, None)
    assert value.find(10) == value.find(19) == FoundVersion(1, 10, 20, b"one")
    assert value.find(29) == FoundVersion(0, 20, 30, None)
    for timestamp in (9, 30):
        with pytest.raises(ValueError, match="is not in 10 to 30"):
            value.find(timestamp)


def test_find_all_leaves_out_tombstones() -> None:
    """Versions that overlap a span of time, newest first."""
    value = SegmentValue(b"one", 10, 20)
    value.insert_as_latest(20, 30, None)
    value.insert_as_latest(30, 40, b"three")
    assert [found.value for found in value.find_all(19, 30)] == [b"three", b"one"]
    assert [found.value for found in value.find_all(20, 29)] == []


def test_a_tombstone_without_a_version_before_it_is_replaced() -> None:
    """The degenerate segment value of a delete of an unknown key."""
    value = SegmentValue.decode(SegmentValue(None, 7, 7).encode())
    assert value.is_degenerate
    value.insert_as_earliest(5, b"five")
    assert value.versions == [(5, b"five")]
    other = SegmentValue(None, 7, 7)
    other.insert_as_latest(9, 12, b"nine")
    assert other.versions == [(9, b"nine"), (7, None)]
    assert (next_timestamp_of(other.encode()), min_timestamp_of(other.encode())) == (12, 7)
    same = SegmentValue(None, 7, 7)
    same.insert_as_latest(7, 9, b"seven")
    assert same.versions == [(7, b"seven")]


def test_versions_of_an_unfinished_write_are_replaced() -> None:
    """After a crash the changelog is replayed from before the newest versions."""
    value = SegmentValue(b"one", 10, 20)
    value.insert_as_latest(20, 30, b"two")
    value.insert_as_latest(10, 15, b"again")
    assert value.versions == [(10, b"again")]
