"""Producers and transactions of a log that is opened again: from snapshots, from batches, after any crash."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from cleaner_rig import clean
from fake_files import Crash, FakeFiles
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.disk_room import DiskRoom
from headrace.storage_node.log.guarded_files import Fuse, GuardedFiles
from headrace.storage_node.log.producer_recovery import snapshot_offsets, stray_snapshots
from headrace.storage_node.log.producer_snapshot import parse_producer_snapshot
from log_rig import FOLDER, NOW, append, batch, open_log, read_all
from producer_oracle import (
    check_producers,
    end,
    follow,
    idempotent,
    marker_batch,
    transactional,
    verified,
)

if TYPE_CHECKING:
    from headrace.storage_node.log.log import Log

KEYS = {"segment_bytes": 400, "index_interval_bytes": 60}


def fill(log: Log) -> None:
    """Idempotent batches, an aborted transaction, a committed one, one that is open; several segments."""
    for number in range(3):
        append(log, idempotent(1, number))
    verified(log, transactional(2, 0))
    verified(log, transactional(3, 0))
    append(log, batch(2))
    end(log, 2, epoch=1, is_commit=False)
    append(log, idempotent(1, 3))
    end(log, 3, epoch=1)
    verified(log, transactional(2, 0, epoch=1))
    append(log, idempotent(1, 4))
    log.high_watermark = log.log_end_offset


def snapshots(files: FakeFiles) -> list[int]:
    return snapshot_offsets(files.listdir(FOLDER))


def reopened(files: FakeFiles, *, was_clean: bool = False, recovery_point: int = 0) -> Log:
    log = open_log(files, was_clean=was_clean, recovery_point=recovery_point, **KEYS)
    log.high_watermark = log.log_end_offset
    return log


def test_a_snapshot_lies_where_each_segment_begins_and_at_the_end() -> None:
    """Kafka's names and shape; after an orderly end no batch is read for it,
    but at the tail of the active segment for the index."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
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


@pytest.mark.parametrize("lost", ["newest", "all"])
@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "zeros"])
def test_damaged_snapshots_only_cost_time(damage: str, lost: str) -> None:
    """An older one does, or the batches alone."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
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


def test_a_log_of_before_there_were_producers_is_not_read() -> None:
    """It ended in order and has no snapshot: nothing is known, as with Kafka."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    fill(log)
    log.close()
    for offset in snapshots(files):
        files.remove(f"{FOLDER}/{offset:020d}.snapshot")
    again = reopened(files.restart(), was_clean=True, recovery_point=log.log_end_offset)
    assert len(again.producers.states) == 0


def test_a_log_without_producers_needs_no_snapshot_at_its_end() -> None:
    """Thousands of them end sooner; the first producer that comes later is known after a crash, too."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    append(log, batch(2))
    log.close()
    assert snapshots(files) == []
    log = reopened(files.restart(), was_clean=True, recovery_point=2)
    append(log, idempotent(1, 0))
    found = log.folder.files._files.restart()
    check_producers(reopened(found, recovery_point=2))
    log.close()
    assert snapshots(log.folder.files._files) == [3]


def test_a_full_disk_at_the_end_only_costs_time() -> None:
    """The snapshot does not fit; the log ends in order all the same, and the batches say it all."""
    files = FakeFiles()
    files.mkdir(FOLDER)
    log = open_log(GuardedFiles(files, Fuse(), DiskRoom(files, "/d", 0)), **KEYS)
    fill(log)
    log.flush()
    files.fail("pwrite", ".snapshot", errno.ENOSPC)
    log.close()
    assert not log.is_offline
    check_producers(reopened(files.restart(), recovery_point=log.log_end_offset))


def test_snapshots_of_offsets_that_are_cut_are_gone_for_good() -> None:
    """Also after a loss of power: else one of them would speak for other batches later."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
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


