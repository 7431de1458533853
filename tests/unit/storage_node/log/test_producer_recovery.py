"""Producer state of a reopened log: from snapshots, from batches, after any crash."""

import pytest
from cleaner_rig import clean
from fake_files import Crash, FakeFiles
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.producer_recovery import stray_snapshots
from headrace.storage_node.log.producer_snapshot import parse_producer_snapshot
from log_rig import FOLDER, NOW, append, batch, open_log, read_all
from producer_oracle import (
    SMALL_SEGMENTS,
    check_producers,
    end,
    fill,
    follow,
    idempotent,
    marker_batch,
    reopened,
    snapshots,
    transactional,
    verified,
)

OTHER_FOLDER = "/e/t-0"


@pytest.fixture
def log(files: FakeFiles) -> Log:
    return open_log(files, **SMALL_SEGMENTS)


@pytest.mark.parametrize("lost", ["newest", "all"])
@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "zeros"])
def test_damaged_snapshots_are_not_needed(files: FakeFiles, damage: str, lost: str, log: Log) -> None:
    """An older snapshot is used, or the batches alone."""
    fill(log)
    log.close()
    found = snapshots(files)
    for offset in found if lost == "all" else found[-1:]:
        path = f"{FOLDER}/{offset:020d}.snapshot"
        content = files.content(path)
        if damage == "gone":
            files.remove(path)
        else:
            files.put(path, {"empty": b"", "torn": content[:-1], "zeros": bytes(len(content))}[damage])
    is_legacy = damage == "gone" and lost == "all"
    check_producers(reopened(files.restart(), was_clean=not is_legacy, recovery_point=log.log_end_offset))


def test_clean_log_without_snapshots_has_no_producers(files: FakeFiles, log: Log) -> None:
    """As in Kafka, its batches are not read."""
    fill(log)
    log.close()
    for offset in snapshots(files):
        files.remove(f"{FOLDER}/{offset:020d}.snapshot")
    again = reopened(files.restart(), was_clean=True, recovery_point=log.log_end_offset)
    assert len(again.producers.states) == 0


def test_producer_state_survives_deletion_of_its_batches_and_a_crash(files: FakeFiles, log: Log) -> None:
    """From the snapshot at the new start: a duplicate is not stored."""
    append(log, idempotent(1, 0))
    log.roll(NOW)
    append(log, batch(1))
    log.advance_log_start_offset(1)
    log.delete_segments_below(1)
    again = open_log(files.restart(), log_start_offset=1, **SMALL_SEGMENTS)
    assert append(again, idempotent(1, 0)) == 0
    assert again.log_end_offset == log.log_end_offset


@pytest.mark.parametrize("snapshot", ["unsynced", "damaged", "missing"])
@pytest.mark.parametrize("power", [None, "none", "all", 1, 2, 3])
def test_producers_of_dropped_segments_survive_every_crash(power: str | int | None, snapshot: str) -> None:
    """The snapshot at the new log start is on the disk before the batches that it stands for are deleted.
    Without one, as after a power loss, it is rebuilt from them."""
    for at in range(100):
        files = FakeFiles()
        log = open_log(files, **SMALL_SEGMENTS)
        append(log, idempotent(1, 0))
        append(log, idempotent(2, 0))
        log.flush()
        log.roll(NOW)
        path = f"{FOLDER}/{2:020d}.snapshot"
        if snapshot == "damaged":
            files.put(path, b"damaged")
        elif snapshot == "missing":
            files.remove(path)
        append(log, idempotent(2, 1))
        files.crash_at = len(files.operations) + at
        try:
            log.drop_segments_below(2)
            log.flush()
        except Crash:
            is_done = False
        else:
            is_done = True
        found = files.restart() if power is None else files.power_loss(power)
        again = open_log(found, log_start_offset=2, recovery_point=2, **SMALL_SEGMENTS)
        assert append(again, idempotent(1, 0)) == 0
        assert append(again, idempotent(2, 0)) == 1
        if is_done:
            return
    raise AssertionError("the flush does not end")


def test_copy_of_a_log_recovers_producers_without_batches(files: FakeFiles) -> None:
    """A replica moves to another log dir after all batches of a producer were deleted, and its node dies."""
    log = open_log(files, **SMALL_SEGMENTS)
    append(log, idempotent(1, 0))
    log.roll(NOW)
    append(log, idempotent(2, 0))
    log.advance_log_start_offset(1)
    log.delete_segments_below(1)
    copy = open_log(files, OTHER_FOLDER, log_start_offset=1, **SMALL_SEGMENTS)
    for data in read_all(log):
        copy.append_as_follower(data)
        copy.roll(NOW)
    copy.adopt_state(log)
    copy.flush()
    append(copy, idempotent(2, 1))
    for mode in ("none", "all", 1, 2):
        for point in (0, copy.recovery_point):
            found = files.power_loss(mode)
            again = open_log(found, OTHER_FOLDER, log_start_offset=1, recovery_point=point, **SMALL_SEGMENTS)
            assert append(again, idempotent(1, 0)) == 0
            assert append(again, idempotent(2, 0)) == 1


