"""The standby tasks of one stream thread: opened, promoted, taken over from active tasks, and closed.

Warm-up tasks are standby tasks: only the group's coordinator makes a difference.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ..errors import StateDirectoryError, TaskCorruptedError, is_retriable
from ..state.engines import StateStoreError
from ..task.standby_task import StandbyTask
from .listeners_io import SuspendReason
from .standby_pace import StandbyPace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from ..task.restoration import Restoration
    from ..task.task import Task
    from .standby_reader_io import StandbyReader
    from .task_maker_io import TaskMaker

log = logging.getLogger("headrace.stream")

_PAUSE_S = 1.0  # before an error is met again
_SLICE_S = 0.01


class Standbys:
    """Invariant: a task is a standby here, or the manager has it, never both: it holds the lock of the stores
    as well. Not thread-safe; `tasks` is replaced, never changed: another thread reads it."""

    def __init__(
        self,
        maker: TaskMaker,
        reader: StandbyReader,
        partitions_of: Callable[[TaskId], Sequence[TopicPartition]],
        active: Mapping[TaskId, Task],
    ) -> None:
        """`active`: the other tasks of the thread."""
        self._clock_s = reader.clock_s
        self._maker = maker
        self._reader = reader
        self._partitions_of = partitions_of
        self._active = active
        self._pace = StandbyPace()
        self._wanted: frozenset[TaskId] = frozenset()
        self._retry_at_s = 0.0
        self._problem = ""
        self.tasks: Mapping[TaskId, StandbyTask] = {}

    def use(self, wanted: Collection[TaskId], active: Collection[TaskId]) -> None:
        """The thread has these standby tasks from now on. Others are closed, but for those that become active
        tasks."""
        self._wanted = frozenset(
            task_id for task_id in wanted if self._maker.plan.sub_topologies[task_id.sub_topology].changelogs
        )
        for task_id in sorted(self.tasks.keys() - self._wanted - set(active)):
            self._close(task_id)
        self._retry_at_s = 0.0

    def is_wanted(self, task_id: TaskId) -> bool:
        """Whether the thread has, or will have, the task as a standby."""
        return task_id in self._wanted

    def lag_of(self, task_id: TaskId) -> int | None:
        """How far a standby is behind; None if that is not known."""
        standby = self.tasks.get(task_id)
        return None if standby is None else standby.lag

    @property
    def has_work(self) -> bool:
        """Whether there are records to read without a wait, or standbys to open."""
        if self._clock_s() < self._retry_at_s:
            return False
        return self._reader.has_more or bool(self._missing)

    @property
    def _missing(self) -> list[TaskId]:
        return sorted(self._wanted - self.tasks.keys() - self._active.keys())

    # --- roles ------------------------------------------------------------------------------------------

    def take(self, task_id: TaskId, now_ms: int) -> tuple[Task, Restoration] | None:
        """The task of a standby becomes active: with its open stores, and what is left to restore."""
        standby = self._remove(task_id, SuspendReason.PROMOTED)
        if standby is None:
            return None
        log.info("standby task %s becomes active, %s offsets behind", task_id, standby.lag)
        return standby.task, standby.promote(now_ms)

    def adopt(self, task: Task, positions: Mapping[str, int]) -> None:
        """An active task, which is suspended and committed, goes on as a standby with its open stores, which
        have these offsets of their changelogs."""
        self._add(StandbyTask(task, task.recycle(positions)))
        log.info("task %s goes on as a standby", task.id)

    def _add(self, standby: StandbyTask) -> None:
        self.tasks = {**self.tasks, standby.id: standby}
        self._reader.add(standby)

    def _remove(self, task_id: TaskId, reason: SuspendReason) -> StandbyTask | None:
        standby = self.tasks.get(task_id)
        if standby is not None:
            self.tasks = {key: each for key, each in self.tasks.items() if key != task_id}
            self._reader.remove(standby, reason)
        return standby

    def _close(self, task_id: TaskId, *, is_damaged: bool = False) -> None:
        standby = self._remove(task_id, SuspendReason.MIGRATED)
        if standby is None:
            return
        if not is_damaged:
            try:
                standby.commit()
            except StateStoreError as error:
                log.warning("standby task %s is closed without its last records: %s", task_id, error)
        self._maker.close(standby.task)

    # --- a turn -----------------------------------------------------------------------------------------

    def step(self, *, is_idle: bool) -> None:
        """Open standbys, and read some records of changelogs. `is_idle`: the active tasks have had no records
        in this turn. An error of the cluster or of a store is logged, and met again later.

        Errors: StreamsError of a listener; HeadraceError that is not retriable.
        """
        now_s = self._clock_s()
        if not self._wanted or now_s < self._retry_at_s or not self._pace.is_due(now_s, is_idle=is_idle):
            return
        try:
            self._open_missing()
            self._reader.step(_SLICE_S)
            self._problem = ""
        except TaskCorruptedError as error:
            self._build_again(error)
        except HeadraceError as error:
            if not is_retriable(error) and not isinstance(error, (StateDirectoryError, StateStoreError)):
                raise
            self._retry_at_s = self._clock_s() + _PAUSE_S
            if str(error) != self._problem:
                level = error.log_level if isinstance(error, StateDirectoryError) else logging.WARNING
                log.log(level, "standby tasks wait: %s", error)
            self._problem = str(error)
        self._pace.took(now_s, self._clock_s())

    def _open_missing(self) -> None:
        """One whose stores another thread still has waits for a later turn."""
        for task_id in self._missing:
            task, restoration = self._maker.open(task_id, self._partitions_of(task_id))
            self._add(StandbyTask(task, restoration))
            log.info("standby task %s begins", task_id)

    def _build_again(self, error: TaskCorruptedError) -> None:
        task_id = error.task_id
        assert task_id is not None
        log.warning(
            "the stores of standby task %s are deleted and built again from their changelogs: %s",
            task_id,
            error,
        )
        self._close(task_id, is_damaged=True)
        self._maker.directory.wipe(task_id)

    def close(self) -> None:
        for task_id in sorted(self.tasks):
            self._close(task_id)
        self._reader.close()
