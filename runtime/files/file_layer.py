"""The file layer: the interface through which a log uses a disk. Tests replace it by FakeFiles.

Contract of every implementation, checked by tests/contract/test_files.py over the real and the fake one:
an operation either succeeds as a whole or raises KafkaStorageError with the operation, the path and the errno
(FileGoneError for a missing file, DiskFullError without room). Bytes survive the death of the process once
`pwrite` has returned, and the loss of power once `fdatasync` has returned; a new, renamed or removed name
survives the loss of power once `fsync_directory` of its folder has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.header import Buffer


# Bound: of a file that is read at once. The largest valid files are a metadata snapshot (about 50 MB) and the
# checkpoint of 100,000 partitions with the longest names (about 30 MB).
MAX_SMALL_FILE_BYTES = 512 * 1024 * 1024


class NameTooLongError(KafkaStorageError):
    """The file system does not accept such a long name (limits differ); the disk has not failed."""


class FileGoneError(KafkaStorageError):
    """The file is missing or was closed, as for a reader of a deleted log; the disk has not failed."""


class DiskFullError(KafkaStorageError):
    """No space, a quota, or the maximum file size is reached. The disk has not failed, and stored bytes are
    safe; any part of the failed write may be in the file."""


class NotCachedError(Exception):
    """The bytes are not in the page cache: only a thread that may wait for the disk can read them."""


class Space(NamedTuple):
    """Bytes of the file system of a folder; `usable` by this process."""

    total: int
    usable: int


class Lent(Protocol):
    """A byte range of a file that can be sent without reading it. The file stays open while it is held."""

    def __len__(self) -> int: ...

    def send(self, descriptor: int, start: int) -> int:
        """Send as many bytes from `start` on as the socket or pipe takes; 0 at the end of the file. Errors:
        OSError of either side, BlockingIOError if none is taken; NotCachedError if the bytes have left the
        page cache: the kernel was advised to read them, up to a number of times."""

    def read_into(self, room: Buffer, start: int) -> int:
        """Read bytes from `start` on into `room`, as many as there are; 0 at the end of the file. Errors: as
        `send`."""


class File(Protocol):
    """An open file. Any thread may read; only the log's owner writes."""

    path: str

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write the concatenation of `buffers` at `position`; its size.

        After an error any part of the bytes may be in the file.
        """

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position` on; fewer only at the end of the file."""

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        """The `size` bytes from `position` on without waiting for the disk; None if they are not cached.

        None also past the end of the file, and if the file system does not support it. The memory is reused
        when the buffer is released. Event loop's thread only.
        """

    def lend(self, position: int, size: int) -> Lent | None:
        """The `size` bytes from `position` on, to be sent without reading them; None if they are not cached,
        or that is unknown. Event loop's thread only."""

    def will_need(self, position: int, size: int) -> None:
        """Advise the kernel to read these bytes into the page cache; does not wait, and never fails."""

    def drop_cached(self, position: int, size: int) -> None:
        """Advise the kernel to drop the clean cached pages of these bytes; as `will_need`."""

    def size(self) -> int:
        """Bytes in the file now."""

    def truncate(self, size: int) -> None:
        """Truncate, or extend with zeros, to `size` bytes."""

    def allocate(self, size: int) -> None:
        """Allocate disk space and extend with zeros to `size` bytes; never shrinks."""

    def fdatasync(self) -> None:
        """Return when the bytes and the size are on disk."""

    def close(self) -> None:
        """Idempotent; a running read on another thread finishes normally."""


class FileLock(Protocol):
    """A lock held on a file until it is released or the process ends."""

    def release(self) -> None:
        """Idempotent."""


class Files(Protocol):
    """A file system. Paths use '/'."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Errors: FileGoneError if it is missing, without `create`; a missing
        folder is a disk failure."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""

    def size(self, path: str) -> int:
        """Bytes of the file."""

    def listdir(self, directory: str) -> list[str]:
        """Names in the folder, sorted."""

    def is_directory(self, path: str) -> bool:
        """Whether a folder has this name."""

    def mkdir(self, path: str) -> None:
        """Create the folder and its missing parents; no error if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file `target`."""

    def remove(self, path: str) -> None:
        """Delete the file; its open descriptors stay valid."""

    def rmdir(self, path: str) -> None:
        """Remove the empty folder."""

    def fsync_directory(self, directory: str) -> None:
        """Return when the names in the folder are on disk."""

    def space(self, directory: str) -> Space:
        """How large the file system of the folder is, and what is left of it."""

    def lock(self, path: str) -> FileLock | None:
        """An exclusive lock on the file, which is created if missing; None if another owner has it."""


def read_file(files: Files, path: str) -> bytes:
    """The content of a small file. Errors: KafkaStorageError, also for a file above MAX_SMALL_FILE_BYTES."""
    file = files.open(path)
    try:
        size = file.size()
        if size > MAX_SMALL_FILE_BYTES:
            raise KafkaStorageError(f"{path} has {size} bytes, the limit is {MAX_SMALL_FILE_BYTES}")
        return file.pread(0, size)
    finally:
        file.close()


def sync_files(files: Files, paths: Iterable[str]) -> None:
    """fdatasync files. Errors: KafkaStorageError."""
    for path in paths:
        file = files.open(path)
        try:
            file.fdatasync()
        finally:
            file.close()


def write_file_atomically(files: Files, directory: str, name: str, content: bytes) -> None:
    """Replace `directory/name`; after any crash the file has the old or the new bytes. Durable on return.

    Order: sync the bytes, rename, sync the folder; with a rename before the sync, a power loss can leave an
    empty checkpoint (KAFKA-16541).
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
    """Create the folder and its missing parents; durable on return.

    The last name is synced even if it exists: the process that created it may have died before the sync.
    """
    above = directory.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")
    if above != directory and not files.exists(above):
        make_directory_durably(files, above)
    files.mkdir(directory)
    files.fsync_directory(above)


def remove_tree(files: Files, directory: str) -> None:
    """Remove the folder with its content, the folder itself last, so that a crash leaves a folder to be
    removed."""
    for name in files.listdir(directory):
        path = f"{directory}/{name}"
        if files.is_directory(path):
            remove_tree(files, path)
        else:
            files.remove(path)
    files.rmdir(directory)
