"""The folder of one partition's log, shared by the parts of the open log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .guarded_files import GuardedFiles


class PartitionFolder:
    """`path` changes when the folder is renamed while its log is open; open files are not affected."""

    __slots__ = ("files", "has_unsynced_names", "path")

    def __init__(self, files: GuardedFiles, path: str) -> None:
        self.files = files
        self.path = path
        self.has_unsynced_names = True  # files were created, renamed or removed since the last fsync

    @property
    def log_dir(self) -> str:
        return self.path.rpartition("/")[0]

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def sync(self) -> None:
        self.files.fsync_directory(self.path)
