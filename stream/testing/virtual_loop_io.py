"""An event loop in virtual time, for the async functions of a topology in the test driver.

`asyncio.sleep` and timeouts take no real time: when nothing is left to run, the clock jumps to the next
timer. Work for threads (`asyncio.to_thread`) runs at once, and there is no network. So each run is the same.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import StreamsError
from ..task.run_call_io import run_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..task.async_calls import AsyncCall


def _no_network() -> NoReturn:
    raise StreamsError("an async function in the test driver has no network: give it a fake of the service")


class _Clock(selectors.BaseSelector):
    """What the loop asks for events: there are none, and the clock jumps instead of waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.until_s: float | None = None  # None: without limit
        self.loop: asyncio.AbstractEventLoop | None = None
        self._own: dict[int, selectors.SelectorKey] = {}  # the loop's socket to itself

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return []
        assert self.loop is not None
        limit_s = self.until_s
        if timeout is None or (limit_s is not None and self.now_s + timeout > limit_s):
            self.now_s = self.now_s if limit_s is None else max(self.now_s, limit_s)
            self.loop.stop()
        else:
            self.now_s += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._own:
            _no_network()
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._own[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._own.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._own


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.clock.loop = self
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now_s

    def run_in_executor(  # type: ignore[override]  # less exact
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """At once, in this thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- the function that awaits it gets it
            future.set_exception(error)
        return future

    async def getaddrinfo(self, *_: Any, **__: Any) -> NoReturn:
        _no_network()

    async def sock_connect(self, *_: Any) -> NoReturn:
        _no_network()

    def __del__(self) -> None:
        self.close()  # without the warning of asyncio: a driver need not be closed


class VirtualCalls:
    """Runs the calls of the test driver's task. It is a CallExecutor."""

    def __init__(self, step: Callable[[], None]) -> None:
        """`step`: before each call."""
        self._step = step
        self._loop = VirtualLoop()
        self._tasks: dict[AsyncCall, asyncio.Task[None]] = {}
        self._ended: deque[AsyncCall] = deque()

    def submit(self, call: AsyncCall) -> None:
        self._step()
        task = self._loop.create_task(run_call(call))
        self._tasks[call] = task
        task.add_done_callback(lambda _: self._end(call))

    def _end(self, call: AsyncCall) -> None:
        if self._tasks.pop(call, None) is not None:
            self._ended.append(call)
            self._loop.stop()

    def ended(self) -> Iterator[AsyncCall]:
        while self._ended:
            yield self._ended.popleft()

    def cancel(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        self._ended.clear()
        for task in tasks:
            task.cancel()
        self._run(self._loop.time())

    def run(self, until_ms: int | None) -> bool:
        """Run until a call ends, at most up to a time (None: without limit). False if none has ended."""
        if not self._ended:
            self._run(None if until_ms is None else until_ms / 1000)
        return bool(self._ended)

    def _run(self, until_s: float | None) -> None:
        self._loop.clock.until_s = until_s
        # The test may run on a loop itself, as all code of a notebook does.
        outer = asyncio._get_running_loop()  # noqa: SLF001 -- documented, for event loops
        asyncio._set_running_loop(None)  # noqa: SLF001
        try:
            self._loop.run_forever()
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001

    def close(self) -> None:
        """Cancel what is left."""
        if not self._loop.is_closed():
            self.cancel()
            self._loop.close()
