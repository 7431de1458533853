"""Votes: for whom, how often, and when they are enough."""

from __future__ import annotations

import itertools

import pytest
from headrace.controller.quorum.election import (
    LogPosition,
    VoterFacts,
    Votes,
    grants_pre_vote,
    grants_vote,
)
from headrace.controller.quorum.roles import TRANSITIONS, Role, RoleEvent, next_role
from quorum_rig import key

OWN = LogPosition(3, 10)
FREE = VoterFacts(Role.UNATTACHED, -1, None, hears_leader=False, position=OWN)


@pytest.mark.parametrize(
    ("position", "is_enough"),
    [((3, 10), True), ((3, 11), True), ((3, 9), False), ((2, 99), False), ((4, 0), True)],
)
def test_only_a_log_that_goes_as_far_is_voted_for(position, is_enough) -> None:
    """The last epoch counts first, then the length: also for a pre-vote."""
    assert grants_vote(FREE, key(2), LogPosition(*position)) is is_enough
    assert grants_pre_vote(FREE, LogPosition(*position)) is is_enough


def test_one_vote_per_epoch() -> None:
    """Asked again by the same candidate it is the same vote; another gets none, another disk neither."""
    voted = FREE._replace(voted=key(2))
    assert grants_vote(voted, key(2), OWN)
    assert not grants_vote(voted, key(3), OWN)
    assert not grants_vote(voted, key(2, disk=2), OWN)
    assert grants_pre_vote(voted, OWN), "a pre-vote is about the next epoch"


@pytest.mark.parametrize("role", [Role.LEADER, Role.RESIGNED])
def test_who_led_the_epoch_votes_for_nobody_in_it(role) -> None:
    """And a leader does not let itself be replaced by a pre-vote."""
    facts = FREE._replace(role=role)
    assert not grants_vote(facts, key(2), OWN)
    assert grants_pre_vote(facts, OWN) is (role is Role.RESIGNED)


def test_an_epoch_with_a_leader_needs_no_other() -> None:
    """A follower that hears its leader says no to everything; one that does not yet, to a pre-vote yes."""
    facts = FREE._replace(role=Role.FOLLOWER, leader_id=2)
    assert not grants_vote(facts, key(3), OWN)
    assert grants_pre_vote(facts, OWN)
    assert not grants_pre_vote(facts._replace(hears_leader=True), OWN)


@pytest.mark.parametrize("count", range(1, 6))
def test_votes_are_won_or_lost_by_majorities(count) -> None:
    """Against counting, for all outcomes."""
    keys = tuple(key(node) for node in range(1, count + 1))
    for answers in itertools.product((True, False, None), repeat=count):
        votes = Votes(keys)
        for voter, answer in zip(keys, answers, strict=True):
            if answer is not None:
                votes.record(voter, is_granted=answer)
        assert votes.is_won == (answers.count(True) > count / 2)
        assert votes.is_lost == (count - answers.count(False) <= count / 2)
        assert len(votes.missing) == answers.count(None)


def test_a_voter_counts_once_and_nobody_else_does() -> None:
    """Repeated and foreign answers change nothing."""
    votes = Votes((key(1), key(2), key(3)))
    votes.record(key(2), is_granted=False)
    votes.record(key(2), is_granted=True)
    votes.record(key(9), is_granted=True)
    votes.record(key(3, disk=2), is_granted=True)
    assert votes.granting == ()
    assert votes.missing == (key(1), key(3))


def test_roles_change_only_along_the_table() -> None:
    """Every role is reached, and what the table does not have is a bug."""
    reached = {target for targets in TRANSITIONS.values() for target in targets.values()}
    assert reached == set(Role)
    for role in Role:
        for event in RoleEvent:
            if event in TRANSITIONS[role]:
                assert next_role(role, event) is TRANSITIONS[role][event]
            else:
                with pytest.raises(AssertionError):
                    next_role(role, event)
