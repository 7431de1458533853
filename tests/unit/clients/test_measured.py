"""Rates and times over the last half to whole minute."""

from headrace.clients.measured import WINDOW_MS, Measured


def test_metrics_without_events_are_zero() -> None:
    """And no error."""
    measured = Measured()
    assert (measured.total, measured.total_ms) == (0, 0)
    assert measured.average_ms(5) == measured.highest_ms(5) == measured.per_second(5) == 0


def test_metrics_of_recent_events() -> None:
    """A single event counts as one of a whole window; old windows expire, totals stay."""
    measured = Measured()
    measured.record(10, 1_000)
    assert measured.per_second(1_000) == 1 / 30
    measured.record(30, 1_000 + WINDOW_MS - 1)
    measured.record(80, 1_000 + WINDOW_MS)
    now = 1_000 + WINDOW_MS
    assert (measured.average_ms(now), measured.highest_ms(now)) == (40, 80)
    assert measured.per_second(now) == 3 / 30
    now += WINDOW_MS
    assert (measured.average_ms(now), measured.highest_ms(now)) == (80, 80)
    assert measured.per_second(now) == 1 / 30
    measured.record(2, now)
    assert (measured.average_ms(now), measured.highest_ms(now)) == (41, 80)
    now += 2 * WINDOW_MS
    assert measured.average_ms(now) == measured.highest_ms(now) == measured.per_second(now) == 0
    measured.record(4, now)
    assert (measured.average_ms(now), measured.total, measured.total_ms) == (4, 5, 126)
