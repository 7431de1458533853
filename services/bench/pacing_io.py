"""Sleeps until the intended times of a `Schedule`, on the monotonic clock."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .pacing import Schedule

_PR_SET_TIMERSLACK = 29

# The same clock in all processes of a machine, so that their readings can be subtracted.
now_ns = time.monotonic_ns


def due_ranges(schedule: Schedule, count: int, most: int = 1000) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of record numbers that are due, until `count` numbers were returned.

    Sleeps until the next record is due and never skips one: after a delay all due records are returned at
    once, at most `most` per range.
    """
    sent = 0
    while sent < count:
        due = min(schedule.due(now_ns()), count, sent + most)
        if due <= sent:
            sleep_until(schedule.intended_ns(sent))
            continue
        yield sent, due
        sent = due


def sleep_until(at_ns: int) -> None:
    """Sleep until the monotonic clock shows `at_ns`; at once when it has passed."""
    left_ns = at_ns - now_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def reduce_timer_slack() -> None:
    """Reduce the timer slack of this thread where the system allows it (Linux: 50 us by default)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
