"""The files of a persistent store in SQLite, where rocksdict is not installed.

One file per store, with the changelog offset in the same transaction as the data. Reads and writes take about
three times as long as in RocksDB.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

from .engines import DamagedStoreError, StateStoreError, StoreFullError, StoreLockedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (space TEXT, key BLOB, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS offsets (one INTEGER PRIMARY KEY, value INTEGER);
"""
_CHUNK = 512  # rows of one query: the cursor is closed before the caller can write


class SqliteEngine:
    """Errors: StoreLockedError if the file is open elsewhere, DamagedStoreError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # queries read in other threads: not in the middle of a transaction
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = OFF")  # a power failure: the changelog has the records
            self._db.execute("PRAGMA cache_size = -8192")
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise self._error("open", error) from error

    def _error(self, action: str, error: Exception) -> StateStoreError:
        where = f"cannot {action} the store in {self._path}: {error}"
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_BUSY:
            return StoreLockedError(f"{where}; another process or thread has it open")
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            return StoreFullError(f"{where}; the writes are kept in memory until there is space")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DamagedStoreError(f"{where}; delete the file to rebuild the store from its changelog")
        return StateStoreError(where)

    def spaces(self) -> list[str]:
        return [space for (space,) in self._db.execute("SELECT DISTINCT space FROM entries ORDER BY space")]

    def get(self, space: str, key: bytes) -> bytes | None:
        try:
            with self._lock:
                row = self._db.execute(
                    "SELECT value FROM entries WHERE space = ? AND key = ?", (space, key)
                ).fetchone()
        except sqlite3.Error as error:
            raise self._error("read", error) from error
        return None if row is None else row[0]

    def rows(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        order = "ASC" if forward else "DESC"
        lower, upper = from_key or b"", to_key
        while True:
            found = self._chunk(space, lower, upper, order)
            yield from found
            if len(found) < _CHUNK:
                return
            if forward:
                lower = found[-1][0] + b"\0"
            else:
                upper = found[-1][0]

    def _chunk(self, space: str, lower: bytes, upper: bytes | None, order: str) -> list[tuple[bytes, bytes]]:
        query, bounds = "SELECT key, value FROM entries WHERE space = ? AND key >= ?", [space, lower]
        if upper is not None:
            query += " AND key < ?"
            bounds.append(upper)
        try:
            with self._lock:
                return self._db.execute(f"{query} ORDER BY key {order} LIMIT {_CHUNK}", bounds).fetchall()
        except sqlite3.Error as error:
            raise self._error("read", error) from error

    def write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...] = (),
        offset: int | None = None,
        *,
        may_divide: bool = False,
    ) -> None:
        with self._lock:
            self._write(changes, dropped_spaces, offset)

    def _write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...],
        offset: int | None,
    ) -> None:
        db = self._db
        try:
            db.execute("BEGIN")
            for space in dropped_spaces:
                db.execute("DELETE FROM entries WHERE space = ?", (space,))
            for space, values in changes.items():
                puts = [(space, key, value) for key, value in values.items() if value is not None]
                deletes = [(space, key) for key, value in values.items() if value is None]
                db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", puts)
                db.executemany("DELETE FROM entries WHERE space = ? AND key = ?", deletes)
            if offset is not None:
                db.execute("INSERT OR REPLACE INTO offsets VALUES (1, ?)", (offset,))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise self._error("write", error) from error

    def offset(self) -> int | None:
        row = self._db.execute("SELECT value FROM offsets").fetchone()
        return None if row is None else row[0]

    def approximate_count(self, space: str) -> int:
        with self._lock:
            found = self._db.execute("SELECT COUNT(*) FROM entries WHERE space = ?", (space,)).fetchone()
        count: int = found[0]
        return count

    def close(self) -> None:
        self._db.close()
