"""Threads that wait for free buffer memory, and the moments when they are woken."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager

    from .accumulator import Accumulator

# Waiting threads are woken when a quarter of the buffer is free, not for every batch: a thread switch per
# batch costs more than the batch.
FREE_SHARE = 4
# With less free memory they are woken after this time.
LITTLE_MEMORY_S = 0.005


class MemoryWait:
    """The waits of one producer. `lock` guards its `accumulator`; the loop takes it by `turn`.

    Memory is freed on the loop only, which then calls `notify`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lock: threading.Lock,
        turn: AbstractContextManager[Any],
        accumulator: Accumulator,
        buffer_bytes: int,
    ) -> None:
        self._loop, self._turn, self._accumulator = loop, turn, accumulator
        self._freed = threading.Condition(lock)
        self._enough_bytes = buffer_bytes - buffer_bytes // FREE_SHARE
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, timeout_s: float) -> None:
        """Wait in a user's thread, which holds the lock, until memory may be free, at most `timeout_s`."""
        self._freed.wait(min(timeout_s, threading.TIMEOUT_MAX))

    def notify(self, *, is_over: bool) -> None:
        """On the loop, with the lock: memory may be free, or the producer has ended (`is_over`)."""
        if is_over:
            self._freed.notify_all()
            if self._timer is not None:
                self._timer.cancel()
        elif self._accumulator.waiting_for_memory:
            if self._accumulator.used_bytes <= self._enough_bytes:
                self._freed.notify_all()
            elif self._timer is None and self._accumulator.has_free_memory():
                self._timer = self._loop.call_later(LITTLE_MEMORY_S, self._notify_late)

    def _notify_late(self) -> None:
        self._timer = None
        with self._turn:
            self._freed.notify_all()