def test_segments_take_their_snapshots_along() -> None:
    """Those that retention lets go; what is known of producers stays."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    fill(log)
    before = log.producers.states.to_snapshot()
    start = log.segments[2].base_offset
    log.advance_log_start_offset(start)
    log.delete_segments_below(start)
    assert snapshots(files)[0] == start
    assert log.producers.states.to_snapshot() == before
    log.close()
    again = open_log(
        files.restart(), was_clean=True, recovery_point=log.log_end_offset, log_start_offset=start, **KEYS
    )
    assert again.producers.states.to_snapshot() == before
    killed = open_log(files.restart(), recovery_point=start, log_start_offset=start, **KEYS)
    assert {each.producer_id for each in before} == {
        each.producer_id for each in killed.producers.states.all()
    }


def test_a_producer_whose_batches_were_deleted_is_known_after_a_crash() -> None:
    """By the snapshot where the log begins now: what it sends again is not stored twice."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    append(log, idempotent(1, 0))
    log.roll(NOW)
    append(log, batch(1))
    log.advance_log_start_offset(1)
    log.delete_segments_below(1)
    again = open_log(files.restart(), log_start_offset=1, **KEYS)
    assert append(again, idempotent(1, 0)) == 0
    assert again.log_end_offset == log.log_end_offset


def test_an_old_snapshot_does_not_speak_for_batches_that_are_gone() -> None:
    """It would bring back a transaction whose marker was deleted, and the last stable offset would stand
    still for ever."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
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
        again = open_log(files.restart(), log_start_offset=log.log_start_offset, recovery_point=point, **KEYS)
        assert again.producers.states.to_snapshot() == log.producers.states.to_snapshot()
    files.put(f"{FOLDER}/{log.log_end_offset:020d}.snapshot", b"damaged")
    again = open_log(files.restart(), log_start_offset=log.log_start_offset, **KEYS)
    assert again.producers.states.is_empty


def test_a_cut_opens_a_transaction_again_though_its_producer_was_forgotten() -> None:
    """A follower that was alone for a day has a marker that nobody else has; it was restarted, too."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    append(log, batch(1))
    verified(log, transactional(2, 0))
    log.roll(NOW)
    append(log, batch(1))
    end(log, 2, epoch=1, is_commit=False)
    log.producers.states.expire(NOW)
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **KEYS)
    log.truncate_to(3)
    log.high_watermark = 3
    assert log.last_stable_offset == 1
    follow(log, marker_batch(2, 1, is_commit=False))
    log.high_watermark = 4
    assert log.reader.aborted_between(0, 4) == ((2, 1),)


@pytest.mark.parametrize("lost", ["newest", "none"])
def test_a_transaction_whose_marker_was_compacted_away_stays_ended(lost: str) -> None:
    """A snapshot of when it was open is not to be believed any more: nothing behind it would end it."""
    files = FakeFiles()
    more = {**KEYS, "cleanup_policy": ("compact",), "delete_retention_ms": 0}
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


def test_a_snapshot_behind_the_end_that_a_crash_left_does_not_count() -> None:
    """Nor when the log has grown up to it again, with other batches, and another segment begins there."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    for number in range(4):
        append(log, idempotent(1, number))
    log.close()
    content = files.content(f"{FOLDER}/{4:020d}.snapshot")
    files = FakeFiles()
    log = open_log(files, **KEYS)
    append(log, idempotent(2, 0))
    files.put(f"{FOLDER}/{4:020d}.snapshot", content)
    log = open_log(files.restart(), **KEYS)
    for number in range(1, 4):
        append(log, idempotent(2, number))
    log.roll(NOW)
    again = open_log(log.folder.files._files.restart(), recovery_point=5, **KEYS)
    assert [each.producer_id for each in again.producers.states.all()] == [2]


@pytest.mark.parametrize("mode", ["none", "all", 1, 2])
def test_a_flushed_transaction_index_survives_a_loss_of_power(mode: str | int) -> None:
    """It is believed below the recovery point: what is missing there would be shown."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    verified(log, transactional(2, 0))
    end(log, 2, epoch=1, is_commit=False)
    for _ in range(2):
        log.roll(NOW)
        append(log, batch(1))
    log.flush()
    again = reopened(files.power_loss(mode), recovery_point=log.recovery_point)
    assert again.reader.aborted_between(0, 1) == ((2, 0),)
    check_producers(again)


