"""Replicas that move between the log dirs of a node, and what DescribeLogDirs says meanwhile."""

import errno
from typing import Any

import pytest
from core_rig import CoreRig
from fake_files import Crash, FakeFiles
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import TopicPartitions
from headrace.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    LogDirTarget,
)
from headrace.protocol.metadata.image import BROKER_RESOURCE
from headrace.protocol.metadata.records import ConfigRecord
from headrace.storage_node.effects import CopyLog, FlushLog
from node_rig import batch
from producer_oracle import idempotent
from replica_rig import Replicas

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def two_dirs(**config: Any) -> CoreRig:
    return CoreRig(dirs="/a,/b", **config)


@pytest.fixture
def rig() -> CoreRig:
    return two_dirs()


def folders(files: FakeFiles, path: str) -> list[str]:
    return [name for name in files.listdir(path) if files.is_directory(f"{path}/{name}")]


def move(rig: CoreRig, path: str, topic: str = "t", partition: int = 0) -> int:
    """Ask for it; the error code."""
    target = LogDirTarget(path, (TopicPartitions(topic, (partition,)),))
    answer = rig.ask(registry.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest((target,))).answer
    (result,) = answer.results
    assert (result.topic, result.partition) == (topic, partition)
    return int(result.error_code)


def described(rig: CoreRig, *topics: TopicPartitions) -> dict[str, Any]:
    request = DescribeLogDirsRequest(topics or None)
    answer = rig.ask(registry.DESCRIBE_LOG_DIRS, request).answer
    return {each.log_dir: each for each in answer.log_dirs}


def filled(rig: CoreRig, count: int = 5, **facts: Any) -> bytes:
    """A topic with records, which lies in /a."""
    topic_id = rig.topic("t", **facts)
    for number in range(count):
        rig.produce(topic_id, batch(b"%d" % number))
    rig.flush()
    assert folders(rig.files, "/a") == ["t-0"]
    return topic_id


def test_replica_moves_with_all_its_records(rig: CoreRig) -> None:
    """Copied, swapped, the old folder deleted; records, epochs and high watermark stay, also after a restart
    and a power loss."""
    topic_id = filled(rig)
    rig.set_leader(topic_id, 1)
    before = rig.core.table.find(topic_id, 0)
    facts = (before.high_watermark, before.leader_epoch, before.log.epochs.latest_epoch)  # type: ignore[union-attr]
    assert move(rig, "/b") == 0
    assert rig.copy() >= 1
    rig.purge()
    assert (folders(rig.files, "/a"), folders(rig.files, "/b")) == ([], ["t-0"])
    after = rig.core.table.find(topic_id, 0)
    assert after is before
    assert (after.high_watermark, after.leader_epoch, after.log.epochs.latest_epoch) == facts  # type: ignore[union-attr]
    assert rig.produce(topic_id, batch(b"next")).first.base_offset == 5
    expected = [b"0", b"1", b"2", b"3", b"4", b"next"]
    assert rig.values(topic_id) == expected
    rig.core.flush_all()
    rig.check()
    rig.flush()
    for files in (rig.files.restart(), rig.files.power_loss("none")):
        again = CoreRig(files, "/a,/b", rig.records)
        again.flush()
        assert again.values(topic_id) == expected


def test_records_appended_during_a_move_are_copied(rig: CoreRig) -> None:
    """Between two steps, and before the swap, which waits for a running flush."""
    topic_id = filled(rig)
    rig.core.table.find(topic_id, 0).is_flushing = True
    move(rig, "/b")
    rig.copy()
    rig.produce(topic_id, batch(b"meanwhile"))
    assert folders(rig.files, "/a") == ["t-0"], "a flush names the log"
    (future,) = folders(rig.files, "/b")
    assert future.startswith("t-0.")
    assert future.endswith("-future")
    sizes = described(rig)
    assert [(each.is_future, each.offset_lag) for each in sizes["/a"].replicas] == [(False, 0)]
    assert [(each.is_future, each.offset_lag) for each in sizes["/b"].replicas] == [(True, 1)]
    rig.core.table.find(topic_id, 0).is_flushing = False
    rig.tick()
    rig.check()
    assert folders(rig.files, "/b") == ["t-0"]
    assert rig.values(topic_id)[-1] == b"meanwhile"


