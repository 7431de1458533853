"""All logs of a node: dirs, identity, creation, deletion, checkpoints, shutdown, failing disks."""

import errno

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import InconsistentClusterIdError, KafkaStorageError
from headrace.protocol.model import TopicPartition
from headrace.runtime.files.file_layer import NameTooLongError
from headrace.storage_node.log.log_tasks import NewLog
from headrace.storage_node.log.losses import PreviousEnd
from log_rig import NOW, TP, append, batch, check_dense, config, detach, read_all
from manager_rig import ID, loaded, manager_of

OTHER = TopicPartition("other-topic", 3)


def test_identity_is_written_to_every_dir(files: FakeFiles) -> None:
    """meta.properties as Kafka writes it; the next start reads it."""
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


def test_dir_of_another_cluster_or_node_is_refused(files: FakeFiles) -> None:
    """Swapped disks must not mix data."""
    loaded(files).abandon()
    with pytest.raises(InconsistentClusterIdError):
        manager_of(files.restart()).dirs.set_identity("elsewhere", 5)
    with pytest.raises(KafkaStorageError, match="node 5"):
        manager_of(files.restart()).dirs.set_identity("cluster", 6)
    mixed = files.restart()
    mixed.put("/b/meta.properties", files.content("/a/meta.properties").replace(b"=cluster", b"=another"))
    with pytest.raises(KafkaStorageError, match="another log dir"):
        manager_of(mixed)


def test_dir_in_use_is_refused(files: FakeFiles) -> None:
    """Two processes on one dir would destroy it."""
    loaded(files)
    with pytest.raises(KafkaStorageError, match="in use"):
        manager_of(files)


def test_clean_shutdown_without_registration_keeps_previous_epoch() -> None:
    """A node that was started and stopped without a controller lost nothing. Found by the simulator
    (SIM=cluster SEED=779): the only eligible leader counted as one with losses."""
    files = FakeFiles()
    loaded(files).shutdown(broker_epoch=77)
    files = files.restart()
    loaded(files).shutdown(broker_epoch=-1)
    files = files.restart()
    assert loaded(files).loader.previous_end == PreviousEnd(77)  # and dies
    files = files.restart()
    loaded(files).shutdown(broker_epoch=-1)
    assert loaded(files.restart()).loader.previous_end == PreviousEnd()


def test_new_log_goes_to_the_dir_with_fewest_partitions(files: FakeFiles) -> None:
    """A restart finds it there, with topic id, records, config and high watermark."""
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


def test_checkpoint_files(files: FakeFiles) -> None:
    """Recovery points, high watermarks and log start offsets, one line per partition."""
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


def test_damaged_checkpoints_cause_a_full_recovery(files: FakeFiles) -> None:
    """Zeroed by a power loss: every log is scanned, nothing is lost."""
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


def test_only_a_shutdown_leaves_the_clean_marker(files: FakeFiles) -> None:
    """The next start removes it first (KAFKA-10471)."""
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


def test_deletion_renames_the_folder(files: FakeFiles) -> None:
    """A running read continues; the next start removes what a crash leaves."""
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(3))
    log.roll(NOW)
    append(log, batch(3))
    detached = detach(manager, TP)
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


def test_log_of_another_topic_id_is_not_reused(files: FakeFiles) -> None:
    """The topic was deleted and created again while this node was offline (KAFKA-12257)."""
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


def test_interrupted_creation_is_adopted(files: FakeFiles) -> None:
    """A crash inside `create` leaves an empty folder without a topic id."""
    loaded(files, "/a").abandon()
    files.mkdir("/a/t-0")
    manager = loaded(files, "/a")
    assert manager.create(TP, ID, config()).topic_id == ID
    manager.shutdown()
    assert loaded(files.restart(), "/a").logs[TP].topic_id == ID


def test_failing_dir_goes_offline_alone(files: FakeFiles) -> None:
    """One disk fails: reported once, no append there, the other dir continues (scenario 28)."""
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
def test_dir_that_fails_at_start_goes_offline(files: FakeFiles, operation: str) -> None:
    """The partitions of the other dir are loaded."""
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


def test_start_fails_if_all_dirs_fail(files: FakeFiles) -> None:
    """The error names each dir."""
    loaded(files).abandon()
    after = files.restart()
    for path in ("/a", "/b"):
        after.fail("exists", f"{path}/meta")
    with pytest.raises(KafkaStorageError, match=r"/a: .*EIO.*/b: .*EIO"):
        manager_of(after)


def test_newer_of_two_folders_is_loaded() -> None:
    """After a crash in the middle of a move: the longer log is used, the other one becomes a stray."""
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
def test_metadata_resolves_two_topic_ids(files: FakeFiles, number: int | None) -> None:
    """A dir was offline while the topic was deleted and created again."""
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