def test_an_abort_that_damage_has_taken_is_open_again() -> None:
    """The end of the log cannot be read, although it was closed in order."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    verified(log, transactional(2, 0))
    end(log, 2, epoch=1, is_commit=False)
    log.close()
    files = files.restart()
    path = f"{FOLDER}/{0:020d}.log"
    files.put(path, files.content(path)[:-1])
    again = reopened(files, was_clean=True, recovery_point=2)
    assert again.recovery.faults
    assert (again.log_end_offset, again.last_stable_offset, again.reader.aborted_between(0, 1)) == (1, 0, ())


def test_who_begins_anew_keeps_no_snapshot() -> None:
    """Not that of an orderly end either, which no segment takes along."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    append(log, idempotent(1, 0, 4))
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **KEYS)
    log.truncate_fully_and_start_at(2)
    assert snapshots(log.folder.files._files) == []


def test_a_snapshot_of_an_orderly_end_that_was_cut_does_not_count() -> None:
    """Nor when the log ends there again, with other batches, and is rolled."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    for number in range(4):
        append(log, idempotent(1, number))
    log.close()
    log = open_log(files.restart(), was_clean=True, recovery_point=4, **KEYS)
    log.truncate_to(1)
    for number in range(3):
        append(log, idempotent(2, number))
    log.roll(NOW)
    again = open_log(log.folder.files._files.restart(), recovery_point=5, **KEYS)
    assert [(each.producer_id, each.last_sequence) for each in again.producers.states.all()] == [
        (1, 0),
        (2, 2),
    ]


def test_stray_snapshots_go_but_the_newest() -> None:
    """KAFKA-12520: that of an orderly end is behind the last segment's beginning."""
    assert stray_snapshots([3, 5, 7, 9, 12], [0, 5, 9]) == [3, 7]
    assert stray_snapshots([3, 5, 8], [0, 5, 9]) == [3, 8]
    assert stray_snapshots([4, 6], []) == [4, 6]


def test_an_unfinished_compaction_costs_no_snapshot() -> None:
    """KAFKA-12520: its segments are replaced at the next start; producers are not forgotten over it."""
    files = FakeFiles()
    log = open_log(files, cleanup_policy=("compact",), **KEYS)
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
        other = open_log(disk, cleanup_policy=("compact",), **KEYS)
        append(other, idempotent(7, 0))
        for _ in range(8):
            append(other, batch(1))
        other.roll()
        other.high_watermark = other.log_end_offset
        disk.crash_at = at
        with pytest.raises(Crash):
            _clean_and_close(other)
        again = open_log(disk.restart(), cleaner_offset=0, cleanup_policy=("compact",), **KEYS)
        assert again.producers.states.to_snapshot() == whole


def _clean_and_close(log: Log) -> None:
    clean(log)
    log.close()


@pytest.mark.parametrize("power", [None, "none", "all", 1])
def test_a_crash_at_every_operation(power: str | int | None) -> None:
    """While batches, rolls with their snapshots, seals with their transaction indexes, a cut and the end are
    under way: what is found again is what the batches say."""
    files = FakeFiles()
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
    log = open_log(files, **KEYS)
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


def test_a_log_of_which_all_records_went_knows_who_wrote_them() -> None:
    """Its own retention takes no knowledge away: unknown is who never was there, or expired."""
    log = open_log(FakeFiles(), **KEYS)
    append(log, idempotent(1, 0))
    log.roll()
    log.advance_log_start_offset(1)
    log.delete_segments_below(1)
    assert append(log, idempotent(2, 9)) == 1
    assert append(log, idempotent(1, 0)) == 0
