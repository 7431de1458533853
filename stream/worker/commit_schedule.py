"""When the tasks of a thread are to be committed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..records import TaskId

_NEVER = 2**63 - 1  # ms


class CommitSchedule:
    """commit.interval.ms for each task. Tasks that are committed at the same time stay together; one that
    waits for calls of async functions is committed later than the others, and has its next turn later.

    `together`: all tasks are due when one is, because they share a transaction.
    """

    def __init__(self, every_ms: int, now_ms: int, *, together: bool) -> None:
        self._every_ms = every_ms
        self._together = together
        self._latest_ms = now_ms
        self._committed_ms: dict[TaskId, int] = {}
        self._waiting: set[TaskId] = set()
        self.next_ms = now_ms + every_ms
        """When a task is due that is not waiting already; without tasks, when one could be."""

    def due(self, tasks: Collection[TaskId], asked: Iterable[TaskId], now_ms: int) -> list[TaskId]:
        """Those of `tasks` that are to be committed, until `committed` has them: their interval has passed,
        or they are among `asked`."""
        committed = self._committed_ms
        if not committed:
            self._latest_ms = now_ms
        self._committed_ms = {task: committed.get(task, self._latest_ms) for task in tasks}
        found = {task for task, at_ms in self._committed_ms.items() if now_ms - at_ms >= self._every_ms}
        found.update(asked, self._waiting)
        self._waiting = set(tasks) if found and self._together else found & set(tasks)
        self._plan()
        return [task for task in tasks if task in self._waiting]

    def is_waiting(self, task: TaskId) -> bool:
        """Whether the task is due and not committed yet."""
        return task in self._waiting

    def committed(self, tasks: Collection[TaskId], now_ms: int) -> None:
        """These tasks were committed, or tried again with their next turn."""
        self._waiting.difference_update(tasks)
        self._committed_ms.update(dict.fromkeys(tasks, now_ms))
        self._latest_ms = now_ms
        self._plan()

    def _plan(self) -> None:
        left = [at_ms for task, at_ms in self._committed_ms.items() if task not in self._waiting]
        self.next_ms = (
            _NEVER if self._waiting and not left else min(left, default=self._latest_ms) + self._every_ms
        )
