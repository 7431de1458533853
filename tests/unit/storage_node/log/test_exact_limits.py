"""Sizes exactly at the limit, thousands of small batches, and epochs at the log end."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import MessageTooLargeError
from headrace.storage_node.log.log import Log
from log_rig import FOLDER, NOW, append, batch, check_dense, keys_of, open_log, read_all


def test_batch_of_max_message_bytes_is_accepted() -> None:
    """max.message.bytes is inclusive, as in Kafka."""
    data = batch(size=100)
    append(open_log(FakeFiles(), max_message_bytes=len(data)), data)
    with pytest.raises(MessageTooLargeError):
        append(open_log(FakeFiles(), max_message_bytes=len(data) - 1), data)


def test_segment_is_filled_to_the_last_byte() -> None:
    """Three batches fit exactly; the fourth is in the next segment."""
    data = batch(size=100)
    log = open_log(FakeFiles(), segment_bytes=3 * len(data))
    for _ in range(3):
        append(log, data)
    assert len(log.segments) == 1
    append(log, data)
    assert len(log.segments) == 2


def test_no_time_index_outgrows_segment_index_bytes(files: FakeFiles) -> None:
    """Every batch has an entry of 12 bytes; the file stays within the limit, with the entry of the seal."""
    log = open_log(files, segment_index_bytes=60, index_interval_bytes=0)
    for number in range(40):
        append(log, batch(timestamp=NOW + number))
    log.close()
    sizes = [files.size(f"{FOLDER}/{name}") for name in files.listdir(FOLDER) if name.endswith(".timeindex")]
    assert len(sizes) > 1
    assert max(sizes) <= 60


def test_thousands_of_batches_in_one_segment_are_found() -> None:
    """More than NewestStarts holds: each offset is read from its own batch."""
    log = open_log(FakeFiles(), segment_bytes=1 << 30)
    count = 2_600
    for number in range(count):
        append(log, batch(tag=str(number)))
    for offset in (0, 1, 500, 1023, 1024, 1025, 1575, 1576, 1577, 2047, 2048, 2049, count - 1):
        (first, *_) = read_all(log, offset=offset, max_bytes=1)
        assert keys_of([first]) == [(offset, f"{offset}:0".encode())]
    assert len(check_dense(log)) == count


def test_epoch_without_records_survives_power_loss(files: FakeFiles, log: Log) -> None:
    """The next flush writes an epoch even if nothing else is new."""
    append(log, batch(), epoch=1)
    log.flush()
    log.assign_leader_epoch(4)
    log.flush()
    again = open_log(files.power_loss("none"), recovery_point=1, was_clean=True)
    assert again.epochs.latest_epoch == 4
    assert again.end_offset_for_epoch(1) == (1, 1)


@pytest.mark.parametrize("offset", [3, 6, 9])
def test_truncation_between_segments_leaves_no_empty_segment(offset: int) -> None:
    """The log ends with the previous segment, and appends continue there."""
    data = batch(size=100)
    files = FakeFiles()
    log = open_log(files, segment_bytes=3 * len(data))
    for _ in range(12):
        append(log, data)
    log.truncate_to(offset)
    assert log.log_end_offset == offset
    assert len(log.segments) == offset // 3
    append(log, data)
    assert len(check_dense(log)) == offset + 1
    assert len(check_dense(open_log(files.restart(), segment_bytes=3 * len(data)))) == offset + 1
