"""Point queries of several threads that wait for the same instance go together: one request while another one
is under way.

A request costs the instance that answers it ten times as much as one more key in a request. A caller waits
for a lock that the event loop releases: no task and no future for each key.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ClosedError
from ...runtime.clock_io import monotonic_ms
from .errors import QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

MOST_KEYS = 200
"""Of one request."""
_GRACE_S = 5.0  # for the reason of a request that ends at the deadline


class Caller:
    """A thread that waits for the values of its keys. Values and errors are set by the event loop."""

    __slots__ = ("_done", "_left", "_lock", "deadline_ms", "error", "values")

    def __init__(self, count: int, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.values: list[Any] = [None] * count
        self.error: BaseException | None = None
        self._left = count
        self._lock = threading.Lock()  # `close` fails callers from a thread of its own
        self._done = threading.Lock()
        self._done.acquire()

    def set(self, number: int, value: Any) -> None:
        """The value of a key. The last one lets the caller go on."""
        with self._lock:
            self.values[number] = value
            self._left -= 1
            if not self._left and self.error is None:
                self._done.release()

    def fail(self, error: BaseException) -> None:
        """The first error ends the wait, unless all values are there."""
        with self._lock:
            if self._left and self.error is None:
                self.error = error
                self._done.release()

    def wait(self, timeout_s: float) -> bool:
        """False: not all values are there in time."""
        return self._done.acquire(timeout=max(timeout_s, 0.001))


class Wait(NamedTuple):
    """A key of a caller that waits. `number`: of the value."""

    caller: Caller
    number: int
    partition: int
    key: bytes


class Batches:
    """`ask` gets a place and what waits for it, sets all values or errors, now or later, and returns when the
    next request may go to that place. `wake` runs a function on the event loop. For any thread."""

    def __init__(
        self,
        wake: Callable[[Callable[[], object]], None],
        ask: Callable[[Any, list[Wait]], Awaitable[None]],
    ) -> None:
        self._wake = wake
        self._ask = ask
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, list[Wait]] = {}
        """By place; a place is there while requests go to it."""
        self._callers: set[Caller] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def get(self, wanted: Mapping[Hashable, Iterable[Wait]], caller: Caller) -> list[Any]:
        """The values of the keys of one caller, by place. Errors: those of `ask`; QueryTimeoutError;
        ClosedError."""
        with self._lock:
            if self._is_closed:
                raise ClosedError("the handle for queries is closed")
            self._callers.add(caller)
            idle = [place for place in wanted if place not in self._waiting]
            for place, waits in wanted.items():
                self._waiting.setdefault(place, []).extend(waits)
        try:
            return self._result(caller, wanted, idle)
        finally:
            with self._lock:
                self._callers.discard(caller)

    def _result(self, caller: Caller, wanted: Iterable[Hashable], idle: list[Hashable]) -> list[Any]:
        if idle:
            self._wake(lambda: self._start(idle))
        if not caller.wait((caller.deadline_ms - monotonic_ms()) / 1000) and (
            self._withdraw(wanted, caller) or not caller.wait(_GRACE_S)
        ):
            raise QueryTimeoutError("no answer in time: earlier queries of the same instance wait")
        if caller.error is not None:
            raise caller.error
        return caller.values

    def close(self) -> None:
        """All that wait get a ClosedError. Behind the end of the event loop."""
        with self._lock:
            self._is_closed = True
            callers = list(self._callers)
            self._waiting.clear()
        for caller in callers:
            caller.fail(ClosedError("the handle for queries was closed"))

    def _withdraw(self, places: Iterable[Hashable], caller: Caller) -> bool:
        """Whether a key of the caller was not asked for yet; it is forgotten."""
        found = False
        with self._lock:
            for place in places:
                waits = self._waiting.get(place, [])
                rest = [wait for wait in waits if wait.caller is not caller]
                if len(rest) < len(waits):
                    self._waiting[place] = rest
                    found = True
        return found

    # --- on the loop ------------------------------------------------------------------------------------

    def _start(self, places: Iterable[Hashable]) -> None:
        for place in places:
            self.spawn(self._drain(place))

    def spawn(self, work: Any) -> None:
        """Run a coroutine beside the requests."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, place: Hashable) -> None:
        while True:
            with self._lock:
                waits = self._waiting.get(place)
                if not waits:
                    self._waiting.pop(place, None)
                    return
                taken, self._waiting[place] = waits[:MOST_KEYS], waits[MOST_KEYS:]
            try:
                await self._ask(place, taken)
            except Exception as error:  # noqa: BLE001 - each caller raises it
                fail(taken, error)
            except asyncio.CancelledError:
                fail(taken, ClosedError("the handle for queries was closed"))
                raise


def fail(waits: Iterable[Wait], error: BaseException) -> None:
    """Let the callers raise the error."""
    for wait in waits:
        wait.caller.fail(error)
