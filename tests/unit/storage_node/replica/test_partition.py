"""Partition: roles, epochs and the high watermark, one object at a time."""

import pytest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.metadata.image import PartitionRegistration
from headrace.protocol.model import TopicPartition
from headrace.runtime.files.file_layer import DiskFullError
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log import Log
from headrace.storage_node.replica.partition import ACKS_ALL, Partition
from node_rig import WALL_MS, batch

NAME = TopicPartition("t", 0)


def registration(leader: int, epoch: int) -> PartitionRegistration:
    return PartitionRegistration((1,), (1,), leader, epoch, epoch)


def new_log(**config: object) -> Log:
    return Log.open(
        FakeFiles(),
        "/d/t-0",
        LogConfig(**config),  # type: ignore[arg-type]
        topic_partition=NAME,
        recovery_point=0,
        was_clean=True,
        wall_ms=WALL_MS,
    )


def leading(log: Log) -> Partition:
    partition = Partition(NAME, b"i" * 16, 1, log)
    assert partition.assign(registration(1, 3), 0)
    return partition


def append(partition: Partition) -> int:
    assert partition.log is not None
    info = partition.log.append_as_leader(batch(b"v"), leader_epoch=partition.leader_epoch, wall_ms=WALL_MS)
    return info.last_offset + 1


def test_new_partition_has_no_leader() -> None:
    partition = Partition(NAME, b"i" * 16, 1, new_log())
    with pytest.raises(errors.NotLeaderOrFollowerError):
        partition.leader_log()


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (2, errors.FencedLeaderEpochError),
        (4, errors.UnknownLeaderEpochError),
        (-2, errors.FencedLeaderEpochError),
    ],
)
def test_wrong_leader_epoch_is_refused(epoch: int, error: type[errors.KafkaError]) -> None:
    """An older one is fenced, a newer one unknown."""
    with pytest.raises(error, match="leader epoch 3"):
        leading(new_log()).leader_log(epoch)


def test_wrong_leader_epoch_has_precedence_over_wrong_leader() -> None:
    """A client with an old epoch must refresh, whichever node leads."""
    partition = leading(new_log())
    partition.assign(registration(2, 4), 0)
    with pytest.raises(errors.FencedLeaderEpochError):
        partition.leader_log(3)
    with pytest.raises(errors.NotLeaderOrFollowerError, match="node 2"):
        partition.leader_log(4)


def test_older_registration_is_ignored() -> None:
    """The newer leader epoch stays."""
    partition = leading(new_log())
    assert not partition.assign(registration(2, 2), 0)
    assert partition.is_leader


def test_same_registration_is_no_change() -> None:
    assert not leading(new_log()).assign(registration(1, 3), 0)


def test_leader_starts_its_epoch_at_the_log_end() -> None:
    """The leader epoch cache gets an entry."""
    log = new_log()
    leading(log)
    assert log.epochs.latest_epoch == 3


def test_high_watermark_of_a_single_replica_is_its_log_end() -> None:
    """durability=async: the page cache counts."""
    partition = leading(new_log())
    assert not partition.advance(0)
    end = append(partition)
    assert partition.advance(0)
    assert partition.high_watermark == end
    assert partition.log is not None
    assert partition.log.high_watermark == end, "for the checkpoint"
    assert partition.is_acked(end, ACKS_ALL)


def test_high_watermark_waits_for_the_flush_with_fsync() -> None:
    """Nothing is acknowledged before the flush."""
    partition = leading(new_log(durability="fsync"))
    end = append(partition)
    assert not partition.advance(0)
    assert not partition.is_acked(end, 1)
    assert not partition.is_acked(end, ACKS_ALL)
    assert partition.wants_flush()
    assert partition.flushed(end, 0)
    assert partition.is_acked(end, 1)
    assert partition.is_acked(end, ACKS_ALL)
    assert not partition.wants_flush()


def test_high_watermark_never_decreases() -> None:
    """durability is raised to fsync while records are unflushed: they stay visible."""
    log = new_log()
    partition = leading(log)
    end = append(partition)
    partition.advance(0)
    log.reconfigure(LogConfig(durability="fsync"))
    partition.configured()
    assert not partition.advance(0)
    assert partition.high_watermark == end


def test_high_watermark_advances_only_on_the_leader() -> None:
    """A node that is not the leader commits nothing of its log."""
    partition = leading(new_log())
    append(partition)
    partition.assign(registration(-1, 4), 0)
    assert not partition.advance(0)


def test_checkpointed_high_watermark_is_limited_to_the_log() -> None:
    """Above the recovered log end, or below the log start."""
    log = new_log()
    log.high_watermark = 99
    assert Partition(NAME, b"i" * 16, 1, log).high_watermark == 0


def test_offline_and_deleted_partitions_raise_their_errors() -> None:
    """Deleted wins over offline."""
    partition = leading(new_log())
    partition.go_offline()
    with pytest.raises(errors.KafkaStorageError):
        partition.leader_log()
    assert not partition.is_leader
    partition.remove()
    with pytest.raises(errors.UnknownTopicIdError):
        partition.leader_log()
    partition.go_offline()
    assert isinstance(partition.lost_error(), errors.UnknownTopicIdError)


def test_partition_without_a_log_is_offline() -> None:
    partition = Partition(NAME, b"i" * 16, 1, None)
    partition.assign(registration(1, 0), 0)
    with pytest.raises(errors.KafkaStorageError):
        partition.leader_log()
    assert not partition.wants_flush()
    assert not partition.has_unflushed


@pytest.mark.parametrize("cut", ["truncate_to", "restart_at"])
def test_truncation_counts_when_a_full_disk_fails_after_it(cut: str) -> None:
    """The log is shorter although the epoch checkpoint was not written: the high watermark follows."""
    partition = leading(new_log())
    log = partition.log
    assert log is not None
    for _ in range(3):
        append(partition)
    partition.advance(0)
    assert partition.assign(registration(2, 4), 0)

    def no_room(_log: Log) -> None:
        raise DiskFullError("no room for a checkpoint")

    log.on_truncate = no_room
    with pytest.raises(DiskFullError):
        getattr(partition, cut)(1)
    assert log.log_end_offset == 1
    partition.check()


def test_log_may_start_inside_a_batch_that_is_not_fetched_yet() -> None:
    """A full disk may delay the batch."""
    partition = leading(new_log())
    for _ in range(3):
        append(partition)
    partition.advance(0)
    assert partition.assign(registration(2, 4), 0)
    partition.restart_at(1, 3)
    assert partition.log is not None
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 3)
    partition.check()
    assert not partition.log.expire(WALL_MS), "retention has nothing to do"
