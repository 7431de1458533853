"""Windows: which ones contain a timestamp."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from headrace.stream import Builder
from headrace.stream.dsl.windows import (
    JoinWindows,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    unlimited,
)
from headrace.stream.records import Window


def test_a_tumbling_window_contains_its_start_and_not_its_end() -> None:
    """Windows are aligned to 0."""
    windows = tumbling(timedelta(seconds=10))
    assert windows.windows_for(9_999) == [Window(0, 10_000)]
    assert windows.windows_for(10_000) == [Window(10_000, 20_000)]


def test_hopping_windows_overlap() -> None:
    """The first windows of time 0 are not negative."""
    windows = hopping(10, advance=4, grace=1)
    assert windows.windows_for(3) == [Window(0, 10)]
    assert windows.windows_for(12) == [Window(4, 14), Window(8, 18), Window(12, 22)]
    assert windows.grace_ms == 1


def test_the_unlimited_window_has_a_start_only() -> None:
    """Records before it are in no window."""
    windows = unlimited(start=5)
    assert windows.windows_for(4) == []
    assert windows.windows_for(5) == [Window(5, 2**63 - 1)]


def test_bounds_of_join_windows_are_independent() -> None:
    """A negative bound puts the window on one side of the record."""
    assert join_window(10) == JoinWindows(10, 10, 0)
    assert join_window(10, before=0, grace=3) == JoinWindows(0, 10, 3)
    assert join_window(10).before(-5).after(7) == JoinWindows(-5, 7, 0)
    assert join_window(10).size_ms == 20
    with pytest.raises(ValueError, match="interval"):
        join_window(10).before(-11)


def test_invalid_windows_are_refused() -> None:
    """Sizes above zero, advances up to the size, no negative durations."""
    with pytest.raises(ValueError, match="above zero"):
        tumbling(0)
    with pytest.raises(ValueError, match="must advance by 1 to 10 ms, not 11"):
        hopping(10, advance=11)
    with pytest.raises(ValueError, match="grace"):
        sliding(10, grace=-1)
    with pytest.raises(ValueError, match="inactivity_gap"):
        session(-1)
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"takes windows, such as stream\.tumbling\(60_000\), not 5"):
        Builder().stream("a").group_by_key().windowed_by(wrong)
