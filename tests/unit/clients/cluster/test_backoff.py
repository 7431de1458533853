"""Exponential backoff with jitter."""

from random import Random

from headrace.clients.cluster.backoff import Backoff


def test_waits_double_up_to_the_maximum_with_jitter() -> None:
    """100, 200, 400, 800, then 1000 ms, at most 20 % off and never above the maximum."""
    backoff = Backoff(100, 1000, Random(1))
    for failures, expected in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (50, 1000), (10_000, 1000)]:
        waits = [backoff.wait_ms(failures) for _ in range(200)]
        assert min(waits) >= expected * 0.8 - 1
        assert max(waits) <= min(expected * 1.2 + 1, 1000)
        assert len(set(waits)) > 20, "all clients would reconnect at once"


def test_base_above_the_maximum_is_used() -> None:
    """retry.backoff.ms=5000 with the default maximum of 1000 waits 5 s."""
    assert Backoff(5000, 1000, Random(1)).wait_ms(1) >= 4000


def test_base_of_zero_retries_at_once() -> None:
    """retry.backoff.ms=0."""
    assert Backoff(0, 0, Random(1)).wait_ms(3) == 0
