"""Reports stalls of a server's event loop with their stacks.

A thread checks every few milliseconds whether the loop has run; after `LIMIT_S` without a turn it logs the
stack of the loop's thread, and later the duration of the stall.
"""

import asyncio
import sys
import threading
import time
import traceback
from pathlib import Path

LIMIT_S = 0.25
LOOK_S = 0.05


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Start the watching thread, which never ends; called in the loop's thread."""
    last = [time.monotonic()]

    def ran() -> None:
        last[0] = time.monotonic()
        loop.call_later(LOOK_S / 2, ran)

    ran()
    thread = threading.Thread(target=_look, args=(last, threading.get_ident()), daemon=True)
    thread.start()


def _look(last: list[float], loop_thread: int) -> None:
    never = threading.Event()
    before = time.monotonic()
    while True:
        never.wait(LOOK_S)
        now = time.monotonic()
        own_s, before = now - before - LOOK_S, now
        began = last[0]
        if now - began < LIMIT_S:
            continue
        state = Path("/proc/self/task").joinpath(str(threading.main_thread().native_id), "wchan")
        where = state.read_text() if state.exists() else ""
        frame = sys._current_frames().get(loop_thread)
        stack = " < ".join(
            f"{Path(each.filename).name}:{each.lineno} {each.name}"
            for each in reversed(traceback.extract_stack(frame)[-9:])
        )
        while last[0] == began:
            never.wait(LOOK_S)
        sys.stderr.write(
            f"STALL {1000 * (last[0] - began):.0f} ms (this thread {1000 * own_s:.0f} ms) {where}: {stack}\n"
        )
        sys.stderr.flush()
        before = time.monotonic()
