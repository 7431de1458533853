"""The 61-byte header of a record batch (magic 2): read, check and re-address without touching a record.

Shape, big-endian, offsets in bytes from the start of the batch:

     0  base offset              i64   assigned by the server
     8  batch length             i32   bytes after this field
    12  partition leader epoch   i32   assigned by the server
    16  magic                    i8    2
    17  CRC-32C                  u32   over everything from `attributes` to the end
    21  attributes               i16   0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                    6 delete horizon
    23  last offset delta        i32
    27  base timestamp           i64   ms; the delete horizon where bit 6 is set
    35  max timestamp            i64   ms
    43  producer id              i64   -1 without idempotence
    51  producer epoch           i16
    53  base sequence            i32
    57  record count             i32
    61  records

The CRC does not cover the first 16 bytes, so a server assigns offset and epoch without recomputing it.
Source: Kafka DefaultRecordBatch.java; KIP-98.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from ..errors import CorruptMessageError

HEADER_BYTES = 61
LENGTH_END = 12  # a batch ends at its start + LENGTH_END + batch length
PREFIX_BYTES = 17  # base offset .. magic: what a server rewrites, before the CRC
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAGIC = 2
MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_END

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
assert _HEADER.size == HEADER_BYTES, "the layout above and the struct must agree"

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """Codec ids as in the attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The origin of timestamps: the producer, or the append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The fields of one batch header, in the order of the layout."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record (inclusive)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch (exclusive end)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression_id(self) -> int:
        """Codec bits; 5, 6 and 7 are unassigned."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Bit 3 of the attributes."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Bit 4 of the attributes."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Bit 5 of the attributes: a control batch, invisible to consumers."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """If bit 6 is set, the base timestamp field is the time after which tombstones may be removed."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch that starts at `position`; `buffer` need not contain its body.

    Errors: CorruptMessageError if fewer than 61 bytes are left, the length is too small for a header, or the
    magic is not 2.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise CorruptMessageError(f"{len(buffer) - position} bytes left, a batch header has {HEADER_BYTES}")
    # the struct has as many fields as the tuple: `_make` would only count them again, on the hottest path
    header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptMessageError(f"magic {header.magic}, only {MAGIC} is supported")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptMessageError(f"batch length {header.batch_length} is below {MIN_BATCH_LENGTH}")
    return header


def sealed_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """A batch of these fields and compressed records, with correct length and CRC."""
    size = HEADER_BYTES - LENGTH_END + len(payload)
    covered = _HEADER.pack(*header._replace(batch_length=size, crc=0))[ATTRIBUTES_POSITION:]
    crc = crc32c(payload, crc32c(covered))
    prefix = assigned_prefix(header.base_offset, size, header.leader_epoch)
    return b"".join((prefix, _CRC.pack(crc), covered, payload))


def restamped_batch(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """A copy of a whole batch with another producer id, epoch and base sequence, and the matching CRC.

    A copy, because the bytes of a sent batch may still be in ZeroMQ's queue. Errors: CorruptMessageError.
    """
    header = read_batch_header(batch)._replace(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    return sealed_batch(header, memoryview(batch)[HEADER_BYTES:])


def assigned_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The 17 bytes (base offset, length, leader epoch, magic) that a server writes before the rest of a
    batch.

    The stored batch is `assigned_prefix(...)` followed by the received bytes from CRC_POSITION on.
    """
    return _PREFIX.pack(base_offset, batch_length, leader_epoch, MAGIC)
