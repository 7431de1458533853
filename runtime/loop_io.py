"""Event loops: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh event loop, not set as the current one; the caller runs and closes it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def work_descriptor(loop: asyncio.AbstractEventLoop) -> int | None:
    """A descriptor that is readable while an event waits for the loop to take it; None where there is none.

    For threads that want to know whether the loop has something to do. Not for reading; gone with the loop.
    """
    # uvloop's and asyncio's own names; neither has a public one
    backend, selector = getattr(loop, "_get_backend_id", None), getattr(loop, "_selector", None)
    try:
        return int(selector.fileno() if backend is None else backend())  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        return None
