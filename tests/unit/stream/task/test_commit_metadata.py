"""Tests of stream/task/commit_metadata.py."""

from __future__ import annotations

from base64 import b64encode

import pytest
from headrace.stream.task.commit_metadata import decode, encode
from hypothesis import given
from hypothesis import strategies as st

LONGS = st.integers(-(2**63), 2**63 - 1)


def test_the_bytes_are_those_of_kafka_streams() -> None:
    """Version 2, partition time, then count, name length, name and number."""
    assert encode(5, {}) == b64encode(b"\x02" + (5).to_bytes(8, "big")).decode()
    expected = b"\x02" + (5).to_bytes(8, "big") + b"\0\0\0\1" + b"\0\0\0\2ab" + (7).to_bytes(8, "big")
    assert encode(5, {"ab": 7}) == b64encode(expected).decode()


@given(LONGS, st.dictionaries(st.text(max_size=5), LONGS, max_size=3))
def test_metadata_is_read_back(partition_time: int, numbers: dict[str, int]) -> None:
    """Whatever was encoded."""
    assert decode(encode(partition_time, numbers)) == (partition_time, numbers)


@pytest.mark.parametrize(
    "text", ["", "no base64!", b64encode(b"\x09" + bytes(8)).decode(), b64encode(b"\x02ab").decode()]
)
def test_metadata_that_is_not_understood_counts_as_none(text: str) -> None:
    """Another client may have committed the offset."""
    assert decode(text) == (-1, {})


def test_version_1_has_no_numbers() -> None:
    """Written before Kafka 3.5."""
    assert decode(b64encode(b"\x01" + (9).to_bytes(8, "big")).decode()) == (9, {})
