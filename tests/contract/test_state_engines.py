"""The files of persistent stores in memory, RocksDB and SQLite behave alike, and like a dict."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from headrace.stream.state import rocksdict_io
from headrace.stream.state.engines import DamagedStoreError, StoreFullError, StoreLockedError
from headrace.stream.state.files_io import delete_files, open_engine
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.rocksdict_io import RocksEngine
from headrace.stream.state.sqlite_io import SqliteEngine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {"rocksdb": RocksEngine, "sqlite": SqliteEngine}
KEYS, SPACES = st.binary(max_size=2), st.sampled_from(["0", "1", "10", "index-1", "values"])
CHANGES = st.dictionaries(
    SPACES, st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=4), max_size=3
)


class EngineMachine(RuleBasedStateMachine):
    """Random writes, drops, reads and restarts of one engine beside a dict of dicts."""

    open: Any = staticmethod(lambda: MemoryEngine())
    reopens = False

    def __init__(self) -> None:
        super().__init__()
        self.engine = self.open()
        self.model: dict[str, dict[bytes, bytes]] = {}
        self.offset: int | None = None

    @rule(changes=CHANGES, dropped=st.sets(SPACES, max_size=1), offset=st.none() | st.integers(0, 2**40))
    def write(
        self, changes: dict[str, dict[bytes, bytes | None]], dropped: set[str], offset: int | None
    ) -> None:
        self.engine.write(changes, tuple(dropped), offset)
        for space in dropped:
            self.model.pop(space, None)
        for space, values in changes.items():
            known = self.model.setdefault(space, {})
            for key, value in values.items():
                known.pop(key, None)
                if value is not None:
                    known[key] = value
        self.offset = self.offset if offset is None else offset

    @rule(space=SPACES, key=KEYS)
    def get(self, space: str, key: bytes) -> None:
        if space in self.engine.spaces():
            assert self.engine.get(space, key) == self.model[space].get(key)
        else:
            assert not self.model.get(space)

    @rule(space=SPACES, start=st.none() | KEYS, end=st.none() | KEYS, forward=st.booleans())
    def rows(self, space: str, start: bytes | None, end: bytes | None, forward: bool) -> None:
        if space not in self.engine.spaces():
            return
        expected = [
            (key, value)
            for key, value in sorted(self.model[space].items(), reverse=not forward)
            if (start is None or key >= start) and (end is None or key < end)
        ]
        assert list(self.engine.rows(space, start, end, forward)) == expected
        assert self.engine.offset() == self.offset
        assert self.engine.approximate_count(space) >= 0

    @rule()
    def reopen(self) -> None:
        if self.reopens:
            self.engine.close()
            self.engine = self.open()
            assert self.engine.offset() == self.offset

    def teardown(self) -> None:
        self.engine.close()


@pytest.mark.parametrize("kind", ["memory", *KINDS, "rocksdb files"])
def test_equal_to_a_dict(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches with drops and offsets, ranges in both directions, restarts. With files, most batches of
    RocksDB are large."""
    count = iter(range(10**9))
    if kind == "rocksdb files":
        kind = "rocksdb"
        monkeypatch.setattr(rocksdict_io, "LARGE_BYTES", 3)

    class Machine(EngineMachine):
        """One engine in files of its own."""

        reopens = kind != "memory"

        def __init__(self) -> None:
            path = tmp_path / str(next(count))
            self.open = lambda: KINDS[kind](path) if kind in KINDS else MemoryEngine()
            super().__init__()

    machine = Machine.TestCase
    machine.settings = settings(
        max_examples=5 if kind in KINDS else 50, stateful_step_count=20, deadline=None
    )
    machine().runTest()


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_locked(kind: str, tmp_path: Path) -> None:
    """In one process, and from another one; free again after a close."""
    engine = KINDS[kind](tmp_path / "store")
    with pytest.raises(StoreLockedError, match="cannot open the store in"):
        KINDS[kind](tmp_path / "store")
    code = f"""
        from pathlib import Path
        from headrace.stream.state.engines import StoreLockedError
        from headrace.stream.state.{KINDS[kind].__module__.rpartition(".")[2]} import {KINDS[kind].__name__}
        try:
            {KINDS[kind].__name__}(Path({str(tmp_path / "store")!r}))
        except StoreLockedError:
            print("locked")
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert found.stdout == "locked\n"
    engine.close()
    KINDS[kind](tmp_path / "store").close()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_reported(kind: str, tmp_path: Path) -> None:
    """The message says what to delete; after that the store can be opened."""
    path = tmp_path / "rocksdb" / "store" if kind == "rocksdb" else tmp_path / "store.sqlite3"
    engine = KINDS[kind](path)
    engine.write({"values": {b"a": b"1"}}, offset=1)
    engine.close()
    damaged = path / "CURRENT" if kind == "rocksdb" else path
    damaged.write_bytes(b"not what the database wrote, long enough for a page header " * 100)
    with pytest.raises(DamagedStoreError, match="rebuild the store from its changelog"):
        KINDS[kind](path)
    delete_files(tmp_path, "store")
    engine = KINDS[kind](path)
    assert engine.offset() is None
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_process_leaves_whole_batches(kind: str, tmp_path: Path) -> None:
    """Data and offset of a write are there together, or not at all."""
    code = f"""
        import os, signal
        from pathlib import Path
        from headrace.stream.state.{KINDS[kind].__module__.rpartition(".")[2]} import {KINDS[kind].__name__}
        engine = {KINDS[kind].__name__}(Path({str(tmp_path / "store")!r}))
        for number in range(1, 50):
            values = {{b"key-%d" % each: b"%d" % number for each in range(100)}}
            engine.write({{"values": values}}, offset=number)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    engine = KINDS[kind](tmp_path / "store")
    assert engine.offset() == 49
    rows = list(engine.rows("values", None, None, True))
    assert len(rows) == 100
    assert {value for _, value in rows} == {b"49"}
    engine.close()


