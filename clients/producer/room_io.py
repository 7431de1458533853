"""Room in the buffer: threads that wait for some, and when they are told that there is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager

    from .accumulator import Accumulator

# Those who wait are woken when this share of the buffer is free, not for every batch: a thread switch per
# batch costs more than the batch.
ROOM_SHARE = 4
# Less room than that is told this much later: more may be long in coming.
LITTLE_ROOM_S = 0.005


class Room:
    """The room of one producer, whose `accumulator` the lock guards; `turn` is how the loop takes that.

    Nobody polls: whatever makes room ends on the loop, which calls `tell`.
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
        self._told = threading.Condition(lock)
        self._enough_bytes = buffer_bytes - buffer_bytes // ROOM_SHARE
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, timeout_s: float) -> None:
        """Wait in a user's thread, which holds the lock, until there may be room or the time is over."""
        self._told.wait(min(timeout_s, threading.TIMEOUT_MAX))

    def tell(self, *, is_over: bool) -> None:
        """On the loop, with the lock: memory may have been given back. `is_over`: the producer has ended."""
        if is_over:
            self._told.notify_all()
            if self._timer is not None:
                self._timer.cancel()
        elif self._accumulator.waiting_for_room:
            if self._accumulator.used_bytes <= self._enough_bytes:
                self._told.notify_all()
            elif self._timer is None and self._accumulator.has_room():
                self._timer = self._loop.call_later(LITTLE_ROOM_S, self._tell_little)

    def _tell_little(self) -> None:
        self._timer = None
        with self._turn:
            self._told.notify_all()
