"""Validation of a batch before a leader appends it, and the header fields that the leader rewrites.

Source: Kafka LogValidator.java, ProduceRequest.java validateRecords.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    RecordBatchTooLargeError,
)
from ...protocol.model import NO_TIMESTAMP
from ...protocol.records.codec import active_codec
from ...protocol.records.header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    Buffer,
    read_batch_header,
)
from .record_errors import allowed_timestamps, located, rejection

if TYPE_CHECKING:
    from ...protocol.records.codec import BatchFacts
    from .config import LogConfig

_MAGIC_POSITION = 16
_CODEC_POSITION = 22  # the lower byte of the attributes
_STAMPED_END = 43  # attributes, last offset delta, base and max timestamp end here
_STAMPED = struct.Struct(">hiqq")
_CRC = struct.Struct(">I")


class AppendInfo(NamedTuple):
    """The offsets of an appended batch; `log_append_time_ms` is -1 under CreateTime. If it `is_repeated`, it
    was in the log already."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    is_repeated: bool = False


def check_client_batch(
    batch: Buffer, config: LogConfig, *, wall_ms: int, checked: BatchFacts | None, internal: bool
) -> BatchFacts:
    """The facts of the one batch that fills `batch`, if a leader may append it.

    The cheap checks come first, so that too large a batch is not decompressed. `checked` is the result of
    `codec.inspect` for the same bytes. `internal` batches come from this server.
    Errors: MessageTooLarge, RecordBatchTooLarge, InvalidTimestamp, InvalidRecord, CorruptMessage,
    UnsupportedCompressionType.
    """
    if checked is None and not internal and _is_plain(batch, config):
        checked = _inspected(batch)
    header = _framed_header(batch) if checked is None else checked.header
    if len(batch) > config.max_message_bytes and not internal:
        raise _too_large(batch, config)
    if len(batch) > config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"a batch of {len(batch)} bytes, segment.bytes is {config.segment_bytes}"
        )
    if not internal:
        _check_client_attributes(header)
    try:
        facts = active_codec().inspect(batch) if checked is None else checked
    except InvalidRecordError as error:
        raise located(batch, error) from None
    if not internal:
        if facts.first_null_key >= 0 and config.is_compacted:
            raise rejection(batch, config, wall_ms)
        _check_timestamps(batch, facts, config, wall_ms)
    return facts


def check_before_recompression(batch: Buffer, config: LogConfig) -> None:
    """The checks of `check_client_batch` that need no record, so that a bad batch is not decompressed.

    The append of the recompressed batch repeats all checks. Errors: MessageTooLarge, InvalidRecord,
    CorruptMessage.
    """
    header = _framed_header(batch)
    if len(batch) > config.max_message_bytes:
        raise _too_large(batch, config)
    _check_client_attributes(header)


def _too_large(batch: Buffer, config: LogConfig) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"a batch of {len(batch)} bytes, max.message.bytes is {config.max_message_bytes}"
    )


def _is_plain(batch: Buffer, config: LogConfig) -> bool:
    """Whether the batch is uncompressed and within the size limits: then one inspection does all checks."""
    size = len(batch)
    return (
        HEADER_BYTES <= size <= config.max_message_bytes
        and size <= config.segment_bytes
        and not batch[_CODEC_POSITION] & COMPRESSION_MASK
    )


def _inspected(batch: Buffer) -> BatchFacts | None:
    """None if the batch is bad: the checks then raise their errors in order."""
    try:
        return active_codec().inspect(batch)
    except KafkaError:
        return None


def restamped(
    batch: Buffer, header: BatchHeader, max_timestamp: int, *, is_append_time: bool
) -> list[Buffer]:
    """The batch from its CRC on, with a new max timestamp, in pieces: new CRC and fields, unchanged rest."""
    rest = memoryview(batch)[_STAMPED_END:]
    attributes = header.attributes | (LOG_APPEND_TIME_BIT if is_append_time else 0)
    fields = _STAMPED.pack(attributes, header.last_offset_delta, header.base_timestamp, max_timestamp)
    return [_CRC.pack(crc32c(rest, crc32c(fields))) + fields, rest]


assert _STAMPED.size == _STAMPED_END - ATTRIBUTES_POSITION, "the stamped fields are adjacent"


def _framed_header(batch: Buffer) -> BatchHeader:
    if len(batch) > _MAGIC_POSITION and batch[_MAGIC_POSITION] != MAGIC:
        raise InvalidRecordError(f"magic {batch[_MAGIC_POSITION]}, only {MAGIC} is accepted")
    header = read_batch_header(batch)
    if header.size_bytes > len(batch):
        raise CorruptMessageError(f"a batch of {header.size_bytes} bytes in {len(batch)} bytes")
    if header.size_bytes < len(batch):
        raise InvalidRecordError(f"{len(batch) - header.size_bytes} bytes follow the batch; send exactly one")
    return header


def _check_client_attributes(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecordError(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.attributes & (CONTROL_BIT | DELETE_HORIZON_BIT):
        raise InvalidRecordError("only servers write control batches and delete horizons")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecordError(
                f"sequence {header.base_sequence} and epoch {header.producer_epoch} of producer"
                f" {header.producer_id}"
            )
    elif header.is_transactional:
        raise InvalidRecordError("a transactional batch without a producer id")


def _check_timestamps(batch: Buffer, facts: BatchFacts, config: LogConfig, wall_ms: int) -> None:
    if facts.header.attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestampError("a producer must not set the timestamp type to LogAppendTime")
    if config.message_timestamp_type != "CreateTime":
        return
    oldest_ms, newest_ms = allowed_timestamps(config, wall_ms)
    if oldest_ms <= facts.min_timestamp and facts.max_timestamp <= newest_ms:
        return
    for timestamp_ms in (facts.min_timestamp, facts.max_timestamp):
        if timestamp_ms != NO_TIMESTAMP and not oldest_ms <= timestamp_ms <= newest_ms:
            raise rejection(batch, config, wall_ms)
