"""The real file layer: POSIX files by descriptor, positional reads and writes, flock.

Every OSError becomes a KafkaStorageError here; nothing above this module knows about errno.
Source: DESIGN 5; file_layer.py for the contract.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
from typing import TYPE_CHECKING, NoReturn

from ...protocol.errors import KafkaStorageError
from .file_layer import DiskFullError, FileGoneError, NameTooLongError, NotCachedError, Space
from .page_buffers_io import PageBuffers
from .page_cache_io import PageCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.records.header import Buffer
    from .file_layer import Lent

# Bound: the kernel takes at most IOV_MAX (1024) buffers in one call.
_MAX_BUFFERS = 1024
_FILE_MODE = 0o644
# Errors of preadv2 and sendfile without support: an old kernel, or the file system.
_NO_NOWAIT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Bound: of one sendfile, so that a connection with a large socket buffer does not block the event loop.
_SENT_AT_ONCE_BYTES = 1024 * 1024
_READ_INSTEAD_BYTES = 64 * 1024
_TRIES = 5  # to read bytes again that have left the page cache before they were sent
UNLIMITED = 1 << 30
# Errors that are not disk failures; every other one takes the log dir offline.
_CLASSES: dict[int, type[KafkaStorageError]] = {
    errno.ENOENT: FileGoneError,
    errno.ENAMETOOLONG: NameTooLongError,
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    errno.EFBIG: DiskFullError,  # the file size limit of the file system or the process
}


class _Descriptor:
    """A file descriptor that is closed with its last reference.

    A read on a worker thread holds a reference during its call, so closing a log meanwhile can neither fail
    that read nor give it a recycled descriptor with another file's bytes.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.number)


class _Cached:
    """Shared state of reads from the page cache: buffers, and the file systems without support."""

    def __init__(self) -> None:
        self.buffers = PageBuffers()
        self.pages = PageCache()
        self._unable: set[int] = set()  # device numbers

    def can(self, number: int) -> bool:
        """Whether the file system may support RWF_NOWAIT."""
        return not self._unable or os.fstat(number).st_dev not in self._unable

    def cannot(self, number: int) -> None:
        self._unable.add(os.fstat(number).st_dev)


class OsFile:
    """One open file of the operating system."""

    __slots__ = ("_cached", "_descriptor", "path")

    def __init__(self, path: str, number: int, cached: _Cached | None = None) -> None:
        self.path = path
        self._descriptor: _Descriptor | None = _Descriptor(number)
        self._cached = cached or _Cached()

    def _held(self) -> _Descriptor:
        held = self._descriptor
        if held is None:
            raise FileGoneError(f"{self.path} is closed")
        return held

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        held = self._descriptor or self._held()
        wanted = sum(map(len, buffers))
        try:
            first = buffers if len(buffers) <= _MAX_BUFFERS else buffers[:_MAX_BUFFERS]
            done = os.pwritev(held.number, first, position)
            if done != wanted:
                _finish_write(held.number, position, buffers, done)
        except OSError as error:
            _fail("write", self.path, error)
        return wanted

    def pread(self, position: int, size: int) -> bytes:
        held = self._held()
        try:
            data = os.pread(held.number, size, position)
            if len(data) < size:
                data = _finish_read(held.number, position, size, data)
        except OSError as error:
            if error.errno == errno.ENOMEM:  # not a disk failure
                raise MemoryError(f"no memory to read {size} bytes of {self.path}") from error
            _fail("read", self.path, error)
        return data

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        held, cached = self._held(), self._cached
        if not cached.can(held.number):
            return None
        try:
            view = cached.buffers.take(size)
            got = os.preadv(held.number, [view], position, os.RWF_NOWAIT)
        except MemoryError:
            return None
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                return None
            if error.errno in _NO_NOWAIT:
                cached.cannot(held.number)
                return None
            _fail("read", self.path, error)
        return view.toreadonly() if got == size else None

    def lend(self, position: int, size: int) -> Lent | None:
        held = self._held()
        if not self._cached.pages.has(held.number, position, size):
            return None
        # pages that are being read ahead count as cached; the last page arrives last
        if self.pread_cached(position + size - 1, 1) is None:
            return None
        return _LentBytes(held, self._cached.pages, position, size)

    def will_need(self, position: int, size: int) -> None:
        self._advise(position, size, os.POSIX_FADV_WILLNEED)

    def drop_cached(self, position: int, size: int) -> None:
        self._advise(position, size, os.POSIX_FADV_DONTNEED)

    def _advise(self, position: int, size: int, advice: int) -> None:
        held = self._descriptor
        if held is not None and size > 0:
            with contextlib.suppress(OSError):  # advice: some file systems refuse it
                os.posix_fadvise(held.number, position, size, advice)

    def size(self) -> int:
        with _naming("stat", self.path):
            return os.fstat(self._held().number).st_size

    def truncate(self, size: int) -> None:
        with _naming("truncate", self.path):
            number = self._held().number
            # Otherwise ext4 (auto_da_alloc) writes a new file that was truncated to 0 to the disk when it is
            # closed.
            if os.fstat(number).st_size != size:
                os.ftruncate(number, size)

    def allocate(self, size: int) -> None:
        with _naming("allocate", self.path):
            os.posix_fallocate(self._held().number, 0, size)

    def fdatasync(self) -> None:
        with _naming("fdatasync", self.path):
            os.fdatasync(self._held().number)

    def close(self) -> None:
        """Running reads on other threads finish first."""
        self._descriptor = None


