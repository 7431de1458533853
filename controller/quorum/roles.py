"""The roles of a controller in the quorum, and what leads from one to another. Pure.

An observer, which is no voter, is only ever unattached or a follower.
Source: Kafka QuorumState.java; KIP-595, KIP-996.
"""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """What a controller is in its epoch."""

    UNATTACHED = "unattached"  # knows the epoch, and no leader to follow
    PROSPECTIVE = "prospective"  # asks whether it would be elected, in the epoch it has
    CANDIDATE = "candidate"  # asks for votes in a new epoch
    FOLLOWER = "follower"  # fetches from the leader of the epoch
    LEADER = "leader"
    RESIGNED = "resigned"  # led this epoch, and leads no more


class RoleEvent(Enum):
    """What may change the role."""

    HIGHER_EPOCH = "another controller has a higher epoch"
    LEADER_FOUND = "the leader was found"
    VOTED = "voted for another"
    ELECTION_TIMEOUT = "election timeout"
    FETCH_TIMEOUT = "fetch timeout: no answer of the leader"
    LEADER_LOST = "the leader resigned or its process ended"
    PRE_VOTE_WON = "would be elected"
    PRE_VOTE_LOST = "would not be elected"
    ONLY_VOTER = "is the only voter"
    ELECTED = "elected"
    LOST = "not elected"
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
    """Where `event` leads from `role`. Errors: AssertionError if the table does not allow it: a bug."""
    assert event in TRANSITIONS[role], f"{event} is not possible in role {role}"
    return TRANSITIONS[role][event]
