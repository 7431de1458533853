"""The real file layer: POSIX files by descriptor, positional reads and writes, flock.

Every OSError becomes a KafkaStorageError here; nothing above this module knows about errno.
Source: DESIGN 5; files.py for the contract.
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
# What preadv2 says where it cannot tell what is cached: an old kernel, a file system without it.
_NO_NOWAIT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Bound: of one sendfile, so that one reader with a large socket buffer does not hold up the loop.
_SENT_AT_ONCE_BYTES = 1024 * 1024
_READ_INSTEAD_BYTES = 64 * 1024
_TRIES = 5  # to bring back what has left the page cache before it was sent
UNLIMITED = 1 << 30
# What does not say that the disk is bad; everything else takes it offline.
_CLASSES: dict[int, type[KafkaStorageError]] = {
    errno.ENOENT: FileGoneError,
    errno.ENAMETOOLONG: NameTooLongError,
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    errno.EFBIG: DiskFullError,  # the file system's or the process's bound of a file
}


class _Descriptor:
    """A file descriptor that closes when the last user lets go of it.

    A reader on a worker thread holds a reference for the length of its call, so closing a log while it is
    being read can neither fail that read nor hand it a recycled descriptor with another file's bytes.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.number)


class _Cached:
    """What reads from the page cache share: memory to read into, and the file systems that cannot do it."""

    def __init__(self) -> None:
        self.buffers = PageBuffers()
        self.pages = PageCache()
        self._unable: set[int] = set()  # device numbers

    def can(self, number: int) -> bool:
        """Whether the file's file system is not known to refuse RWF_NOWAIT."""
        return not self._unable or os.fstat(number).st_dev not in self._unable

    def cannot(self, number: int) -> None:
        """Remember that it refuses."""
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
        """Write all of `buffers` from `position` on. See files.File."""
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
        """Up to `size` bytes from `position` on. See files.File."""
        held = self._held()
        try:
            data = os.pread(held.number, size, position)
            if len(data) < size:
                data = _finish_read(held.number, position, size, data)
        except OSError as error:
            if error.errno == errno.ENOMEM:  # says nothing about the disk
                raise MemoryError(f"no memory to read {size} bytes of {self.path}") from error
            _fail("read", self.path, error)
        return data

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        """The bytes if they are in the page cache. See files.File."""
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
        """The bytes where they lie. See files.File."""
        held = self._held()
        if not self._cached.pages.has(held.number, position, size):
            return None
        # pages that are just being read ahead count as cached, and the last of them comes last
        if self.pread_cached(position + size - 1, 1) is None:
            return None
        return _LentBytes(held, self._cached.pages, position, size)

    def will_need(self, position: int, size: int) -> None:
        """Start reading ahead. See files.File."""
        self._advise(position, size, os.POSIX_FADV_WILLNEED)

    def drop_cached(self, position: int, size: int) -> None:
        """Drop clean pages. See files.File."""
        self._advise(position, size, os.POSIX_FADV_DONTNEED)

    def _advise(self, position: int, size: int, advice: int) -> None:
        held = self._descriptor
        if held is not None and size > 0:
            with contextlib.suppress(OSError):  # a hint: some file systems take none
                os.posix_fadvise(held.number, position, size, advice)

    def size(self) -> int:
        """Bytes in the file now."""
        with _naming("stat", self.path):
            return os.fstat(self._held().number).st_size

    def truncate(self, size: int) -> None:
        """Cut, or fill with zeros, to exactly `size` bytes."""
        with _naming("truncate", self.path):
            number = self._held().number
            # Else a new file, cut to nothing, is written to the disk when it is closed (ext4: auto_da_alloc).
            if os.fstat(number).st_size != size:
                os.ftruncate(number, size)

    def allocate(self, size: int) -> None:
        """Reserve disk space and set the size; never shrinks."""
        with _naming("allocate", self.path):
            os.posix_fallocate(self._held().number, 0, size)

    def fdatasync(self) -> None:
        """Return once the bytes and the size are on the disk."""
        with _naming("fdatasync", self.path):
            os.fdatasync(self._held().number)

    def close(self) -> None:
        """Let go of the descriptor; reads under way on other threads finish first."""
        self._descriptor = None


