"""A file layer that refuses every operation after its first error: one state per log dir.

A disk that failed once may have lost bytes that it acknowledged (a failed fsync drops the dirty pages and the
next one succeeds), so nothing may be appended or acknowledged between the error and taking the log dir
offline (KAFKA-10778). This layer guarantees it for every caller.

A full disk does not take the log dir offline if the layer has a DiskRoom: small files then get the reserve,
and other writes are refused until there is room again. Without a DiskRoom, as for the metadata log, it does.
A failed sync always takes the log dir offline: the dirty pages may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import DiskFullError, FileGoneError, NameTooLongError
from . import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer
    from ...runtime.files.file_layer import File, FileLock, Files, Lent, Space
    from .disk_room import DiskRoom

_T = TypeVar("_T")
_RECORDS = (names.LOG, f"{names.LOG}{names.CLEANED}")  # files that may not use the reserve


class LogDirState:
    """The first error of a log dir, if any; set once, from any thread."""

    __slots__ = ("failure", "on_failure")

    def __init__(self, on_failure: Callable[[str], None] | None = None) -> None:
        self.failure: str | None = None
        self.on_failure = on_failure

    def fail(self, reason: str) -> None:
        """Take the log dir offline; the first reason is kept."""
        if self.failure is None:
            self.failure = reason
            if self.on_failure is not None:
                self.on_failure(reason)

    def fail_by(self, error: KafkaStorageError) -> None:
        """Take the log dir offline, unless the disk works: a missing file, too long a name, no room."""
        if not isinstance(error, (FileGoneError, NameTooLongError, DiskFullError)):
            self.fail(str(error))

    def check(self) -> None:
        """Errors: KafkaStorageError if the log dir is offline."""
        if self.failure is not None:
            raise KafkaStorageError(f"the log dir is offline: {self.failure}")


class GuardedFile:
    """An open file, refused once its log dir is offline."""

    __slots__ = ("_dir_state", "_file", "_files", "path")

    def __init__(self, file: File, files: GuardedFiles) -> None:
        self._file = file
        self._files = files
        self._dir_state = files.dir_state
        self.path = file.path

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        if self._dir_state.failure is not None:  # hot: saves a call
            self._dir_state.check()
        try:
            return self._file.pwrite(position, buffers)
        except DiskFullError as error:
            return self._files.retry(error, self.path, self._file.pwrite, position, buffers)
        except KafkaStorageError as error:
            self._dir_state.fail_by(error)
            raise

    def pread(self, position: int, size: int) -> bytes:
        return self._files.guarded(self.path, self._file.pread, position, size)

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        return self._files.guarded(self.path, self._file.pread_cached, position, size)

    def lend(self, position: int, size: int) -> Lent | None:
        return self._files.guarded(self.path, self._file.lend, position, size)

    def will_need(self, position: int, size: int) -> None:
        self._file.will_need(position, size)

    def drop_cached(self, position: int, size: int) -> None:
        self._file.drop_cached(position, size)

    def size(self) -> int:
        return self._files.guarded(self.path, self._file.size)

    def truncate(self, size: int) -> None:
        self._files.guarded(self.path, self._file.truncate, size)

    def allocate(self, size: int) -> None:
        self._files.guarded(self.path, self._file.allocate, size)

    def fdatasync(self) -> None:
        self._files.synced(self._file.fdatasync)

    def close(self) -> None:
        """Also if the log dir is offline."""
        self._file.close()


class GuardedFiles:
    """The files of one log dir, or of the metadata log; with `room`, a full disk is no failure."""

    def __init__(self, files: Files, dir_state: LogDirState, room: DiskRoom | None = None) -> None:
        self._files = files
        self.dir_state = dir_state
        self.room = room

    @property
    def full(self) -> str | None:
        """Why the disk has no room for records, or None."""
        return None if self.room is None else self.room.full

    def check_room(self) -> None:
        """Errors: DiskFullError if the disk has no room for records."""
        if self.room is not None and self.room.full is not None:
            self.room.check()

    def open(self, path: str, *, create: bool = False) -> File:
        return GuardedFile(self.guarded(path, _opened, self._files, path, create), self)

    def exists(self, path: str) -> bool:
        return self.guarded(path, self._files.exists, path)

    def size(self, path: str) -> int:
        return self.guarded(path, self._files.size, path)

    def listdir(self, directory: str) -> list[str]:
        return self.guarded(directory, self._files.listdir, directory)

    def is_directory(self, path: str) -> bool:
        return self.guarded(path, self._files.is_directory, path)

    def mkdir(self, path: str) -> None:
        self.guarded(path, self._files.mkdir, path)

    def rename(self, source: str, target: str) -> None:
        self.guarded(source, self._files.rename, source, target)

    def remove(self, path: str) -> None:
        self.guarded(path, self._files.remove, path)

    def rmdir(self, path: str) -> None:
        self.guarded(path, self._files.rmdir, path)

    def fsync_directory(self, directory: str) -> None:
        self.synced(self._files.fsync_directory, directory)

    def space(self, directory: str) -> Space:
        return self.guarded(directory, self._files.space, directory)

    def lock(self, path: str) -> FileLock | None:
        return self.guarded(path, self._files.lock, path)

    def guarded(self, path: str, operation: Callable[..., _T], *arguments: object) -> _T:
        """Run an operation on `path` unless the log dir is offline; a disk error takes it offline."""
        self.dir_state.check()
        try:
            return operation(*arguments)
        except DiskFullError as error:
            return self.retry(error, path, operation, *arguments)
        except KafkaStorageError as error:
            self.dir_state.fail_by(error)
            raise

    def retry(self, error: DiskFullError, path: str, operation: Callable[..., _T], *arguments: object) -> _T:
        """Retry an operation that failed with a full disk, with the space of the reserve, unless it writes
        records."""
        if self.room is None:
            self.dir_state.fail(str(error))
            raise error
        self.room.ran_out(error)
        if path.endswith(_RECORDS) or not self.room.give_reserve():
            raise error
        try:
            return operation(*arguments)
        except DiskFullError:
            raise
        except KafkaStorageError as retry_error:
            self.dir_state.fail_by(retry_error)
            raise

    def synced(self, operation: Callable[..., None], *arguments: object) -> None:
        """Run a sync; after any error the content of the disk is unknown."""
        self.dir_state.check()
        try:
            operation(*arguments)
        except FileGoneError:
            raise
        except KafkaStorageError as error:
            self.dir_state.fail(str(error))
            raise KafkaStorageError(str(error)) from error


def guarded(files: Files) -> GuardedFiles:
    """`files` with a state of their own, unless they have one already."""
    return files if isinstance(files, GuardedFiles) else GuardedFiles(files, LogDirState())


def _opened(files: Files, path: str, create: bool) -> File:
    return files.open(path, create=create)
