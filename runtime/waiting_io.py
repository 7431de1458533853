"""The two waits without an event: polling of another program, and a fixed pause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ASK_EVERY_S = 0.05


def until(holds: Callable[[], bool], timeout_s: float, every_s: float = ASK_EVERY_S) -> bool:
    """Poll at once, and then every `every_s`; False if the condition was not met in time.

    Only for effects of other programs without notification: an opened port, deleted files, an ended process.
    """
    ends_at = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() >= ends_at:
            return False
        time.sleep(every_s)
    return True


def let_pass(seconds: float) -> None:
    """Pause for a measurement, or before a retry; never to wait for an effect."""
    time.sleep(seconds)
