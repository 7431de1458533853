"""Validation of a batch up to its first record; shared by both codecs."""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from ..errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from .compression import decompress
from .header import ATTRIBUTES_POSITION, HEADER_BYTES, BatchHeader, Buffer, Compression, read_batch_header
from .settings import MIN_RECORD_BYTES

_LAST_COMPRESSION = max(Compression)

# Bound: the decompressed size of one batch. 1000 times a 1 MiB batch would be a decompression bomb; 128 MiB
# allows the largest legitimate batch (max.message.bytes of 100 MiB, uncompressed).
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024


class BatchFacts(NamedTuple):
    """Results of a pass over a batch's records: the actual range of timestamps, and the index of the first
    record without a key, -1 if all have one.

    `max_timestamp` may differ from the header's field, which some clients set incorrectly; Kafka's broker
    rewrites the field then. Both are -1 for a batch without records.
    """

    header: BatchHeader
    min_timestamp: int
    max_timestamp: int
    first_null_key: int = -1


def open_batch(
    batch: Buffer, *, check_crc: bool, is_dense: bool, max_decompressed_bytes: int
) -> tuple[BatchHeader, Buffer]:
    """The header of the one batch that fills `batch`, and the decompressed bytes of its records.

    `is_dense` requires what a producer may send: at least one record, and no offset gaps. Without it
    compacted batches are valid too: with gaps, or without records. Errors: as in RecordCodec, in the order of
    the checks below.
    """
    header = read_batch_header(batch)
    if header.size_bytes != len(batch):
        raise CorruptMessageError(f"the batch says {header.size_bytes} bytes, there are {len(batch)}")
    view = memoryview(batch)
    if check_crc:
        computed = crc32c(view[ATTRIBUTES_POSITION:])
        if computed != header.crc:
            raise CorruptMessageError(f"CRC-32C {header.crc:#010x} stored, {computed:#010x} computed")
    if header.compression_id > _LAST_COMPRESSION:
        raise UnsupportedCompressionTypeError(f"compression codec {header.compression_id}")
    _check_counts(header, is_dense)
    payload: Buffer = view[HEADER_BYTES:]
    if header.compression_id and header.record_count:
        payload = decompress(header.compression_id, payload, max_decompressed_bytes)
    # Bound: no allocation may depend on the count field before this line.
    if header.record_count * MIN_RECORD_BYTES > len(payload):
        raise InvalidRecordError(f"{header.record_count} records do not fit in {len(payload)} bytes")
    if not header.record_count and len(payload):
        raise InvalidRecordError(f"{len(payload)} bytes in a batch without records")
    return header, payload


def _check_counts(header: BatchHeader, is_dense: bool) -> None:
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise InvalidRecordError(
            f"record count {header.record_count}, last offset delta {header.last_offset_delta}"
        )
    if is_dense and (header.record_count == 0 or header.last_offset_delta + 1 != header.record_count):
        raise InvalidRecordError(
            f"last offset delta {header.last_offset_delta} does not belong to {header.record_count} records"
        )
