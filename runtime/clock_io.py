"""The two clocks. Cores take times as arguments; only shells read the clocks."""

from __future__ import annotations

import time

_NS_PER_MS = 1_000_000


def monotonic_ms() -> int:
    """Monotonic milliseconds from an arbitrary start: for deadlines and intervals (`now_ms`)."""
    return time.monotonic_ns() // _NS_PER_MS


def wall_ms() -> int:
    """Milliseconds since 1970 by the wall clock, which may jump: for timestamps of records only."""
    return time.time_ns() // _NS_PER_MS
