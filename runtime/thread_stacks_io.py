"""The stacks of all threads of this process, as text: for the status of a server that hangs."""

from __future__ import annotations

import sys
import threading
import traceback


def thread_stacks() -> dict[str, list[str]]:
    """Thread name and ident -> the lines of its stack, the innermost call last. No values of variables."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to see the stacks of other threads
    return {
        f"{names.get(ident, 'foreign')} {ident}": [
            line for entry in traceback.format_stack(frame) for line in entry.rstrip().splitlines()
        ]
        for ident, frame in frames.items()
    }
