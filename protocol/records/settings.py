"""Settings of a new batch, validated once when its builder is created; shared by both codecs."""

from __future__ import annotations

from typing import NamedTuple

from .compression import check_level
from .header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    TimestampType,
)

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

# Bound: length, attributes, timestamp delta, offset delta, key length, value length and header count take at
# least one byte each, so n bytes have at most n // 7 records, whatever the count field says.
MIN_RECORD_BYTES = 7

# 5 length + 1 attributes + 10 timestamp delta + 5 offset delta + 5 key length + 5 value length + 5 header
# count: the maximum overhead of a record.
MAX_RECORD_OVERHEAD_BYTES = 36
MAX_HEADER_OVERHEAD_BYTES = 10  # two lengths of at most 5 bytes each
MIN_HEADER_BYTES = 2


class BatchSettings(NamedTuple):
    """The header fields that are known before the first record."""

    max_bytes: int
    attributes: int
    compression: Compression
    level: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    delete_horizon_ms: int | None


def check_settings(
    *,
    max_bytes: int,
    compression: Compression,
    level: int | None,
    timestamp_type: TimestampType,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    is_control: bool,
    delete_horizon_ms: int | None,
) -> BatchSettings:
    """Settings of a new batch. Errors: ValueError for a field out of range or inconsistent ones.

    Source: Kafka MemoryRecordsBuilder.java.
    """
    _check_range("max_bytes", max_bytes, 1, INT32_MAX)
    compression = Compression(compression)
    check_level(compression, level)
    _check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
    attributes = int(compression)
    if TimestampType(timestamp_type) is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    if delete_horizon_ms is not None:
        _check_range("delete_horizon_ms", delete_horizon_ms, 0, INT64_MAX)
        attributes |= DELETE_HORIZON_BIT
    return BatchSettings(
        max_bytes,
        attributes,
        compression,
        level,
        producer_id,
        producer_epoch,
        base_sequence,
        delete_horizon_ms,
    )


def stamped(
    settings: BatchSettings,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> BatchSettings:
    """The settings with another producer. Errors: ValueError, as in `check_settings`."""
    is_control = bool(settings.attributes & CONTROL_BIT)
    _check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
    attributes = settings.attributes & ~TRANSACTIONAL_BIT
    return settings._replace(
        attributes=attributes | TRANSACTIONAL_BIT if is_transactional else attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool, is_control: bool
) -> None:
    _check_range("producer_id", producer_id, -1, INT64_MAX)
    _check_range("producer_epoch", producer_epoch, -1, INT16_MAX)
    _check_range("base_sequence", base_sequence, -1, INT32_MAX)
    if producer_id >= 0 and producer_epoch < 0:
        raise ValueError(f"producer id {producer_id} needs a producer epoch")
    if producer_id >= 0 and base_sequence < 0 and not is_control:
        raise ValueError(f"producer id {producer_id} needs a base sequence")
    if is_transactional and producer_id < 0:
        raise ValueError("a transactional batch needs a producer id")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low} and {high}, not {value}")
