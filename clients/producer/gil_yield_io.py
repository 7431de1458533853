"""Yielding the GIL: a thread that appends records without a pause lets the client's IO thread run when the IO
thread has work.

CPython takes the GIL away from a busy thread only 5 ms after another thread requested it (the switch
interval). Without a yield a response would wait that long for the IO thread, and the node would wait for its
next request.
"""

from __future__ import annotations

import contextlib
import select
import threading
from typing import TYPE_CHECKING

from ...runtime.loop_io import work_descriptor

if TYPE_CHECKING:
    import asyncio

# Batches begun or grown (by 64 KB, when busy) between two checks whether the IO thread has work. With fewer,
# each request carries less; with more, nodes wait for requests.
STEPS = 32
# Bound: user code in a callback may block the loop.
LONGEST_S = 0.001


class Turn:
    """The accumulator's lock, as the IO thread takes it: `is_waiting` is true while that thread waits for it.
    Not for the main thread: a signal handler that raises would leave `is_waiting` wrong."""

    __slots__ = ("_lock", "is_waiting")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock, self.is_waiting = lock, False

    def __enter__(self) -> None:
        self.is_waiting = True
        try:
            self._lock.acquire()
        finally:
            self.is_waiting = False

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class GilYield:
    """Yields to one event loop, which runs in another thread and takes the lock through `turn`.

    Thread-safe.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        self._loop, self._turn = loop, turn
        self._descriptor = work_descriptor(loop) if hasattr(select, "poll") else None
        self._steps = 0

    def step(self) -> None:
        """Called after each step, without the lock. Every STEPS steps, or when the IO thread waits for the
        lock, yield if the loop has work."""
        self._steps += 1
        if self._turn.is_waiting or self._steps >= STEPS:
            self._steps = 0
            if self._turn.is_waiting or self._has_work():
                self._yield()

    def _has_work(self) -> bool:
        if self._descriptor is None:
            return False
        poll = select.poll()  # one for each call: threads cannot share one
        poll.register(self._descriptor, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def _yield(self) -> None:
        """Wait until the loop has run one iteration, at most LONGEST_S."""
        passed = threading.Lock()
        passed.acquire()  # until the loop releases it
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(passed.release)
            passed.acquire(timeout=LONGEST_S)
