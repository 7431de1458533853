"""Snapshots of RocksDB stores in a folder: taken, loaded, damaged, deleted."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from headrace.stream.config import StreamsConfig
from headrace.stream.records import TaskId
from headrace.stream.snapshots.manifest import (
    GRACE_MS,
    Manifest,
    SnapshotError,
    StoredFile,
    decode,
    files_to_delete,
    manifests_to_delete,
)
from headrace.stream.snapshots.objects_io import FolderObjects, open_objects
from headrace.stream.snapshots.open_io import open_snapshots
from headrace.stream.snapshots.snapshots_io import Snapshots
from headrace.stream.state.rocksdict_io import RocksEngine
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK, IDS, PATIENCE_S = TaskId(0, 1), {"changelog": "id"}, 60.0


class Machine:
    """A machine with the stores of one task."""

    def __init__(self, folder: Path, objects: Any, kept: int = 3) -> None:
        self.folder = folder
        folder.mkdir()
        self.snapshots = Snapshots(objects, folder, 0, kept)
        self.engine: RocksEngine | None = None

    @property
    def store(self) -> Path:
        return self.folder / str(TASK) / "rocksdb" / "store"

    def open(self) -> RocksEngine:
        self.engine = RocksEngine(self.store)
        return self.engine

    def write(self, offset: int, **values: str) -> None:
        engine = self.engine or self.open()
        engine.write({"all": {key.encode(): each.encode() for key, each in values.items()}}, (), offset)

    def take(self, now_ms: int) -> None:
        """Take a snapshot, and wait for it."""
        assert self.engine is not None
        self.snapshots.take(TASK, {"store": self.engine}, IDS, now_ms)
        writer = self.snapshots._writers[TASK]  # the upload of the task
        assert writer.upload is not None
        writer.upload.result(PATIENCE_S)

    def load(self, topic_ids: dict[str, str] | None = None) -> int | None:
        """Load a snapshot; the offset of the store, None without one."""
        (self.folder / str(TASK)).mkdir(exist_ok=True)
        wait_for(lambda: self.snapshots.load(TASK, topic_ids or IDS), "it is loaded", PATIENCE_S)
        return self.open().offset() if self.store.exists() else None

    def value(self, key: str) -> bytes | None:
        assert self.engine is not None
        return self.engine.get("all", key.encode())

    def lose(self) -> None:
        """The stores do not fit, and are deleted."""
        assert self.engine is not None
        self.engine.close()
        self.engine = None
        for path in sorted((self.folder / str(TASK)).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        self.snapshots.deleted(TASK)

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.snapshots.close()


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "shared")


@pytest.fixture
def machines(tmp_path: Path, objects: Any) -> Iterator[list[Machine]]:
    made = [Machine(tmp_path / name, objects) for name in ("old", "new")]
    yield made
    for machine in made:
        machine.close()


def stored(tmp_path: Path, pattern: str) -> list[Path]:
    return sorted(path for path in (tmp_path / "shared").rglob(pattern) if path.is_file())


def test_a_new_machine_loads_the_newest_snapshot(machines: list[Machine], tmp_path: Path) -> None:
    """Files that do not change are stored once; nothing is left on the disk of the old machine."""
    old, new = machines
    assert new.load() is None, "there is no snapshot yet"
    old.write(10, a="1")
    old.take(1_000)
    before = {path for path in stored(tmp_path, "*") if "files" in path.parts}
    old.write(20, a="2", b="3")
    old.take(2_000)
    old.write(30, a="later")
    assert new.load() == 20
    assert (new.value("a"), new.value("b")) == (b"2", b"3")
    newest = decode(stored(tmp_path, "*.json")[-1].read_bytes())
    ssts = [each for each in newest.files if each.path.endswith(".sst")]
    assert len(ssts) == 2
    assert {tmp_path / "shared" / each.object for each in ssts} & before, "the first one was not stored again"
    assert sorted(path.name for path in old.folder.iterdir()) == [str(TASK)]
    assert sorted(path.name for path in new.folder.iterdir()) == [str(TASK)]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def only_newest(tmp_path: Path) -> list[Path]:
    """The files of the newest snapshot that the older one does not have."""
    older, newest = (decode(path.read_bytes()) for path in stored(tmp_path, "*.json"))
    known = {each.object for each in older.files}
    return [
        tmp_path / "shared" / each.object for each in newest.files if each.object not in known and each.size
    ]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("part", ["file", "manifest"])
def test_a_damaged_snapshot_falls_back_to_an_older_one(
    machines: list[Machine], tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Any, part: str
) -> None:
    """And then to the changelog; one line in the log says so."""
    old, new = machines
    old.write(10, a="1")
    old.take(1_000)
    old.write(20, a="2")
    old.take(2_000)
    damage(only_newest(tmp_path)[0] if part == "file" else stored(tmp_path, "*.json")[-1])
    assert new.load() == 10
    assert new.value("a") == b"1"
    if part == "file" or damage is not Path.unlink:
        assert len([each for each in caplog.records if "snapshots cannot be used" in each.message]) == 1
    new.lose()
    for path in stored(tmp_path, "*"):
        path.unlink()
    caplog.clear()
    assert new.load() is None


def test_snapshots_of_other_changelogs_are_not_loaded(
    machines: list[Machine], caplog: pytest.LogCaptureFixture
) -> None:
    """The changelog was deleted and created again."""
    old, new = machines
    old.write(10, a="1")
    old.take(1_000)
    assert new.load({"changelog": "another id"}) is None
    assert "it is of other changelog topics" in caplog.text
    assert "restored from the changelogs alone" in caplog.text


def test_a_snapshot_that_does_not_fit_is_not_loaded_again(machines: list[Machine]) -> None:
    """Such as one that is newer than the changelog: the older one is next, then none."""
    old, new = machines
    for offset in (10, 20):
        old.write(offset, a=str(offset))
        old.take(offset * 100)
    for expected in (20, 10, None):
        assert new.load() == expected
        if expected is not None:
            new.lose()


def test_retention_deletes_unreferenced_files(tmp_path: Path, objects: Any) -> None:
    old = Machine(tmp_path / "old", objects, kept=2)
    for number in range(5):
        old.write(number, a=str(number))
        old.take(1_000 + number)
    manifests = [decode(path.read_bytes()) for path in stored(tmp_path, "*.json")]
    assert [each.offsets["store"] for each in manifests] == [3, 4]
    named = {tmp_path / "shared" / each.object for manifest in manifests for each in manifest.files}
    assert {path for path in stored(tmp_path, "*") if "files" in path.parts} == named
    old.close()


def test_two_writers_do_not_harm_each_other(machines: list[Machine], tmp_path: Path) -> None:
    """A zombie goes on to take snapshots: the files of the new owner stay, those that it has not named yet
    included."""
    old, new = machines
    old.write(10, a="1")
    old.take(1_000)
    assert new.load() == 10
    waiting = tmp_path / "shared" / f"{TASK}" / "files" / "another" / "aaaa"
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(b"of a manifest that is not written yet")
    for number in range(4):
        new.write(20 + number, b="2")
        new.take(2_000 + number)
        old.write(11 + number, a="zombie")
        old.take(2_500 + number)
    assert waiting.exists()
    for path in stored(tmp_path, "*.json"):
        manifest = decode(path.read_bytes())
        assert all((tmp_path / "shared" / each.object).stat().st_size == each.size for each in manifest.files)
    long_ago = time.time() - GRACE_MS / 1000 - 60
    os.utime(waiting, (long_ago, long_ago))
    new.write(40, b="3")
    new.take(5_000)
    assert not waiting.exists()


class Refusing(FolderObjects):
    """A store that fails after some calls."""

    left = 1_000

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise SnapshotError("the network is down")

    def put(self, name: str, source: bytes | Path) -> None:
        self._count()
        super().put(name, source)

    def fetch(self, name: str, target: Path) -> str:
        self._count()
        return super().fetch(name, target)


@pytest.mark.parametrize("after", range(4))
def test_interrupted_upload_or_download_keeps_existing_snapshots(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, after: int
) -> None:
    """The manifest is the last object of a snapshot."""
    caplog.set_level(logging.INFO)
    refusing = Refusing(tmp_path / "shared")
    old, new = Machine(tmp_path / "old", refusing), Machine(tmp_path / "new", refusing)
    old.write(10, a="1")
    old.take(1_000)
    refusing.left = after
    old.write(20, a="2")
    old.take(2_000)
    assert "is not stored: the network is down" in caplog.text
    assert len(stored(tmp_path, "*.json")) == 1
    refusing.left = after
    assert new.load() is None
    assert "the network is down" in caplog.text
    refusing.left = 1_000
    assert new.load() == 10
    assert sorted(path.name for path in new.folder.iterdir()) == [str(TASK)]
    old.write(30, a="3")
    old.take(3_000)
    assert len(stored(tmp_path, "*.json")) == 2
    old.close()
    new.close()


def manifest(**changes: Any) -> Manifest:
    files = (StoredFile("rocksdb/store/1.sst", f"{TASK}/files/w/aa", 3, "aa"),)
    return Manifest(str(TASK), "w", 5, IDS, {"store": 7}, files)._replace(**changes)


def test_manifests_are_read_as_they_were_written() -> None:
    assert decode(manifest().encode()) == manifest()


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"body": 1, "sha256": "x"}'])
def test_invalid_manifests_are_rejected(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="manifest"):
        decode(data)


def test_a_manifest_of_a_later_version_is_refused() -> None:
    body = json.loads(json.loads(manifest().encode())["body"]) | {"version": 2}
    text = json.dumps(body)
    outer = {"body": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    with pytest.raises(SnapshotError, match="version 2"):
        decode(json.dumps(outer).encode())


@pytest.mark.parametrize("path", ["../../x", "/etc/x", "rocksdb/x", "other/store/x"])
def test_a_manifest_writes_no_file_outside(tmp_path: Path, path: str) -> None:
    """Its names are not trusted."""
    objects = FolderObjects(tmp_path / "shared")
    bad = manifest(files=(StoredFile(path, "x", 1, "x"),))
    objects.put(bad.name, bad.encode())
    machine = Machine(tmp_path / "new", objects)
    assert machine.load() is None
    machine.close()


def test_retention_keeps_newest_manifests_and_their_files() -> None:
    """The newest manifests by time; files of this writer, and old ones of others, that none of them names."""
    names = [manifest(created_ms=at).name for at in (9, 11, 10)]
    assert manifests_to_delete(names, 2) == [names[0]]
    ages = {f"{TASK}/files/{name}": age for name, age in
            (("w/aa", GRACE_MS * 2), ("w/bb", 0), ("z/cc", 0), ("z/dd", GRACE_MS + 1))}  # fmt: skip
    assert files_to_delete(ages, [manifest()], "w") == [f"{TASK}/files/w/bb", f"{TASK}/files/z/dd"]


def test_folders_of_a_killed_process_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "snapshot-0_1-x").mkdir()
    (tmp_path / "loading-0_1").mkdir()
    Snapshots(FolderObjects(tmp_path / "shared"), tmp_path, 0, 3).close()
    assert list(tmp_path.iterdir()) == []


def test_a_task_without_committed_stores_has_no_snapshot(
    machines: list[Machine], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That is no failure, which the log would repeat with each interval."""
    machine = machines[0]
    engine = machine.open()
    machine.snapshots.take(TASK, {"store": engine}, IDS, 0)
    assert caplog.text == ""
    assert stored(tmp_path, "*") == []
    assert {path.name for path in machine.folder.iterdir()} == {str(TASK)}


def test_snapshot_dir_selects_the_storage(tmp_path: Path) -> None:
    """Without snapshot.dir there are none. URLs: test_streams_object_store.py."""
    assert isinstance(open_objects(str(tmp_path), "app"), FolderObjects)
    assert open_snapshots(StreamsConfig.of(application_id="app"), tmp_path) is None
