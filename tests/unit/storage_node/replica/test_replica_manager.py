"""ReplicaManager: partitions follow the metadata, and data of one topic never shows in another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_rig import NODE, CoreRig
from headrace.protocol.errors import (
    KafkaStorageError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from headrace.protocol.metadata.image import BROKER_RESOURCE
from headrace.protocol.metadata.records import (
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from headrace.storage_node.effects import FlushLog
from headrace.storage_node.replica.partition import PartitionState
from node_rig import batch


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()


def folders(rig: CoreRig, path: str = "/d") -> list[str]:
    return [name for name in rig.files.listdir(path) if rig.files.is_directory(f"{path}/{name}")]


# --- life of a topic ----------------------------------------------------------------------------------


def test_only_assigned_partitions_are_made(rig: CoreRig) -> None:
    """A topic of this node and one of another: one folder per own partition."""
    rig.topic("mine", partitions=2)
    rig.topic("other", leader=2, replicas=(2,))
    assert folders(rig) == ["mine-0", "mine-1"]


def test_a_topic_grows(rig: CoreRig) -> None:
    """A partition added later is made then."""
    topic_id = rig.topic("t")
    rig.metadata(PartitionRecord(topic_id, 1, (NODE,), (NODE,), NODE, 0, 0))
    assert rig.produce(topic_id, partition=1).first.error_code == 0


def test_a_deleted_topic_is_gone_and_its_space_is_freed(rig: CoreRig) -> None:
    """The name is free at once, the files go when the shell has time."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    rig.remove(topic_id)
    assert rig.produce(topic_id).first.error_code == UnknownTopicIdError.code
    assert [name.endswith("-delete") for name in folders(rig)] == [True]
    rig.purge()
    assert folders(rig) == []


def test_a_topic_made_again_under_its_old_name_starts_empty(rig: CoreRig) -> None:
    """KAFKA-12257: the new id sees nothing of the old one, and the old id reaches nothing."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)  # both in one step, as after a pause
    assert rig.values(new) == []
    assert rig.produce(new, batch(b"new")).first.base_offset == 0
    assert rig.produce(old).first.error_code == UnknownTopicIdError.code
    assert rig.fetch(old).first.error_code == UnknownTopicIdError.code
    rig.purge()
    assert rig.values(new) == [b"new"]


def test_made_again_while_the_node_was_down(rig: CoreRig) -> None:
    """The folder on the disk belongs to the old id: set aside, never served, not destroyed."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    after = rig.restarted(RemoveTopicRecord(old), *records)
    assert after.values(new) == []
    assert "t-0" in after.notes()
    assert sorted(name.endswith("-stray") for name in folders(after)) == [False, True]


def test_deleted_while_the_node_was_down(rig: CoreRig) -> None:
    """KAFKA-14616: a log that no topic owns is a stray; the node starts all the same."""
    old = rig.topic("t")
    kept = rig.topic("kept")
    rig.produce(kept, batch(b"kept"))
    after = rig.restarted(RemoveTopicRecord(old))
    assert after.values(kept) == [b"kept"]
    assert sorted(name.split(".")[0] for name in folders(after)) == ["kept-0", "t-0"]


