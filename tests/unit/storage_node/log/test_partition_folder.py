"""File names and checkpoints are on disk before the node relies on them."""

import os
from itertools import count
from pathlib import Path

from fake_files import FakeFiles
from headrace.protocol.model import MAX_TOPIC_NAME_LENGTH, TopicPartition
from headrace.runtime.files.files_io import OsFiles
from headrace.storage_node.log import names
from headrace.storage_node.log.checkpoints import parse_offsets
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_manager import LogManager
from log_rig import FOLDER, NOW, TP, append, batch, config, detach, open_log

ID = bytes(range(16))


def manager_of(files: FakeFiles) -> LogManager:
    numbers = count(1)
    manager = LogManager(
        files, ("/d",), defaults=config(), new_uuid=lambda: next(numbers).to_bytes(16, "big")
    )
    manager.open_dirs()
    manager.dirs.set_identity("cluster", 5)
    manager.load(NOW)
    return manager


def test_deleted_log_stays_deleted_after_power_loss(files: FakeFiles) -> None:
    """A new topic may have its name."""
    manager = manager_of(files)
    append(manager.create(TP, ID, config(), is_new=True), batch())
    detach(manager, TP)
    assert manager_of(files.power_loss("none")).get(TP) is None


def test_truncation_is_checkpointed_before_the_next_append(files: FakeFiles) -> None:
    """The recovery point on disk was 5; after a truncation to 2 it must not vouch for new bytes."""
    manager = manager_of(files)
    log = manager.create(TP, ID, config(), is_new=True)
    for _ in range(5):
        append(log, batch())
    log.flush()
    manager.checkpoint()
    log.truncate_to(2)
    stored = parse_offsets(files.power_loss("none").content(f"/d/{names.RECOVERY_POINTS}"))
    assert stored[TP] == 2


def test_longest_topic_name_on_a_real_disk(tmp_path: Path) -> None:
    """249 characters and the largest partition: created, found again, made a stray, and deleted."""
    files, name = OsFiles(), TopicPartition("x" * MAX_TOPIC_NAME_LENGTH, 99_999)

    def opened() -> LogManager:
        manager = LogManager(files, (str(tmp_path),), defaults=config(), new_uuid=lambda: os.urandom(16))
        manager.open_dirs()
        manager.dirs.set_identity("cluster", 5)
        manager.load(NOW)
        return manager

    manager = opened()
    append(manager.create(name, ID, config(), is_new=True), batch())
    manager.shutdown()
    manager = opened()
    found = manager.get(name)
    assert found is not None
    assert found.log_end_offset == 1
    detach(manager, name).delete()
    manager.shutdown()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_flush_syncs_folder_once(files: FakeFiles, log: Log) -> None:
    """Hundreds of logs are closed at a shutdown; nothing is lost with the power."""
    append(log, batch(2))
    before = len(files.operations)
    log.close()
    assert files.operations[before:].count(f"fsync_directory {FOLDER}") == 1
    assert open_log(files.power_loss("none"), was_clean=True, recovery_point=2).log_end_offset == 2
