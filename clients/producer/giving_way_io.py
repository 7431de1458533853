"""Giving way: whoever appends without a pause lets the client's IO thread in when that has something to do.

CPython takes the GIL away from a busy thread only 5 ms after another one asked for it. An answer of a node
would wait that long for the IO thread, and the node for its next request.
"""

from __future__ import annotations

import contextlib
import select
import threading
from typing import TYPE_CHECKING

from ...runtime.loop_io import work_descriptor

if TYPE_CHECKING:
    import asyncio

# After so many batches begun or grown (by 64 KB, when busy) look whether the IO thread wants to run.
# More often, and it finds less to send at a time; less often, and nodes wait for it.
STEPS = 32
# Bound: the loop may be held up by others, user code in callbacks for instance.
LONGEST_S = 0.001


class Turn:
    """A lock as the IO thread takes it: others can see that it waits. Not for a thread that gets signals."""

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


class GiveWay:
    """The way of one event loop, which runs in another thread and takes a lock by `turn`. For any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        self._loop, self._turn = loop, turn
        self._descriptor = work_descriptor(loop) if hasattr(select, "poll") else None
        self._steps = 0

    def step(self) -> None:
        """Called after each step, without the lock: let the loop run if it has to and the time has come."""
        self._steps += 1
        if self._turn.is_waiting or self._steps >= STEPS:
            self._steps = 0
            if self._turn.is_waiting or self._has_work():
                self._give()

    def _has_work(self) -> bool:
        if self._descriptor is None:
            return False
        poll = select.poll()  # one for each call: threads cannot share one
        poll.register(self._descriptor, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def _give(self) -> None:
        """Wait until the loop has been round once."""
        passed = threading.Lock()
        passed.acquire()  # until the loop releases it
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(passed.release)
            passed.acquire(timeout=LONGEST_S)
