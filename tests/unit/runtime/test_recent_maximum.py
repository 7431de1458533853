"""The largest value of a window, beside the one that keeps them all."""

from headrace.runtime.recent_maximum import BUCKETS, RecentMaximum


def test_value_is_dropped_after_the_window() -> None:
    """It counts for at least eleven twelfths of the window, and at most for the window."""
    recent = RecentMaximum(1_200)
    assert recent.at(0) == 0
    recent.add(7, 99)
    recent.add(3, 150)
    assert recent.at(1_199) == 7
    assert recent.at(1_200) == 3
    assert recent.at(1_300) == 0


def test_memory_is_constant() -> None:
    """One bucket per twelfth of the window."""
    recent = RecentMaximum(1_200)
    for at in range(10_000):
        recent.add(at % 17, at)
    assert len(recent._buckets) == BUCKETS
