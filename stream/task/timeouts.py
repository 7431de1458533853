"""How long tasks may go on without progress because of retriable errors: task.timeout.ms. Source: KIP-572."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..errors import TaskTimeoutError, is_retriable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..records import TaskId

log = logging.getLogger("headrace.stream")


class TaskTimeouts:
    """Invariant: a task has a deadline exactly if its last attempt failed. With a timeout of 0 the first
    error is raised, else at least one more attempt is made.

    Only a commit is progress after an error of processing: the task is restored before each further attempt.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._deadlines: dict[TaskId, int] = {}
        self._until_commit: set[TaskId] = set()

    def retry_or_raise(
        self, tasks: Iterable[TaskId], error: BaseException, now_ms: int, *, until_commit: bool
    ) -> None:
        """`failed` for a retriable error. Errors: the same one if it is not retriable; TaskTimeoutError."""
        if not is_retriable(error):
            raise error
        self.failed(tasks, error, now_ms, until_commit=until_commit)

    def failed(
        self, tasks: Iterable[TaskId], error: BaseException, now_ms: int, *, until_commit: bool
    ) -> None:
        """A retriable error of these tasks; `until_commit`: of processing, not of the way to it. Errors:
        TaskTimeoutError behind the deadline of one."""
        for task in tasks:
            if until_commit:
                self._until_commit.add(task)
            is_first = task not in self._deadlines
            deadline = self._deadlines.setdefault(task, now_ms + self._timeout_ms)
            if now_ms > deadline or self._timeout_ms == 0:
                raise TaskTimeoutError(
                    f"task {task} made no progress within task.timeout.ms, {self._timeout_ms} ms:"
                    f" {type(error).__name__}: {error}"
                ) from error
            log.log(
                logging.WARNING if is_first else logging.DEBUG,
                "task %s is tried again, for at most %.0f s more: %s",
                *(task, (deadline - now_ms) / 1000, error),
            )

    def restored(self, tasks: Iterable[TaskId]) -> None:
        """The tasks begin to process records."""
        for task in tasks:
            if task not in self._until_commit:
                self._deadlines.pop(task, None)

    def clear(self, tasks: Iterable[TaskId]) -> None:
        """The tasks have committed what they processed, or moved away."""
        if self._deadlines:
            for task in tasks:
                self._deadlines.pop(task, None)
                self._until_commit.discard(task)
