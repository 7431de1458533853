"""The two clocks."""

import time

from headrace.runtime.clock_io import monotonic_ms, wall_ms


def test_monotonic_clock_never_goes_back() -> None:
    """A thousand readings in ms are sorted."""
    readings = [monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
    assert abs(monotonic_ms() - time.monotonic() * 1000) < 60_000


def test_wall_clock_counts_from_1970() -> None:
    assert abs(wall_ms() - time.time() * 1000) < 5000