class _LentBytes:
    """Bytes of an open file, by sendfile; fulfils files.Lent."""

    __slots__ = ("_descriptor", "_pages", "_position", "_size", "_tries")

    def __init__(self, descriptor: _Descriptor, pages: PageCache, position: int, size: int) -> None:
        self._descriptor, self._pages = descriptor, pages
        self._position, self._size = position, size
        self._tries = _TRIES

    def __len__(self) -> int:
        return self._size

    def send(self, descriptor: int, start: int) -> int:
        """See files.Lent."""
        number, position = self._descriptor.number, self._position + start
        size = min(self._size - start, _SENT_AT_ONCE_BYTES, os.fstat(number).st_size - position)
        if size <= 0:
            return 0
        if self._tries and not self._pages.has(number, position, size):
            self._tries -= 1
            with contextlib.suppress(OSError):  # a hint: some file systems take none
                os.posix_fadvise(number, position, size, os.POSIX_FADV_WILLNEED)
            raise NotCachedError
        try:
            return os.sendfile(descriptor, number, position, size)
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
        # the file system has no sendfile
        return os.write(descriptor, os.pread(number, min(size, _READ_INSTEAD_BYTES), position))


class UnsyncedFile(OsFile):
    """An open file that nobody will look for after this process."""

    __slots__ = ()

    def fdatasync(self) -> None:
        """Return at once: the kernel has what was written, and that is enough."""
        self._held()


class OsFileLock:
    """An flock on an open descriptor; the kernel releases it when the process dies."""

    def __init__(self, number: int) -> None:
        self._number = number

    def release(self) -> None:
        """Release the lock by closing its descriptor."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


class OsFiles:
    """The file system of this machine. `pread_cached` of its files belongs to one thread."""

    _file_class = OsFile

    def __init__(self) -> None:
        self._cached = _Cached()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Open for reading and writing. See files.Files."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            with _naming("open", path):
                return self._file_class(path, os.open(path, flags, _FILE_MODE), self._cached)
        except FileGoneError as error:
            if create:
                raise KafkaStorageError(f"its folder is gone: {error}") from error
            raise

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""
        return os.path.lexists(path)

    def size(self, path: str) -> int:
        """Bytes of the file."""
        with _naming("stat", path):
            return os.stat(path).st_size

    def listdir(self, directory: str) -> list[str]:
        """Names in the folder, sorted."""
        with _naming("list", directory):
            return sorted(os.listdir(directory))

    def is_directory(self, path: str) -> bool:
        """Whether a folder has this name."""
        return os.path.isdir(path)

    def mkdir(self, path: str) -> None:
        """Make the folder and the missing ones above it."""
        with _naming("mkdir", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Atomically give `source` the name `target`."""
        with _naming("rename", source):
            os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove the file."""
        with _naming("remove", path):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove the empty folder."""
        with _naming("rmdir", path):
            os.rmdir(path)

    def fsync_directory(self, directory: str) -> None:
        """Return once the names in the folder are on the disk."""
        with _naming("fsync", directory):
            number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def space(self, directory: str) -> Space:
        """How large the file system of the folder is, and what is left of it."""
        with _naming("statvfs", directory):
            found = os.statvfs(directory)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: str) -> OsFileLock | None:
        """An exclusive flock on the file; None if another open of it holds one."""
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
    """For files that go with this process: nothing is brought to the disk. Where blocks are discarded as they
    become free (ext4 with `discard`), to remove a file that is there takes a millisecond, and to remove one
    that never got there nothing."""

    _file_class = UnsyncedFile

    def fsync_directory(self, directory: str) -> None:
        """Return at once."""


def raise_descriptor_limit() -> int:
    """Allow this process as many open files as the system lets it have; how many those are.

    Each segment and each connection needs one, and the usual soft limit of 1024 is soon used up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # it stays what it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else UNLIMITED


def _finish_write(number: int, position: int, buffers: Sequence[Buffer], done: int) -> None:
    """Go on after a short write, as after a signal or more than IOV_MAX buffers; zero progress is ENOSPC."""
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
    """Go on after a short read; a read of nothing is the end of the file."""
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
