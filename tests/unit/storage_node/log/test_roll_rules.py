"""When a segment is rolled: it is full, too old, or out of relative offsets, also when the clock jumps."""

from typing import Any

import pytest
from fake_files import FakeFiles
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.roll_rules import jitter_ms, must_roll
from headrace.storage_node.log.segment import Segment
from log_rig import NOW, TP, append, batch, check_dense, config, open_log

HOUR = 3_600_000
DATA = batch(2)
HEADER = read_batch_header(DATA)


def segment_with(batches: int, *, timestamp: int = NOW, created_ms: int = NOW) -> Segment:
    files = FakeFiles()
    files.mkdir("/d")
    segment = Segment.create(files, "/d", 0, created_ms=created_ms)
    for _ in range(batches):
        header = HEADER._replace(max_timestamp=timestamp)
        segment.append([DATA], header, segment.next_offset, segment.next_offset + 1, 0)
    return segment


def rolls(
    segment: Segment, *, timestamp: int = NOW, wall_ms: int = NOW, last: int | None = None, **keys: Any
) -> bool:
    header = HEADER._replace(max_timestamp=timestamp)
    last_offset = segment.next_offset + 1 if last is None else last
    return must_roll(segment, header, last_offset, config(**keys), TP, wall_ms)


def test_empty_segment_is_never_rolled() -> None:
    """It would roll for ever."""
    assert not rolls(segment_with(0), segment_bytes=1, timestamp=2**62)


def test_size_includes_the_next_batch() -> None:
    """It may fill the segment exactly."""
    segment = segment_with(3)
    assert not rolls(segment, segment_bytes=4 * len(DATA))
    assert rolls(segment, segment_bytes=4 * len(DATA) - 1)


def test_age_counts_by_record_time() -> None:
    """From the first batch's timestamp to that of the next batch, whatever the wall clock says."""
    segment = segment_with(1)
    assert not rolls(segment, timestamp=NOW + 100, segment_ms=100, wall_ms=NOW + HOUR)
    assert rolls(segment, timestamp=NOW + 101, segment_ms=100, wall_ms=NOW)


@pytest.mark.parametrize("jump_ms", [-HOUR, HOUR, -(10**12)])
def test_clock_jump_does_not_affect_rolls(jump_ms: int) -> None:
    """With record timestamps the wall clock does not count."""
    segment = segment_with(1)
    assert not rolls(segment, wall_ms=NOW + jump_ms, segment_ms=100)
    assert not rolls(segment, timestamp=NOW - HOUR, segment_ms=100)


def test_without_timestamps_segment_age_counts() -> None:
    """By the wall clock: one roll after a jump forward, none after a jump back."""
    segment = segment_with(1, timestamp=-1)
    assert rolls(segment, timestamp=-1, wall_ms=NOW + HOUR, segment_ms=HOUR - 1)
    assert not rolls(segment, timestamp=-1, wall_ms=NOW - HOUR, segment_ms=1)


def test_full_index_or_relative_offset_rolls() -> None:
    """Each index has room for the entries of the next batch and of the seal; offsets fit 31 bits."""
    segment = segment_with(4)
    assert segment.offset_index.size_bytes == 24
    assert rolls(segment, segment_index_bytes=31)
    assert not rolls(segment, segment_index_bytes=36)
    assert rolls(segment, last=2**31)
    assert not rolls(segment, last=2**31 - 1)


def test_jitter_is_deterministic_and_bounded() -> None:
    """Different for each segment, so that partitions do not all roll at once."""
    keys = config(segment_ms=1_000, segment_jitter_ms=500)
    found = set()
    for base in range(50):
        segment = segment_with(0)
        segment.base_offset = base
        assert jitter_ms(segment, keys, TP) == jitter_ms(segment, keys, TP) < 500
        found.add(jitter_ms(segment, keys, TP))
    assert len(found) > 10
    assert jitter_ms(segment, config(), TP) == 0


def test_log_append_time_with_jumping_clock(files: FakeFiles) -> None:
    """Offsets stay dense, lookups by time find the first record that is not older, and a restart gives the
    same."""
    log = open_log(
        files, message_timestamp_type="LogAppendTime", segment_ms=HOUR // 2, index_interval_bytes=0
    )
    times = [NOW, NOW + HOUR, NOW + 1, NOW - HOUR, NOW + 2, NOW + 2 * HOUR, NOW + 3]
    for time_ms in times:
        append(log, batch(2), wall_ms=time_ms)
    for again in (log, open_log(files.restart(), message_timestamp_type="LogAppendTime")):
        assert len(check_dense(again)) == len(times)
        for asked in [*times, NOW - 2 * HOUR]:
            first = next(2 * number for number, time_ms in enumerate(times) if time_ms >= asked)
            hit = again.reader.offset_for_timestamp(asked)
            assert hit is not None
            assert hit[0] == first, asked
        assert again.reader.max_timestamp_offset() == (10, NOW + 2 * HOUR, 0)
