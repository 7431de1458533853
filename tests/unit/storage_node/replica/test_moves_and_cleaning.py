"""Moves between log dirs together with compaction, deleted records, full disks and restarted followers."""

import errno
from typing import Any

import pytest
from cleaner_rig import FullSpeed
from core_rig import CoreRig
from fake_files import Crash
from headrace.protocol.errors import HeadraceError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import TopicPartitions
from headrace.protocol.messages.log_dirs import AlterReplicaLogDirsRequest, LogDirTarget
from headrace.protocol.records.codec import active_codec
from headrace.storage_node.effects import CopyLog
from headrace.storage_node.log.cleaner.work import CleaningAbortedError
from headrace.storage_node.log.log import Log
from headrace.storage_node.replica.log_cleaner import CleaningJob
from node_rig import WALL_MS, batch

CLEANER_OFFSETS = "cleaner-offset-checkpoint"


def compacted() -> tuple[CoreRig, bytes]:
    """A compacted topic in /a, each record in a segment of its own."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", cleanup_policy="compact", segment_ms="1")
    fill(rig, topic_id, 0)
    return rig, topic_id


def fill(rig: CoreRig, topic_id: bytes, first: int) -> None:
    for number in range(first, first + 8):
        builder = active_codec().builder(max_bytes=1 << 20)
        builder.append(WALL_MS + 10 * number, b"k%d" % (number % 3), b"%d" % number)
        assert rig.produce(topic_id, builder.build()).first.error_code == 0
    rig.flush()


def log_of(rig: CoreRig, topic_id: bytes) -> Log:
    log = rig.core.table.partitions[topic_id, 0].log
    assert log is not None
    return log


def stored(rig: CoreRig, topic_id: bytes) -> bytes:
    log = log_of(rig, topic_id)
    return b"".join(log.reader.read(0, 1 << 20, upto_offset=log.log_end_offset).data)


def begin_move(rig: CoreRig, path: str) -> None:
    target = LogDirTarget(path, (TopicPartitions("t", (0,)),))
    answer = rig.ask(registry.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest((target,))).answer
    assert answer.results[0].error_code == 0


def want_start(rig: CoreRig, topic_id: bytes, offset: int) -> None:
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], offset)
    rig.tick()


def next_job(rig: CoreRig) -> CleaningJob | None:
    return rig.core.cleaner.next_job(FullSpeed(), rig.now_ms, WALL_MS)


def run(rig: CoreRig, job: CleaningJob) -> HeadraceError | None:
    error: HeadraceError | None = None
    try:
        job.cleaning.index()
        while job.cleaning.rewrite():
            job.cleaning.install()
            job.cleaning.log.delete_retired(job.cleaning.settle())
    except HeadraceError as found:
        error = found
    rig.core.cleaned(job, error, rig.now_ms)
    rig.check()
    return error


def test_move_aborts_a_cleaning_and_prevents_others() -> None:
    """The copy must not have two states of the log."""
    rig, topic_id = compacted()
    job = next_job(rig)
    assert job is not None
    begin_move(rig, "/b")
    assert not rig.pop(CopyLog)
    assert isinstance(run(rig, job), CleaningAbortedError)
    assert next_job(rig) is None
    rig.copy()
    assert log_of(rig, topic_id).folder.path == "/b/t-0"
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is None
    assert log_of(rig, topic_id).compaction.cleaner_offset == 7


def test_cleaner_checkpoint_moves_with_the_log() -> None:
    """Into the target's checkpoint before the swap; gaps of compaction stay."""
    rig, topic_id = compacted()
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is None
    before = stored(rig, topic_id)
    assert len(before) < 8 * len(next(iter(log_of(rig, topic_id).reader.read(0, 1, upto_offset=8).data)))
    rig.begin_checkpoint()
    rig.end_checkpoint()
    begin_move(rig, "/b")
    rig.copy()
    assert rig.files.content(f"/b/{CLEANER_OFFSETS}") == b"0\n1\nt 0 7\n"
    assert rig.files.content(f"/a/{CLEANER_OFFSETS}") == b"0\n0\n"
    assert log_of(rig, topic_id).compaction.cleaner_offset == 7
    again = CoreRig(rig.files.power_loss("none"), "/a,/b", rig.records)
    again.flush()
    assert stored(again, topic_id) == before
    log = log_of(again, topic_id)
    assert (log.compaction.has_gaps, log.recovery.has_loss, log.compaction.cleaner_offset) == (True, False, 7)