def test_swap_waits_for_a_running_checkpoint(rig: CoreRig) -> None:
    """It would write the log into the checkpoints of the old dir."""
    filled(rig)
    rig.begin_checkpoint()
    move(rig, "/b")
    rig.copy()
    assert folders(rig.files, "/a") == ["t-0"]
    rig.end_checkpoint()
    assert folders(rig.files, "/b") == ["t-0"]


def test_producer_state_moves(rig: CoreRig) -> None:
    """Also of deleted records; after a clean restart it is read from the new dir."""
    topic_id = filled(rig)
    rig.produce(topic_id, idempotent(9, 4))
    partition = rig.core.table.partitions[topic_id, 0]
    rig.flush()
    partition.log.roll()
    partition.log.advance_log_start_offset(6)
    partition.log.delete_segments_below(6)
    before = partition.log.producers.states.to_snapshot()
    assert move(rig, "/b") == 0
    rig.copy()
    assert folders(rig.files, "/b") == ["t-0"]
    assert partition.log.producers.states.to_snapshot() == before
    assert rig.produce(topic_id, idempotent(9, 4)).first.base_offset == 5
    rig.manager.shutdown()
    again = rig.restarted()
    assert again.core.table.partitions[topic_id, 0].log.producers.states.to_snapshot() == before


def test_alter_to_the_present_dir_cancels_a_move(rig: CoreRig) -> None:
    """Also during a step, whose result is dropped."""
    topic_id = filled(rig)
    move(rig, "/b")
    (step,) = rig.pop(CopyLog)
    assert move(rig, "/a") == 0
    step.move.run()
    rig.core.copied(step.key, step.move, rig.now_ms)
    rig.check()
    rig.purge()
    assert (folders(rig.files, "/a"), folders(rig.files, "/b")) == (["t-0"], [])
    assert len(rig.core.replicas.moves) == 0
    assert len(rig.values(topic_id)) == 5


def test_topic_deleted_during_a_move(rig: CoreRig) -> None:
    topic_id = filled(rig)
    move(rig, "/b")
    (step,) = rig.pop(CopyLog)
    rig.remove(topic_id)
    step.move.run()
    rig.core.copied(step.key, step.move, rig.now_ms)
    rig.check()
    rig.purge()
    assert (folders(rig.files, "/a"), folders(rig.files, "/b")) == ([], [])


def test_moves_are_throttled(rig: CoreRig) -> None:
    topic_id = rig.topic("t")
    for _ in range(6):
        rig.produce(topic_id, batch(b"v" * 900_000))
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", RATE, "500000"))
    move(rig, "/b")
    seconds = 0
    while folders(rig.files, "/b") != ["t-0"]:
        rig.copy()
        rig.now_ms += 1_000
        seconds += 1
        rig.tick()
        rig.check()
        assert seconds < 20
    assert seconds >= 5
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", RATE, None))
    move(rig, "/a")
    rig.copy()
    assert "t-0" in folders(rig.files, "/a")


@pytest.mark.parametrize("operation", ["mkdir", "create", "pwrite", "fdatasync", "rename", "fsync_directory"])
def test_failed_target_dir_leaves_the_replica_in_place(rig: CoreRig, operation: str) -> None:
    """The other log dir goes offline; the partition is served."""
    topic_id = filled(rig)
    rig.files.fail(operation, "/b/t-0" if operation != "fsync_directory" else "/b")
    move(rig, "/b")
    rig.copy()
    assert rig.produce(topic_id, batch(b"next")).first.base_offset == 5
    assert len(rig.values(topic_id)) == 6
    assert list(rig.manager.dirs.offline) == ["/b"]
    assert len(rig.core.replicas.moves) == 0


def test_full_target_dir_ends_only_the_move(rig: CoreRig) -> None:
    """The space of the copy is freed."""
    topic_id = filled(rig)
    rig.files.fail("pwrite", "/b/t-0", errno.ENOSPC)
    move(rig, "/b")
    rig.copy()
    rig.purge()
    assert folders(rig.files, "/b") == []
    assert rig.manager.dirs.offline == {}
    assert rig.produce(topic_id).first.error_code == 0


