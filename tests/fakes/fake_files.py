"""A file system in memory with crashes, power losses, full disks, IO errors and bit flips at any operation.

Model. Written bytes are in the page cache: they survive the end of the process (`restart`), and a power loss
(`power_loss`) only where they were synced. `fdatasync` syncs a file's bytes, `fsync_directory` the names in a
folder. Of the unsynced changes, none survive, or all, or with a seed random sectors of the writes and a
random prefix of a folder's changes, as on real disks. Pages that are read or written stay in the page cache
until `evict` or `drop_cached`; dirty pages always stay.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.records.header import Buffer
from headrace.runtime.files.file_layer import (
    DiskFullError,
    FileGoneError,
    NameTooLongError,
    NotCachedError,
    Space,
)

SECTOR_BYTES = 64  # small, so that torn pages appear in small tests
PAGE_BYTES = 64  # of the page cache


class Crash(BaseException):
    """The process was killed in this operation; no later operation reaches the disk."""


@dataclass(eq=False)
class _Inode:
    """A file: its current bytes, its bytes on the disk, and the unsynced operations."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[str, int, bytes]] = field(
        default_factory=list
    )  # (write | truncate, position or size)
    cold: set[int] = field(default_factory=set)  # numbers of the pages that are not cached

    def copied(self, _copies: _Copies) -> _Inode:
        return _Inode(self.data[:], self.durable, self.pending[:], set(self.cold))

    def is_cached(self, position: int, size: int) -> bool:
        return self.cold.isdisjoint(_pages(position, size)) and position + size <= len(self.data)

    def warm(self, position: int, size: int) -> None:
        if self.cold:
            pages = _pages(position, size)
            if len(pages) < len(self.cold):
                self.cold.difference_update(pages)
            else:
                self.cold = {page for page in self.cold if page not in pages}

    def cool(self, position: int, size: int) -> None:
        """Evict whole and clean pages."""
        dirty = [page for kind, at, data in self.pending for page in _pages(at, len(data)) if kind == "write"]
        first, last = -(-position // PAGE_BYTES), (position + size) // PAGE_BYTES
        if position + size >= len(self.data):
            last = -(-len(self.data) // PAGE_BYTES)
        self.cold |= set(range(first, last)).difference(dirty)

    def write(self, position: int, data: bytes) -> None:
        self.warm(position, len(data))
        _patch(self.data, position, data)
        self.pending.append(("write", position, data))

    def truncate(self, size: int) -> None:
        _resize(self.data, size)
        self.pending.append(("truncate", size, b""))

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.pending.clear()

    def survive(self, choice: _Choice) -> None:
        """Keep the bytes that survive a power loss."""
        left = bytearray(self.durable)
        for kind, at, data in self.pending:
            if kind == "truncate":
                if choice.keeps():
                    _resize(left, at)
                continue
            for start in range(0, len(data), SECTOR_BYTES):
                if choice.keeps():
                    _patch(left, at + start, data[start : start + SECTOR_BYTES])
        self.data = left
        self.sync()


@dataclass(eq=False)
class _Folder:
    """A folder: current names, names on the disk, and the changes since the last sync."""

    names: dict[str, _Inode | _Folder] = field(default_factory=dict)
    durable: dict[str, _Inode | _Folder] = field(default_factory=dict)
    pending: list[tuple[str | None, str | None, _Inode | _Folder | None]] = field(default_factory=list)

    def copied(self, copies: _Copies) -> _Folder:
        """A copy of the folders, in which an inode with several names stays one inode."""

        def of(node: _Inode | _Folder) -> _Inode | _Folder:
            copy = copies.get(node)
            if copy is None:
                copy = copies[node] = node.copied(copies)
            return copy

        return _Folder(
            {name: of(node) for name, node in self.names.items()},
            {name: of(node) for name, node in self.durable.items()},
            [(gone, come, node and of(node)) for gone, come, node in self.pending],
        )

    def change(self, gone: str | None, come: str | None, node: _Inode | _Folder | None) -> None:
        """Atomically remove one name and set another."""
        _apply(self.names, gone, come, node)
        self.pending.append((gone, come, node))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def survive(self, choice: _Choice) -> None:
        left = dict(self.durable)
        for change in self.pending:
            if not choice.keeps():
                break  # a journal loses a suffix of the changes
            _apply(left, *change)
        self.names = left
        self.sync()
        for node in left.values():
            node.survive(choice)


class _Choice:
    def __init__(self, mode: str | int) -> None:
        self._fixed = {"none": False, "all": True}.get(mode) if isinstance(mode, str) else None
        self._random = random.Random(mode)

    def keeps(self) -> bool:
        return self._fixed if self._fixed is not None else self._random.random() < 0.5


class FakeLent:
    """A range of a file, read when it is sent."""

    def __init__(self, inode: _Inode, position: int, size: int) -> None:
        self._inode, self._position, self._size = inode, position, size

    def __len__(self) -> int:
        return self._size

    def send(self, descriptor: int, start: int) -> int:
        return os.write(descriptor, self._bytes(start))

    def read_into(self, room: Buffer, start: int) -> int:
        data = self._bytes(start)[: len(room)]
        memoryview(room)[: len(data)] = data
        return len(data)

    def _bytes(self, start: int) -> bytes:
        end = self._position + self._size
        if self._inode.data[self._position + start : end] and not self._inode.is_cached(
            self._position + start, min(end, len(self._inode.data)) - self._position - start
        ):
            self._inode.warm(self._position + start, self._size - start)
            raise NotCachedError
        return bytes(self._inode.data[self._position + start : end])


class FakeFile:
    """An open file of FakeFiles."""

    def __init__(self, files: FakeFiles, path: str, inode: _Inode) -> None:
        self.path = path
        self._files = files
        self._inode: _Inode | None = inode

    def _held(self) -> _Inode:
        if self._inode is None:
            raise FileGoneError(f"{self.path} is closed")
        return self._inode

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> int:
        inode = self._held()
        data = b"".join(buffers)
        torn = self._files._begin("pwrite", self.path, len(data))
        room = self._files._room(max(position + len(data) - len(inode.data), 0))
        if room is not None:
            inode.write(position, data[: max(len(inode.data) + room - position, 0)])
            _fail("write", self.path, errno.ENOSPC)
        if torn is not None:
            if torn:
                inode.write(position, data[:torn])
            raise Crash(f"in pwrite {self.path} after {torn} of {len(data)} bytes")
        if data:
            inode.write(position, data)
        return len(data)

    def pread(self, position: int, size: int) -> bytes:
        inode = self._held()
        self._files._read_fault("pread", self.path)
        inode.warm(position, size)
        return bytes(inode.data[position : position + size])

    def pread_cached(self, position: int, size: int) -> Buffer | None:
        inode = self._held()
        self._files._read_fault("pread", self.path)
        if not self._files.tells_what_is_cached or not inode.is_cached(position, size):
            return None
        return bytes(inode.data[position : position + size])

    def lend(self, position: int, size: int) -> FakeLent | None:
        inode = self._held()
        if self.pread_cached(position, size) is None:
            return None
        return FakeLent(inode, position, size)

    def will_need(self, position: int, size: int) -> None:
        if self._inode is not None:
            self._files.advice.append(("will_need", self.path, position, size))
            self._inode.warm(position, size)

    def drop_cached(self, position: int, size: int) -> None:
        if self._inode is not None:
            self._files.advice.append(("drop_cached", self.path, position, size))
            self._inode.cool(position, size)

    def size(self) -> int:
        self._files._read_fault("size", self.path)
        return len(self._held().data)

    def truncate(self, size: int) -> None:
        inode = self._held()
        self._files._begin("truncate", self.path)
        if size != len(inode.data):
            inode.truncate(size)

    def allocate(self, size: int) -> None:
        inode = self._held()
        self._files._begin("allocate", self.path)
        if self._files._room(max(size - len(inode.data), 0)) is not None:
            _fail("allocate", self.path, errno.ENOSPC)
        if size > len(inode.data):
            inode.truncate(size)

    def fdatasync(self) -> None:
        inode = self._held()
        self._files._begin("fdatasync", self.path)
        inode.sync()

    def close(self) -> None:
        self._inode = None


class FakeLock:
    """A lock of FakeFiles."""

    def __init__(self, files: FakeFiles, path: str) -> None:
        self._files, self._path = files, path

    def release(self) -> None:
        self._files._locks.discard(self._path)


class FakeFiles:
    """The file system. `operations` lists all requested changes; tests plan faults before the code runs."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.operations: list[str] = []
        self.crash_at: int | None = None  # number of the operation, from 0, in which the process is killed
        self.error_at: tuple[int, int] | None = None  # the operation with this number fails, with this errno
        self.tear_bytes = 0  # if that is a write, at most this many of its bytes are written
        self.capacity_bytes = capacity_bytes
        self.is_dead = False
        self.tells_what_is_cached = True
        self.advice: list[tuple[str, str, int, int]] = []  # kind, path, position, size
        self._root = _Folder()
        self._locks: set[str] = set()
        self._faults: list[tuple[str, str, int, int]] = []  # operation, part of the path, errno, after
        self._counts: dict[int, int] = {}

    @property
    def is_sound(self) -> bool:
        """Whether there is no pending fault and no size limit."""
        return self.crash_at is None and not self._faults and self.capacity_bytes is None

    # --- faults ----------------------------------------------------------------------------------------

    def fail(self, operation: str, part: str = "", error: int = errno.EIO, after: int = 0) -> None:
        """Fail one operation on a path with `part` in it, after `after` successful ones."""
        self._faults.append((operation, part, error, after))

    def clear_faults(self) -> None:
        """Drop all planned faults."""
        self._faults.clear()
        self._counts.clear()

    def flip_bit(self, path: str, byte: int, bit: int) -> None:
        """Flip one bit of a stored file."""
        inode = self._file(path)
        inode.data[byte] ^= 1 << bit
        inode.sync()

    def evict(self, part: str = "") -> None:
        """Evict all clean pages of files with `part` in their path."""
        for path, inode in _all_files(self._root, ""):
            if part in path:
                inode.cool(0, len(inode.data))

    def cached_bytes(self, path: str) -> int:
        """Bytes of the file that are in the page cache, by whole pages."""
        inode = self._file(path)
        return sum(
            min(PAGE_BYTES, len(inode.data) - page * PAGE_BYTES)
            for page in _pages(0, len(inode.data))
            if page not in inode.cold
        )

    def content(self, path: str) -> bytes:
        """The bytes of a file."""
        return bytes(self._file(path).data)

    def put(self, path: str, content: bytes) -> None:
        """Create a file with this content, synced."""
        folder, name = self._parent(path)
        node = folder.names.get(name)
        inode = node if isinstance(node, _Inode) else _Inode()
        inode.data = bytearray(content)
        inode.sync()
        folder.names[name] = folder.durable[name] = inode

    def fingerprint(self) -> bytes:
        """A hash of names, bytes, and cached pages. The behaviour of the next process depends on nothing
        else, so a test of every crash point checks equal states once."""
        return hashlib.blake2b(repr(_found(self._root)).encode()).digest()

    def restart(self) -> FakeFiles:
        """The file system of the next process after a kill: no written byte is lost."""
        after = FakeFiles(capacity_bytes=self.capacity_bytes)
        after._root = self._root.copied({})
        return after

    def power_loss(self, mode: str | int) -> FakeFiles:
        """The file system after a power loss; `mode` says which unsynced changes survive: "none", "all" or a
        seed."""
        after = self.restart()
        after._root.survive(_Choice(mode))
        return after

    def used_bytes(self) -> int:
        return _used(self._root)

    # --- the file layer --------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> FakeFile:
        try:
            folder, name = self._parent(path)
        except FileGoneError as error:
            if create:
                raise KafkaStorageError(f"the folder is missing: {error}") from error
            raise
        node = folder.names.get(name)
        if node is None:
            if not create:
                self._read_fault("open", path)
                _fail("open", path, errno.ENOENT)
            self._begin("create", path)
            node = _Inode()
            folder.change(None, name, node)
        else:
            self._read_fault("open", path)
        if isinstance(node, _Folder):
            _fail("open", path, errno.EISDIR)
        return FakeFile(self, path, node)

    def exists(self, path: str) -> bool:
        self._read_fault("exists", path)
        return self._find(path) is not None

    def size(self, path: str) -> int:
        self._read_fault("size", path)
        return len(self._file(path).data)

    def listdir(self, directory: str) -> list[str]:
        self._read_fault("listdir", directory)
        return sorted(self._folder(directory).names)

    def is_directory(self, path: str) -> bool:
        self._read_fault("is_directory", path)
        return isinstance(self._find(path), _Folder)

    def mkdir(self, path: str) -> None:
        node: _Folder = self._root
        for name in _parts(path):
            inner = node.names.get(name)
            if inner is None:
                self._begin("mkdir", path)
                inner = _Folder()
                node.change(None, name, inner)
            if isinstance(inner, _Inode):
                _fail("mkdir", path, errno.EEXIST)
            node = inner

    def rename(self, source: str, target: str) -> None:
        folder, old = self._parent(source)
        other, new = self._parent(target)
        assert folder is other, "only renames inside one folder are modelled"
        if old not in folder.names:
            _fail("rename", source, errno.ENOENT)
        self._begin("rename", source)
        folder.change(old, new, folder.names[old])

    def remove(self, path: str) -> None:
        self._file(path)
        folder, name = self._parent(path)
        self._begin("remove", path)
        folder.change(name, None, None)

    def rmdir(self, path: str) -> None:
        if self._folder(path).names:
            _fail("rmdir", path, errno.ENOTEMPTY)
        folder, name = self._parent(path)
        self._begin("rmdir", path)
        folder.change(name, None, None)

    def fsync_directory(self, directory: str) -> None:
        folder = self._folder(directory)
        self._begin("fsync_directory", directory)
        folder.sync()

    def space(self, directory: str) -> Space:
        self._folder(directory)
        total = 1 << 40 if self.capacity_bytes is None else self.capacity_bytes
        return Space(total, max(total - self.used_bytes(), 0))

    def lock(self, path: str) -> FakeLock | None:
        self.open(path, create=True).close()
        if path in self._locks:
            return None
        self._locks.add(path)
        return FakeLock(self, path)

    # --- internals -------------------------------------------------------------------------------------

    def _begin(self, operation: str, path: str, size: int = 0) -> int | None:
        """Count an operation. None: it proceeds. A number: this many bytes are written before the crash."""
        if self.is_dead:
            raise Crash(f"{operation} {path} by a dead process")
        number = len(self.operations)
        self.operations.append(f"{operation} {path}")
        if number == self.crash_at:
            self.is_dead = True
            if operation == "pwrite":
                return min(self.tear_bytes, size)
            raise Crash(f"before {operation} {path}")
        if self.error_at is not None and number == self.error_at[0]:
            _fail(operation, path, self.error_at[1])
        if self._faults:
            self._inject(operation, path)
        return None

    def _read_fault(self, operation: str, path: str) -> None:
        if self.is_dead:
            raise Crash(f"{operation} {path} by a dead process")
        if self._faults:
            self._inject(operation, path)

    def _inject(self, operation: str, path: str) -> None:
        for number, (wanted, part, error, after) in enumerate(self._faults):
            if wanted == operation and part in path:
                seen = self._counts.get(number, 0)
                self._counts[number] = seen + 1
                if seen == after:
                    if error == errno.ENOMEM and operation == "pread":
                        raise MemoryError(path)  # as in files_io: the error is not the disk's
                    _fail(operation, path, error)

    def _room(self, growth: int) -> int | None:
        """The free bytes if the disk has no space for all of `growth`, else None."""
        if self.capacity_bytes is None:
            return None
        free = self.capacity_bytes - self.used_bytes()
        return max(free, 0) if growth > free else None

    def _find(self, path: str) -> _Inode | _Folder | None:
        node: _Inode | _Folder | None = self._root
        for name in _parts(path):
            if not isinstance(node, _Folder):
                return None
            node = node.names.get(name)
        return node

    def _file(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            _fail("stat", path, errno.ENOENT)
        return node

    def _folder(self, path: str) -> _Folder:
        node = self._find(path)
        if not isinstance(node, _Folder):
            _fail("list", path, errno.ENOENT)
        return node

    def _parent(self, path: str) -> tuple[_Folder, str]:
        *above, name = _parts(path)
        node: _Inode | _Folder | None = self._root
        for part in above:
            node = node.names.get(part) if isinstance(node, _Folder) else None
        if not isinstance(node, _Folder):
            _fail("list", "/".join(above), errno.ENOENT)
        return node, name


_Copies = dict[_Inode | _Folder, _Inode | _Folder]  # of nodes, by identity


@functools.lru_cache(4096)
def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _pages(position: int, size: int) -> range:
    return range(position // PAGE_BYTES, -(-(position + size) // PAGE_BYTES))


def _all_files(folder: _Folder, path: str) -> Iterator[tuple[str, _Inode]]:
    for name, node in folder.names.items():
        if isinstance(node, _Folder):
            yield from _all_files(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}", node


def _patch(data: bytearray, position: int, piece: bytes) -> None:
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(piece)] = piece


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _apply(
    names: dict[str, _Inode | _Folder], gone: str | None, come: str | None, node: _Inode | _Folder | None
) -> None:
    if gone is not None:
        names.pop(gone, None)
    if come is not None and node is not None:
        names[come] = node


def _found(node: _Inode | _Folder) -> object:
    if isinstance(node, _Inode):
        return bytes(node.data), sorted(node.cold)
    return [(name, _found(inner)) for name, inner in sorted(node.names.items())]


def _used(node: _Inode | _Folder) -> int:
    if isinstance(node, _Inode):
        return len(node.data)
    return sum(_used(inner) for inner in node.names.values())


def _fail(operation: str, path: str, error: int) -> None:
    classes: dict[int, type[KafkaStorageError]] = {
        errno.ENOENT: FileGoneError,
        errno.ENAMETOOLONG: NameTooLongError,
        errno.ENOSPC: DiskFullError,
    }
    cls = classes.get(error, KafkaStorageError)
    raise cls(f"{operation} {path}: {os.strerror(error)} ({errno.errorcode[error]})")
