"""Find the batches of a producer that a snapshot does not have, when the producer may send one of them again.

A snapshot has only the last batch of each producer, as in Kafka, but five may be in flight. A restarted
leader would refuse the others as out of order, although they are stored and only their responses were lost.
So the headers before the known batch are read, once per producer, and only for a producer that sends a batch
out of order. That is rare and bounded, so it is done on the owner's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batches import walk_headers
from .producer_state import RETAINED_BATCHES, WrittenBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.records.header import BatchHeader
    from .producer_state import Producer
    from .segment import Segment
    from .segment_list import SegmentList

# Bound: bytes searched, at first and if that was not enough: five batches of 1 MiB, and those of other
# producers.
REACHES_BYTES = (256 * 1024, 8 * 1024 * 1024)


def recall(producer: Producer, segments: SegmentList) -> bool:
    """Restore the last five batches of a producer that came from a snapshot; False if none is found. Errors:
    KafkaStorageError; CorruptMessageError for a damaged batch."""
    if not producer.is_of_snapshot:
        return False
    producer.is_of_snapshot = False  # Order: first, so that damaged batches are read once
    wanted = RETAINED_BATCHES - len(producer.batches)
    upto = producer.batches[0].first_offset
    found: list[WrittenBatch] = []
    for reach_bytes in REACHES_BYTES:
        found = _batches_of(producer, _headers_before(segments, upto, reach_bytes))
        if len(found) >= wanted:
            break
    producer.batches[:0] = found[-wanted:]
    return bool(found)


def _batches_of(producer: Producer, headers: Iterator[BatchHeader]) -> list[WrittenBatch]:
    """Batches of the producer's epoch, without those that servers write, which are never sent again."""
    found: list[WrittenBatch] = []
    for header in headers:
        if header.producer_id != producer.producer_id:
            continue
        if header.producer_epoch != producer.epoch:
            found.clear()
        elif not header.is_control and header.base_sequence >= 0:
            found.append(WrittenBatch.of(header, header.base_offset))
    return found


def _headers_before(segments: SegmentList, offset: int, reach_bytes: int) -> Iterator[BatchHeader]:
    """Headers of the batches below `offset`, from about `reach_bytes` before it on, in order."""
    pieces: list[tuple[Segment, int, int]] = []
    upto = offset
    while reach_bytes > 0 and upto > segments.first_base_offset:
        segment = segments.holding(upto - 1)
        end = segment.position_of(offset)
        begin = segment.offset_index.position_before(end - reach_bytes)
        pieces.append((segment, begin, end))
        reach_bytes -= end - begin
        upto = segment.base_offset
    for segment, begin, end in reversed(pieces):
        for _, header in walk_headers(segment.file, begin, end):
            yield header