def test_a_topic_whose_folder_is_missing_may_be_deleted_and_made_again(rig: CoreRig) -> None:
    """The operator's way out: the name is free at once, not only after the next start."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    rig.core.table.partitions[old, 0].log.flush()
    rig.manager.checkpoint()
    for name in rig.files.listdir("/d/t-0"):
        rig.files.remove(f"/d/t-0/{name}")
    rig.files.rmdir("/d/t-0")
    after = rig.restarted()
    assert after.produce(old).first.error_code == KafkaStorageError.code
    new, records = after.topic_records("t")
    after.metadata(RemoveTopicRecord(old), *records)
    assert after.values(new) == []
    assert after.produce(new).first.base_offset == 0


@pytest.mark.parametrize("leader", [1, 2])
def test_a_log_that_lost_its_beginning_begins_anew_as_a_follower(rig: CoreRig, leader: int) -> None:
    """Its first segment was removed after an end in order. More at its end would not fill that, so it asks
    the leader for everything; if it leads itself, what it has is what there is, also when it follows then."""
    topic_id = rig.topic("t", replicas=(1, 2))
    for value in (b"a", b"b"):
        rig.produce(topic_id, batch(value), acks=1)
        rig.core.table.partitions[topic_id, 0].log.roll()
    rig.manager.shutdown(5)
    files = rig.files.restart()
    files.remove(f"/d/t-0/{0:020d}.log")
    after = CoreRig(files, records=[*rig.records, PartitionChangeRecord(topic_id, 0, leader=leader)])
    assert after.manager.loader.previous_end.lost == (("t", 0),)
    log = after.core.table.partitions[topic_id, 0].log
    assert (log.log_start_offset, log.log_end_offset) == ((1, 2) if leader == 1 else (0, 0))
    after.set_leader(topic_id, 2)
    assert (log.log_start_offset, log.log_end_offset) == ((1, 2) if leader == 1 else (0, 0))


def test_made_again_while_the_old_log_is_still_being_flushed(rig: CoreRig) -> None:
    """A flush on a thread holds the old folder: the new topic waits for it, and then is served."""
    old = rig.topic("t", durability="fsync")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)
    assert rig.produce(new).first.error_code == NotLeaderOrFollowerError.code  # retriable
    assert rig.flush() == 1
    rig.purge()
    assert rig.values(new) == []
    assert rig.produce(new).first.error_code == 0
    assert folders(rig) == ["t-0"]


def test_a_flush_that_fails_frees_the_name_too() -> None:
    """Two disks; the one with the deleted log breaks: the new topic is made on the other."""
    rig = CoreRig(dirs="/a,/b")
    old = rig.topic("t", durability="fsync")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)
    rig.files.fail("fdatasync", "/a/t-0")
    rig.flush()
    partition = rig.core.table.partitions[new, 0]
    assert partition.state in (PartitionState.ONLINE, PartitionState.OFFLINE)
    assert rig.core.table.partitions[new, 0].high_watermark == 0, "nothing of the old topic shows"


def test_a_partition_taken_away_goes(rig: CoreRig) -> None:
    """A newer image gives the partition to another node: the log here is removed, the hint leads there."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    topic = rig.image.topics["t"]
    moved = replace(topic.partitions[0], replicas=(2,), isr=(2,), leader=2, leader_epoch=1)
    topics = {"t": replace(topic, partitions=(moved,))}
    rig.snapshot(replace(rig.image, offset=rig.image.offset + 1, topics=topics))
    answer = rig.produce(topic_id).first
    assert (answer.error_code, answer.leader_id) == (NotLeaderOrFollowerError.code, 2)
    rig.purge()
    assert folders(rig) == []


# --- leadership ---------------------------------------------------------------------------------------


def test_leadership_comes_and_goes(rig: CoreRig) -> None:
    """Fenced and unfenced: refused meanwhile, then the same data under the next epoch."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"))
    rig.set_leader(topic_id, -1)
    assert rig.fetch(topic_id).first.error_code == NotLeaderOrFollowerError.code
    rig.set_leader(topic_id, NODE)
    assert rig.values(topic_id) == [b"a"]
    assert rig.produce(topic_id, epoch=2).first.error_code == 0


def test_the_leader_epoch_is_in_the_batches(rig: CoreRig) -> None:
    """A reader sees under which term each batch was written."""
    topic_id = rig.topic("t")
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, NODE)
    rig.produce(topic_id)
    frame = rig.fetch(topic_id).answer_frames[0]
    assert int.from_bytes(frame[12:16], "big") == 2


# --- starting -----------------------------------------------------------------------------------------


def test_a_restart_finds_everything(rig: CoreRig) -> None:
    """After a crash of the process all appended batches are there and readable."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"), batch(b"b"))
    assert rig.restarted().values(topic_id) == [b"a", b"b"]


