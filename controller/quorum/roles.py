"""The roles of a controller in the quorum and the transitions between them. Pure.

An observer (no voter) is only ever unattached or a follower. Source: Kafka QuorumState.java; KIP-595,
KIP-996.
"""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """The role of a controller in its epoch."""

    UNATTACHED = "unattached"  # knows the epoch and no leader
    PROSPECTIVE = "prospective"  # requests pre-votes, in the same epoch
    CANDIDATE = "candidate"  # requests votes, in a new epoch
    FOLLOWER = "follower"  # fetches from the leader of the epoch
    LEADER = "leader"
    RESIGNED = "resigned"  # has led this epoch


class RoleEvent(Enum):
    """An event that changes the role; its value is the reason in log lines."""

    HIGHER_EPOCH = "another controller is in a higher epoch"
    LEADER_FOUND = "the leader was found"
    VOTED = "voted for another controller"
    ELECTION_TIMEOUT = "election timeout"
    FETCH_TIMEOUT = "fetch timeout: no response of the leader"
    LEADER_LOST = "the leader resigned or restarted"
    PRE_VOTE_WON = "pre-vote won"
    PRE_VOTE_LOST = "pre-vote lost"
    ONLY_VOTER = "only voter"
    ELECTED = "elected"
    LOST = "election lost"
    RESIGNED = "resigned or lost its majority"


TRANSITIONS: dict[Role, dict[RoleEvent, Role]] = {
    Role.UNATTACHED: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.VOTED: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.ELECTION_TIMEOUT: Role.PROSPECTIVE,
        RoleEvent.ONLY_VOTER: Role.CANDIDATE,
    },
    Role.PROSPECTIVE: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.VOTED: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.LEADER_LOST: Role.UNATTACHED,
        RoleEvent.ELECTION_TIMEOUT: Role.PROSPECTIVE,
        RoleEvent.PRE_VOTE_LOST: Role.UNATTACHED,
        RoleEvent.PRE_VOTE_WON: Role.CANDIDATE,
    },
    Role.CANDIDATE: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.ELECTION_TIMEOUT: Role.PROSPECTIVE,
        RoleEvent.LOST: Role.UNATTACHED,
        RoleEvent.ELECTED: Role.LEADER,
    },
    Role.FOLLOWER: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.LEADER_LOST: Role.UNATTACHED,
        RoleEvent.FETCH_TIMEOUT: Role.PROSPECTIVE,
    },
    Role.LEADER: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.RESIGNED: Role.RESIGNED,
    },
    Role.RESIGNED: {
        RoleEvent.HIGHER_EPOCH: Role.UNATTACHED,
        RoleEvent.LEADER_FOUND: Role.FOLLOWER,
        RoleEvent.ELECTION_TIMEOUT: Role.UNATTACHED,
    },
}


def next_role(role: Role, event: RoleEvent) -> Role:
    """The role after an event. Errors: AssertionError for a transition that is not in the table."""
    assert event in TRANSITIONS[role], f"no transition from {role} by {event}"
    return TRANSITIONS[role][event]
