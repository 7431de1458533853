"""Automatic scaling over any course of the lag."""

import itertools

from headrace.stream.ray.autoscaling import Autoscaler, Limits
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Any bounds and times."""
    low = draw(st.integers(1, 20))
    times = st.integers(0, 5000)
    return Limits(low, draw(st.integers(low, 40)), draw(st.integers(1, 10_000)), draw(times), draw(times))


steps = st.lists(
    st.tuples(st.integers(1, 3000), st.none() | st.integers(0, 500_000), st.none() | st.integers(1, 60)),
    max_size=60,
)


@given(limits(), st.integers(1, 60), steps)
def test_within_the_bounds_and_never_sooner_than_allowed(
    bounds: Limits, workers: int, course: list[tuple[int, int | None, int | None]]
) -> None:
    """Each decision is within the bounds. Inside of them two changes are `up_ms` apart, one goes up only if
    the lag is above its limit, at most to twice as many, and down by one only if it is low."""
    scaler, now, changed = Autoscaler(bounds), 0, None
    for passed, lag, tasks in course:
        now += passed
        high = bounds.high if tasks is None else max(min(bounds.high, tasks), bounds.low)
        decided = scaler.decide(now, workers, lag, tasks)
        assert bounds.low <= decided <= high
        if bounds.low <= workers <= high and decided != workers:
            assert lag is not None
            assert changed is None or now - changed >= bounds.up_ms
            if decided > workers:
                assert lag > workers * bounds.lag
                assert decided <= 2 * workers
            else:
                assert decided == workers - 1
                assert lag < bounds.lag * decided / 4
        if decided != workers:
            changed = now
        workers = decided


@given(limits(), st.integers(0, 2_000_000), st.integers(1, 60))
def test_constant_lag_settles(bounds: Limits, lag: int, workers: int) -> None:
    """After a while the number does not change any more, and never in both directions."""
    scaler, now, course = Autoscaler(bounds), 0, []
    for _ in range(400):
        now += 5001
        workers = scaler.decide(now, workers, lag)
        course.append(workers)
    assert len(set(course[-200:])) == 1
    assert course in (sorted(course), sorted(course, reverse=True))


@given(st.integers(2, 30), st.integers(100, 10_000))
def test_workers_that_are_needed_are_removed_ever_less_often(needed: int, lag: int) -> None:
    """An application whose lag grows with one worker less, and is nothing otherwise: the attempts to remove
    one come after eight times the time, in the end."""
    down_ms, up_ms = 10_000, 1000
    scaler = Autoscaler(Limits(1, 40, lag, up_ms, down_ms))
    now, workers, attempts = 0, needed, []
    while now < 200 * down_ms:
        now += 500
        decided = scaler.decide(now, workers, 0 if workers >= needed else workers * lag + lag)
        if decided < workers:
            attempts.append(now)
        workers = decided
        assert workers >= needed - 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 8 * down_ms
