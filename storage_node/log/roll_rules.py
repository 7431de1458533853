"""When the active segment is rolled: it is full, too old, or out of relative offsets. Source: Kafka
LogSegment.java shouldRoll."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import BatchHeader
    from .config import LogConfig
    from .segment import Segment


def must_roll(
    segment: Segment,
    header: BatchHeader,
    last_offset: int,
    config: LogConfig,
    partition: TopicPartition,
    wall_ms: int,
) -> bool:
    """Whether a batch with this `last_offset` needs a new segment; an empty segment takes any batch."""
    size = segment.size_bytes
    if not size:
        return False
    # By record time where there is one, so that a copy of the log rolls at the same offsets.
    first_ms = segment.first_timestamp_ms
    age_ms = header.max_timestamp - first_ms if first_ms >= 0 else wall_ms - segment.created_ms
    return (
        size + header.size_bytes > config.segment_bytes
        # the jitter is only computed where it can matter
        or (
            age_ms > config.max_segment_ms - config.segment_jitter_ms
            and age_ms > config.max_segment_ms - jitter_ms(segment, config, partition)
        )
        or not segment.has_index_room(config.segment_index_bytes)
        or not segment.can_take(last_offset)
    )


def jitter_ms(segment: Segment, config: LogConfig, partition: TopicPartition) -> int:
    """How much earlier this segment rolls: different for each segment, the same after a restart."""
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    return zlib.crc32(f"{partition} {segment.base_offset}".encode()) % limit if limit else 0
