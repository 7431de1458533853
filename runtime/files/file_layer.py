"""The file layer: the only way in which a log touches a disk. Tests replace it to crash, tear and fill.

Contract of every implementation, checked by tests/contract/test_files.py over the real and the fake one:
an operation either does all of its work or raises KafkaStorageError naming the operation, the path and
the errno (FileGoneError when nothing but the name is missing, DiskFullError when there is no room). Bytes
survive the death of the process once `pwrite` returned, and the loss of power once `fdatasync` returned; a
new, renamed or removed name survives the loss of power once `fsync_directory` of its folder returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.header import Buffer


# Bound: of a file that is read at once. The largest honest ones are a metadata snapshot (about 50 MB) and the
# checkpoint of 100,000 partitions with the longest names (about 30 MB).
MAX_SMALL_FILE_BYTES = 512 * 1024 * 1024


class NameTooLongError(KafkaStorageError):
    """The file system has no names that long (some have half of what others have); the disk is fine."""


class FileGoneError(KafkaStorageError):
    """The file is missing or was closed, as happens to a reader of a deleted log; the disk is fine."""


class DiskFullError(KafkaStorageError):
    """There is no room for what was to be written: no space, a quota, or the largest size of a file is
    reached. The disk is fine, and what it has stays; of a failed write any part may be in the file."""


class NotCachedError(Exception):
    """What is wanted is not in memory: only a thread that may wait for the disk can read it."""


class Space(NamedTuple):
    """Of the file system that a folder lies in, in bytes; `usable` is what this process may still write."""

    total: int
    usable: int


class Lent(Protocol):
    """Bytes of a file where they lie; as many as its length says. The file stays open while it is held."""

    def __len__(self) -> int: ...

    def send(self, descriptor: int, start: int) -> int:
        """Give a socket or pipe as much as it takes now of the bytes from `start` on; 0 where the file ends.
        Errors: OSError of either side, BlockingIOError if nothing is taken; NotCachedError if the bytes have
        left the page cache meanwhile: they are being brought back, unless that was tried before."""


class File(Protocol):
    """An open file. Reads may come from any thread; writes come from the log's owner alone."""

    path: str

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write `buffers` one after the other from `position` on; the number of bytes written, always all.

        After an error any part of the bytes may be in the file.
        """

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position` on; fewer only where the file ends."""

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        """The `size` bytes from `position` on without waiting for a disk; None if that cannot be had.

        None also where the file ends before, and where the file system cannot say what is cached. The bytes
        never change, but the memory is used again once nobody holds them. The loop's thread only.
        """

    def lend(self, position: int, size: int) -> Lent | None:
        """The `size` bytes from `position` on, to be sent without being read; None where `pread_cached` gives
        none, and where nobody can say. The loop's thread only."""

    def will_need(self, position: int, size: int) -> None:
        """Begin to bring these bytes into the page cache: a hint; nobody waits for it, and it never fails."""

    def drop_cached(self, position: int, size: int) -> None:
        """Let go of the cached pages of these bytes that are on the disk; a hint as `will_need`."""

    def size(self) -> int:
        """Bytes in the file now."""

    def truncate(self, size: int) -> None:
        """Cut, or fill with zeros, to exactly `size` bytes."""

    def allocate(self, size: int) -> None:
        """Reserve disk space and set the size, filling with zeros; never shrinks."""

    def fdatasync(self) -> None:
        """Return once the bytes and the size are on the disk."""

    def close(self) -> None:
        """Let go of the file; a read under way on another thread ends normally. Closing twice is fine."""


class FileLock(Protocol):
    """A lock held on a file until it is released or the process ends."""

    def release(self) -> None:
        """Let go of the lock. Releasing twice is fine."""


class Files(Protocol):
    """A file system. Paths use '/'."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Errors: FileGoneError if it is missing and not `create`; what cannot
        be made because its folder is gone says that the disk is not what it was."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""

    def size(self, path: str) -> int:
        """Bytes of the file."""

    def listdir(self, directory: str) -> list[str]:
        """Names in the folder, sorted."""

    def is_directory(self, path: str) -> bool:
        """Whether a folder has this name."""

    def mkdir(self, path: str) -> None:
        """Make the folder and the missing ones above it; fine when it is there."""

    def rename(self, source: str, target: str) -> None:
        """Atomically give `source` the name `target`, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove the file."""

    def rmdir(self, path: str) -> None:
        """Remove the empty folder."""

    def fsync_directory(self, directory: str) -> None:
        """Return once the names in the folder are on the disk."""

    def space(self, directory: str) -> Space:
        """How large the file system of the folder is, and what is left of it."""

    def lock(self, path: str) -> FileLock | None:
        """An exclusive lock on the file, made if missing; None if another owner holds it."""


def read_file(files: Files, path: str) -> bytes:
    """The whole content of a small file. Errors: KafkaStorageError, also if it is far too large to be one."""
    file = files.open(path)
    try:
        size = file.size()
        if size > MAX_SMALL_FILE_BYTES:
            raise KafkaStorageError(f"{path} has {size} bytes, at most {MAX_SMALL_FILE_BYTES} make sense")
        return file.pread(0, size)
    finally:
        file.close()


def sync_files(files: Files, paths: Iterable[str]) -> None:
    """Bring the bytes of files to the disk. Errors: KafkaStorageError."""
    for path in paths:
        file = files.open(path)
        try:
            file.fdatasync()
        finally:
            file.close()


def write_file_atomically(files: Files, directory: str, name: str, content: bytes) -> None:
    """Replace `directory/name`, so that after any crash it holds the old bytes or the new, never a mix.

    Order: bytes to the disk, then the rename, then the folder; a rename before the bytes is how a power
    loss leaves an empty checkpoint behind (KAFKA-16541).
    """
    temporary = f"{directory}/{name}.tmp"
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite(0, [content])
        file.fdatasync()
    finally:
        file.close()
    files.rename(temporary, f"{directory}/{name}")
    files.fsync_directory(directory)


def make_directory_durably(files: Files, directory: str) -> None:
    """Make the folder and the missing ones above it, so that their names survive the loss of power.

    The last name is brought to the disk even if it was there: whoever made it may have died before that.
    """
    above = directory.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")
    if above != directory and not files.exists(above):
        make_directory_durably(files, above)
    files.mkdir(directory)
    files.fsync_directory(above)


def remove_tree(files: Files, directory: str) -> None:
    """Remove the folder and all in it. Its own name goes last, so a crash leaves a rest to finish."""
    for name in files.listdir(directory):
        path = f"{directory}/{name}"
        if files.is_directory(path):
            remove_tree(files, path)
        else:
            files.remove(path)
    files.rmdir(directory)
