"""The controller quorum's core: Raft as Kafka has it, in which followers fetch. Pure but for its log's files.

Events go in, effects come out (events.py). What a controller is in its epoch, and how that changes, is in
standing.py; what a leader and a follower do is in leading.py and following.py; this file takes the messages.
Invariants (see `check` for those that one controller can check; the simulation checks the others):
one leader per epoch; epoch and high watermark never move back; what is committed never changes; epoch and
vote are durable before anything is sent that rests on them; a leader decides only once everything of the
epochs before is committed and handed out.
Source: KIP-595, KIP-630, KIP-853, KIP-996; Kafka KafkaRaftClient.java; Ongaro's thesis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidVoterKeyError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from ...protocol.messages import quorum
from ...protocol.model import NO_NODE
from ...runtime.config import MAX_INT
from .election import LogPosition, VoterFacts, grants_pre_vote, grants_vote
from .events import (
    Append,
    Begin,
    Flushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    StopRequested,
    TimerFired,
)
from .roles import Role, RoleEvent
from .standing import Standing
from .voters import ReplicaKey, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig
    from .events import Effect, Event
    from .following import Following
    from .leading import Leading
    from .metadata_log import MetadataLog
    from .requests import Sent
    from .voters import Endpoint


class Raft(Standing):
    """One controller in the quorum: a voter if its key is in the voter set of its log, else an observer."""

    def __init__(
        self,
        config: ControllerConfig,
        key: ReplicaKey,
        endpoint: Endpoint,
        log: MetadataLog,
        random: RandomSource,
        *,
        bootstrap_servers: int = 0,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """Errors: KafkaStorageError if the vote is lost. The first event must follow: TimerFired."""
        super().__init__(
            config,
            key,
            endpoint,
            log,
            random,
            bootstrap_servers=bootstrap_servers,
            now_ms=now_ms,
            wall_ms=wall_ms,
        )
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            TimerFired: lambda event, now_ms: None,
            RequestReceived: self._on_request,
            ResponseReceived: self._on_response,
            RequestFailed: self._on_failed,
            Append: self._on_append,
            Flushed: self._on_flushed,
            StopRequested: lambda event, now_ms: self._resign(now_ms),
            Begin: self._on_begin,
        }
        self._requests: dict[type, Callable[[Any, Any, int], None]] = {
            quorum.VoteRequest: self._on_vote,
            quorum.BeginQuorumEpochRequest: self._on_begin_epoch,
            quorum.EndQuorumEpochRequest: self._on_end_epoch,
            quorum.QuorumFetchRequest: self._on_fetch,
            quorum.FetchSnapshotRequest: self._on_fetch_snapshot,
            quorum.AddRaftVoterRequest: self._on_voter_change,
            quorum.RemoveRaftVoterRequest: self._on_voter_change,
            quorum.UpdateRaftVoterRequest: self._on_voter_change,
            quorum.DescribeQuorumRequest: self._on_describe,
        }

    # --- the two calls ----------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """What happened, and what is to be done now, in this order.

        Errors: KafkaStorageError from the disk; this object must not be used after one.
        """
        self._give_back_stall(now_ms)
        self._handlers[type(event)](event, now_ms)
        self._poll(now_ms)
        self._set_timer(now_ms, has_fired=isinstance(event, TimerFired))
        effects = tuple(self.context.effects)
        self.context.effects.clear()
        return effects

    # --- answers in -------------------------------------------------------------------------------------

    def _on_response(self, event: ResponseReceived, now_ms: int) -> None:
        sent = self.context.requests.take(event.correlation_id)
        if sent is None:
            return  # of a role that is over
        body = event.body
        votes, following = self._votes, self.following
        self._see(body.leader_epoch, body.leader_id, body.endpoint, now_ms)
        if votes is not None and votes is self._votes and isinstance(sent.body, quorum.VoteRequest):
            key = ReplicaKey(sent.body.voter_id, sent.body.voter_directory_id)
            votes.record(key, is_granted=body.error_code == NO_ERROR and body.vote_granted)
            self._count_votes(votes, now_ms)
        elif following is not None and following is self.following:
            self._on_leaders_answer(following, sent, event, now_ms)

    def _on_failed(self, event: RequestFailed, now_ms: int) -> None:
        sent = self.context.requests.fail(event.correlation_id, now_ms)
        if sent is not None and self.following is not None and sent.target == self.following.leader_id:
            self.following.on_failed(now_ms)

    def _on_leaders_answer(
        self, following: Following, sent: Sent, event: ResponseReceived, now_ms: int
    ) -> None:
        body = event.body
        is_of_epoch = body.leader_epoch == self.context.epoch
        if sent.target == following.leader_id and is_of_epoch and body.leader_id < 0:
            # It has resigned, or has died and come back: nobody leads this epoch any more.
            self._unattach(RoleEvent.LEADER_LOST, now_ms)
            self._election_at_ms = now_ms + self._backoff_ms()
        elif isinstance(sent.body, quorum.FetchSnapshotRequest) and is_of_epoch:
            following.on_snapshot(sent, body, event.frames, now_ms)
        elif body.error_code != NO_ERROR or not is_of_epoch:
            self.context.requests.back_off(sent, now_ms)
        elif isinstance(sent.body, quorum.QuorumFetchRequest):
            following.on_fetch(sent, body, event.frames, now_ms)

    # --- requests in ------------------------------------------------------------------------------------

    def _on_request(self, event: RequestReceived, now_ms: int) -> None:
        self._requests[type(event.body)](event.token, event.body, now_ms)

    def _fault_of(self, request: Any, epoch: int) -> int:
        """The error code for a request that cannot be meant for this controller in its epoch."""
        context = self.context
        if request.cluster_id and context.cluster_id and request.cluster_id != context.cluster_id:
            return InconsistentClusterIdError.code
        voter = getattr(request, "voter_directory_id", None)
        if voter is not None and ReplicaKey(request.voter_id, voter) != context.key:
            return InvalidVoterKeyError.code  # it means another disk
        if not 0 <= epoch <= MAX_INT:
            return InvalidRequestError.code  # the log has 32 bits for it
        return FencedLeaderEpochError.code if epoch < context.epoch else NO_ERROR

    def _on_vote(self, token: Any, request: quorum.VoteRequest, now_ms: int) -> None:
        context = self.context
        fault = self._fault_of(request, request.epoch)
        if fault != NO_ERROR:
            context.reply(token, quorum.VoteResponse(fault, **context.leader_facts()))
            return
        self._see(request.epoch, NO_NODE, quorum.QuorumEndpoint(), now_ms)
        candidate = ReplicaKey(request.candidate_id, request.candidate_directory_id)
        position = LogPosition(request.last_epoch, request.end_offset)
        if request.pre_vote:
            is_granted = grants_pre_vote(self._voter_facts(), position)
        else:
            is_granted = grants_vote(self._voter_facts(), candidate, position)
            if is_granted and context.voted is None:
                self._enter(RoleEvent.VOTED, context.epoch, NO_NODE, candidate, now_ms)
                self._election_at_ms = now_ms + self._election_timeout_ms()
        context.reply(token, quorum.VoteResponse(0, vote_granted=is_granted, **context.leader_facts()))

    def _voter_facts(self) -> VoterFacts:
        return VoterFacts(
            role=self.role,
            leader_id=self.context.leader_id,
            voted=self.context.voted,
            hears_leader=self.following is not None and self.following.has_fetched,
            position=LogPosition(self._log.last_epoch, self._log.end_offset),
        )

    def _on_begin_epoch(self, token: Any, request: quorum.BeginQuorumEpochRequest, now_ms: int) -> None:
        context = self.context
        fault = self._fault_of(request, request.leader_epoch)
        if fault == NO_ERROR:
            self._see(request.leader_epoch, request.leader_id, request.endpoint, now_ms)
            if self.role is Role.PROSPECTIVE and context.leader_id == request.leader_id:
                self._follow(context.epoch, request.leader_id, now_ms)  # it lives
        context.reply(token, quorum.BeginQuorumEpochResponse(fault, **context.leader_facts()))

    def _on_end_epoch(self, token: Any, request: quorum.EndQuorumEpochRequest, now_ms: int) -> None:
        context = self.context
        fault = self._fault_of(request, request.leader_epoch)
        if fault == NO_ERROR:
            self._see(request.leader_epoch, NO_NODE, quorum.QuorumEndpoint(), now_ms)
            if context.leader_id == request.leader_id and self.role in (Role.FOLLOWER, Role.PROSPECTIVE):
                self._unattach(RoleEvent.LEADER_LOST, now_ms)
                is_first = request.preferred_successors[:1] == (context.key.replica_id,)
                self._election_at_ms = now_ms + (0 if is_first else self._backoff_ms())
        context.reply(token, quorum.EndQuorumEpochResponse(fault, **context.leader_facts()))

    def _on_fetch(self, token: Any, request: quorum.QuorumFetchRequest, now_ms: int) -> None:
        leading, fault = self._leading_for(request, now_ms)
        if leading is None:
            facts = self.context.leader_facts()
            self.context.reply(token, quorum.QuorumFetchResponse(fault, **facts))
        else:
            leading.on_fetch(token, request, now_ms)

    def _on_fetch_snapshot(self, token: Any, request: quorum.FetchSnapshotRequest, now_ms: int) -> None:
        leading, fault = self._leading_for(request, now_ms)
        if leading is None:
            facts = self.context.leader_facts()
            self.context.reply(token, quorum.FetchSnapshotResponse(fault, **facts))
        else:
            leading.on_fetch_snapshot(token, request, now_ms)

    def _leading_for(self, request: Any, now_ms: int) -> tuple[Leading | None, int]:
        """The leader if the request is of its epoch, else None and why."""
        fault = self._fault_of(request, request.leader_epoch)
        if fault == NO_ERROR and request.leader_epoch > self.context.epoch:
            self._see(request.leader_epoch, NO_NODE, quorum.QuorumEndpoint(), now_ms)
            fault = UnknownLeaderEpochError.code
        elif fault == NO_ERROR and self.leading is None:
            fault = NotLeaderOrFollowerError.code
        return (self.leading if fault == NO_ERROR else None), fault

    def _on_voter_change(self, token: Any, request: Any, now_ms: int) -> None:
        fault = self._fault_of(request, self.context.epoch)
        if fault == NO_ERROR and self.leading is not None:
            self.leading.changes.on_request(token, request, now_ms)
            self.leading.advance()
            return
        body = quorum.RaftVoterResponse(fault or NotLeaderOrFollowerError.code, **self.context.leader_facts())
        self.context.reply(token, body)

    def _on_describe(self, token: Any, _request: quorum.DescribeQuorumRequest, now_ms: int) -> None:
        if self.leading is not None:
            self.context.reply(token, self.leading.describe(now_ms))
            return
        body = quorum.DescribeQuorumResponse(NotLeaderOrFollowerError.code, **self.context.leader_facts())
        self.context.reply(token, body)

    # --- the log ----------------------------------------------------------------------------------------

    def _on_append(self, event: Append, now_ms: int) -> None:
        assert self.leading is not None, "only the leader decides"
        self.leading.append(event.batches, now_ms)

    def _on_begin(self, event: Begin, now_ms: int) -> None:
        """Order: once in the life of a quorum, at one controller; the others vote for it, being named by the
        directory ids of their disks, and learn of the voters by fetching."""
        assert self.context.key in keys_of(event.voters), "who begins is one of the voters"
        self._log.begin(event.voters, self.context.wall_ms(now_ms))
        self._election_at_ms = now_ms

    def _on_flushed(self, _event: Flushed, now_ms: int) -> None:
        self.context.is_flushing = False
        if self.leading is not None:
            self.leading.advance()
        elif self.following is not None:
            self.following.advance()
