"""Find records by timestamp, exact to the record: the batches that can contain it are decoded.

Source: Kafka LogSegment.java findOffsetByTimestamp, UnifiedLog.java fetchOffsetByTimestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_TIMESTAMP
from ...protocol.records.codec import active_codec
from .reads import batches_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .batches import StoredBatch
    from .segment import Segment


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int
) -> tuple[int, int, int] | None:
    """(offset, timestamp, leader epoch) of the first record at or above both arguments, or None."""
    for segment in list(segments):
        if segment.largest_timestamp_ms < timestamp_ms or segment.next_offset <= start_offset:
            continue
        index = segment.time_index
        entry = index.lookup_before(timestamp_ms)
        # Every record up to the entry's offset is older than `timestamp_ms`.
        begin = entry.offset + 1 if entry.timestamp_ms != NO_TIMESTAMP else segment.base_offset
        for batch in batches_from(segment, max(begin, start_offset), timestamp_ms):
            found = _first_in(batch, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def first_with_largest(segments: Sequence[Segment], start_offset: int) -> tuple[int, int, int] | None:
    """(offset, timestamp, leader epoch) of the first record with the largest timestamp, or None."""
    visible = [segment for segment in segments if segment.next_offset > start_offset]
    largest_ms = max((segment.largest_timestamp_ms for segment in visible), default=NO_TIMESTAMP)
    if largest_ms == NO_TIMESTAMP:
        return None
    return first_at_or_after(visible, largest_ms, start_offset) or _largest_by_scan(visible, start_offset)


def _largest_by_scan(segments: Sequence[Segment], start_offset: int) -> tuple[int, int, int] | None:
    """The largest timestamp is below the start offset: scan all records above it."""
    best: tuple[int, int, int] | None = None
    for segment in segments:
        for batch in batches_from(segment, start_offset, 0):
            for record in active_codec().decode(batch.data):
                if record.offset >= start_offset and (best is None or record.timestamp > best[1]):
                    best = (record.offset, record.timestamp, batch.header.leader_epoch)
    return best


def _first_in(batch: StoredBatch, timestamp_ms: int, start_offset: int) -> tuple[int, int, int] | None:
    for record in active_codec().decode(batch.data, check_crc=False):
        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
            return record.offset, record.timestamp, batch.header.leader_epoch
    return None