def test_half_an_image_makes_no_strays(rig: CoreRig) -> None:
    """The metadata come in pieces; before this node's own registration nothing is set aside or led."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"))
    after = rig.restarted(records=())
    first, rest = rig.records[:1], rig.records[1:]
    end = len(rig.records)
    after.metadata(*first, broker_epoch=end)
    assert folders(after) == ["t-0"]
    assert after.produce(topic_id).first.error_code == UnknownTopicIdError.code
    after.metadata(*rest, broker_epoch=end)
    assert after.produce(topic_id).first.error_code == NotLeaderOrFollowerError.code
    after.metadata(NoOpRecord(), broker_epoch=end)
    assert after.values(topic_id) == [b"a"]
    assert folders(after) == ["t-0"]


def test_a_snapshot_replaces_what_was_known(rig: CoreRig) -> None:
    """A topic that the snapshot lacks is gone, one that it adds is made, the others go on."""
    gone, kept = rig.topic("gone"), rig.topic("kept")
    rig.produce(kept, batch(b"kept"))
    source = CoreRig(records=rig.records)
    source.remove(gone)
    added = source.topic("added")
    rig.snapshot(source.image)
    assert rig.values(kept) == [b"kept"]
    assert rig.produce(added).first.error_code == 0
    assert rig.produce(gone).first.error_code == UnknownTopicIdError.code


def test_a_fsync_topic_is_flushed_before_it_shows_its_recovered_tail(rig: CoreRig) -> None:
    """The tail was in the page cache when the process died: it is shown once it is on the disk."""
    topic_id = rig.topic("t", durability="fsync")
    rig.produce(topic_id, batch(b"safe"))
    rig.flush()
    rig.produce(topic_id, batch(b"cached"))
    after = rig.restarted()
    after.flush()
    assert after.values(topic_id) == [b"safe", b"cached"]
    again = CoreRig(after.files.power_loss("none"), records=rig.records)
    again.flush()
    assert again.values(topic_id) == [b"safe", b"cached"]


# --- configs ------------------------------------------------------------------------------------------


def test_topic_configs_apply_live(rig: CoreRig) -> None:
    """Set, then removed: the broker's default is back."""
    topic_id = rig.topic("t")
    rig.configure("t", "max.message.bytes", "100")
    assert rig.produce(topic_id, batch(b"v" * 200)).first.error_code == MessageTooLargeError.code
    rig.configure("t", "max.message.bytes", None)
    assert rig.produce(topic_id, batch(b"v" * 200)).first.error_code == 0


def test_broker_configs_apply_below_topic_configs(rig: CoreRig) -> None:
    """Cluster default, then this node's, then the topic's own; another node's do not matter."""
    topic_id, own = rig.topic("t"), rig.topic("own", max_message_bytes="5000")

    def largest(value: str, name: str) -> None:
        rig.metadata(ConfigRecord(BROKER_RESOURCE, name, "message.max.bytes", value))

    def codes() -> list[int]:
        return [rig.produce(topic, batch(b"v" * 1_000)).first.error_code for topic in (topic_id, own)]

    largest("100", "2")
    assert codes() == [0, 0]
    largest("100", "")
    assert codes() == [MessageTooLargeError.code, 0]
    largest("5000", "1")
    assert codes() == [0, 0]


def test_configs_this_node_does_not_understand_are_noted(rig: CoreRig) -> None:
    """A newer controller: the topic works with the default, the operator is told."""
    topic_id = rig.topic("t", durability="paranoid", retention_ms="5")
    assert rig.produce(topic_id).first.error_code == 0
    assert "paranoid" in rig.notes()


def test_durability_can_be_raised_and_lowered_live(rig: CoreRig) -> None:
    """To fsync: later acknowledgements wait. Back to async: whoever waits is answered."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    rig.configure("t", "durability", "fsync")
    rig.flush()
    request = rig.produce(topic_id)
    assert not request.is_answered
    rig.configure("t", "durability", "async")
    assert request.first.error_code == 0


def test_flush_messages_asks_for_flushes(rig: CoreRig) -> None:
    """After so many records, without anybody waiting."""
    topic_id = rig.topic("t", flush_messages="3")
    rig.produce(topic_id, batch(b"a", b"b"))
    assert rig.pop(FlushLog) == []
    assert rig.produce(topic_id, batch(b"c")).is_answered
    assert rig.flush() == 1


def test_flush_ms_asks_for_flushes(rig: CoreRig) -> None:
    """When the oldest unflushed record was seen that long ago."""
    topic_id = rig.topic("t", flush_ms="100")
    rig.core.tick(1_000, 0)
    rig.produce(topic_id)
    for now_ms, flushes in ((2_000, 0), (2_099, 0), (2_100, 1), (2_300, 0)):
        rig.core.tick(now_ms, 0)
        rig.check()
        assert rig.flush() == flushes, now_ms


def test_everything_is_flushed_in_time(rig: CoreRig) -> None:
    """The periodic flush moves the recovery point, and asks only where there is something new."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    rig.core.flush_all()
    rig.check()
    assert rig.flush() == 1
    rig.core.flush_all()
    rig.check()
    assert rig.flush() == 0
    log = rig.core.table.partitions[topic_id, 0].log
    assert log is not None
    assert log.recovery_point == 1


