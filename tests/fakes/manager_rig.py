"""Log managers over fake disks."""

from itertools import count

from fake_files import FakeFiles
from headrace.storage_node.log.log_manager import LogManager
from log_rig import NOW, config

ID = bytes(range(16))


def manager_of(
    files: FakeFiles, *dirs: str, offline: list[str] | None = None, reserve_bytes: int = 0
) -> LogManager:
    """An opened log manager, whose logs are not loaded yet."""
    numbers = count(1)
    manager = LogManager(
        files,
        dirs or ("/a", "/b"),
        defaults=config(),
        new_uuid=lambda: next(numbers).to_bytes(16, "big"),
        on_offline=None if offline is None else lambda path, _: offline.append(path),
        reserve_bytes=reserve_bytes,
    )
    manager.open_dirs()
    return manager


def loaded(
    files: FakeFiles, *dirs: str, offline: list[str] | None = None, reserve_bytes: int = 0
) -> LogManager:
    """A log manager of node 5 with its logs loaded."""
    manager = manager_of(files, *dirs, offline=offline, reserve_bytes=reserve_bytes)
    manager.dirs.set_identity("cluster", 5)
    manager.load(NOW)
    return manager
