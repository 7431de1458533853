"""Retention on a node: intervals, bounds per step, replicas and readers."""

from typing import Any

from core_rig import CoreRig
from headrace.protocol.errors import OffsetOutOfRangeError
from headrace.protocol.metadata.records import PartitionChangeRecord
from node_rig import WALL_MS, batch
from replica_rig import TOPIC, Replicas

HOUR = 3_600_000


def node_with(partitions: int = 1, *, interval_ms: int = 10_000, **configs: str) -> tuple[CoreRig, bytes]:
    """A node whose logs have three segments with a record each, the newest one open."""
    rig = CoreRig(log_retention_check_interval_ms=interval_ms)
    topic_id = rig.topic(partitions=partitions, **configs)
    for number in range(partitions):
        for _ in range(3):
            rig.produce(topic_id, batch(b"v"), partition=number)
            rig.core.table.partitions[topic_id, number].log.roll(0)
    return rig, topic_id


def logs(rig: CoreRig) -> list[Any]:
    return [partition.log for partition in rig.core.table.partitions.values()]


def pass_seconds(rig: CoreRig, seconds: int, wall_ms: int = WALL_MS) -> None:
    for _ in range(seconds):
        rig.pass_time(1_000)
        rig.tick(wall_ms)
        rig.checkpoint_starts()
        rig.flush()


def files_of(rig: CoreRig) -> list[str]:
    return [name for name in rig.files.listdir("/d/t-0") if ".log" in name]


def test_old_segments_are_removed_within_an_interval() -> None:
    """Renamed first, deleted after file.delete.delay.ms."""
    rig, topic_id = node_with(retention_ms=str(HOUR), file_delete_delay_ms="5000")
    pass_seconds(rig, 12, WALL_MS + HOUR)
    assert logs(rig)[0].log_start_offset == 0, "not a moment too early"
    pass_seconds(rig, 14, WALL_MS + HOUR + 1)
    assert logs(rig)[0].log_start_offset == 3
    assert rig.fetch(topic_id, 0).first.error_code == OffsetOutOfRangeError.code
    assert [name.endswith(".deleted") for name in files_of(rig)] == [True, True, True, False]
    pass_seconds(rig, 6)
    rig.purge()
    assert files_of(rig) == ["00000000000000000003.log"]
    assert rig.produce(topic_id).first.base_offset == 3


def test_first_check_comes_soon_after_the_start() -> None:
    """A node that restarts every hour must not keep everything."""
    rig, _ = node_with(interval_ms=HOUR, retention_ms=str(HOUR))
    pass_seconds(rig, 30, WALL_MS + HOUR + 1)
    assert logs(rig)[0].log_start_offset == 0
    pass_seconds(rig, 2, WALL_MS + HOUR + 1)
    assert logs(rig)[0].log_start_offset == 3


def test_changed_retention_holds_at_the_next_check() -> None:
    rig, _ = node_with(interval_ms=2_000)
    pass_seconds(rig, 5, WALL_MS + HOUR)
    rig.configure("t", "retention.ms", "1000")
    pass_seconds(rig, 5, WALL_MS + HOUR)
    assert logs(rig)[0].log_start_offset == 3


def test_logs_per_step_are_bounded() -> None:
    """Twenty expired logs per step, with one checkpoint."""
    rig, _ = node_with(45, interval_ms=1_000, retention_ms="0")
    rig.tick(WALL_MS + 1)
    done = []
    for _ in range(4):
        rig.pass_time(1_000)
        rig.tick(WALL_MS + 1)
        assert rig.checkpoint_starts() == (len(done) < 3)
        done.append(sum(log.log_start_offset == 3 for log in logs(rig)))
    assert done == [20, 40, 45, 45]


def test_segments_below_the_start_are_removed_after_a_restart() -> None:
    """The process ended between the checkpoint and the removal."""
    rig, topic_id = node_with()
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], 2)
    rig.check()
    rig.checkpoint_starts()
    again = rig.restarted()
    assert (len(files_of(again)), logs(again)[0].log_start_offset) == (4, 2)
    again.tick()
    again.flush()
    assert [name for name in files_of(again) if name.endswith(".log")] == [
        "00000000000000000002.log",
        "00000000000000000003.log",
    ]


def test_disk_error_in_retention_takes_the_partition_offline() -> None:
    """The active segment cannot be rolled."""
    rig = CoreRig(log_retention_check_interval_ms=1_000)
    topic_id = rig.topic(retention_ms="0")
    rig.produce(topic_id)
    rig.files.fail("create", ".index")
    rig.tick(WALL_MS + 1)
    rig.pass_time(1_000)
    rig.tick(WALL_MS + 1)
    assert rig.ended()


def test_written_start_of_a_deleted_log_is_ignored() -> None:
    """The topic was deleted during the checkpoint, and recreated."""
    rig, topic_id = node_with()
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], 2)
    rig.check()
    rig.begin_checkpoint(only_starts=True)
    rig.remove(topic_id)
    rig.topic()
    rig.end_checkpoint()
    assert logs(rig)[0].log_start_offset == 0


def test_written_start_of_a_replaced_log_is_ignored() -> None:
    """The partition was reassigned away and back during the checkpoint."""
    rig, topic_id = node_with()
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], 2)
    rig.check()
    rig.begin_checkpoint(only_starts=True)
    rig.metadata(PartitionChangeRecord(topic_id, 0, replicas=(2,), isr=(2,), leader=2))
    rig.metadata(PartitionChangeRecord(topic_id, 0, replicas=(1,), isr=(1,), leader=1))
    rig.end_checkpoint()
    assert [log.log_start_offset for log in logs(rig)] == [0]


def test_unwritten_start_does_not_take_effect() -> None:
    rig, topic_id = node_with()
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], 2)
    rig.check()
    rig.files.fail("rename", "log-start-offset")
    assert rig.checkpoint_starts()
    assert logs(rig)[0].log_start_offset == 0
    assert list(rig.manager.dirs.offline) == ["/d"]


def test_each_replica_applies_retention_and_stays_in_sync() -> None:
    """A follower below the leader's log start restarts there (RELIABILITY 34)."""
    cluster = Replicas.settled(retention_ms="1000", node={"log_retention_check_interval_ms": 1_000})
    for number in range(4):
        cluster.write(b"%d" % number)
        for node in (1, 2, 3):
            cluster.partition(node).log.roll()
    files = cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    cluster.write(b"new")
    for node in (1, 2):
        log = cluster.partition(node).log
        log.reconfigure(log.config.merged({"retention.bytes": 0}))
    cluster.pass_time(3_000, every=1_000)
    assert cluster.partition(1).log.log_start_offset == 5
    cluster.restart(3, files)
    assert cluster.partition(3).log.log_end_offset == 4
    cluster.pass_time(3_000)
    assert [cluster.partition(node).log.log_start_offset for node in (1, 2, 3)] == [5, 5, 5]
    cluster.write(b"last")
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == [b"last"]
    assert cluster.registration.isr == (1, 2, 3)
    assert cluster.nodes[1].fetch(TOPIC, 2).first.error_code == OffsetOutOfRangeError.code
