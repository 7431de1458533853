"""An event loop whose clock jumps to the next deadline when it is idle, so that waits take no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

START_S = 1000.0
# A test that takes this much virtual time waits for an event that never happens.
LIMIT_S = 100_000.0


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.clock_s = START_S

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout != 0:
            assert timeout is not None, "all tasks wait, and no timer is set"
            assert self.clock_s < START_S + LIMIT_S, "the test exceeds its virtual time limit"
            self.clock_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs one test at a time; `now_ms` is its clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # Includes tasks of `owned_task`, which asyncio.all_tasks does not list.
        self.made: WeakSet[asyncio.Future[Any]] = WeakSet()

    def create_task(self, *args: Any, **kwargs: Any) -> Any:
        task = super().create_task(*args, **kwargs)
        self.made.add(task)
        return task

    def time(self) -> float:
        return self._jumping.clock_s

    def now_ms(self) -> int:
        """The virtual time in ms."""
        return round(self.time() * 1000)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in virtual time. Fails if tasks are left."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(work)
        left = [task for task in loop.made if not task.done()]
        assert not left, f"tasks were left behind: {left}"
        return result
    finally:
        loop.close()
