"""Voter sets: which one is in effect, and the majority of one."""

import itertools

import pytest
from headrace.controller.quorum.voters import (
    BOOTSTRAP_OFFSET,
    Endpoint,
    VoterHistory,
    endpoint_of,
    keys_of,
    majority_value,
    voter,
    with_voter,
    without_voter,
)
from quorum_rig import key, voters


@pytest.mark.parametrize("count", range(1, 6))
def test_majority_value(count) -> None:
    """Compared with counting, for all small cases."""
    for values in itertools.product(range(4), repeat=count):
        naive = max(v for v in range(4) if sum(each >= v for each in values) > count // 2)
        assert majority_value(values) == naive


def test_majority_of_no_values_asserts() -> None:
    """There is always a voter."""
    with pytest.raises(AssertionError):
        majority_value([])


def test_with_voter_and_without_voter() -> None:
    """Voters are sorted by id, replaced by id, removed by key."""
    three = with_voter(voters(1, 3), voter(key(2), Endpoint("c2", 1)))
    assert keys_of(three) == (key(1), key(2), key(3))
    assert endpoint_of(three, 2) == Endpoint("c2", 1)
    assert endpoint_of(three, 9) is None
    moved = with_voter(three, voter(key(2), Endpoint("d", 5)))
    assert (len(moved.voters), endpoint_of(moved, 2)) == (3, Endpoint("d", 5))
    assert without_voter(three, key(2)) == voters(1, 3)
    assert without_voter(three, key(2, disk=2)) == three, "another disk is another voter"


def test_voter_history() -> None:
    """Sets are added, truncated at both ends and restarted; the latest keys follow."""
    history = VoterHistory()
    assert (history.latest.voters, history.latest_offset, history.latest_keys) == ((), BOOTSTRAP_OFFSET, ())
    history.restart(BOOTSTRAP_OFFSET, voters(1))
    history.add(4, voters(1, 2))
    history.add(9, voters(1, 2, 3))
    assert [history.at(end) for end in (0, 4, 5, 9, 10)] == [
        voters(1),
        voters(1),
        voters(1, 2),
        voters(1, 2),
        voters(1, 2, 3),
    ]
    with pytest.raises(AssertionError):
        history.add(9, voters(1))
    history.truncate_from_end(9)
    assert (history.latest, history.latest_keys) == (voters(1, 2), (key(1), key(2)))
    history.add(20, voters(2))
    history.truncate_from_start(20)
    assert [offset for offset, _ in history.entries] == [4, 20], "the set before 20 counts up to there"
    history.truncate_from_start(21)
    assert [offset for offset, _ in history.entries] == [20]
    history.restart(30, voters(1, 3))
    assert (history.latest_offset, history.latest_keys) == (30, (key(1), key(3)))
