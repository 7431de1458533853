"""What a router counts."""

from __future__ import annotations

from headrace.protocol.transport.stats import LOG_LINES_PER_S, RouterStats


def test_log_lines_are_rationed_by_the_second() -> None:
    """A flood within one second gets its ration, the next second a new one."""
    stats = RouterStats()
    assert sum(stats.may_log(5000 + number % 1000) for number in range(500)) == LOG_LINES_PER_S
    assert stats.may_log(6000)


def test_the_mapping_has_the_counters_only() -> None:
    """What is published has no private state in it."""
    stats = RouterStats(requests=3)
    mapping = stats.to_mapping()
    assert mapping["requests"] == 3
    assert not [name for name in mapping if name.startswith("_")]
    assert len(mapping) >= 10
