"""Takes snapshots of the stores of tasks, and loads them where a task has no stores.

A checkpoint of RocksDB is made of hard links, in the stream thread; everything else is done by threads of its
own. What cannot be used or written is logged, and costs time only: the changelog has all records.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..state.engines import StateStoreError
from .manifest import (
    Manifest,
    SnapshotError,
    StoredFile,
    decode,
    file_object,
    files_to_delete,
    manifests_of,
    manifests_to_delete,
    newest_first,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..records import TaskId
    from ..state.engines import Engine
    from .objects_io import Objects

log = logging.getLogger("headrace.stream")

STORES = "rocksdb"  # the folder of the stores in that of the task
_CHUNK = 1 << 20


class _Writer:
    """One opening of a task."""

    def __init__(self, now_ms: int, interval_ms: int) -> None:
        self.name = uuid.uuid4().hex
        self.due_ms = now_ms + interval_ms
        self.upload: Future[None] | None = None
        self.known: dict[str, StoredFile] = {}  # immutable files that are stored already, by path


class Snapshots:
    """Of one instance. `folder`: of the application, on the disk of the stores. Stream threads call all
    methods; only one of them has a task at a time."""

    def __init__(self, objects: Objects, folder: Path, interval_ms: int, kept: int) -> None:
        self._objects = objects
        self._folder = folder
        self._interval_ms = interval_ms
        self._kept = kept
        self._writers: dict[TaskId, _Writer] = {}
        self._loads: dict[TaskId, Future[str | None]] = {}
        self._loaded: dict[TaskId, str] = {}
        self._unfit: dict[TaskId, set[str]] = {}
        self._pool = ThreadPoolExecutor(2, "snapshots")
        for pattern in ("loading-*", "snapshot-*"):  # of a process that was killed
            for left in folder.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)

    # --- load -------------------------------------------------------------------------------------------

    def load(self, task: TaskId, topic_ids: Mapping[str, str]) -> bool:
        """Load the newest snapshot that fits into the folder of a task without stores. False: it is under
        way, ask again."""
        future = self._loads.get(task)
        if future is None:
            future = self._loads[task] = self._pool.submit(self._fetch_newest, task, dict(topic_ids))
        if not future.done():
            return False
        del self._loads[task]
        name, stage = future.result(), self._stage(task)
        if name is not None:
            (stage / STORES).rename(self._folder / str(task) / STORES)
            self._loaded[task] = name
        shutil.rmtree(stage, ignore_errors=True)
        return True

    def deleted(self, task: TaskId) -> None:
        """The stores of a task did not fit, and were deleted: the snapshot that they came from is not loaded
        again."""
        name = self._loaded.pop(task, None)
        if name is not None:
            log.warning("task %s: snapshot %s does not fit its changelogs", task, name)
            self._unfit.setdefault(task, set()).add(name)

    def _stage(self, task: TaskId) -> Path:
        return self._folder / f"loading-{task}"

    def _fetch_newest(self, task: TaskId, topic_ids: Mapping[str, str]) -> str | None:
        """The name of the manifest whose files are in the stage; None without one."""
        problems: list[str] = []
        try:
            names = newest_first(self._objects.ages_ms(manifests_of(task)))
        except SnapshotError as error:
            names = []
            problems.append(str(error))
        for name in names:
            if name in self._unfit.get(task, ()):
                continue
            try:
                manifest = decode(self._objects.get(name))
                manifest.check_fits(str(task), topic_ids)
                self._fetch(task, manifest)
            except (SnapshotError, OSError) as error:
                problems.append(f"{name}: {error}")
                continue
            self._say(task, problems, f"snapshot {name} is loaded")
            return name
        self._say(task, problems, "its stores are restored from the changelogs alone")
        return None

    @staticmethod
    def _say(task: TaskId, problems: list[str], outcome: str) -> None:
        if problems:
            log.warning("task %s: snapshots cannot be used (%s): %s", task, "; ".join(problems), outcome)
        else:
            log.info("task %s: %s", task, outcome)

    def _fetch(self, task: TaskId, manifest: Manifest) -> None:
        stage = self._stage(task)
        shutil.rmtree(stage, ignore_errors=True)
        (stage / STORES).mkdir(parents=True)
        for each in manifest.files:
            path = PurePosixPath(each.path)
            if path.is_absolute() or ".." in path.parts or len(path.parts) != 3 or path.parts[0] != STORES:
                raise SnapshotError(f"its manifest names a file {each.path!r}")
            target = stage / path
            target.parent.mkdir(exist_ok=True)
            if self._objects.fetch(each.object, target) != each.sha256:
                raise SnapshotError(f"{each.object} is damaged")

    # --- take -------------------------------------------------------------------------------------------

    def take(
        self, task: TaskId, engines: Mapping[str, Engine], topic_ids: Mapping[str, str], now_ms: int
    ) -> None:
        """Take a snapshot of a task that was just committed, if one is due."""
        writer = self._writers.get(task)
        if writer is None:
            writer = self._writers[task] = _Writer(now_ms, self._interval_ms)
        if now_ms < writer.due_ms or (writer.upload is not None and not writer.upload.done()):
            return
        writer.due_ms = now_ms + self._interval_ms
        folder = self._folder / f"snapshot-{task}-{writer.name}"
        try:
            offsets = _checkpoint(engines, folder / STORES)
        except (StateStoreError, OSError) as error:
            log.warning("no snapshot of task %s is taken: %s", task, error)
            shutil.rmtree(folder, ignore_errors=True)
            return
        if not offsets:  # nothing was committed yet, or other engines have all stores
            shutil.rmtree(folder, ignore_errors=True)
            return
        manifest = Manifest(str(task), writer.name, now_ms, dict(topic_ids), offsets, ())
        writer.upload = self._pool.submit(self._store, writer, manifest, folder)

    def _store(self, writer: _Writer, manifest: Manifest, folder: Path) -> None:
        """Order: the files, then the manifest, then what is not needed any more."""
        try:
            existing = self._objects.ages_ms(file_object(manifest.task, writer.name, ""))
            writer.known = {path: each for path, each in writer.known.items() if each.object in existing}
            found = sorted(path for path in folder.rglob("*") if path.is_file())
            files = [self._stored(writer, manifest, folder, path) for path in found]
            manifest = manifest._replace(files=tuple(files))
            self._objects.put(manifest.name, manifest.encode())
            writer.known = {each.path: each for each in files if each.path.endswith(".sst")}
            log.info("snapshot %s of %d files is stored", manifest.name, len(files))
        except (SnapshotError, OSError) as error:
            log.warning("the snapshot of task %s is not stored: %s", manifest.task, error)
        except Exception:
            log.exception("the snapshot of task %s is not stored", manifest.task)
        else:
            self._clean(manifest)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _stored(self, writer: _Writer, manifest: Manifest, folder: Path, path: Path) -> StoredFile:
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        known = writer.known.get(name)
        if known is not None and known.size == size:
            return known
        sha256 = _sha256(path)
        target = file_object(manifest.task, writer.name, sha256)
        self._objects.put(target, path)
        return StoredFile(name, target, size, sha256)

    def _clean(self, newest: Manifest) -> None:
        """Delete old manifests, and then files. While a kept manifest cannot be read, its files are not
        known, and none is deleted."""
        try:
            names = self._objects.ages_ms(manifests_of(newest.task))
            self._objects.delete(manifests_to_delete(names, self._kept))
            kept = [decode(self._objects.get(name)) for name in newest_first(names)[: self._kept]]
            ages = self._objects.ages_ms(f"{newest.task}/files/")
            self._objects.delete(files_to_delete(ages, kept, newest.writer))
        except (SnapshotError, OSError) as error:
            log.warning("old snapshots of task %s are not deleted: %s", newest.task, error)

    # --- end --------------------------------------------------------------------------------------------

    def closed(self, task: TaskId) -> None:
        """The stores of the task are closed; an upload goes on."""
        self._writers.pop(task, None)
        self._loaded.pop(task, None)

    def close(self) -> None:
        """Wait for uploads that have begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _checkpoint(engines: Mapping[str, Engine], folder: Path) -> dict[str, int]:
    """Hard links to the files of all stores that RocksDB has; their offsets."""
    folder.mkdir(parents=True)
    offsets: dict[str, int] = {}
    for name, engine in sorted(engines.items()):
        checkpoint: Any = getattr(engine, "checkpoint", None)
        offset = engine.offset()
        if checkpoint is not None and offset is not None:
            checkpoint(folder / name)
            offsets[name] = offset
    return offsets


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()
