"""The session timeout from the lateness of heartbeats."""

from headrace.controller.state.heartbeat_delays import WINDOW_MS, HeartbeatDelays


def test_timely_heartbeats_keep_the_floor() -> None:
    """Jitter of a third of the floor's slack changes nothing."""
    delays = HeartbeatDelays(300, 1_500, 9_000)
    for number in range(100):
        delays.record(1, 300 + 4 * (number % 100), 300 * number)
        assert delays.timeout_ms(1, 300 * number) == 1_500
    assert delays.longest_ms(1, 30_000) == 396


def test_the_largest_lateness_counts_three_times_for_a_minute() -> None:
    """A heartbeat one second late: 300 + 3 * 1000 ms, for a minute."""
    delays = HeartbeatDelays(300, 1_500, 9_000)
    delays.record(1, 1_300, 0)
    for at_ms in range(300, WINDOW_MS * 11 // 12, 300):
        delays.record(1, 300, at_ms)
        assert delays.timeout_ms(1, at_ms) == 3_300
    assert delays.timeout_ms(1, WINDOW_MS) == 1_500


def test_the_timeout_is_bounded_and_outages_do_not_count() -> None:
    """4 s late would be 12.3 s; 20 s without a heartbeat are an outage that no timeout could cover."""
    delays = HeartbeatDelays(300, 1_500, 9_000)
    delays.record(1, 4_300, 0)
    assert delays.timeout_ms(1, 0) == 9_000
    delays.record(2, 20_000, 0)
    assert delays.timeout_ms(2, 0) == 1_500


def test_a_ceiling_up_to_the_floor_makes_the_timeout_constant() -> None:
    """As in Kafka."""
    delays = HeartbeatDelays(2_000, 9_000, 1)
    delays.record(1, 8_999, 0)
    assert delays.timeout_ms(1, 0) == 9_000


def test_lateness_is_kept_per_node_and_dropped() -> None:
    """It belongs to one process of one node."""
    delays = HeartbeatDelays(300, 1_500, 9_000)
    delays.record(1, 2_300, 0)
    assert delays.timeout_ms(2, 0) == 1_500
    delays.forget(1)
    delays.forget(1)
    assert delays.timeout_ms(1, 0) == 1_500
