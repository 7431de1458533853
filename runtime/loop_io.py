"""Event loops: uvloop where it is installed, asyncio's own elsewhere; and one for a thread beside a busy one."""

from __future__ import annotations

import asyncio
import selectors

# Bound: how many rounds of callbacks may pass before the sockets are looked at again.
MAX_ROUNDS_UNSEEN = 8


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh event loop, not set as the current one; the caller runs and closes it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _PatientSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Does not ask the system while callbacks are ready.

    Every question gives the GIL away, and a busy thread gives it back only after the switch interval (5 ms).
    An answer that passes through three callbacks would take three of those.
    """

    _rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0 and self._rounds < MAX_ROUNDS_UNSEEN:
            self._rounds += 1
            return []
        self._rounds = 0
        found: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        return found


def new_background_loop() -> asyncio.AbstractEventLoop:
    """A fresh event loop for a thread of a process whose other threads compute.

    asyncio's own: uvloop takes the GIL once for every callback, this one once for all that is ready.
    """
    return asyncio.SelectorEventLoop(_PatientSelector())
