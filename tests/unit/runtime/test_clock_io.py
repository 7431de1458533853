"""The two clocks."""

from __future__ import annotations

import time

from headrace.runtime.clock_io import monotonic_ms, wall_ms


def test_monotonic_never_goes_back() -> None:
    """A thousand readings in a row are sorted, and in milliseconds."""
    readings = [monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
    assert abs(monotonic_ms() - time.monotonic() * 1000) < 60_000


def test_wall_is_the_calendar() -> None:
    """Milliseconds since 1970."""
    assert abs(wall_ms() - time.time() * 1000) < 5000