def test_compaction_keeps_producers_of_deleted_batches(files: FakeFiles) -> None:
    """Also one whose transaction was open at the log start, and has ended."""
    more = {**SMALL_SEGMENTS, "cleanup_policy": ("compact", "delete"), "delete_retention_ms": 0}
    log = open_log(files, **more)
    append(log, idempotent(1, 0))
    verified(log, transactional(2, 0))
    log.roll(NOW)
    end(log, 2, epoch=1)
    for number in range(5):
        append(log, batch(1, tag="a", size=150))
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        if not number:
            log.advance_log_start_offset(2)
            log.delete_segments_below(2)
        clean(log, wall_ms=NOW)
    for point in (0, log.log_end_offset):
        again = open_log(
            files.restart(),
            log_start_offset=2,
            recovery_point=point,
            cleaner_offset=log.compaction.cleaner_offset,
            **more,
        )
        assert append(again, idempotent(1, 0)) == 0
        assert again.producers.states.oldest_transaction is None


def test_snapshot_before_deleted_batches_is_not_used(files: FakeFiles, log: Log) -> None:
    """It would reopen a transaction whose marker was deleted, and block the last stable offset."""
    fill(log)
    contents = [files.content(f"{FOLDER}/{offset:020d}.snapshot") for offset in snapshots(files)]
    stale = next(
        content
        for content in contents
        if any(each.transaction_first_offset >= 0 for each in parse_producer_snapshot(content))
    )
    log.flush()
    end(log, 2, epoch=2)
    log.roll()
    log.advance_log_start_offset(log.log_end_offset)
    log.delete_segments_below(log.log_end_offset)
    files.put(f"{FOLDER}/{3:020d}.snapshot", stale)
    for point in (0, log.log_end_offset):
        again = open_log(
            files.restart(), log_start_offset=log.log_start_offset, recovery_point=point, **SMALL_SEGMENTS
        )
        assert again.producers.states.to_snapshot() == log.producers.states.to_snapshot()
    files.put(f"{FOLDER}/{log.log_end_offset:020d}.snapshot", b"damaged")
    again = open_log(files.restart(), log_start_offset=log.log_start_offset, **SMALL_SEGMENTS)
    assert again.producers.states.is_empty


def test_truncation_reopens_transaction_of_expired_producer(files: FakeFiles) -> None:
    """A follower has a marker that was never committed, and was restarted."""
    log = open_log(files, **SMALL_SEGMENTS)
    append(log, batch(1))
    verified(log, transactional(2, 0))
    log.roll(NOW)
    append(log, batch(1))
    end(log, 2, epoch=1, is_commit=False)
    log.producers.states.expire(NOW)
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **SMALL_SEGMENTS)
    log.truncate_to(3)
    log.high_watermark = 3
    assert log.last_stable_offset == 1
    follow(log, marker_batch(2, 1, is_commit=False))
    log.high_watermark = 4
    assert log.reader.aborted_between(0, 4) == ((2, 1),)


@pytest.mark.parametrize("lost", ["newest", "none"])
def test_transaction_with_compacted_marker_stays_ended(files: FakeFiles, lost: str) -> None:
    """A snapshot from its time would reopen it, and no marker would end it."""
    more = {**SMALL_SEGMENTS, "cleanup_policy": ("compact",), "delete_retention_ms": 0}
    log = open_log(files, **more)
    append(log, batch(1, tag="first"))  # with it the leader epoch began
    verified(log, transactional(2, 0))
    append(log, batch(1, tag="a", size=150))
    log.roll(NOW)
    end(log, 2, epoch=1, is_commit=False)
    append(log, batch(1, tag="b", size=150))
    for number in range(5):
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        log.producers.states.expire(NOW)
        clean(log, wall_ms=NOW)
        append(log, batch(1, tag=str(number)))
    assert not any(read_batch_header(data).is_control for data in read_all(log))
    if lost == "newest":
        files.remove(f"{FOLDER}/{snapshots(files)[-1]:020d}.snapshot")
    again = open_log(files.restart(), recovery_point=4, cleaner_offset=log.compaction.cleaner_offset, **more)
    again.high_watermark = again.log_end_offset
    assert again.producers.states.oldest_transaction is None
    assert again.last_stable_offset == again.log_end_offset


def test_snapshot_above_the_log_end_is_not_used() -> None:
    """Nor when the log has grown to that offset with other batches, and a segment starts there."""
    files = FakeFiles()
    log = open_log(files, **SMALL_SEGMENTS)
    for number in range(4):
        append(log, idempotent(1, number))
    log.close()
    content = files.content(f"{FOLDER}/{4:020d}.snapshot")
    files = FakeFiles()
    log = open_log(files, **SMALL_SEGMENTS)
    append(log, idempotent(2, 0))
    files.put(f"{FOLDER}/{4:020d}.snapshot", content)
    log = open_log(files.restart(), **SMALL_SEGMENTS)
    for number in range(1, 4):
        append(log, idempotent(2, number))
    log.roll(NOW)
    again = open_log(log.folder.files._files.restart(), recovery_point=5, **SMALL_SEGMENTS)
    assert [each.producer_id for each in again.producers.states.all()] == [2]


