"""Tasks of the log manager, alone; test_log_manager.py has them at work."""

from __future__ import annotations

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


def test_what_is_made_is_loaded_again() -> None:
    """Create, append, lose the process, load: id and records are there."""
    files = FakeFiles()
    (log,) = create(opened(files)).made
    append(log, batch(4))
    task = LoadTask(opened(files.restart()), TP, config(), NOW)
    task.run()
    assert task.log is not None
    assert (task.log.topic_id, task.log.log_end_offset) == (ID, 4)


def test_a_failure_stays_in_the_task() -> None:
    """A bad disk ends neither a load nor a creation with an exception."""
    files = FakeFiles()
    log_dir = opened(files)
    files.fail("pwrite", "partition.metadata")
    task = create(log_dir)
    assert task.made == []
    assert isinstance(task.error, KafkaStorageError)
    load = LoadTask(log_dir, TP, config(), NOW)
    load.run()
    assert load.log is None
    assert load.error is not None


def test_a_checkpoint_keeps_what_is_known_of_a_log_that_did_not_load() -> None:
    """Its offsets are carried over, or the next start would take it for new."""
    files = FakeFiles()
    files.mkdir("/d")
    files.put("/d/recovery-point-offset-checkpoint", b"0\n1\nt 0 7\n")
    task = CheckpointTask(opened(files))
    task.keep(TP)
    task.keep(TopicPartition("unknown", 1))
    task.run()
    assert files.content("/d/recovery-point-offset-checkpoint") == b"0\n1\nt 0 7\n"


def test_purging_removes_the_folder_or_takes_the_dir_offline() -> None:
    """What a deletion left behind goes with all that is in it."""
    files = FakeFiles()
    log_dir = opened(files)
    create(log_dir)
    purge(log_dir, "/d/t-0")
    assert not files.exists("/d/t-0")
    create(log_dir)
    files.fail("remove", "t-0")
    purge(log_dir, "/d/t-0")
    assert not log_dir.is_online