class _LentBytes:
    """A byte range for sendfile; implements file_layer.Lent."""

    __slots__ = ("_descriptor", "_pages", "_position", "_size", "_tries")

    def __init__(self, descriptor: _Descriptor, pages: PageCache, position: int, size: int) -> None:
        self._descriptor, self._pages = descriptor, pages
        self._position, self._size = position, size
        self._tries = _TRIES

    def __len__(self) -> int:
        return self._size

    def send(self, descriptor: int, start: int) -> int:
        number, position = self._descriptor.number, self._position + start
        size = self._cached_bytes(number, start, _SENT_AT_ONCE_BYTES)
        if not size:
            return 0
        try:
            return os.sendfile(descriptor, number, position, size)
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
        # the file system has no sendfile
        return os.write(descriptor, os.pread(number, min(size, _READ_INSTEAD_BYTES), position))

    def read_into(self, room: Buffer, start: int) -> int:
        number = self._descriptor.number
        size = self._cached_bytes(number, start, len(room))
        return os.preadv(number, [memoryview(room)[:size]], self._position + start) if size else 0

    def _cached_bytes(self, number: int, start: int, most_bytes: int) -> int:
        """How many bytes from `start` on are to be read now; 0 at the end of the file."""
        position = self._position + start
        size = min(self._size - start, most_bytes, os.fstat(number).st_size - position)
        if size <= 0:
            return 0
        if self._tries and not self._pages.has(number, position, size):
            self._tries -= 1
            with contextlib.suppress(OSError):  # advice: some file systems refuse it
                os.posix_fadvise(number, position, size, os.POSIX_FADV_WILLNEED)
            raise NotCachedError
        return size


class UnsyncedFile(OsFile):
    """An open file that is not needed after this process."""

    __slots__ = ()

    def fdatasync(self) -> None:
        """Does nothing: the bytes are in the page cache."""
        self._held()


class OsFileLock:
    """An flock on an open descriptor; the kernel releases it when the process dies."""

    def __init__(self, number: int) -> None:
        self._number = number

    def release(self) -> None:
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


class OsFiles:
    """The file system of this machine. `pread_cached` of its files belongs to one thread."""

    _file_class = OsFile

    def __init__(self) -> None:
        self._cached = _Cached()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            with _naming("open", path):
                return self._file_class(path, os.open(path, flags, _FILE_MODE), self._cached)
        except FileGoneError as error:
            if create:
                raise KafkaStorageError(f"the folder is missing: {error}") from error
            raise

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def size(self, path: str) -> int:
        with _naming("stat", path):
            return os.stat(path).st_size

    def listdir(self, directory: str) -> list[str]:
        with _naming("list", directory):
            return sorted(os.listdir(directory))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def mkdir(self, path: str) -> None:
        with _naming("mkdir", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with _naming("rename", source):
            os.rename(source, target)

    def remove(self, path: str) -> None:
        with _naming("remove", path):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        with _naming("rmdir", path):
            os.rmdir(path)

    def fsync_directory(self, directory: str) -> None:
        with _naming("fsync", directory):
            number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def space(self, directory: str) -> Space:
        with _naming("statvfs", directory):
            found = os.statvfs(directory)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: str) -> OsFileLock | None:
        """An exclusive flock on the file; None if another descriptor has it."""
        with _naming("lock", path):
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(number)
                return None
            except OSError:
                os.close(number)
                raise
        return OsFileLock(number)


class UnsyncedFiles(OsFiles):
    """For files that are not needed after this process: nothing is synced. On ext4 with `discard`, removing a
    file takes a millisecond if its blocks are on disk, and no time if they never were."""

    _file_class = UnsyncedFile

    def fsync_directory(self, directory: str) -> None:
        """Does nothing."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit; the new limit.

    Each segment and each connection needs a descriptor, and the usual soft limit of 1024 is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # the limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else UNLIMITED


def _finish_write(number: int, position: int, buffers: Sequence[Buffer], done: int) -> None:
    """Continue after a short write, as after a signal or with more than IOV_MAX buffers; no progress is
    ENOSPC."""
    rest = [memoryview(buffer).cast("B") for buffer in buffers]
    position += done
    while rest:
        while rest and done >= len(rest[0]):
            done -= len(rest.pop(0))
        if not rest:
            return
        rest[0] = rest[0][done:]
        done = os.pwritev(number, rest[:_MAX_BUFFERS], position)
        if done == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        position += done


def _finish_read(number: int, position: int, size: int, data: bytes) -> bytes:
    """Continue after a short read; an empty read is the end of the file."""
    parts = [data]
    got = len(data)
    while data and got < size:
        data = os.pread(number, size - got, position + got)
        parts.append(data)
        got += len(data)
    return b"".join(parts)


@contextlib.contextmanager
def _naming(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _fail(operation, path, error)


def _fail(operation: str, path: str, error: OSError) -> NoReturn:
    name = errno.errorcode.get(error.errno or 0, "?")
    cls = _CLASSES.get(error.errno or 0, KafkaStorageError)
    raise cls(f"{operation} {path}: {error.strerror or error} ({name})") from error
