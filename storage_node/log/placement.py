"""The log dir of a new log: the one that an operator chose, else the one with the fewest partitions, of those
that are not cordoned by cordoned.log.dirs (KIP-1066) and have room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .log_tasks import CreateTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition
    from .log_dir import LogDir
    from .log_dirs import LogDirs
    from .log_tasks import NewLog

ALL_DIRS = "*"
# Bound: logs created by one task: few enough to share the work among threads, many enough to share the sync
# of the log dir.
_LOGS_PER_TASK = 50


class Placement:
    """`cordoned` paths get no new logs while there is another log dir; ALL_DIRS cordons all."""

    __slots__ = ("_dirs", "cordoned", "preferred")

    def __init__(self, dirs: LogDirs, cordoned: Iterable[str]) -> None:
        self._dirs = dirs
        self.cordoned = frozenset(cordoned)
        self.preferred: dict[TopicPartition, str] = {}  # paths that an operator chose for logs to come

    def is_cordoned(self, log_dir: LogDir) -> bool:
        return log_dir.path in self.cordoned or ALL_DIRS in self.cordoned

    @property
    def cordoned_ids(self) -> tuple[bytes, ...]:
        return tuple(each.directory_id for each in self._dirs if each.directory_id and self.is_cordoned(each))

    def creation_tasks(
        self, missing: Iterable[NewLog], occupied: Iterable[LogDir], wall_ms: int
    ) -> list[CreateTask]:
        """Tasks that create the logs; `occupied` has the log dir of every existing log.

        While a log dir is offline only new partitions are created: the others may have their records there.
        """
        online = self._dirs.online
        dirs = [log_dir for log_dir in online if not self.is_cordoned(log_dir)] or online
        dirs = [log_dir for log_dir in dirs if log_dir.room.full is None] or dirs
        counts = Counter(log_dir.path for log_dir in occupied)
        tasks: list[CreateTask] = []
        filling: dict[str, CreateTask] = {}
        for new in missing:
            if not dirs or not (new.is_new or len(online) == len(self._dirs)):
                continue
            preferred = self._dirs.at(self.preferred.pop(new.topic_partition, ""))
            log_dir = preferred or min(dirs, key=lambda each: counts[each.path])
            counts[log_dir.path] += 1
            task = filling.get(log_dir.path)
            if task is None or len(task.wanted) >= _LOGS_PER_TASK:
                task = filling[log_dir.path] = CreateTask(log_dir, [], wall_ms)
                tasks.append(task)
            task.wanted.append(new)
        return tasks
