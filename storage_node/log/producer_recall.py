"""Batches of a producer that a snapshot does not name, looked for in the log when one of them may come again.

Of each producer a snapshot has the last batch alone, as Kafka's files do, but five may be under way. Without
more, a leader that was started again would call out of order what it has stored, where the answers were lost.
The log says it all: the headers before the known batch are read, once per producer, and only for one that
sends what does not follow. That is rare and bounded, so it is done on the owner's thread.
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

# Bound: how far back is looked, first and if that was not enough: five batches of 1 MiB, and those of others.
REACHES_BYTES = (256 * 1024, 8 * 1024 * 1024)


def recall(producer: Producer, segments: SegmentList) -> bool:
    """Let a producer of a snapshot know its last five batches again; False if there is nothing to be found.
    Errors: KafkaStorageError; CorruptMessageError for damage among the batches."""
    if not producer.is_of_snapshot:
        return False
    producer.is_of_snapshot = False  # Order: first, so that damage is met once
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
    """Those of its epoch, and of clients alone: what servers write for a producer never comes again."""
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
    """Of the batches below `offset`, from about so many bytes before it on, in order."""
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
