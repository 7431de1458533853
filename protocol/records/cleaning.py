"""Compaction of one stored batch: the records to keep, and the batch without the others. Equivalent to
`_cleaning.pxi`.

A record is kept if its offset is above the offset map's last one, or if it has a key and the map has no later
offset for it. A tombstone (a key without a value) is kept until the delete horizon of its batch has passed.
The horizon is set by the first cleaning that keeps a tombstone: from then on the base timestamp of the batch
is the horizon, bit 6 of its attributes is set, and timestamp deltas are relative to it.

Kept records are copied byte for byte, except the timestamp delta when the horizon is set. Base offset, last
offset delta and all producer fields are unchanged, so offsets stay the same, and sequence numbers remain
valid although records are removed. Source: Kafka Cleaner.java and MemoryRecords.filterTo; KIP-534.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidRecordError
from ..model import NO_OFFSET, NO_TIMESTAMP
from .compression import compress
from .header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    Compression,
    sealed_batch,
)
from .interfaces import Cleaned
from .offset_map import check_offsets
from .opening import open_batch
from .record_bytes import Located, locate_records, varint
from .settings import INT32_MAX, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .interfaces import OffsetMap
    from .record import Record


def delete_horizon(now_ms: int, delete_retention_ms: int) -> int:
    """The time after which tombstones seen now may be removed. Errors: ValueError for negative numbers."""
    if now_ms < 0 or delete_retention_ms < 0:
        raise ValueError(f"a delete horizon at {now_ms} + {delete_retention_ms} ms")
    return min(now_ms + delete_retention_ms, INT64_MAX)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch of that header without records; see interfaces.RecordCodec.empty_batch."""
    kept_bits = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    emptied = header._replace(
        attributes=header.attributes & kept_bits, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return sealed_batch(emptied, b"")


def clean_batch(
    batch: Buffer,
    offset_map: OffsetMap,
    *,
    now_ms: int,
    delete_retention_ms: int,
    is_horizon_due: bool,
    check_crc: bool,
    max_decompressed_bytes: int,
) -> Cleaned:
    """See interfaces.RecordCodec.clean_batch."""
    new_horizon = delete_horizon(now_ms, delete_retention_ms)
    header, payload = open_batch(
        batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
    )
    check_offsets(header)
    # Order: the whole batch is validated before any decision.
    found = [*locate_records(header, payload)]
    old_horizon = header.delete_horizon_ms
    keeps_tombstones = old_horizon is None or now_ms < old_horizon
    kept = [each for each in found if header.is_control or _stays(each.record, offset_map, keeps_tombstones)]
    if not kept:
        return Cleaned(None, 0, len(found), NO_TIMESTAMP, NO_OFFSET, has_tombstones=False)
    has_tombstones = not header.is_control and any(each.record.value is None for each in kept)
    is_set = old_horizon is None and (has_tombstones or is_horizon_due)
    # the first of equal ones
    latest = max((each.record for each in kept), key=lambda record: record.timestamp)
    data = batch
    if is_set or len(kept) < len(found):
        data = _rebuilt(header, payload, kept, latest.timestamp, new_horizon if is_set else None)
    return Cleaned(
        data,
        len(kept),
        len(found) - len(kept),
        latest.timestamp,
        latest.offset,
        has_tombstones=has_tombstones,
    )


def _stays(record: Record, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.latest_offset:
        return True
    if record.key is None or record.offset < offset_map.get(record.key):
        return False
    return record.value is not None or keeps_tombstones


def _rebuilt(
    header: BatchHeader,
    payload: Buffer,
    kept: Sequence[Located],
    max_timestamp: int,
    horizon_ms: int | None,
) -> bytes:
    """The batch with the kept records only; `horizon_ms`: the delete horizon to set, if any."""
    view = memoryview(payload)
    if horizon_ms is None:
        records = b"".join(view[each.start : each.end] for each in kept)
    else:
        records = b"".join(_moved(view, each, horizon_ms) for each in kept)
    packed = compress(Compression(header.compression_id), records)
    if len(packed) > INT32_MAX - HEADER_BYTES:
        raise InvalidRecordError(f"{len(packed)} bytes of records do not fit in a batch")
    header = header._replace(max_timestamp=max_timestamp, record_count=len(kept))
    if horizon_ms is not None:
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms)
    return sealed_batch(header, packed)


def _moved(view: memoryview, each: Located, horizon_ms: int) -> bytes:
    """The bytes of a record relative to the horizon as base timestamp."""
    delta = each.record.timestamp - horizon_ms
    if delta < INT64_MIN:
        raise InvalidRecordError(f"timestamp {each.record.timestamp} is too far from {horizon_ms}")
    body = view[each.body : each.body + 1].tobytes() + varint(delta) + view[each.rest : each.end].tobytes()
    return varint(len(body)) + body
