"""Turns of connections that are not authenticated: steps of TLS handshakes, and requests of SASL.

Each step takes up to a few hundred microseconds. They wait in a queue with a share of each turn of the event
loop, so that many clients that connect, or try passwords, do not stall established connections.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# The share of a turn of the loop.
TURN_S = 0.002


class Waiting(Protocol):
    """What waits for its turn."""

    def take_turn(self) -> None:
        """Run one step, unless the connection is closed by now."""


class Turns:
    """The queue of a listener."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._waiting: deque[Waiting] = deque()
        self._is_scheduled = False

    def add(self, waiting: Waiting) -> None:
        """Run one step of this connection in turn."""
        self._waiting.append(waiting)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        end_s = time.monotonic() + TURN_S
        while self._waiting:
            self._waiting.popleft().take_turn()
            if time.monotonic() >= end_s:
                break
        self._schedule()
