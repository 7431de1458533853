"""The controller quorum: Raft as in KRaft, where followers fetch. Pure but for the files of its log.

Events go in, effects come out (events.py). This file takes messages and timers; `QuorumState` holds the role,
with one class for each state, and `QuorumContext` the epoch, the vote and the log.
Invariants: at most one leader per epoch; epoch and high watermark never decrease; committed records never
change; epoch and vote are durable before a message that follows from them is sent; a leader is active only
once all records of earlier epochs are committed and applied. `check` asserts those that one controller can
see, the simulation the others. Source: KIP-595, KIP-630, KIP-853, KIP-996; Kafka KafkaRaftClient.java;
Ongaro's thesis.
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
from ...protocol.messages import quorum as messages
from ...protocol.model import NO_NODE
from ...runtime.config import MAX_INT
from .context import QuorumContext
from .election import LogPosition, VoterState, grants_pre_vote, grants_vote
from .events import (
    AppendRequested,
    BootstrapRequested,
    Flushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SetTimer,
    StopRequested,
    TimerFired,
)
from .follower_state import FollowerState
from .nominee_state import NomineeState
from .quorum_state import QuorumState
from .roles import Role, RoleEvent
from .voters import ReplicaKey, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig
    from .events import Effect, Event
    from .leader_state import LeaderState
    from .metadata_log import MetadataLog
    from .requests import Sent
    from .voters import Endpoint

STALL_MS = 100  # a timer that fires later than this means that the process was stopped or starved
NO_ENDPOINT = messages.QuorumEndpoint()


class Raft:
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
        """Errors: KafkaStorageError if the vote is lost. The first event must be TimerFired."""
        self.context = QuorumContext(config, key, endpoint, log, random, wall_ms - now_ms)
        self.quorum = QuorumState(self.context, bootstrap_servers, now_ms)
        self._timer_ms: int | None = None
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            TimerFired: lambda event, now_ms: None,
            RequestReceived: self._on_request,
            ResponseReceived: self._on_response,
            RequestFailed: self._on_failed,
            AppendRequested: self._on_append,
            Flushed: self._on_flushed,
            StopRequested: lambda event, now_ms: self.quorum.resign(now_ms),
            BootstrapRequested: self._on_bootstrap,
        }
        self._requests: dict[type, Callable[[Any, Any, int], None]] = {
            messages.VoteRequest: self._on_vote,
            messages.BeginQuorumEpochRequest: self._on_begin_epoch,
            messages.EndQuorumEpochRequest: self._on_end_epoch,
            messages.QuorumFetchRequest: self._on_fetch,
            messages.FetchSnapshotRequest: self._on_fetch_snapshot,
            messages.AddRaftVoterRequest: self._on_voter_change,
            messages.RemoveRaftVoterRequest: self._on_voter_change,
            messages.UpdateRaftVoterRequest: self._on_voter_change,
            messages.DescribeQuorumRequest: self._on_describe,
        }

    @property
    def role(self) -> Role:
        """The role in the current epoch."""
        return self.quorum.role

    @property
    def is_active(self) -> bool:
        """Whether this controller is the active one: it leads, and has committed a record of its epoch."""
        leader = self.quorum.leader
        return leader is not None and leader.is_active

    def check(self) -> None:
        """Assert the invariants that one controller can see; tests call this after every step."""
        self.quorum.check()

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Process an event; the effects, to be performed in this order.

        Errors: KafkaStorageError from the disk; this object must not be used after one.
        """
        self._detect_stall(now_ms)
        self._handlers[type(event)](event, now_ms)
        self.quorum.poll(now_ms)
        self._set_timer(now_ms, has_fired=isinstance(event, TimerFired))
        effects = tuple(self.context.effects)
        self.context.effects.clear()
        return effects

    # --- the timer --------------------------------------------------------------------------------------

    def _detect_stall(self, now_ms: int) -> None:
        """A late timer means that this process could receive nothing: silence of the others proves
        nothing."""
        if self._timer_ms is None or now_ms - self._timer_ms < STALL_MS:
            return
        stalled_ms = now_ms - self._timer_ms
        self._timer_ms = now_ms  # Order: each stall counts once
        self.quorum.state.on_stall(stalled_ms)

    def _set_timer(self, now_ms: int, *, has_fired: bool) -> None:
        deadline_ms = self.context.requests.deadline_ms(now_ms)
        state_ms = self.quorum.state.next_deadline_ms(now_ms)
        if deadline_ms is None or (state_ms is not None and state_ms < deadline_ms):
            deadline_ms = state_ms
        if deadline_ms is None:
            self._timer_ms = None
            return
        deadline_ms = max(deadline_ms, now_ms + 1)
        if deadline_ms != self._timer_ms or has_fired:
            self._timer_ms = deadline_ms
            self.context.effects.append(SetTimer(deadline_ms))

    # --- responses --------------------------------------------------------------------------------------

    def _on_response(self, event: ResponseReceived, now_ms: int) -> None:
        sent = self.context.requests.take(event.correlation_id)
        if sent is None:
            return  # a request of an earlier role or epoch
        body, state = event.body, self.quorum.state
        self.quorum.observe(body.leader_epoch, body.leader_id, body.endpoint, now_ms)
        if state is not self.quorum.state:
            return
        if isinstance(state, NomineeState) and isinstance(sent.body, messages.VoteRequest):
            state.on_vote(sent.body, body)
        elif isinstance(state, FollowerState):
            self._on_leader_response(state, sent, event, now_ms)

    def _on_failed(self, event: RequestFailed, now_ms: int) -> None:
        sent = self.context.requests.fail(event.correlation_id, now_ms)
        follower = self.quorum.follower
        if sent is not None and follower is not None and sent.target == follower.leader_id:
            follower.on_failed(now_ms)

    def _on_leader_response(
        self, follower: FollowerState, sent: Sent, event: ResponseReceived, now_ms: int
    ) -> None:
        body = event.body
        is_of_epoch = body.leader_epoch == self.context.epoch
        if sent.target == follower.leader_id and is_of_epoch and body.leader_id < 0:
            # It resigned or restarted: the epoch has no leader any more.
            self.quorum.become_unattached(RoleEvent.LEADER_LOST, now_ms)
            self.quorum.campaign_after(self.context.election_backoff_ms(), now_ms)
        elif isinstance(sent.body, messages.FetchSnapshotRequest) and is_of_epoch:
            follower.on_snapshot(sent, body, event.frames, now_ms)
        elif body.error_code != NO_ERROR or not is_of_epoch:
            self.context.requests.back_off(sent, now_ms)
        elif isinstance(sent.body, messages.QuorumFetchRequest):
            follower.on_fetch(sent, body, event.frames, now_ms)

    # --- requests ---------------------------------------------------------------------------------------

    def _on_request(self, event: RequestReceived, now_ms: int) -> None:
        self._requests[type(event.body)](event.token, event.body, now_ms)

    def _reply(self, token: Any, response: type, error_code: int = NO_ERROR, **fields: Any) -> None:
        self.context.reply(token, response(error_code, **fields, **self.context.leader_fields()))

    def _error_of(self, request: Any, epoch: int) -> int:
        """The error code for a request to another cluster, to another voter, or of an earlier epoch."""
        context = self.context
        if request.cluster_id and context.cluster_id and request.cluster_id != context.cluster_id:
            return InconsistentClusterIdError.code
        voter = getattr(request, "voter_directory_id", None)
        if voter is not None and ReplicaKey(request.voter_id, voter) != context.key:
            return InvalidVoterKeyError.code  # to another disk of this voter
        if not 0 <= epoch <= MAX_INT:
            return InvalidRequestError.code  # record batches have 32 bits for the epoch
        return FencedLeaderEpochError.code if epoch < context.epoch else NO_ERROR

    def _on_vote(self, token: Any, request: messages.VoteRequest, now_ms: int) -> None:
        error_code = self._error_of(request, request.epoch)
        if error_code != NO_ERROR:
            self._reply(token, messages.VoteResponse, error_code)
            return
        self.quorum.observe(request.epoch, NO_NODE, NO_ENDPOINT, now_ms)
        candidate = ReplicaKey(request.candidate_id, request.candidate_directory_id)
        position = LogPosition(request.last_epoch, request.end_offset)
        if request.pre_vote:
            is_granted = grants_pre_vote(self._voter_state(), position)
        else:
            is_granted = grants_vote(self._voter_state(), candidate, position)
            if is_granted and self.context.voted is None:
                self.quorum.become_unattached(RoleEvent.VOTED, now_ms, voted=candidate)
        self._reply(token, messages.VoteResponse, vote_granted=is_granted)

    def _voter_state(self) -> VoterState:
        context, follower = self.context, self.quorum.follower
        return VoterState(
            role=self.role,
            leader_id=context.leader_id,
            voted=context.voted,
            has_fetched=follower is not None and follower.has_fetched,
            position=LogPosition(context.log.last_epoch, context.log.end_offset),
        )

    def _on_begin_epoch(self, token: Any, request: messages.BeginQuorumEpochRequest, now_ms: int) -> None:
        error_code = self._error_of(request, request.leader_epoch)
        if error_code == NO_ERROR:
            self.quorum.observe(request.leader_epoch, request.leader_id, request.endpoint, now_ms)
            if self.role is Role.PROSPECTIVE and self.context.leader_id == request.leader_id:
                self.quorum.become_follower(self.context.epoch, request.leader_id, now_ms)  # it is alive
        self._reply(token, messages.BeginQuorumEpochResponse, error_code)

    def _on_end_epoch(self, token: Any, request: messages.EndQuorumEpochRequest, now_ms: int) -> None:
        context = self.context
        error_code = self._error_of(request, request.leader_epoch)
        if error_code == NO_ERROR:
            self.quorum.observe(request.leader_epoch, NO_NODE, NO_ENDPOINT, now_ms)
            if context.leader_id == request.leader_id and self.role in (Role.FOLLOWER, Role.PROSPECTIVE):
                self.quorum.become_unattached(RoleEvent.LEADER_LOST, now_ms)
                is_first = request.preferred_successors[:1] == (context.key.replica_id,)
                self.quorum.campaign_after(0 if is_first else context.election_backoff_ms(), now_ms)
        self._reply(token, messages.EndQuorumEpochResponse, error_code)

    def _on_fetch(self, token: Any, request: messages.QuorumFetchRequest, now_ms: int) -> None:
        leader, error_code = self._leader_for(request, now_ms)
        if leader is None:
            self._reply(token, messages.QuorumFetchResponse, error_code)
        else:
            leader.on_fetch(token, request, now_ms)

    def _on_fetch_snapshot(self, token: Any, request: messages.FetchSnapshotRequest, now_ms: int) -> None:
        leader, error_code = self._leader_for(request, now_ms)
        if leader is None:
            self._reply(token, messages.FetchSnapshotResponse, error_code)
        else:
            leader.on_fetch_snapshot(token, request, now_ms)

    def _leader_for(self, request: Any, now_ms: int) -> tuple[LeaderState | None, int]:
        """The leader's state if the request is of its epoch, else None and the error code."""
        error_code = self._error_of(request, request.leader_epoch)
        if error_code == NO_ERROR and request.leader_epoch > self.context.epoch:
            self.quorum.observe(request.leader_epoch, NO_NODE, NO_ENDPOINT, now_ms)
            error_code = UnknownLeaderEpochError.code
        elif error_code == NO_ERROR and self.quorum.leader is None:
            error_code = NotLeaderOrFollowerError.code
        return (self.quorum.leader if error_code == NO_ERROR else None), error_code

    def _on_voter_change(self, token: Any, request: Any, now_ms: int) -> None:
        error_code, leader = self._error_of(request, self.context.epoch), self.quorum.leader
        if error_code != NO_ERROR or leader is None:
            self._reply(token, messages.RaftVoterResponse, error_code or NotLeaderOrFollowerError.code)
            return
        leader.changes.on_request(token, request, now_ms)
        leader.advance_high_watermark()

    def _on_describe(self, token: Any, _request: messages.DescribeQuorumRequest, now_ms: int) -> None:
        if self.quorum.leader is not None:
            self.context.reply(token, self.quorum.leader.describe(now_ms))
        else:
            self._reply(token, messages.DescribeQuorumResponse, NotLeaderOrFollowerError.code)

    # --- the log ----------------------------------------------------------------------------------------

    def _on_append(self, event: AppendRequested, now_ms: int) -> None:
        assert self.quorum.leader is not None, "only the leader appends"
        self.quorum.leader.append(event.batches, now_ms)

    def _on_bootstrap(self, event: BootstrapRequested, now_ms: int) -> None:
        """Order: once in the life of a quorum, at one controller. The others vote for it, because they are
        named by the directory ids of their disks, and get the voter set when they fetch."""
        assert self.context.key in keys_of(event.voters), "a quorum is bootstrapped by one of its voters"
        self.context.log.bootstrap(event.voters, self.context.wall_ms(now_ms))
        self.quorum.campaign_after(0, now_ms)

    def _on_flushed(self, _event: Flushed, now_ms: int) -> None:
        self.context.is_flushing = False
        if self.quorum.leader is not None:
            self.quorum.leader.advance_high_watermark()
        elif self.quorum.follower is not None:
            self.quorum.follower.advance_high_watermark()
