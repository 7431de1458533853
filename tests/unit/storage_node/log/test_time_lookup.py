"""Lookups by timestamp are exact to the record."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.records.header import Compression
from headrace.storage_node.log.log import Log
from log_rig import append, batch, open_log


def test_first_record_at_or_after_a_timestamp() -> None:
    """Inside a batch, between batches, before the first, after the last."""
    log = open_log(FakeFiles(), segment_bytes=400, index_interval_bytes=0)
    for number in range(8):
        append(log, batch(3, timestamp=1000 + 100 * number, step=10), epoch=number // 4)
    assert len(log.segments) > 2
    assert log.reader.offset_for_timestamp(0) == (0, 1000, 0)
    assert log.reader.offset_for_timestamp(1010) == (1, 1010, 0)
    assert log.reader.offset_for_timestamp(1011) == (2, 1020, 0)
    assert log.reader.offset_for_timestamp(1021) == (3, 1100, 0)
    assert log.reader.offset_for_timestamp(1720) == (23, 1720, 1)
    assert log.reader.offset_for_timestamp(1721) is None


def test_timestamps_out_of_order() -> None:
    """The first record by offset, not the nearest by time."""
    log = open_log(FakeFiles(), index_interval_bytes=0)
    for timestamp in (50, 500, 30, 400, 600, 10):
        append(log, batch(1, timestamp=timestamp))
    assert log.reader.offset_for_timestamp(400) == (1, 500, 0)
    assert log.reader.offset_for_timestamp(501) == (4, 600, 0)
    assert log.reader.offset_for_timestamp(5) == (0, 50, 0)
    assert log.reader.max_timestamp_offset() == (4, 600, 0)


def test_first_of_equal_largest_timestamps(log: Log) -> None:
    """As in Kafka."""
    append(log, batch(3, timestamp=7, step=0))
    append(log, batch(3, timestamp=7, step=0))
    assert log.reader.max_timestamp_offset() == (0, 7, 0)


def test_records_below_the_log_start_do_not_count() -> None:
    """Deleted records are not found."""
    log = open_log(FakeFiles(), segment_bytes=200)
    append(log, batch(3, timestamp=900, step=-10))
    append(log, batch(3, timestamp=100, step=10))
    log.advance_log_start_offset(1)
    assert log.reader.offset_for_timestamp(0) == (1, 890, 0)
    assert log.reader.max_timestamp_offset() == (1, 890, 0)
    log.advance_log_start_offset(4)
    assert log.reader.offset_for_timestamp(0) == (4, 110, 0)
    assert log.reader.max_timestamp_offset() == (5, 120, 0)


def test_logs_without_timestamps_or_records(log: Log) -> None:
    assert log.reader.offset_for_timestamp(0) is log.reader.max_timestamp_offset() is None
    append(log, batch(2, timestamp=-1, step=0))
    assert log.reader.offset_for_timestamp(0) is log.reader.max_timestamp_offset() is None


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("compression", list(Compression))
def test_lookups_survive_a_restart(files: FakeFiles, compression: Compression, was_clean: bool) -> None:
    """Sealed segments load their largest timestamps; compressed batches are decoded."""
    log = open_log(files, segment_bytes=300)
    for number in range(6):
        append(log, batch(4, timestamp=1000 + 100 * number, step=10, compression=compression))
    if was_clean:
        log.close()
    again = open_log(files.restart(), segment_bytes=300, was_clean=was_clean, recovery_point=24)
    for number in range(6):
        assert again.reader.offset_for_timestamp(1015 + 100 * number) == (
            4 * number + 2,
            1020 + 100 * number,
            0,
        )
    assert again.reader.max_timestamp_offset() == (23, 1530, 0)
