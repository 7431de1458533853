"""The folder with the persistent stores of one process: an flock on it, a folder per task.

Layout: `<state.dir>/<application.id>/process.json` (ids of the process, locked while it runs) and
`<state.dir>/<application.id>/<task>/` with the stores and `changelogs.json`, the ids of their topics.
Source for the aims: Kafka StateDirectory.java.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StateDirectoryError
from ..records import TaskId

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from ..snapshots.snapshots_io import Snapshots

_PROCESS_FILE = "process.json"
_TOPICS_FILE = "changelogs.json"
_TASK_FOLDER = re.compile(r"(\d+)_(\d+)")


def default_state_dir() -> Path:
    """headrace-streams in the temporary folder."""
    return Path(tempfile.gettempdir(), "headrace-streams")


class StoredOffset(NamedTuple):
    """Sums over the changelogs of a task: the offset up to which its stores are complete, and the end."""

    offset: int
    end: int


class StateDirectory:
    """The folder of one application, locked against other processes until `close`. Thread-safe.

    Errors: StateDirectoryError if another process uses the folder, or it cannot be written.
    """

    def __init__(self, state_dir: str, application_id: str, *, group_writes: bool = False) -> None:
        """`group_writes`: allow.os.group.write.access."""
        self.path = Path(state_dir or default_state_dir(), application_id)
        self._lock = threading.Lock()
        self.snapshots: Snapshots | None = None
        self._owners: dict[TaskId, str] = {}
        self._stored: dict[TaskId, StoredOffset] = {}
        self._mode = 0o770 if group_writes else 0o700
        try:
            self._make(self.path, parents=True)
            self._descriptor = os.open(
                self.path / _PROCESS_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise StateDirectoryError(f"state.dir {self.path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self._known().get("pid", "unknown")
            os.close(self._descriptor)
            raise StateDirectoryError(
                f"state.dir {self.path} is in use by another process, pid {owner}; instances of one"
                " application on one machine need a state.dir each"
            ) from error
        self.process_id = self._process_id()

    def _make(self, folder: Path, *, parents: bool = False) -> None:
        """Make a folder with its mode, whatever the umask of the process."""
        if not folder.exists():
            folder.mkdir(parents=parents, exist_ok=True, mode=self._mode)
            folder.chmod(self._mode)

    def acquire(self, task: TaskId, owner: str) -> Path:
        """The folder of a task, for the thread `owner` alone.

        Errors: StateDirectoryError if another thread of this process has it.
        """
        with self._lock:
            holder = self._owners.setdefault(task, owner)
            if holder != owner:
                raise StateDirectoryError(f"the stores of task {task} are open in thread {holder}")
            self._stored.pop(task, None)
        folder = self.path / str(task)
        self._make(folder)
        os.utime(folder)  # `clean` counts from here
        return folder

    def bind(self, task: TaskId, topic_ids: Mapping[str, str]) -> bool:
        """Note the ids of the changelogs of a task. False if its stores belong to topics that were deleted,
        or to another cluster: the stores are deleted then."""
        file, known = self.path / str(task) / _TOPICS_FILE, self._bound(task)
        if known == topic_ids:
            return True
        is_same = _is_same(known, topic_ids)
        if not is_same:
            self.wipe(task)
            self._make(file.parent)
        file.write_text(json.dumps(dict(topic_ids)) + "\n")
        return is_same

    def is_bound(self, task: TaskId, topic_ids: Mapping[str, str]) -> bool:
        """Whether `bind` would keep the stores of the task."""
        return _is_same(self._bound(task), topic_ids)

    def _bound(self, task: TaskId) -> dict[str, str] | None:
        try:
            known: dict[str, str] = json.loads((self.path / str(task) / _TOPICS_FILE).read_text())
        except (OSError, ValueError):
            return None
        return known

    def release(self, task: TaskId, stored: StoredOffset | None = None) -> None:
        """The stores of the task are closed, `stored` says how far they are."""
        with self._lock:
            self._owners.pop(task, None)
            if stored is not None:
                self._stored[task] = stored
            folder = self.path / str(task)
            if folder.exists():
                os.utime(folder)

    def stored_tasks(self) -> list[TaskId]:
        """The tasks with stores in their folder."""
        return [task for task, _ in self._folders() if self.has_stores(task)]

    def has_stores(self, task: TaskId) -> bool:
        """Whether there are stores in the folder of a task."""
        return any(entry.name != _TOPICS_FILE for entry in (self.path / str(task)).iterdir())

    def add_stored(self, found: Mapping[TaskId, StoredOffset]) -> None:
        """How far stores are that no thread has open."""
        with self._lock:
            self._stored.update({task: each for task, each in found.items() if task not in self._owners})

    def stored_offsets(self) -> dict[TaskId, StoredOffset]:
        """How far the stores are that no thread has open."""
        with self._lock:
            return dict(self._stored)

    def clean(self, now_ms: int, delay_ms: int) -> list[TaskId]:
        """Delete the folders of tasks that no thread has had for `delay_ms`, and return them."""
        removed: list[TaskId] = []
        for task, folder in self._folders():
            with self._lock:
                if task in self._owners or now_ms - folder.stat().st_mtime_ns // 1_000_000 < delay_ms:
                    continue
                shutil.rmtree(folder, ignore_errors=True)
                self._stored.pop(task, None)
            removed.append(task)
        return removed

    def wipe(self, task: TaskId) -> None:
        """Delete the stores of a task, which its caller has closed."""
        shutil.rmtree(self.path / str(task), ignore_errors=True)
        with self._lock:
            self._stored.pop(task, None)
        if self.snapshots is not None:
            self.snapshots.deleted(task)

    def close(self) -> None:
        """Release the lock. Waits for an upload of a snapshot that has begun."""
        if self.snapshots is not None:
            self.snapshots.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _folders(self) -> list[tuple[TaskId, Path]]:
        found = [(_TASK_FOLDER.fullmatch(entry.name), entry) for entry in self.path.iterdir()]
        return sorted((TaskId(int(name[1]), int(name[2])), entry) for name, entry in found if name)

    def _process_id(self) -> str:
        """The id in the file, which stays over restarts; a new one if it has none. The file also names the
        process that has the folder now."""
        try:
            process_id = str(uuid.UUID(self._known()["process_id"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            process_id = str(uuid.uuid4())
        text = json.dumps({"process_id": process_id, "pid": os.getpid()}) + "\n"
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)
        return process_id

    def _known(self) -> dict[str, Any]:
        """What the file says; nothing if it is damaged."""
        try:
            known = json.loads(os.pread(self._descriptor, 4096, 0))
        except ValueError:
            return {}
        return known if isinstance(known, dict) else {}


def _is_same(known: Mapping[str, str] | None, topic_ids: Mapping[str, str]) -> bool:
    """Whether stores with these ids of changelogs belong to the topics."""
    return known is None or all(topic_ids.get(topic, old) == old for topic, old in known.items())
