"""Which segments of a log can be compacted, and which are merged into one."""

from typing import Any

import pytest
from fake_files import FakeFiles
from headrace.storage_node.log.cleaner.plan import cleanable, first_dirty_offset, group_segments
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.segment import Segment
from log_rig import NOW, append, batch, open_log
from producer_oracle import end, transactional, verified

KEYS = {"segment_bytes": 200, "index_interval_bytes": 0, "cleanup_policy": ("compact",)}


def filled(count: int = 12, **keys: Any) -> Log:
    """Two batches in each segment, ten ms apart."""
    log = open_log(FakeFiles(), **{**KEYS, **keys})
    for number in range(count):
        append(log, batch(1, timestamp=NOW + 10 * number))
    log.high_watermark = log.log_end_offset
    return log


def test_active_and_uncommitted_segments_are_not_cleanable() -> None:
    """A segment is cleanable only if all of it is below the high watermark."""
    log = filled()
    active = log.segments[-1].base_offset
    assert cleanable(log, NOW).end_offset == active
    for watermark in range(13):
        log.high_watermark = watermark
        plan = cleanable(log, NOW)
        assert plan.end_offset <= min(watermark, active)
        assert plan.end_offset >= min(watermark, active) - 2
        assert plan.segments == tuple(s for s in log.segments if s.next_offset <= plan.end_offset)


def test_open_transaction_bounds_compaction() -> None:
    """RELIABILITY 36. The bound is the last stable offset, not the high watermark."""
    log = filled(5)
    verified(log, transactional(9, 0))
    for _ in range(6):
        append(log, batch(1))
    log.high_watermark = log.log_end_offset
    assert cleanable(log, NOW).end_offset == 4
    end(log, 9, epoch=1)
    assert cleanable(log, NOW).end_offset == 4, "its marker is not committed"
    log.high_watermark = log.log_end_offset
    assert cleanable(log, NOW).end_offset == log.segments[-1].base_offset


def test_min_compaction_lag_applies_to_dirty_segments() -> None:
    """min.compaction.lag.ms counts from the newest record of a dirty segment; clean segments are always
    included."""
    log = filled(min_compaction_lag_ms=50)
    assert cleanable(log, NOW + 80).end_offset == 4
    assert cleanable(log, NOW + 1_000).end_offset == log.segments[-1].base_offset
    log.compaction.cleaner_offset = 8
    plan = cleanable(log, NOW)
    assert (plan.end_offset, plan.first_dirty_offset, plan.dirty_bytes) == (8, 8, 0)


def test_first_dirty_offset() -> None:
    """The cleaner offset if it lies within the log; otherwise the log start offset."""
    log = filled()
    for offset, expected in ((None, 0), (0, 0), (7, 7), (12, 12), (13, 0)):
        log.compaction.cleaner_offset = offset
        assert first_dirty_offset(log) == expected
    log.advance_log_start_offset(5)
    log.compaction.cleaner_offset = 3
    assert first_dirty_offset(log) == 5


def test_dirty_ratio_counts_cleanable_bytes() -> None:
    """Clean and dirty bytes of sealed segments count, those of the active segment do not."""
    log = filled()
    log.compaction.cleaner_offset = 4
    plan = cleanable(log, NOW)
    sizes = [segment.size_bytes for segment in log.segments.sealed]
    assert (plan.clean_bytes, plan.dirty_bytes) == (sum(sizes[:2]), sum(sizes[2:]))
    assert plan.dirty_ratio == sum(sizes[2:]) / sum(sizes)
    assert not cleanable(open_log(FakeFiles(), **KEYS), NOW).dirty_ratio


def made(base: int, end: int, size: int, entries: int = 1) -> Segment:
    files = FakeFiles()
    files.mkdir("/d")
    segment = Segment.create(files, "/d", base, created_ms=0)
    for number in range(entries):
        segment.offset_index.append(base + number, number + 1)
        segment.time_index.maybe_append(number, base)
    segment.size_bytes, segment.next_offset = size, end
    return segment


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([(0, 10, 40), (10, 20, 40), (20, 30, 40)], [[0, 10], [20]]),
        ([(0, 10, 100), (10, 20, 1)], [[0], [10]]),
        ([(0, 10, 300), (10, 20, 50), (20, 30, 50)], [[0], [10, 20]]),
        ([(0, 10, 1, 3), (10, 20, 1, 2), (20, 30, 1, 1)], [[0], [10, 20]]),
        ([(0, 2**31 - 1, 1), (2**31 - 1, 2**31, 1), (2**31, 2**31 + 1, 1)], [[0, 2**31 - 1], [2**31]]),
        ([], []),
    ],
    ids=["bytes", "exactly", "one too large", "index bytes", "offsets", "none"],
)
def test_segments_are_grouped_within_limits(
    segments: list[tuple[int, ...]], expected: list[list[int]]
) -> None:
    """segment.bytes 100 and segment.index.bytes 40: three time index entries, or five offset index
    entries."""
    groups = group_segments([made(*facts) for facts in segments], 100, 40)
    assert [[segment.base_offset for segment in group] for group in groups] == expected
