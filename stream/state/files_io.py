"""Opens the files of a persistent store: in RocksDB where rocksdict is installed, else in SQLite."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shutil
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from .sqlite_io import SqliteEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .engines import Engine

_log = logging.getLogger(__name__)


@lru_cache
def _rocks() -> Callable[..., Engine] | None:
    """RocksDB's engine; None, with one warning per process, where rocksdict is missing."""
    if importlib.util.find_spec("rocksdict") is None:
        _log.warning(
            "persistent stores are kept in SQLite, about three times slower than RocksDB: "
            "pip install 'headrace[streams]' installs rocksdict"
        )
        return None
    module = importlib.import_module(".rocksdict_io", __package__)
    return cast("Callable[..., Engine]", module.RocksEngine)


def open_engine(folder: Path, store_name: str, *, has_statistics: bool = False) -> Engine:
    """The files of a store in the folder of its task; a store that SQLite has stays there. `has_statistics`:
    those of RocksDB.

    Errors: StoreLockedError, DamagedStoreError, StateStoreError.
    """
    rocks, database = _rocks(), folder / f"{store_name}.sqlite3"
    if rocks is None or database.exists():
        return SqliteEngine(database)
    return rocks(folder / "rocksdb" / store_name, has_statistics=has_statistics)


def has_files(folder: Path, store_name: str) -> bool:
    """Whether a store has files in the folder of its task."""
    return (folder / "rocksdb" / store_name).exists() or (folder / f"{store_name}.sqlite3").exists()


def delete_files(folder: Path, store_name: str) -> None:
    """Remove the files of a closed store, damaged ones as well; its changelog has the records."""
    shutil.rmtree(folder / "rocksdb" / store_name, ignore_errors=True)
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{store_name}.sqlite3{suffix}").unlink(missing_ok=True)