def test_failed_source_dir_takes_the_replica_offline(rig: CoreRig) -> None:
    topic_id = filled(rig)
    move(rig, "/b")
    rig.files.fail("pread", "/a/t-0")
    rig.files.evict()
    rig.copy()
    assert rig.produce(topic_id).first.error_code == errors.KafkaStorageError.code
    assert list(rig.manager.dirs.offline) == ["/a"]


def test_crash_at_any_operation_of_a_move_loses_nothing() -> None:
    """Process crash or power loss: acknowledged records exist once, the partition accepts more, and unneeded
    copies are deleted."""
    count = 0
    rig = two_dirs()
    topic_id = filled(rig, durability="fsync")
    began = len(rig.files.operations)
    move(rig, "/b")
    rig.copy()
    rig.purge()
    total = len(rig.files.operations) - began
    assert total > 20
    for number in range(total):
        for tear_bytes in (0, 40):
            rig = two_dirs()
            topic_id = filled(rig, durability="fsync")
            rig.begin_checkpoint()
            rig.end_checkpoint()
            rig.files.crash_at, rig.files.tear_bytes = len(rig.files.operations) + number, tear_bytes
            with pytest.raises(Crash):
                move_and_checkpoint(rig)
            for mode in (None, "none", "all", number):
                files = rig.files.restart() if mode is None else rig.files.power_loss(mode)
                check_after_crash(files, rig.records, topic_id)
                count += 1
    assert count >= 8 * total


def move_and_checkpoint(rig: CoreRig) -> None:
    move(rig, "/b")
    rig.copy()
    rig.purge()
    rig.manager.checkpoint()


def check_after_crash(files: FakeFiles, records: list[Any], topic_id: bytes) -> None:
    after = CoreRig(files, "/a,/b", records)
    after.flush()
    assert after.values(topic_id) == [b"0", b"1", b"2", b"3", b"4"]
    request = after.produce(topic_id, batch(b"next"))
    after.flush()
    assert request.first.base_offset == 5
    for purge in after.manager.loader.purge_tasks():
        purge()
    left = [*folders(files, "/a"), *folders(files, "/b")]
    assert left.count("t-0") == 1
    assert not [name for name in left if name.endswith(("-future", "-delete"))]


def test_truncation_during_a_move() -> None:
    """The copy is truncated, too."""
    cluster = Replicas(node={"log_dirs": "/a,/b"})
    for _ in range(3):
        cluster.produce(b"a")
    cluster.settle()
    rig = cluster.nodes[2]
    partition = cluster.partition(2)
    home = rig.manager.dir_of(partition.topic_partition)
    other = next(each for each in rig.manager.dirs if each is not home)
    rig.core.replicas.moves.begin(partition, other, rig.now_ms)
    rig.check()
    (step,) = rig.pop(CopyLog)
    step.move.run()
    assert step.move.end_offset == 3
    partition.truncate_to(1)
    rig.core.replicas.moves.truncated(partition)
    rig.core.copied(step.key, step.move, rig.now_ms)
    rig.check()
    rig.copy()
    assert rig.manager.dir_of(partition.topic_partition) is other
    assert partition.log.log_end_offset == 1


def test_invalid_alter_requests_are_refused(rig: CoreRig) -> None:
    """Unknown or offline dirs, unknown partitions, replicas that are missing or offline, cordoned dirs."""
    topic_id = filled(rig)
    assert move(rig, "/c") == errors.LogDirNotFoundError.code
    assert move(rig, "/b", partition=7) == errors.UnknownTopicOrPartitionError.code
    assert move(rig, "/b", "later") == errors.UnknownTopicOrPartitionError.code
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", "/b"))
    assert move(rig, "/b") == errors.IneligibleReplicaError.code
    assert move(rig, "/a") == 0, "where it lies already"
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", None))
    twice = LogDirTarget("/b", (TopicPartitions("t", (0, 0)),))
    refused = rig.ask(registry.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest((twice,)))
    assert isinstance(refused.error, errors.InvalidRequestError)
    rig.manager.dirs.at("/b").files.dir_state.fail("pulled")
    assert move(rig, "/b") == errors.KafkaStorageError.code
    rig.manager.dirs.at("/a").files.dir_state.fail("pulled")
    rig.core.disk_failed(errors.KafkaStorageError("pulled"), rig.now_ms)
    assert move(rig, "/a") == errors.KafkaStorageError.code
    assert rig.produce(topic_id).first.error_code == errors.KafkaStorageError.code


