"""protocol/records/header.py: the fixed 61 bytes."""

import struct

import pytest
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.records.header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchHeader,
    TimestampType,
    assigned_prefix,
    read_batch_header,
)

FIELDS = BatchHeader(
    base_offset=5,
    batch_length=49,
    leader_epoch=3,
    magic=2,
    crc=0xDEADBEEF,
    attributes=0x08 | 0x10 | 0x04,
    last_offset_delta=9,
    base_timestamp=1000,
    max_timestamp=2000,
    producer_id=77,
    producer_epoch=2,
    base_sequence=4,
    record_count=10,
)


def packed(header: BatchHeader) -> bytes:
    return struct.pack(">qiibIhiqqqhii", *header)


def test_every_field_is_read_from_its_place() -> None:
    """All thirteen fields with distinct values, at an odd position."""
    assert read_batch_header(b"xyz" + packed(FIELDS), 3) == FIELDS


def test_facts_derived_from_the_fields() -> None:
    """Ends are exclusive where the name says next, inclusive where it says last."""
    assert FIELDS.size_bytes == HEADER_BYTES
    assert FIELDS.last_offset == 14
    assert FIELDS.next_offset == 15
    assert FIELDS.compression_id == 4
    assert FIELDS.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert FIELDS.is_transactional
    assert not FIELDS.is_control
    assert FIELDS.delete_horizon_ms is None
    assert FIELDS._replace(attributes=0x40).delete_horizon_ms == 1000


def test_a_short_buffer_is_corrupt() -> None:
    """Cut at every byte of the header: an error, never a crash or a guess."""
    for length in range(HEADER_BYTES):
        with pytest.raises(CorruptMessageError):
            read_batch_header(packed(FIELDS)[:length])


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_magics_are_refused(magic: int) -> None:
    """Message formats 0 and 1 are gone since Kafka 4.0."""
    with pytest.raises(CorruptMessageError, match="magic"):
        read_batch_header(packed(FIELDS._replace(magic=magic)))


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    """A batch cannot end inside its own header."""
    with pytest.raises(CorruptMessageError, match="length"):
        read_batch_header(packed(FIELDS._replace(batch_length=length)))


def test_the_assigned_prefix_is_outside_of_the_crc() -> None:
    """Rewriting offset and epoch changes the first 17 bytes only, which the CRC does not cover."""
    assert PREFIX_BYTES == CRC_POSITION
    assert CRC_POSITION < ATTRIBUTES_POSITION
    stored = assigned_prefix(1234, FIELDS.batch_length, 8) + packed(FIELDS)[PREFIX_BYTES:]
    assert read_batch_header(stored) == FIELDS._replace(base_offset=1234, leader_epoch=8)
