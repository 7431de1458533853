"""The two clocks. Cores take their readings as arguments; only shells read them."""

from __future__ import annotations

import time

_NS_PER_MS = 1_000_000


def monotonic_ms() -> int:
    """Milliseconds that never go back, from an arbitrary start: for deadlines and intervals (`now_ms`)."""
    return time.monotonic_ns() // _NS_PER_MS


def wall_ms() -> int:
    """Milliseconds since 1970 by the calendar clock, which may jump: for records' timestamps only."""
    return time.time_ns() // _NS_PER_MS
