"""ImageApplier: partitions follow the metadata, and data of one topic never shows in another."""

from dataclasses import replace

import pytest
from core_rig import NODE, CoreRig
from headrace.protocol import errors
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


def folders(rig: CoreRig, path: str = "/d") -> list[str]:
    return [name for name in rig.files.listdir(path) if rig.files.is_directory(f"{path}/{name}")]


# --- life of a topic ----------------------------------------------------------------------------------


def test_only_assigned_partitions_are_created(rig: CoreRig) -> None:
    """One folder per partition with a replica on this node."""
    rig.topic("mine", partitions=2)
    rig.topic("other", leader=2, replicas=(2,))
    assert folders(rig) == ["mine-0", "mine-1"]


def test_added_partition_is_created(rig: CoreRig) -> None:
    """create partitions of an existing topic."""
    topic_id = rig.topic("t")
    rig.metadata(PartitionRecord(topic_id, 1, (NODE,), (NODE,), NODE, 0, 0))
    assert rig.produce(topic_id, partition=1).first.error_code == 0


def test_deleted_topic_frees_its_name_and_its_space(rig: CoreRig) -> None:
    """The name at once, the files by an effect."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    rig.remove(topic_id)
    assert rig.produce(topic_id).first.error_code == errors.UnknownTopicIdError.code
    assert [name.endswith("-delete") for name in folders(rig)] == [True]
    rig.purge()
    assert folders(rig) == []


def test_recreated_topic_starts_empty(rig: CoreRig) -> None:
    """KAFKA-12257: the new id has no records of the old one, and the old id is unknown."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)  # both in one step, as after a pause
    assert rig.values(new) == []
    assert rig.produce(new, batch(b"new")).first.base_offset == 0
    assert rig.produce(old).first.error_code == errors.UnknownTopicIdError.code
    assert rig.fetch(old).first.error_code == errors.UnknownTopicIdError.code
    rig.purge()
    assert rig.values(new) == [b"new"]


def test_topic_recreated_while_the_node_was_down(rig: CoreRig) -> None:
    """The folder has the old topic id: it becomes a stray, is not served and not deleted."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    after = rig.restarted(RemoveTopicRecord(old), *records)
    assert after.values(new) == []
    assert "t-0" in after.notes()
    assert sorted(name.endswith("-stray") for name in folders(after)) == [False, True]


def test_topic_deleted_while_the_node_was_down(rig: CoreRig) -> None:
    """KAFKA-14616: a log without a topic becomes a stray; the node starts."""
    old = rig.topic("t")
    kept = rig.topic("kept")
    rig.produce(kept, batch(b"kept"))
    after = rig.restarted(RemoveTopicRecord(old))
    assert after.values(kept) == [b"kept"]
    assert sorted(name.split(".")[0] for name in folders(after)) == ["kept-0", "t-0"]


def test_topic_with_a_missing_folder_can_be_recreated(rig: CoreRig) -> None:
    """The name is free at once, not only after the next start."""
    old = rig.topic("t")
    rig.produce(old, batch(b"old"))
    rig.core.table.partitions[old, 0].log.flush()
    rig.manager.checkpoint()
    for name in rig.files.listdir("/d/t-0"):
        rig.files.remove(f"/d/t-0/{name}")
    rig.files.rmdir("/d/t-0")
    after = rig.restarted()
    assert after.produce(old).first.error_code == errors.KafkaStorageError.code
    new, records = after.topic_records("t")
    after.metadata(RemoveTopicRecord(old), *records)
    assert after.values(new) == []
    assert after.produce(new).first.base_offset == 0


@pytest.mark.parametrize("leader", [1, 2])
def test_follower_whose_first_segment_is_missing_fetches_everything(rig: CoreRig, leader: int) -> None:
    """The segment was removed after a clean stop, and new records would not fill the gap. As leader its log
    is the truth, also when it follows later."""
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


def test_recreated_topic_waits_for_a_flush_of_the_old_log(rig: CoreRig) -> None:
    """The flush uses the old folder."""
    old = rig.topic("t", durability="fsync")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)
    assert rig.produce(new).first.error_code == errors.NotLeaderOrFollowerError.code  # retriable
    assert rig.flush() == 1
    rig.purge()
    assert rig.values(new) == []
    assert rig.produce(new).first.error_code == 0
    assert folders(rig) == ["t-0"]


def test_failed_flush_ends_a_pending_removal() -> None:
    """The log dir of the deleted topic fails: the new topic is created on the other one."""
    rig = CoreRig(dirs="/a,/b")
    old = rig.topic("t", durability="fsync")
    rig.produce(old, batch(b"old"))
    new, records = rig.topic_records("t")
    rig.metadata(RemoveTopicRecord(old), *records)
    rig.files.fail("fdatasync", "/a/t-0")
    rig.flush()
    partition = rig.core.table.partitions[new, 0]
    assert partition.state in (PartitionState.ONLINE, PartitionState.OFFLINE)
    assert rig.core.table.partitions[new, 0].high_watermark == 0, "the new topic starts empty"


def test_reassigned_partition_is_removed(rig: CoreRig) -> None:
    """Its log is deleted; the leader hint names the other node."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    topic = rig.image.topics["t"]
    moved = replace(topic.partitions[0], replicas=(2,), isr=(2,), leader=2, leader_epoch=1)
    topics = {"t": replace(topic, partitions=(moved,))}
    rig.snapshot(replace(rig.image, offset=rig.image.offset + 1, topics=topics))
    answer = rig.produce(topic_id).first
    assert (answer.error_code, answer.leader_id) == (errors.NotLeaderOrFollowerError.code, 2)
    rig.purge()
    assert folders(rig) == []


