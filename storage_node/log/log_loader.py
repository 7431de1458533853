"""The logs that a node finds at its start: which folders are loaded, what failed, what was lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...runtime.files.file_layer import DiskFullError
from . import names
from .log_folders import folders_of, missing_from, one_of_each, set_aside
from .log_tasks import LoadTask, purge
from .losses import PreviousEnd, losses_in, previous_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.model import TopicPartition
    from .config import LogConfig
    from .log_dir import LogDir
    from .log_dirs import LogDirs
    from .log_registry import LogRegistry
    from .offset_checkpoints import OffsetCheckpoints


class LogLoader:
    """Call `tasks`, run them on any threads, then `finish`."""

    def __init__(
        self, dirs: LogDirs, registry: LogRegistry, checkpoints: OffsetCheckpoints, defaults: LogConfig
    ) -> None:
        self._dirs = dirs
        self._registry = registry
        self._checkpoints = checkpoints
        self._defaults = defaults
        self.stray_folders: list[str] = []  # kept for an operator: strays and unfinished moves
        self._deleted_folders: list[tuple[LogDir, str]] = []  # not yet removed
        self._future_folders: list[tuple[LogDir, str]] = []  # copies of unfinished moves
        self._without_room: dict[TopicPartition, LoadTask] = {}  # failed on a full disk; may load later
        self._missing: set[TopicPartition] = set()  # failed because there is no folder
        self._lost: set[TopicPartition] = set()  # lost records since a clean shutdown

    def tasks(self, wall_ms: int) -> list[LoadTask]:
        """One per partition folder."""
        tasks: list[LoadTask] = []
        for log_dir in self._dirs.online:
            for name in folders_of(log_dir):
                path = f"{log_dir.path}/{name}"
                found = names.parse_folder_name(name)
                if name.endswith(names.DELETE_FOLDER):
                    self._deleted_folders.append((log_dir, path))
                elif name.endswith(names.FUTURE_FOLDER):
                    self._future_folders.append((log_dir, path))
                elif name.endswith(names.STRAY_FOLDER):
                    self.stray_folders.append(path)
                elif found is not None:
                    tasks.append(LoadTask(log_dir, found, self._defaults, wall_ms))
        return tasks

    def finish(self, tasks: Sequence[LoadTask]) -> None:
        """Register the loaded logs. Errors: KafkaStorageError if all dirs are offline."""
        registry = self._registry
        loaded, registry.duplicates = one_of_each(tasks)
        for task in loaded:
            if task.log is not None:
                registry.add(task.log, task.log_dir)
            else:
                registry.add_failed(task.topic_partition, str(task.error), task.log_dir)
                if isinstance(task.error, DiskFullError):
                    self._without_room[task.topic_partition] = task
        for log_dir, path in self._future_folders:
            name = names.parse_folder_name(path.rpartition("/")[2].rpartition(".")[0])
            if name in registry.logs:
                self._deleted_folders.append((log_dir, path))
            else:
                self.stray_folders.append(path)
        for log_dir in self._dirs.online:
            for name, reason in missing_from(log_dir, registry.dir_of).items():
                registry.add_failed(name, reason, log_dir)
                self._missing.add(name)
            duplicates = {
                name: task.log for name, task in registry.duplicates.items() if task.log_dir is log_dir
            }
            self._lost.update(losses_in(log_dir, registry.in_dir(log_dir) | duplicates))
            self._checkpoints.correct(log_dir)
        self._dirs.check_any_online()

    def retry_without_room(self) -> list[TopicPartition]:
        """Load again the logs that a full disk had no room to recover; those that are loaded now."""
        loaded = []
        for name, task in list(self._without_room.items()):
            task.error = None
            task.run()
            if task.log is not None:
                del self._without_room[name]
                self._registry.add(task.log, task.log_dir)
                self._checkpoints.correct(task.log_dir)
                loaded.append(name)
        return loaded

    def forget_missing(self, is_expected: Callable[[TopicPartition], bool]) -> None:
        """Drop partitions without a folder that are not expected: their topic was deleted."""
        for name in sorted(self._missing):
            if not is_expected(name):
                self._missing.discard(name)
                del self._registry.failed[name], self._registry.dir_of[name]

    def resolve(self, topic_partition: TopicPartition, topic_id: bytes | None) -> None:
        """Of two logs with the same name keep the one of this topic; the other folder becomes a stray."""
        registry = self._registry
        duplicate = registry.duplicates.pop(topic_partition, None)
        if duplicate is None or duplicate.log is None:
            return
        loser, its_dir = duplicate.log, duplicate.log_dir
        if duplicate.log.topic_id == topic_id:
            loser, its_dir = registry.logs[topic_partition], registry.dir_of[topic_partition]
            registry.add(duplicate.log, duplicate.log_dir)
            self._checkpoints.correct(duplicate.log_dir)
        self.stray_folders.append(set_aside(loser, its_dir))

    def resolve_all(self) -> None:
        """The metadata has no topic of the duplicates that are left."""
        for name in list(self._registry.duplicates):
            self.resolve(name, None)

    @property
    def previous_end(self) -> PreviousEnd:
        return previous_end(self._dirs, self._lost)

    def purge_tasks(self) -> list[Callable[[], None]]:
        """Remove the folders of logs deleted before the start, on any thread; returned once."""
        folders, self._deleted_folders = self._deleted_folders, []
        return [partial(purge, log_dir, path) for log_dir, path in folders]
