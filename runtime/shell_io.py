"""The owner of background tasks: a failed task ends all of them, with its error.

An `asyncio.TaskGroup` is limited to one `async with`; servers start their tasks in `start()` and are awaited
in `run()`, so this owner outlives the call that spawns. The guarantee is the same: no task without an owner,
no failure without a report.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


def require_assertions(is_debug: bool = __debug__) -> None:
    """Reject `python -O`. Errors: ConfigError. The invariants of servers are assertions: without them a
    broken invariant could corrupt data."""
    if not is_debug:
        raise ConfigError("headrace servers must not run with python -O: their assertions protect the data")


class TaskOwner:
    """Spawns tasks and runs until one of them fails or `stop` is called.

    Invariant: once `run` has returned or raised, no task is running.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []
        self._has_news = asyncio.Event()
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        """True from the first `stop` or failure on."""
        return self._is_stopping

    @property
    def failure(self) -> BaseException | None:
        """The first failure, or None."""
        return self._failures[0] if self._failures else None

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task; its failure ends `run`. An early return or a cancellation is no failure.

        Errors: RuntimeError once the owner is stopping; the coroutine is closed unstarted.
        """
        if self._is_stopping:
            work.close()
            raise RuntimeError(f"cannot start {name}: its owner is stopping")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    def every(self, interval_s: float, action: Callable[[], Awaitable[None] | None], name: str) -> None:
        """Call `action` repeatedly, `interval_s` after the end of the last call."""
        self.spawn(_repeat(interval_s, action), name)

    def guarded(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action` for an event loop callback, where asyncio would only log an exception: it ends `run`
        instead."""

        def run(*args: Any) -> None:
            try:
                action(*args)
            except BaseException as error:  # noqa: BLE001 - any exception must end `run`
                self.fail(error)

        return run

    def fail(self, error: BaseException) -> None:
        """Report a failure from outside of a task, such as an event loop callback: `run` raises it."""
        self._failures.append(error)
        self.stop()

    def stop(self) -> None:
        """End `run`: it cancels the tasks and returns, or raises if one has failed."""
        self._is_stopping = True
        self._has_news.set()

    async def wait_stopping(self) -> None:
        """Wait for the first `stop` or failure; tasks may still be running."""
        await self._has_news.wait()

    async def unless_stopping(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` to its end, or cancel it at the first `stop` or failure. Errors: those of `work`."""
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self._has_news.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self) -> None:
        """Wait for `stop` or the first failure, then end all tasks.

        Errors: the failure itself; an ExceptionGroup if several tasks failed.
        """
        try:
            await self._has_news.wait()
        finally:
            self._is_stopping = True
            await self._end_tasks()
        if len(self._failures) == 1:
            raise self._failures[0]
        if self._failures:
            raise BaseExceptionGroup("background tasks failed", self._failures)

    async def _end_tasks(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # done callbacks run after the wait returns; they record failures during the end
        await asyncio.sleep(0)

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.fail(error)


async def _repeat(interval_s: float, action: Callable[[], Awaitable[None] | None]) -> None:
    while True:
        outcome = action()
        if outcome is not None:
            await outcome
        await asyncio.sleep(interval_s)
