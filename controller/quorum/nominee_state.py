"""A voter that campaigns: prospective (pre-vote, KIP-996) or candidate. Pure. Source: Kafka
NomineeState.java."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import NO_ERROR
from ...protocol.messages.quorum import VoteRequest, VoteResponse
from .election import EpochElection
from .epoch_state import EpochState
from .roles import Role, RoleEvent
from .voters import ReplicaKey

if TYPE_CHECKING:
    from .context import QuorumContext


class NomineeState(EpochState):
    """Requests votes from all voters, beginning with its own vote."""

    def __init__(self, context: QuorumContext, role: Role, now_ms: int) -> None:
        self._context, self.role = context, role
        self.election = EpochElection(context.voters)
        self.election.record(context.key, is_granted=True)
        self._election_at_ms = now_ms + context.election_timeout_ms()

    @property
    def is_prospective(self) -> bool:
        """Whether the votes are pre-votes, which bind no voter and change no epoch."""
        return self.role is Role.PROSPECTIVE

    def on_vote(self, request: VoteRequest, response: VoteResponse) -> None:
        """A voter responded."""
        voter = ReplicaKey(request.voter_id, request.voter_directory_id)
        is_granted = response.error_code == NO_ERROR and response.vote_granted
        self.election.record(voter, is_granted=is_granted)

    def poll(self, now_ms: int) -> RoleEvent | None:
        if self.election.is_won:
            return RoleEvent.PRE_VOTE_WON if self.is_prospective else RoleEvent.ELECTED
        if self.election.is_lost:
            if not self.is_prospective:
                return RoleEvent.LOST
            # Others fetch from the leader: follow it again.
            return RoleEvent.PRE_VOTE_LOST if self._context.leader_id < 0 else RoleEvent.LEADER_FOUND
        if self._election_at_ms <= now_ms:
            return RoleEvent.ELECTION_TIMEOUT
        self._request_votes(now_ms)
        return None

    def next_deadline_ms(self, now_ms: int) -> int | None:
        return self._election_at_ms

    def check(self) -> None:
        assert self.is_prospective or self._context.voted == self._context.key, "a candidate votes for itself"

    def _request_votes(self, now_ms: int) -> None:
        context = self._context
        for key in self.election.missing:
            body = VoteRequest(
                context.cluster_id,
                *key,
                context.epoch,
                *context.key,
                context.log.last_epoch,
                context.log.end_offset,
                pre_vote=self.is_prospective,
            )
            context.requests.send(key.replica_id, body, now_ms, context.config.quorum_election_timeout_ms)
