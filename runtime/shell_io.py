"""The owner of background tasks: a task that fails ends the whole, visibly.

An `asyncio.TaskGroup` gives this only inside one `async with`; servers start their tasks in `start()` and
are watched in `run()`, so the owner here outlives the call that spawns. The promise is the same: no task
without an owner, and no failure without a witness.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


def require_assertions(is_debug: bool = __debug__) -> None:
    """Refuse `python -O`. Errors: ConfigError. A server's invariants are assertions: without them a broken
    one would go on writing."""
    if not is_debug:
        raise ConfigError("run the servers of headrace without python -O: their assertions guard the data")


class TaskOwner:
    """Spawns tasks and runs until one of them fails or `stop` is called.

    Invariant: once `run` has returned or raised, none of the tasks is running any more.
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
        """The first failure, None while all is well."""
        return self._failures[0] if self._failures else None

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task now; its failure ends `run`. Returning early or being cancelled is no failure.

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
        """Call `action` again and again, `interval_s` after the end of the call before."""
        self.spawn(_repeat(interval_s, action), name)

    def guarded(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action` for an event loop callback, where an exception would only be logged: it ends `run`."""

        def run(*args: Any) -> None:
            try:
                action(*args)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it must not pass unseen
                self.fail(error)

        return run

    def fail(self, error: BaseException) -> None:
        """Report a failure from outside a task, such as from an event loop callback: `run` raises it."""
        self._failures.append(error)
        self.stop()

    def stop(self) -> None:
        """Let `run` end: it cancels the tasks and returns, or raises if one has failed."""
        self._is_stopping = True
        self._has_news.set()

    async def wait_stopping(self) -> None:
        """Wait for the first `stop` or failure; the tasks may still be running."""
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
        """Wait for `stop` or for the first failure, then end all tasks.

        Errors: the failure itself; an ExceptionGroup when several tasks failed.
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
        # done callbacks run after the wait returns; they are what records failures during the end
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
