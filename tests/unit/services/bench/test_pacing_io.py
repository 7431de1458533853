"""Pacing by the real clock: order and completeness, not timing."""

from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, reduce_timer_slack, sleep_until


def test_every_record_is_due_once_in_order_and_never_early() -> None:
    """For a sender on time, and for one that is a second late."""
    reduce_timer_slack()
    for start_ns in (now_ns() + 1_000_000, now_ns() - 1_000_000_000):
        schedule = Schedule(20_000, start_ns)
        numbers: list[int] = []
        for first, end in due_ranges(schedule, 2500, most=300):
            assert end - first <= 300
            assert schedule.intended_ns(end - 1) <= now_ns()
            numbers += range(first, end)
        assert numbers == list(range(2500))


def test_sleep_until_a_past_time_returns_at_once() -> None:
    """And sleeps until a future one."""
    sleep_until(0)
    at_ns = now_ns() + 1_000_000
    sleep_until(at_ns)
    assert now_ns() >= at_ns
