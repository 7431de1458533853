"""Which records of a rejected batch are invalid, and why (KIP-467). Pure.

Source: Kafka LogValidator.java validateRecord, processRecordErrors; ProduceResponse.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRecordError, InvalidTimestampError, KafkaError
from ...protocol.model import NO_TIMESTAMP
from ...protocol.records.codec import MAX_DECOMPRESSED_BYTES, active_codec
from ...protocol.records.columns import Spans, items
from ...protocol.records.header import read_batch_header
from ...protocol.records.opening import open_batch
from ...protocol.records.record_bytes import walk_records
from ...protocol.records.settings import INT32_MAX

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer
    from .config import LogConfig

# Bound: of one response. A client that removes these records and retries gets the next errors.
MAX_RECORD_ERRORS = 10_000
# Bound: checked records of a batch, which block the event loop for about 30 ms. A larger batch is rejected
# without record errors.
MAX_CHECKED = 100_000
# Bound: records of a malformed batch that are decoded in Python to find the first bad one.
MAX_WALKED = 1_000
_SHOWN = 3

RecordErrors = tuple[tuple[int, str], ...]  # (index in the batch, message)


def allowed_timestamps(config: LogConfig, wall_ms: int) -> tuple[int, int]:
    """The oldest and the newest timestamp, in ms, that a CreateTime topic accepts at `wall_ms`."""
    oldest_ms = max(wall_ms - config.message_timestamp_before_max_ms, 0)
    return oldest_ms, wall_ms + config.message_timestamp_after_max_ms


def rejection(batch: Buffer, config: LogConfig, wall_ms: int) -> KafkaError:
    """The error for a sound batch with records without a key in a compacted topic, or with timestamps outside
    the topic's bounds: INVALID_TIMESTAMP if there is any of these, else INVALID_RECORD."""
    count = read_batch_header(batch).record_count
    if count > MAX_CHECKED:
        return InvalidRecordError(
            f"some of the {count} records of the batch have no key where the topic needs one, or timestamps"
            f" outside its bounds; they are named in batches of at most {MAX_CHECKED} records"
        )
    errors, is_about_time = _wrong_records(batch, config, wall_ms)
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:_SHOWN])
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    detail = f"{len(errors)} records of the batch are invalid: {shown}{more}"
    if is_about_time:
        return InvalidTimestampError(detail, record_errors=errors)
    return InvalidRecordError(detail, record_errors=errors)


def _wrong_records(batch: Buffer, config: LogConfig, wall_ms: int) -> tuple[RecordErrors, bool]:
    """The first error of each invalid record, and whether any is about its timestamp."""
    sink = active_codec().columns(values=False, headers=False)
    sink.append(batch, partition=0, max_rows=INT32_MAX, check_crc=False)
    columns = sink.finish()
    assert columns.keys is not None, "keys were requested"
    keys, timestamps = Spans(columns.keys, columns.count), items(columns.timestamps, "q")
    keys_end = memoryview(columns.keys.data).nbytes
    needs_keys = config.is_compacted
    oldest_ms, newest_ms = allowed_timestamps(config, wall_ms)
    has_bounds = config.message_timestamp_type == "CreateTime"
    errors: list[tuple[int, str]] = []
    is_about_time = False
    for index in range(columns.count):
        timestamp_ms = timestamps[index]
        if needs_keys and keys.span(index, keys_end) is None:
            errors.append((index, "no key, but the topic is compacted"))
        elif has_bounds and timestamp_ms != NO_TIMESTAMP and not oldest_ms <= timestamp_ms <= newest_ms:
            errors.append((index, f"timestamp {timestamp_ms} is outside [{oldest_ms}, {newest_ms}]"))
            is_about_time = True
        if len(errors) == MAX_RECORD_ERRORS:
            break
    return tuple(errors), is_about_time


def located(batch: Buffer, error: InvalidRecordError) -> InvalidRecordError:
    """The error of `codec.inspect` with the index of the bad record, if it can be found: a malformed record,
    or one with a wrong offset delta."""
    try:
        header, payload = open_batch(
            batch, check_crc=False, is_dense=True, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
        )
    except KafkaError:
        return error  # of the batch as a whole
    index = 0
    try:
        for _ in walk_records(header, payload, is_dense=True):
            index += 1
            if index == MAX_WALKED:
                return error
    except InvalidRecordError as found:
        return InvalidRecordError(error.detail, record_errors=((index, found.detail),))
    return error  # about bytes after the last record
