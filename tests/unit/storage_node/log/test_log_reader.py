"""Reads of a log: bounds, windows, segments, and the ends of earlier reads."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import OffsetOutOfRangeError
from headrace.storage_node.log.log import Log
from log_rig import append, batch, check_dense, open_log, read_all, split


def test_reads_are_bounded(log: Log) -> None:
    """Never beyond `upto_offset`, whole batches only, about `max_bytes`, at least one batch with
    `min_one`."""
    sent = [batch(2, tag=str(number)) for number in range(10)]
    for data in sent:
        append(log, data)
    size = len(sent[0])
    assert log.reader.read(0, 10**6, upto_offset=20).next_offset == 20
    assert log.reader.read(0, 3 * size, upto_offset=20).next_offset == 6
    assert log.reader.read(0, 3 * size + 60, upto_offset=20).next_offset == 6
    assert log.reader.read(5, size, upto_offset=20).next_offset == 6  # offset 5 is inside the batch 4..5
    assert log.reader.read(0, 1, upto_offset=20).next_offset == 2
    assert log.reader.read(0, 1, upto_offset=20, min_one=False) == ([], 0)
    assert log.reader.read(0, 10**6, upto_offset=7).next_offset == 6  # never half a batch above the watermark
    assert log.reader.read(6, 10**6, upto_offset=7) == ([], 6)
    assert log.reader.read(8, 10**6, upto_offset=4) == ([], 8)
    assert log.reader.read(20, 10**6, upto_offset=20) == ([], 20)
    for offset in (-1, 21):
        with pytest.raises(OffsetOutOfRangeError):
            log.reader.read(offset, 100, upto_offset=20)


def test_batch_larger_than_read_window_is_read_whole() -> None:
    """A reader with a small limit makes progress, and finds the batches after a large one."""
    log = open_log(FakeFiles(), max_message_bytes=10**6)
    for size in (100_000, 10, 200_000, 10):
        append(log, batch(1, size=size))
    assert len(check_dense(log)) == 4
    assert [len(read_all(log, max_bytes=limit)) for limit in (1, 50_000, 100_100, 10**6)] == [4, 4, 4, 4]
    assert log.reader.read(0, 1, upto_offset=4).next_offset == 1
    assert log.reader.read(0, 100_300, upto_offset=4).next_offset == 2


def test_read_spans_segments() -> None:
    """One read returns a buffer per segment."""
    log = open_log(FakeFiles(), segment_bytes=300)
    for number in range(10):
        append(log, batch(1, tag=str(number)))
    assert len(log.segments) > 2
    found = log.reader.read(0, 10**6, upto_offset=10)
    assert (len(found.data), found.next_offset) == (len(log.segments), 10)


def test_bytes_between_is_exact_at_batch_boundaries() -> None:
    """min_bytes waits for this number; it must not be too high."""
    log = open_log(FakeFiles(), segment_bytes=500, index_interval_bytes=100)
    sent = [batch(2, tag=str(number)) for number in range(12)]
    for data in sent:
        append(log, data)
    for first in range(12):
        for last in range(first, 12):
            expected = sum(map(len, sent[first:last]))
            assert log.reader.bytes_between(2 * first, 2 * last) == expected
    assert log.reader.bytes_between(0, 999) == sum(map(len, sent))
    assert log.reader.bytes_between(24, 24) == log.reader.bytes_between(9, 3) == 0


def test_log_start_offset_hides_records(files: FakeFiles, log: Log) -> None:
    """Lower offsets are out of range, also if their batch is still on disk, and after a restart."""
    append(log, batch(3))
    append(log, batch(3))
    log.advance_log_start_offset(4)
    log.advance_log_start_offset(2)
    assert log.log_start_offset == 4
    with pytest.raises(OffsetOutOfRangeError):
        log.reader.read(3, 100, upto_offset=6)
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start_offset(7)
    again = open_log(files.restart(), log_start_offset=4)
    assert again.log_start_offset == 4
    assert log.reader.read(4, 1000, upto_offset=6).next_offset == 6


def cached(log: Log, offset: int, max_bytes: int = 10**6) -> tuple[list[bytes], int]:
    found = log.reader.read_cached(offset, max_bytes, upto_offset=log.log_end_offset)
    assert found is not None
    return split(b"".join(map(bytes, found.data))), found.next_offset


def test_next_read_starts_at_the_end_of_the_last(files: FakeFiles) -> None:
    """The end of a run is known without the index."""
    log = open_log(files, index_interval_bytes=10**9)
    for number in range(3000):  # more than the newest ones that are known without the index
        append(log, batch(1, tag=str(number)))
    batches = read_all(log, max_bytes=1 << 22)
    first, offset = cached(log, 0, 50_000)
    segment = log.segments.active
    assert segment.start_of(offset).position == 0
    start = segment.run_ends.find(offset)
    assert start is not None
    assert start.position == sum(map(len, first))
    second, following = cached(log, offset, 50_000)
    assert [*first, *second] == batches[:following]


def test_run_ends_are_bounded_and_dropped_by_truncation() -> None:
    """The log then has other batches at the old positions."""
    log = open_log(FakeFiles(), index_interval_bytes=10**9)
    for number in range(3000):
        append(log, batch(1, tag=str(number)))
    for offset in range(0, 500, 2):
        cached(log, offset, 100)
    segment = log.segments.active
    assert len(segment.run_ends._positions) == 64
    log.truncate_to(300)
    assert not segment.run_ends._positions
    for number in range(3000):
        append(log, batch(2, tag=f"other {number}"))
    assert cached(log, 300, 100)[0] == read_all(log, offset=300)[:1]


def test_wrong_run_end_is_forgotten() -> None:
    """It came from a header without a CRC check: a thread reads with CRCs."""
    log = open_log(FakeFiles(), index_interval_bytes=100)
    for number in range(3000):
        append(log, batch(1, tag=str(number)))
    log.segments.active.run_ends.note(7, 13)
    assert log.reader.read_cached(7, 1000, upto_offset=3000) is None
    assert cached(log, 7)[0][:2] == read_all(log, offset=7)[:2]