def test_unreadable_duplicate_takes_partition_offline(files: FakeFiles) -> None:
    """It may be the newer log: both folders stay for an operator."""
    for path in ("/a", "/b"):
        manager = loaded(files, path)
        append(manager.create(TP, ID, config()), batch(1))
        manager.shutdown()
    files.put("/b/t-0/00000000000000000000.log.swap", b"x")
    again = loaded(files.restart())
    assert "/a and in /b" in again.failed[TP]
    with pytest.raises(KafkaStorageError, match="cannot be loaded"):
        again.create(TP, ID, config(), is_new=True)


def test_creation_that_failed_in_one_dir(files: FakeFiles) -> None:
    """The first dir fails, the log is created in the second one; the next start finds both."""
    manager = loaded(files)
    files.fail("pwrite", "/a/t-0/partition.metadata")
    with pytest.raises(KafkaStorageError, match="EIO"):
        manager.create(TP, ID, config(), is_new=True)
    append(manager.create(TP, ID, config(), is_new=True), batch(3))
    manager.shutdown()
    again = loaded(files.restart())
    assert again.dir_of(TP) is again.dirs.at("/b")
    assert again.logs[TP].log_end_offset == 3


def test_unloadable_log_is_not_replaced(files: FakeFiles) -> None:
    """An empty log would hide its records; its checkpoints are kept as well."""
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


def test_other_folders_in_a_dir_are_left_alone(files: FakeFiles) -> None:
    """The metadata log, unfinished moves, and folders that are not logs."""
    loaded(files, "/a").abandon()
    for name in ("__cluster_metadata-0", "t-1.abc-future", "lost+found", "notes"):
        files.mkdir(f"/a/{name}")
    manager = loaded(files, "/a")
    assert manager.logs == {}
    assert manager.loader.stray_folders == ["/a/t-1.abc-future"]
    manager.shutdown()
    assert {"__cluster_metadata-0", "t-1.abc-future", "lost+found", "notes"} <= set(files.listdir("/a"))


def test_load_tasks_may_run_in_any_order(files: FakeFiles) -> None:
    """The caller runs them, on threads."""
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


def test_suffixed_folder_name_has_at_most_255_bytes() -> None:
    """Also for the longest topic name."""
    manager = loaded(FakeFiles(), "/a")
    partition = TopicPartition("x" * 249, 123)
    manager.create(partition, ID, config())
    log = detach(manager, partition)
    assert len(log.folder.path.rpartition("/")[2]) == 255


# --- what the checkpoints know and the folders do not, and the other way round -----------------------------


def test_missing_folder_is_not_replaced_by_an_empty_log() -> None:
    """The partition stays offline over every restart, until its topic is deleted; a log that never had
    records is created again."""
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


def test_folder_without_checkpoint_is_scanned(files: FakeFiles) -> None:
    """The node crashed before the first checkpoint: nothing is missing."""
    append(loaded(files, "/a").create(TP, ID, config()), batch(3))
    log = loaded(files.restart(), "/a").logs[TP]
    assert log.log_end_offset == 3
    assert log.recovery.scanned_bytes > 0


def test_checkpoints_of_deleted_topic_do_not_apply_to_its_successor(files: FakeFiles) -> None:
    """The old log had start offset 40 and recovery point 50; the new one has 3 records, which survive a crash
    without a checkpoint since."""
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(50))
    log.advance_log_start_offset(40)
    log.flush()
    manager.checkpoint()
    detach(manager, TP)
    append(manager.create(TP, bytes(16)[:-1] + b"n", config()), batch(3))
    again = loaded(files.restart(), "/a").logs[TP]
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 3, 3)
    assert again.recovery.faults == []


def test_creation_tasks_share_the_logs(files: FakeFiles) -> None:
    """120 partitions over two dirs: tasks of at most 50, spread evenly; existing logs are not created
    again."""
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


def test_only_new_partitions_are_created_while_a_dir_is_offline(files: FakeFiles) -> None:
    """Other partitions may have their records in the offline dir."""
    manager = loaded(files)
    manager.dirs.at("/b").files.dir_state.fail("gone")
    old, new = NewLog(TP, ID, config(), False), NewLog(OTHER, ID, config(), True)
    assert [task.wanted for task in manager.creation_tasks([old, new])] == [[new]]


def test_failed_creation_task_registers_nothing(files: FakeFiles) -> None:
    """The disk fails in the middle; the dir is offline."""
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


def test_name_too_long_is_not_a_disk_failure(files: FakeFiles) -> None:
    """Some file systems accept only 143 bytes: that partition fails."""
    manager = loaded(files, "/a")
    files.fail("mkdir", "t-0", errno.ENAMETOOLONG)
    with pytest.raises(NameTooLongError):
        manager.create(TP, ID, config())
    assert manager.create(OTHER, ID, config()).log_end_offset == 0


def test_detach_all_writes_checkpoints_once(files: FakeFiles) -> None:
    """Deleting 40 partitions writes the checkpoints and syncs the dir once."""
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


def test_cleaner_offset_is_lowered_after_a_loss() -> None:
    """Otherwise new records would count as compacted, and keep older values below a removed tombstone:
    lowered at the start and by a truncation, durably before an append."""
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
    detach(manager, TP).delete()
    assert files.content(path) == b"0\n0\n"
