"""Adding, removing and updating voters, at the leader: one change at a time, through the log.

Invariants: a change begins only once a record of the leader's epoch is committed (otherwise two leaders might
count disjoint majorities), and only if no other change is uncommitted; a new voter has caught up before it
counts. Source: KIP-853; Ongaro's thesis, 4.1 and 4.2.2, and his note on single-server changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import (
    DuplicateVoterError,
    InvalidRequestError,
    KafkaError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from ...protocol.messages.quorum import (
    AddRaftVoterRequest,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from ...runtime.config import MAX_INT
from .voters import Endpoint, ReplicaKey, voter, with_voter, without_voter

if TYPE_CHECKING:
    from ...protocol.records.control import VoterSet
    from .context import QuorumContext
    from .leader_state import LeaderState

MAX_VOTERS = 9  # Bound: each decision waits for a majority of them
MAX_HOST = 255
VoterChange = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


class _Pending(NamedTuple):
    token: Any
    offset: int  # of the VotersRecord


class VoterChanges:
    """The voter changes of one leader in its epoch."""

    def __init__(self, context: QuorumContext, leader: LeaderState) -> None:
        self._context = context
        self._leader = leader
        self._pending: _Pending | None = None

    def on_request(self, token: Any, request: VoterChange, now_ms: int) -> None:
        """Begin or reject a change; the reply follows when it is committed, or the leader resigns."""
        context, log = self._context, self._context.log
        try:
            self._check_may_change()
            voters = self._changed(request, now_ms)
        except KafkaError as error:
            self._reply(token, error.code, str(error))
            return
        offset = log.append_control(voters, context.epoch, context.wall_ms(now_ms))
        self._pending = _Pending(token, offset)
        self._leader.on_appended()

    def on_committed(self) -> None:
        """The high watermark advanced: reply if it passed the change."""
        if self._pending is not None and self._pending.offset < self._context.log.high_watermark:
            self._reply(self._pending.token, 0)
            self._pending = None

    def close(self) -> None:
        """The leader resigns: the next one may commit the pending change or truncate it."""
        if self._pending is not None:
            self._reply(self._pending.token, NotLeaderOrFollowerError.code, "the leader resigned")
            self._pending = None

    def _check_may_change(self) -> None:
        log = self._context.log
        if not self._leader.is_active:
            raise RequestTimedOutError("no record of this epoch is committed yet; try again")
        if log.voters.latest_offset >= log.high_watermark:
            raise RequestTimedOutError("the previous voter change is not committed yet; try again")

    def _changed(self, request: VoterChange, now_ms: int) -> VoterSet:
        context = self._context
        voters = context.log.voters.latest
        _check_fields(request)
        key = ReplicaKey(request.voter_id, request.directory_id)
        if isinstance(request, AddRaftVoterRequest):
            if key.replica_id in [each.replica_id for each in context.voters]:
                raise DuplicateVoterError(f"a voter with id {key.replica_id} exists")
            if len(context.voters) >= MAX_VOTERS:
                raise InvalidRequestError(f"there are {MAX_VOTERS} voters already")
            if not self._leader.has_caught_up(key, now_ms):
                raise RequestTimedOutError(f"{key.replica_id} has not caught up with the log; try again")
            self._check_levels(key)
            return with_voter(voters, voter(key, Endpoint(request.host, request.port)))
        if key not in context.voters:
            raise VoterNotFoundError(f"no voter {key.replica_id} with this directory id")
        if isinstance(request, UpdateRaftVoterRequest):
            self._check_levels(key)
            return with_voter(voters, voter(key, Endpoint(request.host, request.port)))
        if len(context.voters) == 1:
            raise InvalidRequestError("the only voter cannot be removed")
        return without_voter(voters, key)

    def _check_levels(self, key: ReplicaKey) -> None:
        """Errors: UnsupportedVersionError for a controller that does not support a feature level of the
        cluster, as nodes get when they register; RequestTimedOutError as long as it has not reported its
        levels. Source: Kafka AddVoterHandler.java, UpdateVoterHandler.java (kraft.version)."""
        if key == self._context.key:
            return
        ranges = self._leader.levels_of(key)
        if ranges is None:
            raise RequestTimedOutError(f"{key.replica_id} has not fetched in this epoch; try again")
        self._context.check_levels(ranges, f"controller {key.replica_id}")

    def _reply(self, token: Any, error_code: int, detail: str = "") -> None:
        body = RaftVoterResponse(error_code, detail, **self._context.leader_fields())
        self._context.reply(token, body)


def _check_fields(request: VoterChange) -> None:
    """Errors: InvalidRequestError for fields that a VotersRecord cannot hold."""
    if not 0 <= request.voter_id <= MAX_INT or len(request.directory_id) != 16:
        raise InvalidRequestError(
            f"voter {request.voter_id} needs an id of at least 0 and a directory id of 16 bytes"
        )
    if isinstance(request, RemoveRaftVoterRequest):
        return
    if not request.host or len(request.host) > MAX_HOST or not 0 < request.port <= 65_535:
        raise InvalidRequestError(
            f"voter {request.voter_id} cannot listen at {request.host[:MAX_HOST]!r}:{request.port}"
        )
