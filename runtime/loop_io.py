"""Event loops: uvloop if installed, otherwise asyncio's own."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, not set as the current one; the caller runs and closes it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def work_descriptor(loop: asyncio.AbstractEventLoop) -> int | None:
    """A descriptor that is readable while the loop has pending events; None if the loop has none.

    For threads that yield when the loop has work. Not to be read from; closed with the loop.
    """
    # private attributes of uvloop and asyncio; neither has a public one
    backend, selector = getattr(loop, "_get_backend_id", None), getattr(loop, "_selector", None)
    try:
        return int(selector.fileno() if backend is None else backend())  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        return None
