"""Snapshots of stores in an object store, through obstore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import ConfigError
from headrace.stream.records import TaskId
from headrace.stream.snapshots.manifest import SnapshotError
from headrace.stream.snapshots.objects_io import ObstoreObjects, open_objects
from headrace.stream.snapshots.snapshots_io import Snapshots
from headrace.stream.state.rocksdict_io import RocksEngine
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

TASK, IDS, PATIENCE_S = TaskId(0, 1), {"changelog": "id"}, 60.0


def test_snapshot_in_object_store_is_loaded_by_another_machine(tmp_path: Path) -> None:
    """Three snapshots are taken, two are kept, the newest one is loaded by another machine."""
    objects = open_objects("memory://", "app")
    old, new = tmp_path / "old", tmp_path / "new"
    engine = RocksEngine(old / str(TASK) / "rocksdb" / "store")
    snapshots = Snapshots(objects, old, 0, 2)
    for number in (1, 2, 3):
        engine.write({"all": {b"key": str(number).encode()}}, (), number)
        snapshots.take(TASK, {"store": engine}, IDS, number)
        wait_for(
            lambda number=number: f"{number:020d}" in "".join(objects.ages_ms(f"{TASK}/manifests/")),
            "the snapshot is stored",
            PATIENCE_S,
        )
        writer = snapshots._writers[TASK]
        assert writer.upload is not None
        writer.upload.result(PATIENCE_S)
    engine.close()
    snapshots.close()
    assert len(objects.ages_ms(f"{TASK}/manifests/")) == 2
    (new / str(TASK)).mkdir(parents=True)
    loading = Snapshots(objects, new, 0, 2)
    wait_for(lambda: loading.load(TASK, IDS), "it is loaded", PATIENCE_S)
    loading.close()
    found = RocksEngine(new / str(TASK) / "rocksdb" / "store")
    assert (found.offset(), found.get("all", b"key")) == (3, b"3")
    found.close()


def test_errors_of_an_object_store_name_the_object(tmp_path: Path) -> None:
    """A missing one may be deleted, and not be read."""
    objects = open_objects("memory://", "app")
    assert isinstance(objects, ObstoreObjects)
    with pytest.raises(SnapshotError, match="cannot read a/b"):
        objects.get("a/b")
    with pytest.raises(SnapshotError, match="cannot read a/b"):
        objects.fetch("a/b", tmp_path / "b")
    objects.delete(["a/b"])
    assert objects.ages_ms("a/") == {}


def test_a_url_that_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match=r"snapshot\.dir 'nosuch://x' cannot be used"):
        open_objects("nosuch://x", "app")