@pytest.mark.parametrize("mode", ["none", "all", 1, 2])
def test_flushed_transaction_index_survives_power_loss(files: FakeFiles, mode: str | int, log: Log) -> None:
    """Below the recovery point it is trusted: a missing entry would show aborted records."""
    verified(log, transactional(2, 0))
    end(log, 2, epoch=1, is_commit=False)
    for _ in range(2):
        log.roll(NOW)
        append(log, batch(1))
    log.flush()
    again = reopened(files.power_loss(mode), recovery_point=log.recovery_point)
    assert again.reader.aborted_between(0, 1) == ((2, 0),)
    check_producers(again)


def test_transaction_with_damaged_marker_is_open() -> None:
    """The end of the log cannot be read, although the shutdown was clean."""
    files = FakeFiles()
    log = open_log(files, **SMALL_SEGMENTS)
    verified(log, transactional(2, 0))
    end(log, 2, epoch=1, is_commit=False)
    log.close()
    files = files.restart()
    path = f"{FOLDER}/{0:020d}.log"
    files.put(path, files.content(path)[:-1])
    again = reopened(files, was_clean=True, recovery_point=2)
    assert again.recovery.faults
    assert (again.log_end_offset, again.last_stable_offset, again.reader.aborted_between(0, 1)) == (1, 0, ())


def test_stray_snapshots_are_deleted_but_the_newest() -> None:
    """KAFKA-12520: that of a clean shutdown is above the last base offset."""
    assert stray_snapshots([3, 5, 7, 9, 12], [0, 5, 9]) == [3, 7]
    assert stray_snapshots([3, 5, 8], [0, 5, 9]) == [3, 8]
    assert stray_snapshots([4, 6], []) == [4, 6]


def test_unfinished_compaction_keeps_snapshots(files: FakeFiles) -> None:
    """KAFKA-12520: its segments are replaced at the next start; producer state must not be lost."""
    log = open_log(files, cleanup_policy=("compact",), **SMALL_SEGMENTS)
    append(log, idempotent(7, 0))
    for _ in range(8):
        append(log, batch(1))
    log.roll()
    log.high_watermark = log.log_end_offset
    start = len(files.operations)
    clean(log)
    log.close()
    whole = log.producers.states.to_snapshot()
    for at in range(start, len(files.operations)):
        disk = FakeFiles()
        other = open_log(disk, cleanup_policy=("compact",), **SMALL_SEGMENTS)
        append(other, idempotent(7, 0))
        for _ in range(8):
            append(other, batch(1))
        other.roll()
        other.high_watermark = other.log_end_offset
        disk.crash_at = at
        with pytest.raises(Crash):
            _clean_and_close(other)
        again = open_log(disk.restart(), cleaner_offset=0, cleanup_policy=("compact",), **SMALL_SEGMENTS)
        assert again.producers.states.to_snapshot() == whole


def _clean_and_close(log: Log) -> None:
    clean(log)
    log.close()


@pytest.mark.parametrize("power", [None, "none", "all", 1])
def test_producer_state_after_crash_in_every_operation(files: FakeFiles, power: str | int | None) -> None:
    """Batches, rolls with snapshots, seals with transaction indexes, a truncation and the close: the
    recovered state is that of the batches."""
    _live(files, [])
    for at in range(len(files.operations)):
        disk = FakeFiles()
        flushed: list[int] = [0]
        disk.crash_at = at
        with pytest.raises(Crash):
            _live(disk, flushed)
        found = disk.restart() if power is None else disk.power_loss(power)
        log = reopened(found, recovery_point=flushed[-1])
        check_producers(log)
        append(log, idempotent(4, 0))
        log.roll()
        log.close()
        again = reopened(found.restart(), was_clean=True, recovery_point=log.log_end_offset)
        check_producers(again, was_loaded=True)


def _live(files: FakeFiles, flushed: list[int]) -> None:
    log = open_log(files, **SMALL_SEGMENTS)
    fill(log)
    log.flush()
    flushed.append(log.recovery_point)
    flushed.append(7)
    log.truncate_to(7)
    flushed.append(log.recovery_point)
    end(log, 3, epoch=1, is_commit=False)
    append(log, idempotent(1, 3))
    verified(log, transactional(2, 0, epoch=2))
    log.roll(NOW)
    end(log, 2, epoch=3, is_commit=False)
    log.close()
    flushed.append(log.recovery_point)


def test_producer_state_survives_deletion_of_all_records() -> None:
    """Only an expired or a new producer is unknown."""
    log = open_log(FakeFiles(), **SMALL_SEGMENTS)
    append(log, idempotent(1, 0))
    log.roll()
    log.advance_log_start_offset(1)
    log.delete_segments_below(1)
    assert append(log, idempotent(2, 9)) == 1
    assert append(log, idempotent(1, 0)) == 0