# --- leadership ---------------------------------------------------------------------------------------


def test_requests_are_refused_while_the_node_is_fenced(rig: CoreRig) -> None:
    """Then it serves the same records in the next leader epoch."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"))
    rig.set_leader(topic_id, -1)
    assert rig.fetch(topic_id).first.error_code == errors.NotLeaderOrFollowerError.code
    rig.set_leader(topic_id, NODE)
    assert rig.values(topic_id) == [b"a"]
    assert rig.produce(topic_id, epoch=2).first.error_code == 0


def test_batches_have_their_leader_epoch(rig: CoreRig) -> None:
    """A consumer sees the epoch of each batch."""
    topic_id = rig.topic("t")
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, NODE)
    rig.produce(topic_id)
    frame = rig.fetch(topic_id).answer_frames[0]
    assert int.from_bytes(frame[12:16], "big") == 2


# --- starting -----------------------------------------------------------------------------------------


def test_restart_after_a_crash_keeps_appended_batches(rig: CoreRig) -> None:
    """They are in the page cache."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"), batch(b"b"))
    assert rig.restarted().values(topic_id) == [b"a", b"b"]


def test_incomplete_image_makes_no_strays(rig: CoreRig) -> None:
    """Before this node's own registration nothing becomes a stray and nothing is led."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"))
    after = rig.restarted(records=())
    first, rest = rig.records[:1], rig.records[1:]
    end = len(rig.records)
    after.metadata(*first, broker_epoch=end)
    assert folders(after) == ["t-0"]
    assert after.produce(topic_id).first.error_code == errors.UnknownTopicIdError.code
    after.metadata(*rest, broker_epoch=end)
    assert after.produce(topic_id).first.error_code == errors.NotLeaderOrFollowerError.code
    after.metadata(NoOpRecord(), broker_epoch=end)
    assert after.values(topic_id) == [b"a"]
    assert folders(after) == ["t-0"]


def test_snapshot_replaces_the_image(rig: CoreRig) -> None:
    """Missing topics are removed, new ones created, others continue."""
    gone, kept = rig.topic("gone"), rig.topic("kept")
    rig.produce(kept, batch(b"kept"))
    source = CoreRig(records=rig.records)
    source.remove(gone)
    added = source.topic("added")
    rig.snapshot(source.image)
    assert rig.values(kept) == [b"kept"]
    assert rig.produce(added).first.error_code == 0
    assert rig.produce(gone).first.error_code == errors.UnknownTopicIdError.code


def test_recovered_tail_is_flushed_before_it_is_visible_with_fsync(rig: CoreRig) -> None:
    """It was in the page cache when the process died."""
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


def test_topic_configs_are_dynamic(rig: CoreRig) -> None:
    """Set, then removed: the node's default applies again."""
    topic_id = rig.topic("t")
    rig.configure("t", "max.message.bytes", "100")
    assert rig.produce(topic_id, batch(b"v" * 200)).first.error_code == errors.MessageTooLargeError.code
    rig.configure("t", "max.message.bytes", None)
    assert rig.produce(topic_id, batch(b"v" * 200)).first.error_code == 0


def test_topic_config_overrides_node_and_cluster_defaults(rig: CoreRig) -> None:
    """Cluster default, then this node's, then the topic's."""
    topic_id, own = rig.topic("t"), rig.topic("own", max_message_bytes="5000")

    def largest(value: str, name: str) -> None:
        rig.metadata(ConfigRecord(BROKER_RESOURCE, name, "message.max.bytes", value))

    def codes() -> list[int]:
        return [rig.produce(topic, batch(b"v" * 1_000)).first.error_code for topic in (topic_id, own)]

    largest("100", "2")
    assert codes() == [0, 0]
    largest("100", "")
    assert codes() == [errors.MessageTooLargeError.code, 0]
    largest("5000", "1")
    assert codes() == [0, 0]


