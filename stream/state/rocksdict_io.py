"""The files of a persistent store in RocksDB, through rocksdict.

One database per store. A key is the name of its key space, a zero byte and the key of the entry; the
changelog offset has a key of its own, so that data and offset are written in one batch (KIP-1035), or the
offset in the last of several (docs/adr/0038). A key space is dropped by one range delete in the same batch. A
large batch is written as a file of the database instead, which skips the log and the memtable
(docs/adr/0041).
"""

from __future__ import annotations

import errno
import logging
import shutil
from typing import TYPE_CHECKING, Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DataBlockIndexType,
    DbClosedError,
    DBCompactionStyle,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
    WriteBatch,
)

from ...runtime.switch_point import switch_point
from .engines import DamagedStoreError, StateStoreError, StoreFullError, StoreLockedError
from .key_ranges import in_order
from .rocksdb_numbers import PROPERTIES, of_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)

# Java's defaults: 50 MB of blocks, 3 memtables of 16 MB, universal compaction, no compression. The cache is
# shared by all stores of the process.
BLOCK_CACHE_BYTES = 50 << 20
WRITE_BUFFER_BYTES = 16 << 20

LARGE_BYTES = WRITE_BUFFER_BYTES // 4  # of values: batches from here on are files of their own

PART = 1024  # entries that are sorted or written in one call, which keeps the GIL

_MOST_TRIES = 100_000
_INGESTED = "ingested"  # in the folder of the database, which does not know this name

# RocksDB's default, and while large batches are written: their files are merged once, behind the last.
_FILES_TO_COMPACT, _LARGE_FILES_TO_COMPACT = 4, 32

_OFFSET = b"\0offset"  # below all key spaces: their names are not empty
_FULL = ("no space left on device", "disk quota exceeded", "file too large")
_blocks: list[Cache] = []


def _options() -> Options:
    if not _blocks:
        _blocks.append(Cache(BLOCK_CACHE_BYTES))
    table = BlockBasedOptions()
    table.set_block_cache(_blocks[0])
    table.set_bloom_filter(10, block_based=False)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_compression_type(DBCompressionType.none())
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_level_zero_slowdown_writes_trigger(2 * _LARGE_FILES_TO_COMPACT)
    options.set_level_zero_stop_writes_trigger(3 * _LARGE_FILES_TO_COMPACT)
    options.set_memtable_prefix_bloom_ratio(0.1)  # most gets are of keys that are not in the memtable
    options.set_memtable_whole_key_filtering(True)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    return options


