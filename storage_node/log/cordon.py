"""Which log dir gets a new log: where an operator wants it, else the one with the fewest, of those that are
not cordoned by cordoned.log.dirs (KIP-1066) and have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .log_tasks import CreateTask

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from .log_dir import LogDir
    from .log_manager import LogManager
    from .log_tasks import NewLog

EVERYTHING = "*"
# Bound: partitions made by one task: small enough to share the work among threads, large enough to share
# the sync of the log dir.
_LOGS_PER_TASK = 50


class Cordon:
    """Of one node: as it is configured now."""

    __slots__ = ("paths",)

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(paths)

    def holds(self, log_dir: LogDir) -> bool:
        """Whether the dir gets no new logs while there is another one."""
        return log_dir.path in self.paths or EVERYTHING in self.paths

    def ids(self, log_dirs: Iterable[LogDir]) -> tuple[bytes, ...]:
        """The ids of those of these dirs that are cordoned."""
        return tuple(each.directory_id for each in log_dirs if each.directory_id and self.holds(each))


def share_out(
    manager: LogManager, wanted: Iterable[NewLog], counts: Counter[str], wall_ms: int
) -> list[CreateTask]:
    """Work that makes logs which are not here; `counts` are the logs by path of their dir, and count on.
    While a dir is offline only new ones are made: the data of others may lie there."""
    dirs = manager.online_dirs
    is_whole = len(dirs) == len(manager.dirs)
    dirs = [log_dir for log_dir in dirs if not manager.cordon.holds(log_dir)] or dirs
    dirs = [log_dir for log_dir in dirs if log_dir.room.full is None] or dirs
    tasks: list[CreateTask] = []
    filling: dict[str, CreateTask] = {}
    for new in wanted:
        if not dirs or not (is_whole or new.is_new):
            continue
        preferred = manager.dir_at(manager.preferred.pop(new.topic_partition, ""))
        log_dir = preferred or min(dirs, key=lambda each: counts[each.path])
        counts[log_dir.path] += 1
        task = filling.get(log_dir.path)
        if task is None or len(task.wanted) >= _LOGS_PER_TASK:
            task = filling[log_dir.path] = CreateTask(log_dir, [], wall_ms)
            tasks.append(task)
        task.wanted.append(new)
    return tasks