# --- disks --------------------------------------------------------------------------------------------


def test_partitions_spread_over_log_dirs() -> None:
    """Each new partition goes where the fewest are."""
    rig = CoreRig(dirs="/a,/b")
    rig.topic("t", partitions=4)
    assert (len(folders(rig, "/a")), len(folders(rig, "/b"))) == (2, 2)


def test_a_new_partition_avoids_a_disk_that_fails_on_it() -> None:
    """Creation fails on the first dir: it is offline, the partition is made on the second."""
    rig = CoreRig(dirs="/a,/b")
    rig.files.fail("mkdir", "/a/t-0")
    topic_id = rig.topic("t")
    assert rig.produce(topic_id).first.error_code == 0
    assert folders(rig, "/b") == ["t-0"]
    assert "/a" in rig.notes()


def test_no_empty_log_in_place_of_one_on_a_lost_disk() -> None:
    """The disk is away at start: its partition answers a storage error instead of seeming empty."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", partitions=2)
    for partition in range(2):
        rig.produce(topic_id, partition=partition)
    files = rig.files.restart()
    files.fail("open", "/a/.lock")
    files.fail("create", "/a/.lock")
    after = CoreRig(files, "/a,/b", rig.records)
    codes = sorted(after.fetch(topic_id, partition=partition).first.error_code for partition in range(2))
    assert codes == [0, KafkaStorageError.code]
    new = after.topic("new")
    assert after.produce(new).first.error_code == 0, "what is new cannot lie on the lost disk"


def test_a_log_that_lost_its_topic_id_is_left_alone(rig: CoreRig) -> None:
    """partition.metadata is damaged: whose records these are is not known, so they are not served, and
    not replaced by an empty log."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    files = rig.files.restart()
    files.put("/d/t-0/partition.metadata", b"\x00\xffgarbage")
    after = CoreRig(files, records=rig.records)
    assert after.fetch(topic_id).first.error_code == KafkaStorageError.code
    assert folders(after) == ["t-0"]
    assert "t-0" in after.notes()


def test_a_disk_that_fails_on_deletion_goes_offline() -> None:
    """The rename fails: the dir is offline, other dirs live."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t")
    rig.files.fail("rename", "t-0")
    rig.remove(topic_id)
    assert "offline" in rig.notes()
    assert not rig.ended()


def test_the_last_disk_ends_the_node(rig: CoreRig) -> None:
    """Told once, however many partitions are lost."""
    topic_id = rig.topic("t", partitions=3)
    rig.files.fail("pwrite", ".log")
    for partition in range(3):
        rig.produce(topic_id, partition=partition)
    assert rig.ended()
    assert rig.notes().count("log dirs offline") == 1


def test_a_flush_that_ends_after_its_dir_was_lost_and_its_topic_deleted(rig: CoreRig) -> None:
    """The fdatasync of t succeeded, a write of u broke their dir, t was deleted: late news is harmless."""
    t, u = rig.topic("t", durability="fsync"), rig.topic("u")
    rig.produce(t)
    (flush,) = [effect for effect in rig.effects if isinstance(effect, FlushLog)]
    assert flush.partition.log is not None
    work = flush.partition.log.start_flush()
    assert work is not None
    work.sync()
    rig.files.fail("pwrite", "/d/u-0")
    rig.produce(u)
    rig.remove(t)
    flush.partition.log.finish_flush(work)
    rig.core.flushed(flush.partition, flush.partition.log.recovery_point, rig.now_ms)
    assert flush.partition.state is PartitionState.DELETED
