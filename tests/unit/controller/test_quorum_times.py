"""Latencies of commits and elections."""

from headrace.controller.quorum_times import QuorumTimes


def test_commits_are_timed_from_their_append() -> None:
    """Each append once; what was not committed before a resignation is not counted."""
    times = QuorumTimes()
    times.appended(5, 100)
    times.appended(8, 110)
    times.committed(4, 120)
    assert times.commits.count == 0
    times.committed(5, 130)
    times.committed(9, 140)
    assert (times.commits.count, times.commits.total) == (2, 30 + 30)
    times.appended(12, 150)
    times.resigned()
    times.committed(12, 999)
    assert times.commits.count == 2


def test_elections_last_until_a_leader_is_known() -> None:
    """From the first campaign, over lost ones; without a campaign there was no election here."""
    times = QuorumTimes()
    times.leader_known(2, 50)
    assert times.elections.count == 0
    times.campaigning(100)
    times.leader_known(-1, 120)
    times.campaigning(150)
    times.leader_known(3, 180)
    times.leader_known(3, 900)
    assert (times.elections.count, times.elections.total) == (1, 80)
