"""Where the last batch of each producer with an id lies: compaction keeps at least its header.

Known from the newest snapshot of producer state and the batches behind it. A producer that was silent for
longer than producer ids live is forgotten, and so are its batches.
Source: Kafka ProducerStateManager.java lastRecordsOfActiveProducers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.config import DAY
from . import names
from .batches import walk_headers
from .checkpoints import CorruptFileError
from .files import read_file
from .producer_snapshot import parse_producer_snapshot

if TYPE_CHECKING:
    from .files import Files
    from .log import Log

# As Kafka's producer.id.expiration.ms.
_EXPIRATION_MS = DAY


def last_of_producers(files: Files, log: Log, wall_ms: int) -> dict[int, int]:
    """Producer id to the last offset of its last batch of data, or of its last marker if it has no other.

    Errors: CorruptMessageError, KafkaStorageError.
    """
    oldest_ms = wall_ms - _EXPIRATION_MS
    start, data = _from_snapshot(files, log, oldest_ms)
    markers: dict[int, int] = {}
    for segment in log.segments:
        if segment.next_offset <= start:
            continue
        end, position = segment.size_bytes, segment.start_of(max(start, segment.base_offset)).position
        for _, header in walk_headers(segment.file, position, end):
            if header.producer_id >= 0 and header.last_offset >= start and header.max_timestamp >= oldest_ms:
                known = markers if header.is_control else data
                known[header.producer_id] = header.last_offset
    return {**markers, **data}


def _from_snapshot(files: Files, log: Log, oldest_ms: int) -> tuple[int, dict[int, int]]:
    """(the offset of the newest snapshot that can be read, what it says)."""
    for offset in reversed(log.snapshot_offsets()):
        path = f"{log.directory}/{names.segment_name(offset, names.SNAPSHOT)}"
        try:
            producers = parse_producer_snapshot(read_file(files, path))
        except CorruptFileError:
            continue  # the batches say it all, it only takes longer
        return offset, {
            each.producer_id: each.last_offset
            for each in producers
            if each.last_offset >= 0 and each.timestamp_ms >= oldest_ms
        }
    return 0, {}