KILLED = {"before it is part of the database": (False, 2), "behind it": (True, 3)}


@pytest.mark.parametrize("when", KILLED)
def test_a_process_is_killed_in_a_large_batch(when: str, tmp_path: Path) -> None:
    """Data and offset of the file are there together, or not at all; what is left of it is removed."""
    is_ingested, expected = KILLED[when]
    code = f"""
        import os, signal
        from pathlib import Path
        from headrace.stream.state import rocksdict_io
        def large(number):
            return {{"values": {{b"key-%d" % each: b"%d" % number * 1000 for each in range(5000)}}}}
        engine = rocksdict_io.RocksEngine(Path({str(tmp_path / "store")!r}))
        engine.write({{"values": {{b"small": b"1"}}}}, offset=1)
        engine.write(large(2), offset=2)
        class Database:
            def __init__(self, database):
                self.__dict__["found"] = database
            def __getattr__(self, name):
                return getattr(self.found, name)
            def ingest_external_file(self, *arguments):
                if {is_ingested}:
                    self.found.ingest_external_file(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)
        engine._db = Database(engine._db)
        engine.write(large(3), offset=3)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    left = tmp_path / "store" / rocksdict_io._INGESTED
    assert left.exists() == (not is_ingested)
    engine = RocksEngine(tmp_path / "store")
    assert not left.exists()
    assert engine.offset() == expected
    rows = dict(engine.rows("values", None, None, True))
    assert rows.pop(b"small") == b"1"
    assert len(rows) == 5000
    assert set(rows.values()) == {b"%d" % expected * 1000}
    engine.close()


@pytest.mark.parametrize("size", [2000, 8000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_loses_nothing(kind: str, size: int, tmp_path: Path) -> None:
    """The write fails with its own error and is repeated when there is space. A limit of the size of files
    stands in for the disk. Small and large batches."""
    code = f"""
        import resource
        from pathlib import Path
        from headrace.stream.state.engines import StoreFullError
        from headrace.stream.state.{KINDS[kind].__module__.rpartition(".")[2]} import {KINDS[kind].__name__}
        engine = {KINDS[kind].__name__}(Path({str(tmp_path / "store")!r}))
        engine.write({{"values": {{b"before": b"1"}}}}, offset=1)
        big = {{b"%05d" % n: bytes(1000) for n in range({size})}}
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        for attempt in range(2):
            try:
                engine.write({{"values": big}}, offset=2)
                print("written")
            except StoreFullError:
                print("full")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        engine.write({{"values": big}}, offset=2)
        print(engine.offset(), len(list(engine.rows("values", None, None, True))))
        engine.close()
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert found.stdout.split("\n")[:3] == ["full", "full", f"2 {size + 1}"], found.stdout + found.stderr
    engine = KINDS[kind](tmp_path / "store")
    assert engine.offset() == 2
    engine.close()


def test_sqlite_is_used_without_rocksdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With one warning; what SQLite has stays in SQLite once rocksdict is installed."""
    from headrace.stream.state import files_io

    monkeypatch.setattr(files_io.importlib.util, "find_spec", lambda _name: None)
    files_io._rocks.cache_clear()
    try:
        for name in ("one", "two"):
            engine = open_engine(tmp_path, name)
            assert isinstance(engine, SqliteEngine)
            engine.close()
    finally:
        monkeypatch.undo()
        files_io._rocks.cache_clear()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "persistent stores are kept in SQLite, about three times slower than RocksDB"
    ]
    for name, kind in (("one", SqliteEngine), ("three", RocksEngine)):
        engine = open_engine(tmp_path, name)
        assert isinstance(engine, kind)
        engine.close()


def test_full_disk_is_a_kind_of_state_store_error() -> None:
    """A task that catches the base class retries its commit."""
    assert issubclass(StoreFullError, Exception)