class RocksEngine:
    """Errors: StoreLockedError if the database is open elsewhere, DamagedStoreError if it cannot be read."""

    def __init__(self, path: Path, *, has_statistics: bool = False) -> None:
        """`has_statistics`: `numbers` has them; each read and write costs a little more."""
        self._path = path
        self._has_statistics = has_statistics
        self._is_full = False
        self._prefixes: dict[str, bytes] = {}
        self._open()

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._options = _options()
            if self._has_statistics:
                self._options.enable_statistics()
            self._db: Any = Rdict(str(self._path), self._options, access_type=AccessType.read_write())
            self._get = self._db.get
            self._files_to_compact = _FILES_TO_COMPACT
            (self._path / _INGESTED).unlink(missing_ok=True)  # of a process that was killed
        except Exception as error:  # rocksdict raises Exception itself
            raise self._error("open", error) from error

    def _error(self, action: str, error: BaseException) -> StateStoreError:
        text = str(error)
        where = f"cannot {action} the store in {self._path}: {text}"
        lowered = text.lower()
        if "lock" in lowered and ("lock hold" in lowered or "while lock" in lowered):
            return StoreLockedError(where)
        if any(full in lowered for full in _FULL) or getattr(error, "errno", None) == errno.ENOSPC:
            return StoreFullError(f"{where}; the writes are kept in memory until there is space")
        if text.startswith("Corruption") or "No such file or directory" in text or "does not exist" in text:
            return DamagedStoreError(f"{where}; delete the folder to rebuild the store from its changelog")
        return StateStoreError(where)

    def _prefix(self, space: str) -> bytes:
        prefix = self._prefixes.get(space)
        if prefix is None:
            prefix = self._prefixes[space] = space.encode() + b"\0"
        return prefix

    def spaces(self) -> list[str]:
        found: list[str] = []
        start = b"\x01"
        while True:
            for key, _ in self._db.items(from_key=start):
                name = key.partition(b"\0")[0]
                break
            else:
                return found
            found.append(name.decode())
            start = name + b"\x01"

    def get(self, space: str, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._get(self._prefix(space) + key)
        except Exception as error:
            raise self._error("read", error) from error
        return value

    def rows(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        prefix = self._prefix(space)
        lower = prefix + (from_key or b"")
        upper = prefix[:-1] + b"\x01" if to_key is None else prefix + to_key
        if lower >= upper:
            return iter(())
        if forward:
            return self._forward(lower, upper, len(prefix))
        return self._backward(lower, upper, len(prefix))

    # rocksdict's bounds of an iterator do not know raw mode: the rows are compared here

    def _forward(self, lower: bytes, upper: bytes, size: int) -> Iterator[tuple[bytes, bytes]]:
        try:
            for key, value in self._db.items(from_key=lower):
                if key >= upper:
                    return
                yield key[size:], value
        except Exception as error:
            raise self._error("read", error) from error

    def _backward(self, lower: bytes, upper: bytes, size: int) -> Iterator[tuple[bytes, bytes]]:
        try:
            for key, value in self._db.items(backwards=True, from_key=upper):
                if key < lower:
                    return
                if key < upper:
                    yield key[size:], value
        except Exception as error:
            raise self._error("read", error) from error

    def write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...] = (),
        offset: int | None = None,
        *,
        may_divide: bool = False,
    ) -> None:
        if self._is_full:
            self._reopen()
        is_large = not dropped_spaces and sum(map(_size, changes.values())) >= LARGE_BYTES
        try:
            self._compact_from(_LARGE_FILES_TO_COMPACT if is_large else _FILES_TO_COMPACT)
            if is_large:
                self._ingest(changes, offset)
                return
            # Order: a store has an offset before it has a part of a commit; without one it counts as empty.
            if may_divide and offset is not None and not dropped_spaces and self.offset() is not None:
                changes = self._write_parts(changes)
            self._write(changes, dropped_spaces, offset)
        except Exception as error:
            failure = self._error("write", error)
            self._is_full = isinstance(failure, StoreFullError)
            raise failure from error

    def _write_parts(
        self, changes: Mapping[str, Mapping[bytes, bytes | None]]
    ) -> dict[str, Mapping[bytes, bytes | None]]:
        """Write the entries of large key spaces, but for those of the last batch, which has the offset.
        RocksDB's write of a batch keeps the GIL."""
        left = dict(changes)
        for space, values in changes.items():
            if len(values) <= PART:
                continue
            last: list[bytes] = []
            for keys in in_order(values, PART):
                if last:
                    self._write({space: {key: values[key] for key in last}}, (), None)
                    switch_point()
                last = keys
            left[space] = {key: values[key] for key in last}
        return left

    def _compact_from(self, files: int) -> None:
        """Merge files when there are that many."""
        if files != self._files_to_compact:
            self._db.set_options({"level0_file_num_compaction_trigger": str(files)})
            self._files_to_compact = files

    def _ingest(self, changes: Mapping[str, Mapping[bytes, bytes | None]], offset: int | None) -> None:
        """Data and offset are in one file, which becomes part of the database as a whole."""
        path = self._path / _INGESTED
        try:
            writer = SstFileWriter(_options())
            writer.open(str(path))
            if offset is not None:  # Order: keys rise.
                writer[_OFFSET] = offset.to_bytes(8, "big", signed=True)
            for space in sorted(changes, key=self._prefix):
                prefix, values = self._prefix(space), changes[space]
                for keys in in_order(values, PART):
                    switch_point()
                    for key in keys:
                        value = values[key]
                        if value is None:
                            del writer[prefix + key]
                        else:
                            writer[prefix + key] = value
            writer.finish()
            options = IngestExternalFileOptions()
            options.set_move_files(True)
            self._db.ingest_external_file([str(path)], options)
        finally:
            path.unlink(missing_ok=True)

    def _write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...],
        offset: int | None,
    ) -> None:
        batch = WriteBatch(raw_mode=True)
        for space in dropped_spaces:
            prefix = self._prefix(space)
            batch.delete_range(prefix, prefix[:-1] + b"\x01")
        put, delete = batch.put, batch.delete
        for space, values in changes.items():
            prefix = self._prefix(space)
            # Sorted keys are next to each other in RocksDB's skip list: a quarter less CPU time in all.
            for keys in in_order(values, PART):
                switch_point()
                for key in keys:
                    value = values[key]
                    if value is None:
                        delete(prefix + key)
                    else:
                        put(prefix + key, value)
        if offset is not None:
            put(_OFFSET, offset.to_bytes(8, "big", signed=True))
        self._db.write(batch)

    def _reopen(self) -> None:
        """After a full disk RocksDB refuses all writes until it is opened again, which writes what the log of
        the database has. Reads go on until there is space for that."""
        if shutil.disk_usage(self._path).free < WRITE_BUFFER_BYTES:
            raise StoreFullError(f"the disk of the store in {self._path} is still full")
        self.close()
        self._open()
        self._is_full = False
        _log.info("opened the store in %s again after its disk was full", self._path)

    def _close(self) -> None:
        for _ in range(_MOST_TRIES):
            try:
                self._db.close()
            except RuntimeError as error:  # a query reads in another thread at this moment
                if "borrowed" not in str(error):
                    raise
            else:
                return
        self._db.close()

    def checkpoint(self, path: Path) -> None:
        """Hard links to all files, in a new folder: what was written so far. Errors: StateStoreError."""
        try:
            Checkpoint(self._db).create_checkpoint(str(path))
        except Exception as error:
            raise self._error("copy", error) from error

    def offset(self) -> int | None:
        data = self._db.get(_OFFSET)
        return None if data is None else int.from_bytes(data, "big", signed=True)

    def approximate_count(self, space: str) -> int:
        """RocksDB's estimate over all key spaces."""
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    def numbers(self) -> dict[str, float]:
        """Properties, and statistics if there are any, by the names of Kafka Streams' metrics."""
        try:
            found = {name: self._db.property_int_value(f"rocksdb.{name}") or 0 for name in PROPERTIES}
        except Exception as error:
            raise self._error("read", error) from error
        text = self._options.get_statistics() if self._has_statistics else None
        return found if text is None else {**found, **of_statistics(text)}

    def close(self) -> None:
        try:
            self._close()
        except DbClosedError:
            return
        except Exception as error:
            failure = self._error("close", error)
            if not self._is_full:
                raise failure from error
            _log.warning("%s", failure)


def _size(values: Mapping[bytes, bytes | None]) -> int:
    return sum(map(len, filter(None, values.values())))
