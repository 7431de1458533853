"""Snapshots of the producer state: when they are written, and when they are deleted."""

import errno

import pytest
from fake_files import FakeFiles
from headrace.storage_node.log.disk_room import DiskRoom
from headrace.storage_node.log.guarded_files import GuardedFiles, LogDirState
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.producer_snapshot import parse_producer_snapshot
from log_rig import FOLDER, NOW, append, batch, open_log
from producer_oracle import SMALL_SEGMENTS, check_producers, fill, idempotent, reopened, snapshots


@pytest.fixture
def log(files: FakeFiles) -> Log:
    return open_log(files, **SMALL_SEGMENTS)


def test_snapshot_per_segment_and_at_the_log_end(files: FakeFiles, log: Log) -> None:
    """Kafka's names and shape; after a clean shutdown only the tail of the active segment is read, for the
    index."""
    fill(log)
    bases = [segment.base_offset for segment in log.segments]
    assert snapshots(files) == bases[1:]
    log.close()
    assert snapshots(files) == [*bases[1:], log.log_end_offset]
    content = files.content(f"{FOLDER}/{log.log_end_offset:020d}.snapshot")
    assert parse_producer_snapshot(content) == log.producers.states.to_snapshot()
    found = files.restart()
    found.fail("pread", f"{bases[-2]:020d}.log")
    again = reopened(found, was_clean=True, recovery_point=log.log_end_offset)
    assert again.producers.states.to_snapshot() == log.producers.states.to_snapshot()


def test_log_without_producers_writes_no_snapshot(files: FakeFiles) -> None:
    """Thousands of such logs close faster; the first producer later is known after a crash."""
    log = open_log(files, **SMALL_SEGMENTS)
    append(log, batch(2))
    log.close()
    assert snapshots(files) == []
    log = reopened(files.restart(), was_clean=True, recovery_point=2)
    append(log, idempotent(1, 0))
    found = log.folder.files._files.restart()
    check_producers(reopened(found, recovery_point=2))
    log.close()
    assert snapshots(log.folder.files._files) == [3]


def test_last_snapshot_on_full_disk(files: FakeFiles) -> None:
    """It does not fit; the log is closed cleanly, and the state is rebuilt from the batches."""
    files.mkdir(FOLDER)
    log = open_log(GuardedFiles(files, LogDirState(), DiskRoom(files, "/d", 0)), **SMALL_SEGMENTS)
    fill(log)
    log.flush()
    files.fail("pwrite", ".snapshot", errno.ENOSPC)
    log.close()
    assert not log.is_offline
    check_producers(reopened(files.restart(), recovery_point=log.log_end_offset))


def test_truncation_deletes_snapshots_durably(files: FakeFiles, log: Log) -> None:
    """Otherwise one of them would later apply to other batches."""
    fill(log)
    log.flush()
    cut_to = snapshots(files)[-1]
    log.truncate_to(cut_to)
    log.high_watermark = log.log_end_offset
    check_producers(log)
    assert cut_to not in snapshots(files)
    for number in range(8):
        append(log, idempotent(5, number))
    for mode in ("none", "all", 1, 2, 3):
        check_producers(reopened(files.power_loss(mode), recovery_point=log.recovery_point))


def test_retired_segment_takes_its_snapshot_along(files: FakeFiles, log: Log) -> None:
    """Retention removes both; the producer state stays."""
    fill(log)
    before = log.producers.states.to_snapshot()
    start = log.segments[2].base_offset
    log.advance_log_start_offset(start)
    log.delete_segments_below(start)
    assert snapshots(files)[0] == start
    assert log.producers.states.to_snapshot() == before
    log.close()
    again = open_log(
        files.restart(),
        was_clean=True,
        recovery_point=log.log_end_offset,
        log_start_offset=start,
        **SMALL_SEGMENTS,
    )
    assert again.producers.states.to_snapshot() == before
    killed = open_log(files.restart(), recovery_point=start, log_start_offset=start, **SMALL_SEGMENTS)
    assert {each.producer_id for each in before} == {
        each.producer_id for each in killed.producers.states.all()
    }


def test_restarted_log_deletes_all_snapshots(files: FakeFiles) -> None:
    """Also that of the clean shutdown, which belongs to no segment."""
    log = open_log(files, **SMALL_SEGMENTS)
    append(log, idempotent(1, 0, 4))
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **SMALL_SEGMENTS)
    log.truncate_fully_and_start_at(2)
    assert snapshots(log.folder.files._files) == []


def test_snapshot_of_clean_shutdown_is_deleted_by_truncation(files: FakeFiles) -> None:
    """It is not used when the log ends there again with other batches, and is rolled."""
    log = open_log(files, **SMALL_SEGMENTS)
    for number in range(4):
        append(log, idempotent(1, number))
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **SMALL_SEGMENTS)
    log.truncate_to(1)
    for number in range(3):
        append(log, idempotent(2, number))
    log.roll(NOW)
    again = open_log(log.folder.files._files.restart(), recovery_point=5, **SMALL_SEGMENTS)
    assert [(each.producer_id, each.last_sequence) for each in again.producers.states.all()] == [
        (1, 0),
        (2, 2),
    ]
