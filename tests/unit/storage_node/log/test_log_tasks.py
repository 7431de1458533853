"""The tasks of the log manager by themselves."""

from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log.log_dir import LogDir
from headrace.storage_node.log.log_tasks import CreateTask, LoadTask, NewLog, purge
from headrace.storage_node.log.offset_checkpoints import CheckpointTask
from log_rig import NOW, TP, append, batch, config

ID = bytes(range(16))


def opened(files: FakeFiles) -> LogDir:
    log_dir = LogDir(files, "/d")
    log_dir.open()
    return log_dir


def create(log_dir: LogDir) -> CreateTask:
    task = CreateTask(log_dir, [NewLog(TP, ID, config(), True)], NOW)
    task.run()
    return task


def test_created_log_is_loaded(files: FakeFiles) -> None:
    """Create, append, lose the process, load: topic id and records are there."""
    (log,) = create(opened(files)).made
    append(log, batch(4))
    task = LoadTask(opened(files.restart()), TP, config(), NOW)
    task.run()
    assert task.log is not None
    assert (task.log.topic_id, task.log.log_end_offset) == (ID, 4)


def test_disk_error_is_stored_in_the_task(files: FakeFiles) -> None:
    """Neither load nor creation raises."""
    log_dir = opened(files)
    files.fail("pwrite", "partition.metadata")
    task = create(log_dir)
    assert task.made == []
    assert isinstance(task.error, KafkaStorageError)
    load = LoadTask(log_dir, TP, config(), NOW)
    load.run()
    assert load.log is None
    assert load.error is not None


def test_checkpoint_keeps_offsets_of_unloaded_log(files: FakeFiles) -> None:
    """Otherwise the next start would take it for a new log."""
    files.mkdir("/d")
    files.put("/d/recovery-point-offset-checkpoint", b"0\n1\nt 0 7\n")
    task = CheckpointTask(opened(files))
    task.keep(TP)
    task.keep(TopicPartition("unknown", 1))
    task.run()
    assert files.content("/d/recovery-point-offset-checkpoint") == b"0\n1\nt 0 7\n"


def test_purge_removes_the_folder_or_takes_the_dir_offline(files: FakeFiles) -> None:
    """The folder of a deleted log is removed with all its files."""
    log_dir = opened(files)
    create(log_dir)
    purge(log_dir, "/d/t-0")
    assert not files.exists("/d/t-0")
    create(log_dir)
    files.fail("remove", "t-0")
    purge(log_dir, "/d/t-0")
    assert not log_dir.is_online
