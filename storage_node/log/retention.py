"""Retention: segments below the log start offset expire, and with cleanup.policy `delete` those beyond
retention.bytes and retention.ms.

Pure. From the oldest segment on, until one stays: first by the log start offset, then by size, then by time.
Nothing at or above the high watermark expires. The age of a segment is that of its largest timestamp, so a
record from the future keeps it, and all later segments, until then.
Source: Kafka UnifiedLog.java deleteOldSegments; LogSegment.java largestTimestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .config import LogConfig
    from .segment import Segment

DELETE = "delete"


class Expired(NamedTuple):
    """The number of oldest segments that expired; the log starts at `start_offset` without them. If all have
    expired, the active one `must_roll` first, because a log has at least one segment."""

    segments: int
    start_offset: int
    must_roll: bool


def expired_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    wall_ms: int,
) -> Expired:
    """`segments` are in order of base offsets, the active one last."""
    rules = _Rules(segments, high_watermark)
    count = rules.leading(0, lambda number: rules.lies_below(number, log_start_offset))
    if DELETE in config.cleanup_policy:
        if config.retention_bytes >= 0:
            count = rules.too_many_bytes(count, config.retention_bytes)
        if config.retention_ms >= 0:
            count = rules.leading(count, lambda number: rules.age_ms(number, wall_ms) > config.retention_ms)
    start_offset = max(log_start_offset, rules.end_of(count - 1) if count else 0)
    return Expired(count, start_offset, count == len(segments))


class _Rules:
    def __init__(self, segments: Sequence[Segment], high_watermark: int) -> None:
        self._segments = segments
        self._high_watermark = high_watermark

    def leading(self, first: int, is_due: Callable[[int], bool]) -> int:
        """The index of the first segment from `first` on that stays."""
        for number in range(first, len(self._segments)):
            if not (self._may_go(number) and is_due(number)):
                return number
        return len(self._segments)

    def too_many_bytes(self, first: int, limit: int) -> int:
        """As `leading`, as long as `limit` bytes are left without the segment."""
        excess = sum(segment.size_bytes for segment in self._segments[first:]) - limit

        def is_due(number: int) -> bool:
            nonlocal excess
            excess -= self._segments[number].size_bytes
            return excess >= 0

        return self.leading(first, is_due)

    def lies_below(self, number: int, offset: int) -> bool:
        """Whether a whole segment is below `offset`; never the active one."""
        return not self._is_active(number) and self.end_of(number) <= offset

    def age_ms(self, number: int, wall_ms: int) -> int:
        """Since the newest record; without any timestamp, since the segment was created or opened."""
        segment = self._segments[number]
        newest_ms = segment.largest_timestamp_ms
        return wall_ms - (newest_ms if newest_ms >= 0 else segment.created_ms)

    def end_of(self, number: int) -> int:
        if self._is_active(number):
            return self._segments[number].next_offset
        return self._segments[number + 1].base_offset

    def _is_active(self, number: int) -> bool:
        return number == len(self._segments) - 1

    def _may_go(self, number: int) -> bool:
        if self.end_of(number) > self._high_watermark:
            return False
        return not self._is_active(number) or self._segments[number].size_bytes > 0
