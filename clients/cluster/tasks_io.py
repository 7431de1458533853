"""Background tasks with an owner: their failures are reported, and `close` ends them.

`asyncio.run` cancels all tasks of its loop before it closes the generators of the loop. A client flushes
after that, so its own tasks are hidden from `asyncio.all_tasks`: only their owner cancels them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")


def owned_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task on the running loop that `asyncio.all_tasks` does not list; its owner must hold and end it.

    Source: "Extending", in Python's documentation of asyncio.
    """
    task = asyncio.get_running_loop().create_task(work)
    asyncio._unregister_task(task)  # noqa: SLF001 - documented for implementations of tasks
    return task


class Tasks:
    """The tasks of one client. A failed task is a bug: `on_failure` is called, and ends the client."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()  # the event loop holds tasks only weakly
        self._is_closed = False

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Run a coroutine on the running loop; None after `close`, without running it."""
        if self._is_closed:
            work.close()
            return None
        task = owned_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def report(self, error: BaseException) -> None:
        """Report a bug outside of a task."""
        if not self._is_closed:
            self._on_failure(error)

    async def close(self) -> None:
        """Cancel all tasks and wait for their end, except for the one that calls."""
        self._is_closed = True
        left = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report(error)
