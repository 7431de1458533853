"""Log dirs that are full at a shutdown or checkpoint, or that vanish."""

import contextlib
import errno

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from log_rig import TP, append, batch, config
from manager_rig import ID, loaded


@pytest.mark.parametrize("part", [".timeindex", "checkpoint", ".kafka_cleanshutdown"])
def test_shutdown_on_full_disk_is_not_clean(files: FakeFiles, part: str) -> None:
    """The marker would vouch for unwritten files; no record is lost."""
    manager = loaded(files, "/a")
    append(manager.create(TP, ID, config()), batch(4))
    files.fail("pwrite", part, errno.ENOSPC)
    manager.shutdown()
    again = loaded(files.restart(), "/a")
    assert not again.dirs[0].was_clean
    assert again.logs[TP].log_end_offset == 4


def test_checkpoint_on_full_disk_is_retried(files: FakeFiles) -> None:
    """The old checkpoint stays meanwhile, and the dir is online."""
    manager = loaded(files, "/a")
    log = manager.create(TP, ID, config())
    append(log, batch(4))
    log.flush()
    files.fail("pwrite", "recovery-point", errno.ENOSPC)
    manager.checkpoint()
    assert manager.dirs[0].is_online
    assert manager.dirs[0].look_for_room()
    manager.checkpoint()
    assert loaded(files.restart(), "/a").dirs[0].recovery_points == {TP: 4}


def test_checkpoint_after_truncation_uses_reserve_or_goes_offline() -> None:
    """A recovery point above a truncated log would make the next start trust missing batches."""
    for reserve_bytes in (4_000, 0):
        files = FakeFiles()
        manager = loaded(files, "/a", reserve_bytes=reserve_bytes)
        log = manager.create(TP, ID, config())
        for _ in range(3):
            append(log, batch(1))
        log.flush()
        manager.checkpoint()
        files.capacity_bytes = files.used_bytes()
        files.fail("pwrite", "checkpoint.tmp", errno.ENOSPC)
        if reserve_bytes:
            log.truncate_to(1)
            assert loaded(files.restart(), "/a").dirs[0].recovery_points == {TP: 1}
        else:
            with contextlib.suppress(KafkaStorageError):
                log.truncate_to(1)
        assert manager.dirs[0].is_online == bool(reserve_bytes)


def test_vanished_dir_is_noticed_by_next_checkpoint(files: FakeFiles) -> None:
    """It was unmounted or removed while logs are open: appends would go to files without names."""
    offline: list[str] = []
    manager = loaded(files, offline=offline)
    manager.create(TP, ID, config())
    for name in files.listdir("/a/t-0"):
        files.remove(f"/a/t-0/{name}")
    files.rmdir("/a/t-0")
    for name in files.listdir("/a"):
        files.remove(f"/a/{name}")
    files.rmdir("/a")
    manager.checkpoint()
    assert offline == ["/a"]
