"""Zigzag varints."""

from __future__ import annotations

import pytest
from headrace.stream.state.formats.varints import varint, varint_from
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3))
def test_numbers_are_read_back(number: int, prefix: bytes) -> None:
    """At any position."""
    data = prefix + varint(number)
    assert varint_from(data + b"rest", len(prefix)) == (number, len(data))


def test_bytes_of_kafka() -> None:
    """-1 is one byte; a number that does not end is refused."""
    assert (varint(-1), varint(0), varint(200)) == (b"\x01", b"\x00", b"\x90\x03")
    for data in (b"", b"\x80", b"\xff" * 6):
        with pytest.raises(ValueError, match="not a varint"):
            varint_from(data)