def test_unknown_config_value_is_logged(rig: CoreRig) -> None:
    """From a newer controller: the default applies."""
    topic_id = rig.topic("t", durability="paranoid", retention_ms="5")
    assert rig.produce(topic_id).first.error_code == 0
    assert "paranoid" in rig.notes()


def test_durability_is_dynamic(rig: CoreRig) -> None:
    """To fsync: later acknowledgements wait. Back to async: waiting requests complete."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    rig.configure("t", "durability", "fsync")
    rig.flush()
    request = rig.produce(topic_id)
    assert not request.is_answered
    rig.configure("t", "durability", "async")
    assert request.first.error_code == 0


def test_flush_messages_requests_a_flush(rig: CoreRig) -> None:
    topic_id = rig.topic("t", flush_messages="3")
    rig.produce(topic_id, batch(b"a", b"b"))
    assert rig.pop(FlushLog) == []
    assert rig.produce(topic_id, batch(b"c")).is_answered
    assert rig.flush() == 1


def test_flush_ms_requests_a_flush(rig: CoreRig) -> None:
    """That long after the oldest unflushed record was seen."""
    topic_id = rig.topic("t", flush_ms="100")
    rig.core.tick(1_000, 0)
    rig.produce(topic_id)
    for now_ms, flushes in ((2_000, 0), (2_099, 0), (2_100, 1), (2_300, 0)):
        rig.core.tick(now_ms, 0)
        rig.check()
        assert rig.flush() == flushes, now_ms


def test_periodic_flush_moves_the_recovery_point(rig: CoreRig) -> None:
    """Only of logs with unflushed records."""
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


def test_new_partition_goes_to_the_emptiest_log_dir() -> None:
    """By the number of partitions."""
    rig = CoreRig(dirs="/a,/b")
    rig.topic("t", partitions=4)
    assert (len(folders(rig, "/a")), len(folders(rig, "/b"))) == (2, 2)


def test_new_partition_avoids_a_failing_log_dir() -> None:
    """Creation fails on the first dir: it goes offline, the second one is used."""
    rig = CoreRig(dirs="/a,/b")
    rig.files.fail("mkdir", "/a/t-0")
    topic_id = rig.topic("t")
    assert rig.produce(topic_id).first.error_code == 0
    assert folders(rig, "/b") == ["t-0"]
    assert "/a" in rig.notes()


def test_missing_disk_does_not_cause_an_empty_log() -> None:
    """Its partition answers with a storage error."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", partitions=2)
    for partition in range(2):
        rig.produce(topic_id, partition=partition)
    files = rig.files.restart()
    files.fail("open", "/a/.lock")
    files.fail("create", "/a/.lock")
    after = CoreRig(files, "/a,/b", rig.records)
    codes = sorted(after.fetch(topic_id, partition=partition).first.error_code for partition in range(2))
    assert codes == [0, errors.KafkaStorageError.code]
    new = after.topic("new")
    assert after.produce(new).first.error_code == 0, "a new topic has no replica on the lost disk"


def test_log_without_a_topic_id_is_not_touched(rig: CoreRig) -> None:
    """partition.metadata is corrupt: the log is neither served nor replaced."""
    topic_id = rig.topic("t")
    rig.produce(topic_id)
    files = rig.files.restart()
    files.put("/d/t-0/partition.metadata", b"\x00\xffgarbage")
    after = CoreRig(files, records=rig.records)
    assert after.fetch(topic_id).first.error_code == errors.KafkaStorageError.code
    assert folders(after) == ["t-0"]
    assert "t-0" in after.notes()


def test_failed_deletion_takes_the_log_dir_offline() -> None:
    """The rename fails; other log dirs continue."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t")
    rig.files.fail("rename", "t-0")
    rig.remove(topic_id)
    assert "offline" in rig.notes()
    assert not rig.ended()


def test_node_ends_without_any_log_dir(rig: CoreRig) -> None:
    """EndNode once, however many partitions are lost."""
    topic_id = rig.topic("t", partitions=3)
    rig.files.fail("pwrite", ".log")
    for partition in range(3):
        rig.produce(topic_id, partition=partition)
    assert rig.ended()
    assert rig.notes().count("log dirs offline") == 1


def test_flush_can_end_after_its_topic_and_log_dir_are_deleted(rig: CoreRig) -> None:
    """A write of another topic has taken the log dir offline."""
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
