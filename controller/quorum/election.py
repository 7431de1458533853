"""Votes: which candidate gets one, and when an election is won. Pure. Source: KIP-595, KIP-996; Raft
5.4.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .roles import Role

if TYPE_CHECKING:
    from .voters import ReplicaKey


class LogPosition(NamedTuple):
    """The end of a log. The log with the later position has every committed record of the other."""

    last_epoch: int
    end_offset: int


class VoterState(NamedTuple):
    """What a voter's decision on a vote request depends on."""

    role: Role
    leader_id: int  # of this epoch, -1 if unknown
    voted: ReplicaKey | None  # in this epoch
    has_fetched: bool  # a follower to which the leader has responded
    position: LogPosition


def grants_vote(voter: VoterState, candidate: ReplicaKey, position: LogPosition) -> bool:
    """Whether the candidate gets the vote of this epoch.

    Invariant: a voter votes for one candidate per epoch, and for none whose log ends before its own.
    """
    if voter.leader_id >= 0 or voter.role in (Role.LEADER, Role.RESIGNED):
        return False
    if voter.voted is not None:
        return voter.voted == candidate
    return position >= voter.position


def grants_pre_vote(voter: VoterState, position: LogPosition) -> bool:
    """Whether a candidate would get the vote of the next epoch; binds neither of them.

    Invariant: a follower of a live leader rejects it, so a voter that alone has lost the leader cannot force
    an election.
    """
    return voter.role is not Role.LEADER and not voter.has_fetched and position >= voter.position


class EpochElection:
    """The votes of one election. Source: Kafka EpochElection.java.

    Invariant: a voter is counted once, and only voters are counted.
    """

    def __init__(self, voters: tuple[ReplicaKey, ...]) -> None:
        self._votes: dict[ReplicaKey, bool | None] = dict.fromkeys(voters)

    def record(self, voter: ReplicaKey, *, is_granted: bool) -> None:
        """Count the first response of a voter."""
        if voter in self._votes and self._votes[voter] is None:
            self._votes[voter] = is_granted

    @property
    def missing(self) -> tuple[ReplicaKey, ...]:
        """Voters that have not responded."""
        return tuple(voter for voter, vote in self._votes.items() if vote is None)

    @property
    def granting(self) -> tuple[ReplicaKey, ...]:
        """Voters that granted their vote."""
        return tuple(voter for voter, vote in self._votes.items() if vote)

    @property
    def is_won(self) -> bool:
        """Whether a majority granted its vote."""
        return len(self.granting) > len(self._votes) // 2

    @property
    def is_lost(self) -> bool:
        """Whether no majority is possible any more."""
        return len(self.granting) + len(self.missing) <= len(self._votes) // 2
