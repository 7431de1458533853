"""All logs of a node: dirs, identity, creation, deletion, checkpoints, shutdown, failing disks."""

from __future__ import annotations

import errno

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import InconsistentClusterIdError, KafkaStorageError
from headrace.protocol.model import TopicPartition
from headrace.runtime.files.file_layer import NameTooLongError
from headrace.storage_node.log.log_tasks import NewLog
from headrace.storage_node.log.losses import PreviousEnd
from log_rig import NOW, TP, append, batch, check_dense, config, read_all
from manager_rig import ID, loaded, manager_of

OTHER = TopicPartition("other-topic", 3)


def test_a_new_disk_gets_its_identity_and_keeps_it() -> None:
    """meta.properties as Kafka writes it, in every dir; the next start knows who it is."""
    files = FakeFiles()
    manager = manager_of(files)
    assert (manager.dirs.identity.cluster_id, manager.dirs.identity.node_id) == (None, None)
    ids = manager.dirs.ids
    assert len(set(ids)) == 2
    manager.dirs.set_identity("cluster", 5)
    assert files.content("/a/meta.properties") == (
        b"version=1\ncluster.id=cluster\nnode.id=5\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    manager.abandon()
    again = manager_of(files.restart())
    assert (again.dirs.identity.cluster_id, again.dirs.identity.node_id) == ("cluster", 5)
    assert again.dirs.ids == ids


def test_a_disk_of_another_cluster_or_node_is_refused() -> None:
    """Mixing disks up must never mix data up."""
    files = FakeFiles()
    loaded(files).abandon()
    with pytest.raises(InconsistentClusterIdError):
        manager_of(files.restart()).dirs.set_identity("elsewhere", 5)
    with pytest.raises(KafkaStorageError, match="node 5"):
        manager_of(files.restart()).dirs.set_identity("cluster", 6)
    mixed = files.restart()
    mixed.put("/b/meta.properties", files.content("/a/meta.properties").replace(b"=cluster", b"=another"))
    with pytest.raises(KafkaStorageError, match="another log dir"):
        manager_of(mixed)


def test_a_dir_in_use_is_refused() -> None:
    """Two processes on one dir would destroy it."""
    files = FakeFiles()
    loaded(files)
    with pytest.raises(KafkaStorageError, match="in use"):
        manager_of(files)


def test_a_clean_end_before_any_registration_hands_on_the_one_before() -> None:
    """Started and stopped while no controller was there: nothing was lost, and the next one may say so.

    Found by the simulator (SIM=cluster SEED=779): the only eligible leader counted as one that lost records.
    """
    files = FakeFiles()
    loaded(files).shutdown(broker_epoch=77)
    files = files.restart()
    loaded(files).shutdown(broker_epoch=-1)
    files = files.restart()
    assert loaded(files).loader.previous_end == PreviousEnd(77)  # and dies
    files = files.restart()
    loaded(files).shutdown(broker_epoch=-1)
    assert loaded(files.restart()).loader.previous_end == PreviousEnd()


def test_partitions_go_to_the_dir_with_the_fewest() -> None:
    """And are found there again after a restart, with id, data, config and high watermark."""
    files = FakeFiles()
    manager = loaded(files)
    for number in range(4):
        log = manager.create(TopicPartition("t", number), ID, config())
        append(log, batch(number + 1))
        log.high_watermark = number
    assert [log.folder.log_dir for log in manager.logs.values()] == ["/a", "/b", "/a", "/b"]
    assert manager.create(TopicPartition("t", 0), ID, config()) is manager.get(TopicPartition("t", 0))
    manager.shutdown(broker_epoch=77)
    again = loaded(files.restart())
    assert [log_dir.clean_broker_epoch for log_dir in again.dirs] == [77, 77]
    for number in range(4):
        log = again.logs[TopicPartition("t", number)]
        assert (log.topic_id, log.log_end_offset, log.high_watermark) == (ID, number + 1, number)
        assert log.recovery.scanned_bytes == 0
    assert {facts["path"]: facts["partitions"] for facts in again.describe_dirs()} == {"/a": 2, "/b": 2}


def test_checkpoints_are_kafkas_files() -> None:
    """Recovery points, high watermarks and log start offsets, one line per partition."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(5))
    log.flush()
    append(log, batch(1))
    log.high_watermark = 6
    log.advance_log_start_offset(2)
    manager.create(OTHER, ID, config())
    manager.checkpoint()
    assert files.content("/a/recovery-point-offset-checkpoint") == b"0\n2\nother-topic 3 0\nt 0 5\n"
    assert files.content("/a/replication-offset-checkpoint") == b"0\n2\nother-topic 3 0\nt 0 6\n"
    assert files.content("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    killed = loaded(files.restart(), "/a").logs[TP]
    assert (killed.log_start_offset, killed.log_end_offset, killed.high_watermark) == (2, 6, 6)


def test_damaged_checkpoints_cost_a_recovery_and_nothing_else() -> None:
    """Zeroed by a power loss: everything is scanned, nothing is lost."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(5))
    manager.shutdown()
    for name in (
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ):
        files.put(f"/a/{name}", bytes(20))
    again = loaded(files.restart(), "/a")
    assert len(check_dense(again.logs[TP])) == 1
    assert len(again.dirs[0].faults) == 3


def test_only_a_shutdown_leaves_the_clean_marker() -> None:
    """And the next start takes it away before it does anything else (KAFKA-10471)."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(1))
    manager.abandon()
    assert not files.exists("/a/.kafka_cleanshutdown")
    manager = loaded(files, "/a")
    assert manager.logs[TP].recovery.scanned_bytes > 0
    manager.shutdown()
    assert files.exists("/a/.kafka_cleanshutdown")
    manager_of(files, "/a")
    assert not files.exists("/a/.kafka_cleanshutdown")


def test_deletion_frees_the_name_at_once_and_the_space_later() -> None:
    """The folder is renamed; a reader under way reads on; a crash leaves the rest to the next start."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(3))
    log.roll(NOW)
    append(log, batch(3))
    detached = manager.detach(TP)
    assert manager.get(TP) is None
    assert len(read_all(detached)) == 2
    assert manager.create(TP, bytes(16 * [9]), config()).log_end_offset == 0
    killed = files.restart()
    (left,) = [name for name in killed.listdir("/a") if name.endswith("-delete")]
    assert left.startswith("t-0.")
    again = loaded(killed, "/a")
    for task in again.loader.purge_tasks():
        task()
    assert not [name for name in killed.listdir("/a") if name.endswith("-delete")]
    assert again.logs[TP].topic_id == bytes(16 * [9])
    detached.delete()
    assert not [name for name in files.listdir("/a") if name.endswith("-delete")]


def test_a_log_of_another_topic_id_is_never_reused() -> None:
    """The topic was deleted and made again while this node was away (KAFKA-12257)."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(1))
    with pytest.raises(KafkaStorageError, match="topic id"):
        manager.create(TP, bytes(16 * [9]), config())
    assert manager.find_strays(lambda _, topic_id: topic_id != ID) == [TP]
    path = manager.mark_stray(TP)
    assert path.endswith("-stray")
    assert manager.create(TP, bytes(16 * [9]), config()).log_end_offset == 0
    manager.shutdown()
    again = loaded(files.restart(), "/a")
    assert again.loader.stray_folders == [path]
    assert list(again.logs) == [TP]


def test_a_creation_cut_short_is_taken_up_again() -> None:
    """An empty folder without an id, as a crash inside `create` leaves it."""
    files = FakeFiles()
    loaded(files, "/a").abandon()
    files.mkdir("/a/t-0")
    manager = loaded(files, "/a")
    assert manager.create(TP, ID, config()).topic_id == ID
    manager.shutdown()
    assert loaded(files.restart(), "/a").logs[TP].topic_id == ID


def test_a_failing_dir_goes_offline_and_the_other_goes_on() -> None:
    """One disk dies under its partitions: told once, no append there, the rest untouched (scenario 28)."""
    files = FakeFiles()
    offline: list[str] = []
    manager = loaded(files, offline=offline)
    bad, good = manager.create(TP, ID, config()), manager.create(OTHER, ID, config())
    files.fail("fdatasync", "/a/")
    append(bad, batch(1))
    with pytest.raises(KafkaStorageError):
        bad.flush()
    with pytest.raises(KafkaStorageError, match="offline"):
        append(bad, batch(1))
    append(good, batch(1))
    good.flush()
    assert (offline, list(manager.dirs.offline)) == (["/a"], ["/a"])
    new = TopicPartition("new", 0)
    with pytest.raises(KafkaStorageError, match="may lie in /a"):
        manager.create(new, ID, config())
    assert manager.create(new, ID, config(), is_new=True).folder.log_dir == "/b"
    manager.checkpoint()
    manager.shutdown()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")


@pytest.mark.parametrize("operation", ["listdir", "open", "mkdir", "pread"])
def test_a_dir_that_fails_at_the_start_does_not_stop_the_node(operation: str) -> None:
    """Its partitions stay away, those of the other dir come up."""
    files = FakeFiles()
    manager = loaded(files)
    append(manager.create(TP, ID, config()), batch(1))
    append(manager.create(OTHER, ID, config()), batch(1))
    manager.abandon()
    after = files.restart()
    if operation == "mkdir":
        after.fail("fsync_directory", "/a")
    else:
        after.fail(operation, "/a")
    again = loaded(after)
    assert list(again.dirs.offline) == ["/a"]
    assert list(again.logs) == [OTHER]


def test_without_any_dir_there_is_no_node() -> None:
    """All dirs fail: the error names each."""
    files = FakeFiles()
    loaded(files).abandon()
    after = files.restart()
    for path in ("/a", "/b"):
        after.fail("exists", f"{path}/meta")
    with pytest.raises(KafkaStorageError, match=r"/a: .*EIO.*/b: .*EIO"):
        manager_of(after)


def test_of_two_folders_of_a_partition_the_newer_one_counts() -> None:
    """A crash in the middle of a move: the longer one is the log, the other one is set aside, not removed."""
    for longer in ("/a", "/b"):
        files = FakeFiles()
        for number, path in enumerate(("/a", "/b")):
            manager = loaded(files, path)
            log = manager.create(TP, ID, config())
            for _ in range(1 + number if longer == "/b" else 2 - number):
                append(log, batch(1))
            manager.shutdown()
        disk = files.restart()
        again = loaded(disk)
        assert again.dir_of(TP) is again.dirs.at(longer)
        assert again.logs[TP].log_end_offset == 2
        assert "lies in /a and in /b" in again.logs[TP].recovery.faults[-1]
        again.shutdown()
        assert len(loaded(disk.restart()).loader.stray_folders) == 1


@pytest.mark.parametrize("number", [1, 2, None])
def test_of_two_folders_of_two_topics_the_metadata_chooses(number: int | None) -> None:
    """A dir was away while the topic was deleted and made again: nobody else can tell which one it is."""
    files = FakeFiles()
    for each, path in ((1, "/a"), (2, "/b")):
        manager = loaded(files, path)
        append(manager.create(TP, bytes([each]) * 16, config()), batch(each))
        manager.shutdown()
    disk = files.restart()
    again = loaded(disk)
    again.loader.resolve(TP, None if number is None else bytes([number]) * 16)
    assert again.logs[TP].log_end_offset == (number or 1)
    again.checkpoint()
    append(again.logs[TP], batch(1))
    again.shutdown()
    after = loaded(disk.restart())
    assert after.logs[TP].log_end_offset == (number or 1) + 1
    assert len(after.loader.stray_folders) == 1


def test_of_two_folders_one_cannot_be_read() -> None:
    """It may be the one that counts: the partition is offline, and both stay for an operator."""
    files = FakeFiles()
    for path in ("/a", "/b"):
        manager = loaded(files, path)
        append(manager.create(TP, ID, config()), batch(1))
        manager.shutdown()
    files.put("/b/t-0/00000000000000000000.log.swap", b"x")
    again = loaded(files.restart())
    assert "/a and in /b" in again.failed[TP]
    with pytest.raises(KafkaStorageError, match="cannot be loaded"):
        again.create(TP, ID, config(), is_new=True)


def test_a_creation_that_failed_in_a_dir_which_comes_back() -> None:
    """The first dir fails in the middle, the log is made in the second one; the next start finds both."""
    files = FakeFiles()
    manager = loaded(files)
    files.fail("pwrite", "/a/t-0/partition.metadata")
    with pytest.raises(KafkaStorageError, match="EIO"):
        manager.create(TP, ID, config(), is_new=True)
    append(manager.create(TP, ID, config(), is_new=True), batch(3))
    manager.shutdown()
    again = loaded(files.restart())
    assert again.dir_of(TP) is again.dirs.at("/b")
    assert again.logs[TP].log_end_offset == 3


def test_a_log_that_cannot_be_loaded_is_not_made_anew() -> None:
    """Its folder has data: an empty log in its place would hide it; its checkpoints are kept as well."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(4))
    manager.shutdown()
    files.put("/a/t-0/00000000000000000000.log.swap", b"x")
    again = loaded(files.restart(), "/a")
    assert "compaction" in again.failed[TP]
    with pytest.raises(KafkaStorageError, match="offline"):
        again.create(TP, ID, config(), is_new=True)
    again.checkpoint()
    assert again.dirs[0].files.exists("/a/recovery-point-offset-checkpoint")
    task = again.checkpoints.tasks()[0]
    assert (task.recovery_points, task.high_watermarks) == ({TP: 4}, {TP: 0})


def test_other_folders_in_a_dir_are_left_alone() -> None:
    """The metadata log is the controller's, unfinished moves the operator's, the rest somebody else's."""
    files = FakeFiles()
    loaded(files, "/a").abandon()
    for name in ("__cluster_metadata-0", "t-1.abc-future", "lost+found", "notes"):
        files.mkdir(f"/a/{name}")
    manager = loaded(files, "/a")
    assert manager.logs == {}
    assert manager.loader.stray_folders == ["/a/t-1.abc-future"]
    manager.shutdown()
    assert {"__cluster_metadata-0", "t-1.abc-future", "lost+found", "notes"} <= set(files.listdir("/a"))


def test_loading_may_run_on_threads_of_the_callers() -> None:
    """The manager hands out the work; the order does not matter."""
    files = FakeFiles()
    manager = loaded(files)
    for number in range(5):
        append(manager.create(TopicPartition("t", number), ID, config()), batch(number + 1))
    manager.shutdown()
    again = manager_of(files.restart())
    tasks = again.loader.tasks(NOW)
    for task in reversed(tasks):
        task.run()
    again.loader.finish(tasks)
    assert {key.partition: log.log_end_offset for key, log in again.logs.items()} == {
        n: n + 1 for n in range(5)
    }


def test_long_topic_names_fit_when_they_are_deleted() -> None:
    """A folder name has at most 255 bytes, the suffix included."""
    manager = loaded(FakeFiles(), "/a")
    partition = TopicPartition("x" * 249, 123)
    manager.create(partition, ID, config())
    log = manager.detach(partition)
    assert len(log.folder.path.rpartition("/")[2]) == 255


# --- what the checkpoints know and the folders do not, and the other way round -----------------------------


def test_a_lost_folder_is_not_replaced_by_an_empty_log() -> None:
    """The checkpoint knows records of a partition whose folder is gone: it stays offline over every restart,
    until its topic is deleted; one that never had records is simply made again."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(3))
    manager.create(OTHER, ID, config())
    manager.logs[TP].flush()
    manager.checkpoint()
    manager.abandon()
    files = files.restart()
    for folder in (TP, OTHER):
        for name in files.listdir(f"/a/{folder}"):
            files.remove(f"/a/{folder}/{name}")
        files.rmdir(f"/a/{folder}")
    for _ in range(2):
        manager = loaded(files, "/a")
        with pytest.raises(KafkaStorageError, match="folder is missing"):
            manager.create(TP, ID, config())
        assert manager.create(OTHER, ID, config()).log_end_offset == 0
        manager.checkpoint()
        manager.abandon()
        files = files.restart()
    manager = loaded(files, "/a")
    manager.loader.forget_missing(lambda name: name != TP)
    assert manager.create(TP, ID, config()).log_end_offset == 0


def test_a_folder_that_the_checkpoints_do_not_know_is_scanned() -> None:
    """The dir went down before the first checkpoint: nothing is missing."""
    files = FakeFiles()
    append(loaded(files, "/a").create(TP, ID, config()), batch(3))
    log = loaded(files.restart(), "/a").logs[TP]
    assert log.log_end_offset == 3
    assert log.recovery.scanned_bytes > 0


def test_checkpoints_of_a_deleted_topic_do_not_speak_for_its_successor() -> None:
    """Start offset 40 and recovery point 50 of the old log; the new one of that name has 3 records, and must
    still have them after a crash, although nothing was checkpointed since."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(50))
    log.advance_log_start_offset(40)
    log.flush()
    manager.checkpoint()
    manager.detach(TP)
    append(manager.create(TP, bytes(16)[:-1] + b"n", config()), batch(3))
    again = loaded(files.restart(), "/a").logs[TP]
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 3, 3)
    assert again.recovery.faults == []


