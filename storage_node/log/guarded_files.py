"""A file layer that refuses everything after its first error: one fuse per log dir.

A disk that failed once may have lost what it acknowledged (a failed fsync drops the dirty pages and the next
one succeeds), so nothing may be appended, and nothing acknowledged, between the error and taking the
log dir offline (KAFKA-10778). Here that holds by construction, for every caller of the file layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import KafkaStorageError
from .files import FileGoneError, NameTooLongError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer
    from .files import File, FileLock, Files

_T = TypeVar("_T")


class Fuse:
    """Whether a log dir still works, and the first error if not. Set from any thread, once."""

    __slots__ = ("failure", "on_blow")

    def __init__(self, on_blow: Callable[[str], None] | None = None) -> None:
        self.failure: str | None = None
        self.on_blow = on_blow

    def blow(self, reason: str) -> None:
        """Take the log dir offline; the first reason stays."""
        if self.failure is None:
            self.failure = reason
            if self.on_blow is not None:
                self.on_blow(reason)

    def blow_by(self, error: KafkaStorageError) -> None:
        """Take the log dir offline, unless it is only that a file is gone or its name too long."""
        if not isinstance(error, (FileGoneError, NameTooLongError)):
            self.blow(str(error))

    def check(self) -> None:
        """KafkaStorageError if the fuse has blown."""
        if self.failure is not None:
            raise KafkaStorageError(f"the log dir is offline: {self.failure}")


class GuardedFile:
    """An open file behind a fuse."""

    __slots__ = ("_file", "_fuse", "path")

    def __init__(self, file: File, fuse: Fuse) -> None:
        self._file = file
        self._fuse = fuse
        self.path = file.path

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        """See files.File."""
        if self._fuse.failure is not None:  # the hottest of calls
            self._fuse.check()
        try:
            return self._file.pwrite(position, buffers)
        except KafkaStorageError as error:
            self._fuse.blow_by(error)
            raise

    def pread(self, position: int, size: int) -> bytes:
        """See files.File."""
        return _guarded(self._fuse, self._file.pread, position, size)

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        """See files.File."""
        return _guarded(self._fuse, self._file.pread_cached, position, size)

    def will_need(self, position: int, size: int) -> None:
        """See files.File."""
        self._file.will_need(position, size)

    def drop_cached(self, position: int, size: int) -> None:
        """See files.File."""
        self._file.drop_cached(position, size)

    def size(self) -> int:
        """See files.File."""
        return _guarded(self._fuse, self._file.size)

    def truncate(self, size: int) -> None:
        """See files.File."""
        _guarded(self._fuse, self._file.truncate, size)

    def allocate(self, size: int) -> None:
        """See files.File."""
        _guarded(self._fuse, self._file.allocate, size)

    def fdatasync(self) -> None:
        """See files.File."""
        _guarded(self._fuse, self._file.fdatasync)

    def close(self) -> None:
        """Let go of the file, also when the fuse has blown."""
        self._file.close()


class GuardedFiles:
    """A file system behind a fuse."""

    def __init__(self, files: Files, fuse: Fuse) -> None:
        self._files = files
        self.fuse = fuse

    def open(self, path: str, *, create: bool = False) -> File:
        """See files.Files."""
        return GuardedFile(_guarded(self.fuse, _opened, self._files, path, create), self.fuse)

    def exists(self, path: str) -> bool:
        """See files.Files."""
        return _guarded(self.fuse, self._files.exists, path)

    def size(self, path: str) -> int:
        """See files.Files."""
        return _guarded(self.fuse, self._files.size, path)

    def listdir(self, directory: str) -> list[str]:
        """See files.Files."""
        return _guarded(self.fuse, self._files.listdir, directory)

    def is_directory(self, path: str) -> bool:
        """See files.Files."""
        return _guarded(self.fuse, self._files.is_directory, path)

    def mkdir(self, path: str) -> None:
        """See files.Files."""
        _guarded(self.fuse, self._files.mkdir, path)

    def rename(self, source: str, target: str) -> None:
        """See files.Files."""
        _guarded(self.fuse, self._files.rename, source, target)

    def remove(self, path: str) -> None:
        """See files.Files."""
        _guarded(self.fuse, self._files.remove, path)

    def rmdir(self, path: str) -> None:
        """See files.Files."""
        _guarded(self.fuse, self._files.rmdir, path)

    def fsync_directory(self, directory: str) -> None:
        """See files.Files."""
        _guarded(self.fuse, self._files.fsync_directory, directory)

    def lock(self, path: str) -> FileLock | None:
        """See files.Files."""
        return _guarded(self.fuse, self._files.lock, path)


def guarded(files: Files) -> GuardedFiles:
    """`files` behind a fuse of its own, unless it is behind one already."""
    return files if isinstance(files, GuardedFiles) else GuardedFiles(files, Fuse())


def _opened(files: Files, path: str, create: bool) -> File:
    return files.open(path, create=create)


def _guarded(fuse: Fuse, operation: Callable[..., _T], *arguments: object) -> _T:
    fuse.check()
    try:
        return operation(*arguments)
    except KafkaStorageError as error:
        fuse.blow_by(error)
        raise
