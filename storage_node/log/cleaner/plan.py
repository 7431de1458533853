"""Which segments of a log can be compacted, whether compaction is due, and which segments are merged. Pure.

A log is clean below its cleaner offset: no key has two values there. The rest is dirty. Sealed dirty segments
can be compacted if they are below the last stable offset and older than min.compaction.lag.ms.
Source: Kafka LogCleanerManager.java cleanableOffsets and LogToClean.java, Cleaner.java groupSegmentsBySize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ....runtime.config import MAX_LONG
from ..offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import LogConfig
    from ..log import Log
    from ..segment import Segment


class Cleanable(NamedTuple):
    """The `segments` of a log that can be compacted, from its start up to `end_offset`."""

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # max.compaction.lag.ms has passed

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_due(self, config: LogConfig) -> bool:
        """Whether the dirty ratio, or the age of a dirty segment, is above its limit."""
        return (self.is_overdue and self.dirty_bytes > 0) or (
            self.dirty_ratio > config.min_cleanable_dirty_ratio
        )


def cleanable(log: Log, wall_ms: int) -> Cleanable:
    """The segments of the log that can be compacted now."""
    config = log.config
    sealed = log.segments.sealed
    first_dirty = first_dirty_offset(log)
    segments = []
    newest_ms = wall_ms - config.min_compaction_lag_ms
    for segment in sealed:
        is_dirty = segment.next_offset > first_dirty
        is_young = config.min_compaction_lag_ms > 0 and segment.largest_timestamp_ms > newest_ms
        if segment.next_offset > log.last_stable_offset or (is_dirty and is_young):
            break
        segments.append(segment)
    dirty = [segment for segment in segments if segment.next_offset > first_dirty]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    return Cleanable(
        tuple(segments),
        first_dirty,
        segments[-1].next_offset if segments else first_dirty,
        sum(segment.size_bytes for segment in segments) - dirty_bytes,
        dirty_bytes,
        _is_overdue([segment for segment in sealed if segment.next_offset > first_dirty], config, wall_ms),
    )


def first_dirty_offset(log: Log) -> int:
    """The cleaner offset; the log start offset if the cleaner offset is outside the log."""
    offset = log.compaction.cleaner_offset
    if offset is None or not log.log_start_offset <= offset <= log.log_end_offset:
        return log.log_start_offset
    return offset


def group_segments(
    segments: Sequence[Segment], segment_bytes: int, index_bytes: int
) -> list[tuple[Segment, ...]]:
    """Groups of adjacent segments to be merged, within the limits of segment size, index size and relative
    offsets."""
    groups: list[list[Segment]] = []
    size = offsets = times = 0
    for segment in segments:
        entries = segment.index_bytes()
        fits = (
            groups
            and size + segment.size_bytes <= segment_bytes
            and offsets + entries[0] <= index_bytes
            and times + entries[1] <= index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if not fits:
            groups.append([])
            size = offsets = times = 0
        groups[-1].append(segment)
        size, offsets, times = size + segment.size_bytes, offsets + entries[0], times + entries[1]
    return [tuple(group) for group in groups]


def _is_overdue(dirty: Sequence[Segment], config: LogConfig, wall_ms: int) -> bool:
    if config.max_compaction_lag_ms == MAX_LONG:
        return False
    newest_ms = wall_ms - config.max_compaction_lag_ms
    return any(0 < segment.oldest_timestamp_ms() < newest_ms for segment in dirty)