def test_many_logs_are_made_by_few_tasks() -> None:
    """120 partitions over two dirs: tasks of at most 50, spread evenly, taken over by their owner; those that
    are here already are not made again."""
    files = FakeFiles()
    manager = loaded(files)
    wanted = [NewLog(TopicPartition("t", number), ID, config(), True) for number in range(120)]
    tasks = manager.creation_tasks(wanted)
    assert [len(task.wanted) for task in tasks] == [50, 50, 10, 10]
    for task in tasks:
        task.run()
    assert manager.logs == {}
    manager.finish_creating(tasks)
    assert {facts["path"]: facts["partitions"] for facts in manager.describe_dirs()} == {"/a": 60, "/b": 60}
    assert all(log.topic_id == ID for log in manager.logs.values())
    assert manager.creation_tasks(wanted) == []
    again = loaded(files.power_loss("none"))
    assert len(again.logs) == 120, "durable when the task ends"


def test_logs_are_not_made_where_their_data_may_lie_elsewhere() -> None:
    """A dir is offline: only partitions that the controller has just made get a log."""
    files = FakeFiles()
    manager = loaded(files)
    manager.dirs.mark_offline("/b", "gone")
    old, new = NewLog(TP, ID, config(), False), NewLog(OTHER, ID, config(), True)
    assert [task.wanted for task in manager.creation_tasks([old, new])] == [[new]]


