"""What a node believes about its folders is on the disk before it acts on it."""

from __future__ import annotations

from itertools import count

from fake_files import FakeFiles
from headrace.storage_node.log import names
from headrace.storage_node.log.checkpoints import parse_offsets
from headrace.storage_node.log.log_manager import LogManager
from log_rig import NOW, TP, append, batch, config

ID = bytes(range(16))


def manager_of(files: FakeFiles) -> LogManager:
    numbers = count(1)
    manager = LogManager(
        files, ("/d",), defaults=config(), new_uuid=lambda: next(numbers).to_bytes(16, "big")
    )
    manager.open_dirs()
    manager.set_identity("cluster", 5)
    manager.load(NOW)
    return manager


def test_a_deleted_log_does_not_come_back_after_the_loss_of_power() -> None:
    """The name was free for a new topic: no old folder may take it again."""
    files = FakeFiles()
    manager = manager_of(files)
    append(manager.create(TP, ID, config(), is_new=True), batch())
    manager.detach(TP)
    assert manager_of(files.power_loss("none")).get(TP) is None


def test_a_truncation_is_checkpointed_before_anything_is_appended() -> None:
    """The recovery point on the disk was 5; after a cut to 2 it must not vouch for new bytes."""
    files = FakeFiles()
    manager = manager_of(files)
    log = manager.create(TP, ID, config(), is_new=True)
    for _ in range(5):
        append(log, batch())
    log.flush()
    manager.checkpoint()
    log.truncate_to(2)
    stored = parse_offsets(files.power_loss("none").content(f"/d/{names.RECOVERY_POINTS}"))
    assert stored[TP] == 2
