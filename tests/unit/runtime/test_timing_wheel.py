"""Timers become due exactly at their deadline, in order, whatever the distance."""

import pytest
from headrace.runtime.timing_wheel import TimingWheel


def test_timer_is_due_at_its_deadline_and_not_before() -> None:
    """One timer, 7 ms ahead: nothing at 6, the item at 7, nothing later."""
    wheel: TimingWheel[str] = TimingWheel(now_ms=1000)
    wheel.add("a", 1007)
    assert wheel.advance(1006) == []
    assert wheel.advance(1007) == ["a"]
    assert wheel.advance(5000) == []
    assert len(wheel) == 0


@pytest.mark.parametrize("distance_ms", [1, 19, 20, 21, 399, 400, 401, 8000, 160_000, 3_200_000, 10**9])
def test_every_level_of_the_hierarchy_is_exact(distance_ms: int) -> None:
    """Deadlines at and around the reach of each wheel (20, 400, 8000 ...) are met to the millisecond."""
    wheel: TimingWheel[int] = TimingWheel(now_ms=123_456_789)
    wheel.add(distance_ms, 123_456_789 + distance_ms)
    assert wheel.advance(123_456_789 + distance_ms - 1) == []
    assert wheel.advance(123_456_789 + distance_ms) == [distance_ms]


def test_timer_is_exact_after_all_levels() -> None:
    """Time follows next_deadline_ms, so timers move from level to level."""
    wheel: TimingWheel[int] = TimingWheel(now_ms=0)
    wheel.add(0, 12_345)
    stops = 0
    while (stop := wheel.next_deadline_ms()) is not None:
        assert stop <= 12_345
        due = wheel.advance(stop)
        stops += 1
        assert due == ([0] if stop == 12_345 else [])
    assert stops <= 5


def test_due_items_are_ordered_by_deadline_then_by_age() -> None:
    """After a late wake-up."""
    wheel: TimingWheel[str] = TimingWheel()
    for item, deadline_ms in [("c", 900), ("a", 5), ("b", 30), ("a2", 5), ("past", -3)]:
        wheel.add(item, deadline_ms)
    assert wheel.advance(1000) == ["past", "a", "a2", "b", "c"]


def test_cancelled_timer_is_never_due() -> None:
    """Cancelled before, twice, and after the deadline; also one that was overdue when added."""
    wheel: TimingWheel[str] = TimingWheel(now_ms=10)
    soon, far, overdue = wheel.add("soon", 12), wheel.add("far", 100_000), wheel.add("overdue", 3)
    assert wheel.cancel(soon)
    assert not wheel.cancel(soon)
    assert wheel.cancel(overdue)
    assert wheel.advance(50) == []
    assert wheel.cancel(far)
    assert wheel.advance(200_000) == []
    assert wheel.next_deadline_ms() is None
    late = wheel.add("late", 200_001)
    assert late.is_pending
    assert wheel.advance(200_001) == ["late"]
    assert not late.is_pending
    assert not wheel.cancel(late)


def test_next_deadline_of_an_overdue_timer_is_now() -> None:
    """Else the host would sleep over it."""
    wheel: TimingWheel[str] = TimingWheel(now_ms=77)
    wheel.add("x", 77)
    assert wheel.next_deadline_ms() == 77
    assert wheel.advance(77) == ["x"]


def test_a_distant_timer_needs_one_advance() -> None:
    """The host of a long poll is not woken to move its timer to finer buckets."""
    wheel: TimingWheel[str] = TimingWheel(now_ms=1_000)
    wheel.add("later", 1_790)
    wheel.add("poll", 1_515)
    assert wheel.next_deadline_ms() == 1_515
    assert wheel.advance(1_515) == ["poll"]
    assert wheel.next_deadline_ms() == 1_790
    assert wheel.advance(1_790) == ["later"]


def test_a_fine_timer_comes_before_those_of_a_coarse_bucket() -> None:
    """The bucket starts before the fine timer, and its own timers are due after it."""
    wheel: TimingWheel[str] = TimingWheel(now_ms=1_000)
    wheel.add("coarse", 1_035)
    wheel.advance(1_015)
    wheel.add("fine", 1_025)
    assert wheel.next_deadline_ms() == 1_025
    assert wheel.advance(1_025) == ["fine"]


def test_earlier_time_changes_nothing() -> None:
    wheel: TimingWheel[str] = TimingWheel(now_ms=1000)
    wheel.advance(2000)
    wheel.add("x", 2010)
    assert wheel.advance(1500) == []
    assert wheel.advance(2010) == ["x"]


def test_long_tick_is_early_by_less_than_a_tick() -> None:
    """With a tick of 100 ms a deadline of 1250 is due from 1200 on, as in Kafka."""
    wheel: TimingWheel[str] = TimingWheel(tick_ms=100, wheel_size=4)
    wheel.add("x", 1250)
    assert wheel.advance(1199) == []
    assert wheel.advance(1200) == ["x"]


@pytest.mark.parametrize(("tick_ms", "size"), [(0, 20), (-1, 20), (1, 1), (1, 0)])
def test_wheel_needs_a_tick_and_two_buckets(tick_ms: int, size: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        TimingWheel(tick_ms, size)
