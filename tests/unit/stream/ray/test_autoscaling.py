"""How many workers an application needs, from its lag."""

from headrace.protocol.model import TopicPartition
from headrace.stream.ray.autoscaling import Autoscaler, Limits, PastEnds

LIMITS = Limits(low=1, high=8, lag=100, up_ms=1000, down_ms=10_000)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_lag_that_stays_above_the_limit_adds_workers() -> None:
    """As many as the lag needs, at most twice as many as there are."""
    scaler = Autoscaler(LIMITS)
    assert scaler.decide(0, 1, 10_000) == 1
    assert scaler.decide(999, 1, 10_000) == 1
    assert scaler.decide(1000, 1, 10_000) == 2
    assert scaler.decide(1001, 2, 250) == 2
    assert scaler.decide(2001, 2, 250) == 3
    assert scaler.decide(2002, 3, 300) == 3
    assert scaler.decide(9000, 3, 300) == 3  # not above 3 * 100


def test_short_peak_changes_nothing() -> None:
    """The time begins again."""
    scaler = Autoscaler(LIMITS)
    scaler.decide(0, 1, 10_000)
    scaler.decide(500, 1, 0)
    assert scaler.decide(1200, 1, 10_000) == 1
    assert scaler.decide(2199, 1, 10_000) == 1


def test_low_lag_removes_one_worker_at_a_time() -> None:
    """It must be below a quarter of what the others may have."""
    scaler = Autoscaler(LIMITS)
    assert scaler.decide(0, 3, 50) == 3
    assert scaler.decide(60_000, 3, 50) == 3
    assert scaler.decide(60_001, 3, 49) == 3
    assert scaler.decide(70_001, 3, 49) == 2
    assert scaler.decide(70_002, 2, 0) == 2
    assert scaler.decide(80_002, 2, 0) == 1
    assert scaler.decide(999_999, 1, 0) == 1


def test_removal_that_was_wrong_doubles_the_wait() -> None:
    """A worker that was removed is missed soon: the next attempt comes later. One that is missed late does
    not count."""
    scaler = Autoscaler(LIMITS)
    now = 0
    for wait in (10_000, 20_000, 40_000, 80_000, 80_000):
        assert scaler.down_ms == wait
        scaler.decide(now, 2, 0)
        now += wait
        assert scaler.decide(now, 2, 0) == 1
        scaler.decide(now + 1, 1, 150)
        now += 1001
        assert scaler.decide(now, 1, 150) == 2
        now += 1
    scaler.decide(now, 2, 0)
    assert scaler.decide(now + 80_000, 2, 0) == 1
    scaler.decide(now + 900_000, 1, 150)
    assert scaler.decide(now + 901_000, 1, 150) == 2
    assert scaler.down_ms == 10_000


def test_bounds_have_precedence_over_lag() -> None:
    """Also without a lag; more workers than tasks are removed, but the lower bound stays."""
    scaler = Autoscaler(LIMITS._replace(low=2))
    assert scaler.decide(0, 1, None) == 2
    assert scaler.decide(0, 9, None) == 8
    assert scaler.decide(0, 8, 10**9, tasks=4) == 4
    assert scaler.decide(0, 4, 10**9, tasks=1) == 2
    assert scaler.decide(5000, 4, 10**9, tasks=4) == 4


def test_unknown_lag_begins_the_time_again() -> None:
    """The cluster did not answer."""
    scaler = Autoscaler(LIMITS)
    scaler.decide(0, 1, 500)
    scaler.decide(900, 1, None)
    assert scaler.decide(1000, 1, 500) == 1
    assert scaler.decide(2000, 1, 500) == 2


def test_ends_are_one_commit_interval_old() -> None:
    """The lag up to them leaves out records that are too new to be committed."""
    past = PastEnds(1000)
    assert past.at(0) is None
    past.note(0, {A: 100})
    assert past.at(500) is None
    past.note(500, {A: 600})
    assert past.at(1000) == {A: 100}
    past.note(1000, {A: 1100, B: 5})
    assert past.at(1500) == {A: 600}
    assert past.at(9000) == {A: 1100, B: 5}