def test_a_task_that_fails_makes_nothing() -> None:
    """The disk fails in the middle: no log is taken over, the dir is offline."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    files.fail("fdatasync", "t-1")
    tasks = manager.creation_tasks(
        [NewLog(TopicPartition("t", number), ID, config(), True) for number in range(3)]
    )
    for task in tasks:
        task.run()
    manager.finish_creating(tasks)
    assert manager.logs == {}
    assert tasks[0].error is not None
    assert manager.dirs.online == []


def test_a_name_too_long_for_the_file_system_does_not_take_the_dir_offline() -> None:
    """Some file systems take only 143 bytes: that partition fails, the disk is fine."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    files.fail("mkdir", "t-0", errno.ENAMETOOLONG)
    with pytest.raises(NameTooLongError):
        manager.create(TP, ID, config())
    assert manager.create(OTHER, ID, config()).log_end_offset == 0


def test_many_logs_go_at_the_cost_of_one() -> None:
    """Deleting 40 partitions writes the checkpoints and syncs the dir once, not 40 times."""
    files = FakeFiles()
    manager = loaded(files, "/a")
    names = [TopicPartition("t", number) for number in range(40)]
    for name in names:
        manager.create(name, ID, config())
    before = len(files.operations)
    assert len(manager.detach_all(names)) == 40
    done = files.operations[before:]
    assert sum(operation.startswith("rename /a/t-") for operation in done) == 40
    assert sum(operation.startswith("fsync_directory") for operation in done) <= 4
    assert files.content("/a/recovery-point-offset-checkpoint") == b"0\n0\n"


def test_a_cleaner_offset_never_names_what_a_log_has_lost() -> None:
    """Else what is written in its place would pass for clean, and so keep older values below a tombstone that
    goes: lowered at the start and by a truncation, on the disk before anything is appended."""
    files = FakeFiles()
    manager = loaded(files, "/d")
    log = manager.create(TP, ID, manager.defaults, wall_ms=NOW)
    for _ in range(6):
        append(log, batch(1))
    log.compaction.cleaner_offset = 5
    manager.checkpoint()
    path = "/d/cleaner-offset-checkpoint"
    assert files.content(path) == b"0\n1\nt 0 5\n"
    log.truncate_to(4)
    assert files.content(path) == b"0\n1\nt 0 4\n"
    log.flush()
    manager.checkpoint()
    manager.abandon()
    files = files.restart()
    files.put("/d/t-0/00000000000000000000.log", b"")
    manager = loaded(files, "/d")
    assert manager.logs[TP].compaction.cleaner_offset == 0
    assert files.content(path) == b"0\n1\nt 0 0\n"
    manager.delete(TP)
    assert files.content(path) == b"0\n0\n"
