"""Voter sets: which one counts, and what a majority of it has."""

from __future__ import annotations

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
def test_a_majority_value_is_the_largest_that_a_majority_reaches(count) -> None:
    """Against counting, for all small cases."""
    for values in itertools.product(range(4), repeat=count):
        naive = max(v for v in range(4) if sum(each >= v for each in values) > count // 2)
        assert majority_value(values) == naive


def test_a_majority_of_nobody_is_a_bug() -> None:
    """There is always a voter."""
    with pytest.raises(AssertionError):
        majority_value([])


def test_sets_change_by_one() -> None:
    """Added in the order of ids, replaced by id, removed by key."""
    three = with_voter(voters(1, 3), voter(key(2), Endpoint("c2", 1)))
    assert keys_of(three) == (key(1), key(2), key(3))
    assert endpoint_of(three, 2) == Endpoint("c2", 1)
    assert endpoint_of(three, 9) is None
    moved = with_voter(three, voter(key(2), Endpoint("d", 5)))
    assert (len(moved.voters), endpoint_of(moved, 2)) == (3, Endpoint("d", 5))
    assert without_voter(three, key(2)) == voters(1, 3)
    assert without_voter(three, key(2, disk=2)) == three, "another disk is another voter"


def test_the_history_says_which_set_counts_where() -> None:
    """Added, truncated at both ends, begun anew; the latest keys go along."""
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
