"""Which candidate gets a vote, and when an election is won or lost."""

import itertools

import pytest
from headrace.controller.quorum.election import (
    EpochElection,
    LogPosition,
    VoterState,
    grants_pre_vote,
    grants_vote,
)
from headrace.controller.quorum.roles import Role
from quorum_rig import key

OWN = LogPosition(3, 10)
FREE = VoterState(Role.UNATTACHED, -1, None, has_fetched=False, position=OWN)


@pytest.mark.parametrize(
    ("position", "is_enough"),
    [((3, 10), True), ((3, 11), True), ((3, 9), False), ((2, 99), False), ((4, 0), True)],
)
def test_candidate_with_shorter_log_gets_no_vote(position, is_enough) -> None:
    """Logs are compared by last epoch first, then by end offset; the same for a pre-vote."""
    assert grants_vote(FREE, key(2), LogPosition(*position)) is is_enough
    assert grants_pre_vote(FREE, LogPosition(*position)) is is_enough


def test_one_vote_per_epoch() -> None:
    """The same candidate gets the same vote again; another candidate, or another disk of the same one, gets
    none."""
    voted = FREE._replace(voted=key(2))
    assert grants_vote(voted, key(2), OWN)
    assert not grants_vote(voted, key(3), OWN)
    assert not grants_vote(voted, key(2, disk=2), OWN)
    assert grants_pre_vote(voted, OWN), "a pre-vote is about the next epoch"


@pytest.mark.parametrize("role", [Role.LEADER, Role.RESIGNED])
def test_leader_and_resigned_leader_grant_no_vote(role) -> None:
    """A resigned leader grants a pre-vote, which is for the next epoch; a leader does not."""
    facts = FREE._replace(role=role)
    assert not grants_vote(facts, key(2), OWN)
    assert grants_pre_vote(facts, OWN) is (role is Role.RESIGNED)


def test_follower_grants_no_vote_in_an_epoch_with_a_leader() -> None:
    """It grants a pre-vote only until the leader has responded to it."""
    facts = FREE._replace(role=Role.FOLLOWER, leader_id=2)
    assert not grants_vote(facts, key(3), OWN)
    assert grants_pre_vote(facts, OWN)
    assert not grants_pre_vote(facts._replace(has_fetched=True), OWN)


@pytest.mark.parametrize("count", range(1, 6))
def test_election_is_won_or_lost_by_majority(count) -> None:
    """Compared with counting, for all outcomes of up to five voters."""
    keys = tuple(key(node) for node in range(1, count + 1))
    for answers in itertools.product((True, False, None), repeat=count):
        votes = EpochElection(keys)
        for voter, answer in zip(keys, answers, strict=True):
            if answer is not None:
                votes.record(voter, is_granted=answer)
        assert votes.is_won == (answers.count(True) > count / 2)
        assert votes.is_lost == (count - answers.count(False) <= count / 2)
        assert len(votes.missing) == answers.count(None)


def test_repeated_and_foreign_votes_do_not_count() -> None:
    """Only the first response of each voter counts."""
    votes = EpochElection((key(1), key(2), key(3)))
    votes.record(key(2), is_granted=False)
    votes.record(key(2), is_granted=True)
    votes.record(key(9), is_granted=True)
    votes.record(key(3, disk=2), is_granted=True)
    assert votes.granting == ()
    assert votes.missing == (key(1), key(3))
