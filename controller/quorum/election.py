"""Votes: whom to give one, and whether one's own suffice. Pure. Source: KIP-595, KIP-996; Raft 5.4.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .roles import Role

if TYPE_CHECKING:
    from .voters import ReplicaKey


class LogPosition(NamedTuple):
    """How far a log goes: the later one has every committed record that the other has."""

    last_epoch: int
    end_offset: int


class VoterFacts(NamedTuple):
    """What a controller knows when it is asked for its vote in its epoch."""

    role: Role
    leader_id: int  # of this epoch, -1 if unknown
    voted: ReplicaKey | None  # in this epoch
    hears_leader: bool  # a follower that the leader has answered
    position: LogPosition


def grants_vote(facts: VoterFacts, candidate: ReplicaKey, position: LogPosition) -> bool:
    """Whether the candidate gets the vote of this epoch.

    Invariant: a controller votes for one candidate per epoch, and for none that lacks what it has.
    """
    if facts.leader_id >= 0 or facts.role in (Role.LEADER, Role.RESIGNED):
        return False
    if facts.voted is not None:
        return facts.voted == candidate
    return position >= facts.position


def grants_pre_vote(facts: VoterFacts, position: LogPosition) -> bool:
    """Whether a candidate would get the vote of the next epoch. Binds nobody.

    Invariant: who hears a leader says no, so whoever cannot hear it alone disturbs nobody.
    """
    return facts.role is not Role.LEADER and not facts.hears_leader and position >= facts.position


class Votes:
    """The votes of one election.

    Invariant: a voter is counted once, and only a voter is counted.
    """

    def __init__(self, voters: tuple[ReplicaKey, ...]) -> None:
        self._answers: dict[ReplicaKey, bool | None] = dict.fromkeys(voters)

    def record(self, voter: ReplicaKey, *, is_granted: bool) -> None:
        """Count the first answer of a voter."""
        if voter in self._answers and self._answers[voter] is None:
            self._answers[voter] = is_granted

    @property
    def missing(self) -> tuple[ReplicaKey, ...]:
        """Voters that have not answered."""
        return tuple(voter for voter, answer in self._answers.items() if answer is None)

    @property
    def granting(self) -> tuple[ReplicaKey, ...]:
        """Voters that gave their vote."""
        return tuple(voter for voter, answer in self._answers.items() if answer)

    @property
    def is_won(self) -> bool:
        """Whether a majority gave its vote."""
        return len(self.granting) > len(self._answers) // 2

    @property
    def is_lost(self) -> bool:
        """Whether no majority can be reached any more."""
        return len(self.granting) + len(self.missing) <= len(self._answers) // 2
