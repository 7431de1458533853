"""The two waits that no event ends: for another program that tells nobody, and for time itself to pass."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ASK_EVERY_S = 0.05


def until(holds: Callable[[], bool], timeout_s: float, every_s: float = ASK_EVERY_S) -> bool:
    """Ask at once, and again and again; False when it did not hold in time.

    Only for what another program does without a word: its port opens, its files go, it ends.
    """
    ends_at = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() >= ends_at:
            return False
        time.sleep(every_s)
    return True


def let_pass(seconds: float) -> None:
    """The length of a measurement, or a rest before trying again; never a wait for something to happen."""
    time.sleep(seconds)
