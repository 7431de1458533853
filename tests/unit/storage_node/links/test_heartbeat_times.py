"""The heartbeat statistics of a node."""

from headrace.protocol.metadata.records import FenceBrokerRecord, NoOpRecord, UnfenceBrokerRecord
from headrace.storage_node.links.heartbeat_times import HeartbeatTimes, own_records


def test_the_largest_pause_and_round_trip_are_named() -> None:
    """Heartbeats at 0, 300 and 2,000 ms; the first answered after 40 ms, the second after 1,900."""
    times = HeartbeatTimes()
    assert times.describe(0).startswith("last heartbeat sent never, last answered heartbeat sent never;")
    for at_ms in (0, 300, 2_000):
        times.sent(at_ms)
    times.answered(0, 40)
    times.answered(300, 2_200)
    assert times.describe(2_300) == (
        "last heartbeat sent 300 ms ago, last answered heartbeat sent 2000 ms ago; in the last minute "
        "up to 1700 ms between heartbeats and 1900 ms until the response"
    )


def test_records_of_other_registrations_are_ignored() -> None:
    """Of another node, and of a previous process."""
    mine = (FenceBrokerRecord(2, 7), UnfenceBrokerRecord(2, 7))
    records = (NoOpRecord(), FenceBrokerRecord(1, 7), mine[0], FenceBrokerRecord(2, 6), mine[1])
    assert list(own_records(100, records, 2, 7)) == [(102, mine[0]), (104, mine[1])]
