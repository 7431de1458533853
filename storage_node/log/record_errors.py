"""Which records of a refused batch are wrong, and why (KIP-467). Pure; no batch that is taken comes here.

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

# Bound: of one answer. A client that leaves these out and sends the rest again learns of the next ones.
MAX_RECORD_ERRORS = 10_000
# Bound: records of a batch that are looked at, which holds the event loop for some 30 ms. A batch of more is
# refused without record errors.
MAX_CHECKED = 100_000
# Bound: records of a malformed batch that are walked in Python to find the first bad one.
MAX_WALKED = 1_000
_SHOWN = 3

RecordErrors = tuple[tuple[int, str], ...]  # (index in the batch, message)


def allowed_timestamps(config: LogConfig, wall_ms: int) -> tuple[int, int]:
    """The oldest and the newest timestamp, in ms, that a CreateTime topic takes at `wall_ms`."""
    oldest_ms = max(wall_ms - config.message_timestamp_before_max_ms, 0)
    return oldest_ms, wall_ms + config.message_timestamp_after_max_ms


def rejection(batch: Buffer, config: LogConfig, wall_ms: int) -> KafkaError:
    """The error for a sound batch in which a record has no key though the topic is compacted, or a timestamp
    outside the topic's bounds: INVALID_TIMESTAMP if any record has, else INVALID_RECORD."""
    count = read_batch_header(batch).record_count
    if count > MAX_CHECKED:
        return InvalidRecordError(
            f"some of the {count} records of the batch have no key where the topic needs one, or timestamps"
            f" outside its bounds; they are named in batches of at most {MAX_CHECKED} records"
        )
    errors, is_about_time = _wrong_records(batch, config, wall_ms)
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:_SHOWN])
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    detail = f"{len(errors)} records of the batch were refused: {shown}{more}"
    if is_about_time:
        return InvalidTimestampError(detail, record_errors=errors)
    return InvalidRecordError(detail, record_errors=errors)


def _wrong_records(batch: Buffer, config: LogConfig, wall_ms: int) -> tuple[RecordErrors, bool]:
    """Of each record the first thing that is wrong with it, and whether any of them is its timestamp."""
    sink = active_codec().columns(values=False, headers=False)
    sink.append(batch, partition=0, max_rows=INT32_MAX, check_crc=False)
    columns = sink.finish()
    assert columns.keys is not None, "they were asked for"
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
            errors.append((index, "it has no key, a compacted topic needs one"))
        elif has_bounds and timestamp_ms != NO_TIMESTAMP and not oldest_ms <= timestamp_ms <= newest_ms:
            errors.append((index, f"timestamp {timestamp_ms} is outside [{oldest_ms}, {newest_ms}]"))
            is_about_time = True
        if len(errors) == MAX_RECORD_ERRORS:
            break
    return tuple(errors), is_about_time


def located(batch: Buffer, error: InvalidRecordError) -> InvalidRecordError:
    """The error of `codec.inspect` with the index of the record at which it stopped, where that is known:
    a malformed record, or one whose offset delta is not its place in the batch."""
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
    return error  # of what follows the last record
