"""Changelog records of buffers of all versions; tests/golden has Java's bytes."""

from __future__ import annotations

from struct import pack

import pytest
from headrace.stream.records import RecordContext
from headrace.stream.state.formats import buffers

CONTEXT = RecordContext(10, 5, "topic", 1, (("h", b"x"),))
CHANGELOG = RecordContext(99, 7, "changelog", 1)


def sized(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data


CHANGE = sized(b"old") + sized(b"new")
CONTEXTUAL = buffers.record_context_bytes(CONTEXT) + sized(CHANGE)


def test_version_0_takes_the_context_of_the_changelog_record() -> None:
    """The prior value is the buffered one, or else the old value."""
    data = pack(">q", 3) + CHANGE
    assert buffers.changelog_from(data, (), CHANGELOG, None) == (
        3, buffers.BufferValue(b"old", b"old", b"new", CHANGELOG)
    )  # fmt: skip
    assert buffers.changelog_from(data, (), CHANGELOG, b"prior")[1].prior == b"prior"


def test_version_1_has_the_context_of_the_record() -> None:
    """Between the time and the change."""
    data = pack(">q", 3) + CONTEXTUAL
    time, value = buffers.changelog_from(data, (("v", b"\x01"),), CHANGELOG, None)
    assert (time, value) == (3, buffers.BufferValue(b"old", b"old", b"new", CONTEXT))


def test_version_2_and_version_3_under_its_header() -> None:
    """Kafka 2.4.0 wrote version 3 with the header of version 2."""
    data = CONTEXTUAL + sized(None) + pack(">q", 3)
    expected = (3, buffers.BufferValue(None, b"old", b"new", CONTEXT))
    assert buffers.changelog_from(data, (("v", b"\x02"),), CHANGELOG, None) == expected
    version_3 = buffers.changelog_bytes(expected[1], 3)
    assert buffers.changelog_from(version_3, (("v", b"\x02"),), CHANGELOG, None) == expected


@pytest.mark.parametrize("version", [b"\x03", b"\x02", b"\x01", b"\x09"])
def test_damaged_records_are_refused(version: bytes) -> None:
    """A record that is cut off, and an unknown version."""
    with pytest.raises(ValueError, match=r"version|fit"):
        buffers.changelog_from(CONTEXTUAL[:30], (("v", version),), CHANGELOG, None)


def test_sizes_are_kafkas_estimates() -> None:
    """An old value that equals the prior one is not counted twice."""
    size = 20 + 5 + 2
    assert buffers.record_context_size(CONTEXT) == size
    assert buffers.buffer_value_size(buffers.BufferValue(b"ab", b"ab", b"c", CONTEXT)) == size + 3
    assert buffers.buffer_value_size(buffers.BufferValue(b"ab", b"xy", None, CONTEXT)) == size + 4