def test_crash_in_a_move_does_not_restore_deleted_records() -> None:
    """The log start is in the target's checkpoint before the copy has its final name."""

    def filled() -> tuple[CoreRig, bytes]:
        rig = CoreRig(dirs="/a,/b")
        topic_id = rig.topic("t", durability="fsync")
        rig.produce(topic_id, batch(b"0", b"1", b"2", b"3"))
        rig.flush()
        want_start(rig, topic_id, 2)
        rig.begin_checkpoint()
        rig.end_checkpoint()
        assert log_of(rig, topic_id).log_start_offset == 2
        return rig, topic_id

    def move(rig: CoreRig) -> None:
        begin_move(rig, "/b")
        rig.copy()
        rig.purge()

    rig, topic_id = filled()
    began = len(rig.files.operations)
    move(rig)
    total = len(rig.files.operations) - began
    assert total > 20
    for number in range(total):
        rig, topic_id = filled()
        rig.files.crash_at = len(rig.files.operations) + number
        with pytest.raises(Crash):
            move(rig)
        for files in (rig.files.restart(), rig.files.power_loss("none"), rig.files.power_loss("all")):
            assert log_of(CoreRig(files, "/a,/b", rig.records), topic_id).log_start_offset == 2


def test_requested_log_start_moves_with_the_log() -> None:
    """The checkpoint comes after the swap."""
    rig, topic_id = compacted()
    want_start(rig, topic_id, 3)
    begin_move(rig, "/b")
    rig.copy()
    assert (log_of(rig, topic_id).log_start_offset, log_of(rig, topic_id).start.pending_offset) == (0, 3)
    assert rig.checkpoint_starts()
    assert log_of(rig, topic_id).log_start_offset == 3


def test_unwritten_log_start_is_requested_by_the_next_tick() -> None:
    rig, topic_id = compacted()
    want_start(rig, topic_id, 3)
    rig.files.fail("pwrite", "log-start-offset", errno.ENOSPC)
    assert rig.checkpoint_starts()
    assert log_of(rig, topic_id).log_start_offset == 0
    assert not rig.checkpoint_starts()
    rig.tick()
    assert rig.checkpoint_starts()
    assert log_of(rig, topic_id).log_start_offset == 3


def test_cleaning_waits_for_disk_space() -> None:
    """It may not use the reserve; the log is not uncleanable."""
    rig = CoreRig(dirs="/a", log_dir_reserve_bytes=4_000)
    topic_id = rig.topic("t", cleanup_policy="compact", segment_ms="1")
    fill(rig, topic_id, 0)
    job = next_job(rig)
    assert job is not None
    rig.files.fail("pwrite", ".log.cleaned", errno.ENOSPC)
    assert run(rig, job) is not None
    assert rig.files.size("/a/.reserve") == 4_000
    assert not rig.core.cleaner.uncleanable
    assert not [name for name in rig.files.listdir("/a/t-0") if name.endswith(".cleaned")]
    assert next_job(rig) is None
    rig.tick()
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is None


def test_copy_follows_a_restarted_log() -> None:
    """It must not keep the old records."""
    rig, topic_id = compacted()
    log: Any = log_of(rig, topic_id)
    log.truncate_fully_and_start_at(20)
    begin_move(rig, "/b")
    rig.copy()
    assert log_of(rig, topic_id).log_start_offset == 20
    begin_move(rig, "/a")
    (effect,) = rig.pop(CopyLog)
    effect.move.run()
    source = log_of(rig, topic_id)
    source.truncate_fully_and_start_at(10)
    rig.core.replicas.moves.truncated(rig.core.table.partitions[topic_id, 0])
    effect.move.prepare()
    effect.move.run()
    assert effect.move.log is not None
    assert (effect.move.log.log_start_offset, effect.move.log.log_end_offset) == (10, 10)