def test_future_replica_is_created_in_the_requested_dir(rig: CoreRig) -> None:
    """Requested before the partition exists."""
    for number in range(3):
        assert move(rig, "/b", f"t{number}") == errors.UnknownTopicOrPartitionError.code
        rig.topic(f"t{number}")
    assert folders(rig.files, "/b") == ["t0-0", "t1-0", "t2-0"]
    rig.topic("u")
    assert folders(rig.files, "/a") == ["u-0"]


def test_cordoned_log_dirs_get_no_new_replicas() -> None:
    """By file or dynamically; if all are cordoned a replica is created all the same, because the controller
    has decided."""
    rig = two_dirs(cordoned_log_dirs="/a")
    rig.topic("t", partitions=3)
    assert len(folders(rig.files, "/b")) == 3
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", "/b"))
    rig.topic("u", partitions=2)
    assert len(folders(rig.files, "/a")) == 2
    assert [described(rig)[path].is_cordoned for path in ("/a", "/b")] == [False, True]
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", "*"))
    assert len(rig.core.replicas.disks.report().cordoned_dirs) == 2
    topic_id = rig.topic("v")
    assert rig.produce(topic_id).first.error_code == 0
    rig.metadata(ConfigRecord(BROKER_RESOURCE, "1", "cordoned.log.dirs", None))
    assert [described(rig)[path].is_cordoned for path in ("/a", "/b")] == [True, False]


def test_describe_log_dirs(rig: CoreRig) -> None:
    """Sizes by partition and of the file system, errors of an offline dir; with a filter only the requested
    partitions."""
    topic_id = filled(rig)
    rig.topic("u")
    rig.files.capacity_bytes = 1_000_000
    found = described(rig)
    (replica,) = found["/a"].replicas
    log = rig.core.table.find(topic_id, 0).log
    assert log is not None
    assert (replica.topic, replica.partition, replica.size_bytes) == ("t", 0, log.size_bytes)
    assert found["/a"].total_bytes == 1_000_000
    assert found["/a"].usable_bytes == 1_000_000 - rig.files.used_bytes()
    only = described(rig, TopicPartitions("u", (0, 1)), TopicPartitions("none", (0,)))
    assert [len(each.replicas) for each in only.values()] == [0, 1]
    rig.manager.dirs.at("/b").files.dir_state.fail("pulled")
    rig.core.disk_failed(errors.KafkaStorageError("pulled"), rig.now_ms)
    gone = described(rig)["/b"]
    assert (gone.error_code, gone.total_bytes, gone.replicas) == (errors.KafkaStorageError.code, -1, ())
    assert "pulled" in gone.error_detail


def test_a_swap_commits_records_that_wait_for_a_flush_of_the_old_log(rig: CoreRig) -> None:
    """durability=fsync: records that were appended during the last flush of the old log are durable in its
    copy, which is synced before it takes the log's place. No flush comes for them any more."""
    topic_id = filled(rig, durability="fsync")
    rig.produce(topic_id, batch(b"flushed"))
    (flush,) = rig.pop(FlushLog)
    assert move(rig, "/b") == 0
    rig.copy()
    log = flush.partition.log
    work = log.start_flush()
    request = rig.produce(topic_id, batch(b"appended during the flush"))
    work.sync()
    log.finish_flush(work)
    rig.core.flushed(flush.partition, log.recovery_point, rig.now_ms)
    assert folders(rig.files, "/b") == ["t-0"]
    assert flush.partition.high_watermark == 7
    assert request.first.error_code == 0
