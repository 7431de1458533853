"""Intended send times, and how many records are due."""

import pytest
from headrace.services.bench.pacing import MOST_PER_S, NS_PER_S, Schedule


@pytest.mark.parametrize("rate", [0.5, 1, 3, 7, 1000, 9999.5, 10_000, 3_000_000, MOST_PER_S])
@pytest.mark.parametrize(("offset", "stride"), [(0, 1), (0, 3), (2, 3)])
def test_due_counts_intended_times_up_to_now(rate: float, offset: int, stride: int) -> None:
    """A record is due at its intended time, not a nanosecond before; no drift after an hour."""
    schedule = Schedule(rate, 10**15, offset, stride)
    for number in (0, 1, 2, 99, 100, 1_000_003, int(rate * 3600)):
        at_ns = schedule.intended_ns(number)
        assert schedule.due(at_ns) == number + 1
        assert schedule.due(at_ns - 1) == number
        exact = 10**15 + (number * stride + offset) * NS_PER_S / rate
        assert abs(at_ns - exact) <= 1 + exact * 1e-15


def test_nothing_is_due_before_the_start() -> None:
    """Not a negative number either."""
    assert Schedule(1000, 500).due(499) == 0
    assert Schedule(1000, 500).due(0) == 0
    assert Schedule(1000, 500, 1, 2).due(500) == 0


def test_senders_share_one_schedule() -> None:
    """Three senders with 3,000 records/s in sum send at the times of one sender."""
    whole = Schedule(3000, 0)
    parts = [Schedule(3000, 0, offset, 3) for offset in range(3)]
    together = sorted(part.intended_ns(number) for part in parts for number in range(100))
    assert together == [whole.intended_ns(number) for number in range(300)]


@pytest.mark.parametrize(
    "given",
    [(0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (2 * MOST_PER_S, 0), (1, 0, 1, 1), (1, 0, 0, 0)],
)
def test_invalid_schedules_are_errors(given: tuple[float, ...]) -> None:
    """A rate that never sends, or an offset outside the stride."""
    with pytest.raises(ValueError):  # noqa: PT011 - one of two messages
        Schedule(*given)  # type: ignore[arg-type]
