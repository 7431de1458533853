"""The state of a leader: serves fetches, tracks the replicas' log ends, and advances the high watermark.

Invariants: only flushed records count, here and on followers; the high watermark advances only to a record of
this epoch, so a record of an earlier epoch is committed only together with one of this epoch (Raft 5.4.2);
the first record of the epoch is the LeaderChange, and the controller is active only once that is committed.
Source: Kafka LeaderState.java; KIP-595, KIP-630.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    InvalidRequestError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from ...protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumEndpoint,
    QuorumFetchRequest,
    QuorumFetchResponse,
    QuorumReplica,
)
from ...protocol.records.control import LeaderChange
from ...runtime.config import MIB
from .epoch_state import EpochState
from .events import BecameLeader, Resigned
from .roles import Role, RoleEvent
from .snapshots import SnapshotId
from .voter_changes import VoterChanges
from .voters import BOOTSTRAP_OFFSET, ReplicaKey, endpoint_of, majority_value, voter, with_voter

if TYPE_CHECKING:
    from ...protocol.model import FeatureRange
    from .context import QuorumContext

MAX_FETCH_BYTES = 8 * MIB
MAX_FETCH_WAIT_MS = 500
MAX_OBSERVERS = 1000  # Bound: beyond it the observer with the oldest fetch is forgotten
NEVER = -1


@dataclass(slots=True)
class ReplicaProgress:
    """The log end and the fetches of one replica."""

    end_offset: int = 0  # exclusive end of what it has flushed
    last_fetch_ms: int = NEVER
    last_caught_up_ms: int = NEVER
    begin_epoch_at_ms: int = NEVER  # of a voter: when to send the next BeginQuorumEpoch
    stalled_ms: int = 0  # while the leader could receive nothing, since the last fetch
    features: tuple[FeatureRange, ...] | None = None  # that it supports; None before its first fetch


@dataclass(frozen=True, slots=True)
class _DelayedFetch:
    """A fetch that waits for records or a higher high watermark."""

    token: Any
    request: QuorumFetchRequest
    deadline_ms: int


class LeaderState(EpochState):
    """Leads one epoch, elected by the `granting` voters."""

    role = Role.LEADER

    def __init__(self, context: QuorumContext, granting: tuple[ReplicaKey, ...], now_ms: int) -> None:
        self._context = context
        self._log = context.log
        self._epoch = context.epoch
        self._start_ms = now_ms
        self._progress: dict[ReplicaKey, ReplicaProgress] = {}
        self._delayed: dict[ReplicaKey, _DelayedFetch] = {}
        self.is_active = False  # the controller may append
        self.epoch_start_offset = self._log.end_offset
        self.changes = VoterChanges(context, self)
        self._begin_epoch(granting, now_ms)

    def _begin_epoch(self, granting: tuple[ReplicaKey, ...], now_ms: int) -> None:
        context, log = self._context, self._log
        ids = tuple(key.replica_id for key in context.voters)
        change = LeaderChange(context.key.replica_id, ids, tuple(key.replica_id for key in granting))
        log.append_control(change, context.epoch, context.wall_ms(now_ms))
        voters = log.voters.latest
        # The members stay the same, so this needs no majority of the previous set.
        if (
            log.voters.latest_offset == BOOTSTRAP_OFFSET
            or endpoint_of(voters, context.key.replica_id) != context.endpoint
        ):
            voters = with_voter(voters, voter(context.key, context.endpoint))
            log.append_control(voters, context.epoch, context.wall_ms(now_ms))
        for key in context.voters:
            self._progress_of(key).begin_epoch_at_ms = now_ms
        context.flush()

    def poll(self, now_ms: int) -> RoleEvent | None:
        deadline_ms = self._quorum_deadline_ms()
        if self._is_removed or (deadline_ms is not None and deadline_ms <= now_ms):
            return RoleEvent.RESIGNED
        if self._delayed:
            for key in [key for key, fetch in self._delayed.items() if fetch.deadline_ms <= now_ms]:
                self._respond(self._delayed.pop(key))
        for key in self._context.other_voters:
            progress = self._progress_of(key)
            if progress.begin_epoch_at_ms <= now_ms:
                progress.begin_epoch_at_ms = now_ms + self._begin_epoch_interval_ms
                self._send_begin_epoch(key, now_ms)
        return None

    def next_deadline_ms(self, now_ms: int) -> int | None:
        deadlines = [fetch.deadline_ms for fetch in self._delayed.values()]
        deadlines += [self._progress_of(key).begin_epoch_at_ms for key in self._context.other_voters]
        quorum_deadline_ms = self._quorum_deadline_ms()
        return min(
            deadlines if quorum_deadline_ms is None else [*deadlines, quorum_deadline_ms], default=None
        )

    def on_stall(self, stalled_ms: int) -> None:
        # Bound: one fetch timeout per voter without a fetch; a leader that is always late would never resign.
        for key in self._context.other_voters:
            progress = self._progress_of(key)
            if progress.stalled_ms < self._context.config.quorum_fetch_timeout_ms:
                progress.stalled_ms += stalled_ms

    def close(self) -> None:
        for fetch in self._delayed.values():
            body = QuorumFetchResponse(NotLeaderOrFollowerError.code, **self._context.leader_fields())
            self._context.reply(fetch.token, body)
        self._delayed.clear()
        self.changes.close()
        self._context.effects.append(Resigned(self._epoch))

    def check(self) -> None:
        context = self._context
        assert context.leader_id == context.key.replica_id
        assert context.voted == context.key, "a leader has voted for itself"
        assert context.epoch == self._epoch, "a leader leads one epoch"

    # --- events -----------------------------------------------------------------------------------------

    def append(self, batches: tuple[bytes, ...], now_ms: int) -> None:
        """Append the controller's decisions."""
        assert self.is_active, "the records of earlier epochs are not all committed yet"
        for batch in batches:
            self._log.append_batch(batch, self._context.epoch, self._context.wall_ms(now_ms))
        self.on_appended()

    def on_appended(self) -> None:
        """The log has new records: flush them, and send them to the followers."""
        self._context.flush()
        self._complete_delayed()

    def on_fetch(self, token: Any, request: QuorumFetchRequest, now_ms: int) -> None:
        """A replica fetches: its offset is the end of what it has flushed."""
        key = ReplicaKey(request.replica_id, request.directory_id)
        progress = self._record_fetch(key, now_ms)
        progress.features = request.features
        try:
            divergence = self._divergence(request)
        except KafkaError as error:
            divergence = QuorumFetchResponse(error.code, **self._context.leader_fields())
        if divergence is not None:
            self._context.reply(token, divergence)
            return
        progress.end_offset = max(progress.end_offset, request.fetch_offset)
        if request.fetch_offset >= self._log.end_offset:
            progress.last_caught_up_ms = now_ms
        self.advance_high_watermark()
        if (previous := self._delayed.pop(key, None)) is not None:
            self._respond(previous)
        deadline_ms = now_ms + min(max(request.max_wait_ms, 0), MAX_FETCH_WAIT_MS)
        fetch = _DelayedFetch(token, request, deadline_ms)
        if deadline_ms > now_ms and not self._has_data(request):
            self._delayed[key] = fetch
        else:
            self._respond(fetch)

    def on_fetch_snapshot(self, token: Any, request: FetchSnapshotRequest, now_ms: int) -> None:
        """A replica fetches a piece of a snapshot."""
        self._record_fetch(ReplicaKey(request.replica_id, request.directory_id), now_ms)
        snapshot = SnapshotId(request.snapshot_end_offset, request.snapshot_epoch)
        leader = self._context.leader_fields()
        try:
            size, data = self._log.snapshots.chunk(
                snapshot, request.position, min(max(request.max_bytes, 1), MAX_FETCH_BYTES)
            )
        except KafkaError as error:
            self._context.reply(token, FetchSnapshotResponse(error.code, **leader))
            return
        response = FetchSnapshotResponse(0, size=size, position=request.position, **leader)
        self._context.reply(token, response, (data,))

    def advance_high_watermark(self) -> None:
        """To the end of what a majority has flushed, if that is in this epoch."""
        context, log = self._context, self._log
        ends = [
            log.flushed_offset if key == context.key else self._progress_of(key).end_offset
            for key in context.voters
        ]
        end_offset = min(majority_value(ends), log.flushed_offset)
        if end_offset <= max(self.epoch_start_offset, log.high_watermark):
            return
        context.commit(end_offset)
        if not self.is_active:
            # Order: after Committed: a controller decides only once it has applied all committed records.
            self.is_active = True
            context.effects.append(BecameLeader(context.epoch))
        self.changes.on_committed()
        self._complete_delayed()

    # --- replicas ---------------------------------------------------------------------------------------

    def successors(self) -> tuple[int, ...]:
        """The other voters, the one with the largest log end first."""
        others = sorted(self._context.other_voters, key=lambda key: (-self._progress_of(key).end_offset, key))
        return tuple(key.replica_id for key in others)

    def has_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer fetches, and has flushed all committed records."""
        progress = self._progress.get(key)
        if progress is None or progress.last_fetch_ms == NEVER:
            return False
        is_fetching = now_ms - progress.last_fetch_ms <= self._context.config.quorum_fetch_timeout_ms
        return is_fetching and progress.end_offset >= self._log.high_watermark

    def levels_of(self, key: ReplicaKey) -> tuple[FeatureRange, ...] | None:
        """The feature levels that a replica supports; None if it has not fetched in this epoch."""
        progress = self._progress.get(key)
        return None if progress is None else progress.features

    def supported(self) -> dict[int, tuple[FeatureRange, ...] | None]:
        """The feature levels that each other voter supports; None if it has not fetched in this epoch."""
        return {key.replica_id: self._progress_of(key).features for key in self._context.other_voters}

    def describe(self, now_ms: int) -> DescribeQuorumResponse:
        """The response to DescribeQuorum."""
        voters = self._context.voters
        observers = sorted(key for key in self._progress if key not in voters and key != self._context.key)
        return DescribeQuorumResponse(
            0,
            high_watermark=self._log.high_watermark,
            voters=tuple(self._described(key, now_ms) for key in voters),
            observers=tuple(self._described(key, now_ms) for key in observers),
            **self._context.leader_fields(),
        )

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _is_removed(self) -> bool:
        """Whether this leader was removed from the voter set, and the change is committed."""
        is_committed = self._log.voters.latest_offset < self._log.high_watermark
        return is_committed and not self._context.is_voter

    def _quorum_deadline_ms(self) -> int | None:
        """When the leader resigns unless a majority fetches before; None for the only voter."""
        context = self._context
        others, count = context.other_voters, len(context.voters)
        needed = count // 2 + (len(others) == count)  # a leader that is a voter counts for itself
        if needed <= 0:
            return None
        start_ms, fetches_ms = self._start_ms, []
        for key in others:
            progress = self._progress_of(key)
            last_ms = progress.last_fetch_ms if progress.last_fetch_ms > start_ms else start_ms
            fetches_ms.append(last_ms + progress.stalled_ms)
        fetches_ms.sort()
        return fetches_ms[-needed] + context.config.quorum_fetch_timeout_ms * 3 // 2

    @property
    def _begin_epoch_interval_ms(self) -> int:
        return self._context.config.quorum_fetch_timeout_ms // 2

    def _progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        progress = self._progress.get(key)
        if progress is None:
            observers = [each for each in self._progress if each not in self._context.voters]
            if len(observers) >= MAX_OBSERVERS:
                del self._progress[min(observers, key=lambda each: self._progress[each].last_fetch_ms)]
            progress = self._progress[key] = ReplicaProgress()
        return progress

    def _record_fetch(self, key: ReplicaKey, now_ms: int) -> ReplicaProgress:
        progress = self._progress_of(key)
        progress.last_fetch_ms, progress.stalled_ms = now_ms, 0
        progress.begin_epoch_at_ms = now_ms + self._begin_epoch_interval_ms
        return progress

    def _send_begin_epoch(self, key: ReplicaKey, now_ms: int) -> None:
        context = self._context
        endpoint = QuorumEndpoint(*context.endpoint)
        body = BeginQuorumEpochRequest(
            context.cluster_id, *key, context.key.replica_id, context.epoch, endpoint
        )
        context.requests.send(key.replica_id, body, now_ms, self._begin_epoch_interval_ms)

    def _divergence(self, request: QuorumFetchRequest) -> QuorumFetchResponse | None:
        """The response to a replica whose log is no prefix of this one; None if it is.

        Errors: InvalidRequest, UnknownLeaderEpoch for what no replica of this epoch can send.
        """
        log, offset, epoch = self._log, request.fetch_offset, request.last_fetched_epoch
        if offset < 0:
            raise InvalidRequestError(f"fetch offset {offset}")
        start_offset = log.start_offset
        if offset == 0 == start_offset:
            return None
        if (
            offset < start_offset
            or (offset == start_offset and log.epoch_of(offset - 1) != epoch)
            or (start_offset > 0 and epoch < log.epoch_of(start_offset))
        ):
            end_offset, snapshot_epoch = log.snapshots.ids[0]
            return self._response(snapshot_end_offset=end_offset, snapshot_epoch=snapshot_epoch)
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        if own_epoch < 0:
            raise UnknownLeaderEpochError(f"epoch {epoch} is newer than any in the log")
        if own_epoch == epoch and offset <= own_end_offset:
            return None
        return self._response(diverging_epoch=own_epoch, diverging_end_offset=own_end_offset)

    def _response(self, error_code: int = 0, **fields: Any) -> QuorumFetchResponse:
        log = self._log
        return QuorumFetchResponse(
            error_code,
            high_watermark=log.high_watermark,
            log_start_offset=log.start_offset,
            **fields,
            **self._context.leader_fields(),
        )

    def _has_data(self, request: QuorumFetchRequest) -> bool:
        log = self._log
        return request.fetch_offset < log.end_offset or request.high_watermark < log.high_watermark

    def _complete_delayed(self) -> None:
        for key in [key for key, fetch in self._delayed.items() if self._has_data(fetch.request)]:
            self._respond(self._delayed.pop(key))

    def _respond(self, fetch: _DelayedFetch) -> None:
        """Send the records from the fetch offset on, flushed here or not."""
        log, request = self._log, fetch.request
        error_code, frames = 0, []
        try:
            # A log start after the fetch offset is reported by the next fetch.
            if log.start_offset <= request.fetch_offset < log.end_offset:
                frames = log.read(request.fetch_offset, min(max(request.max_bytes, 0), MAX_FETCH_BYTES))
        except KafkaError as error:
            error_code = error.code
        self._context.reply(fetch.token, self._response(error_code), frames)

    def _described(self, key: ReplicaKey, now_ms: int) -> QuorumReplica:
        known = endpoint_of(self._log.voters.latest, key.replica_id)
        endpoint = QuorumEndpoint(*known) if known else QuorumEndpoint()
        if key == self._context.key:
            return QuorumReplica(*key, self._log.end_offset, 0, 0, endpoint)
        progress = self._progress_of(key)
        if progress.last_fetch_ms == NEVER:
            return QuorumReplica(*key, endpoint=endpoint)
        caught_up_ms = progress.last_caught_up_ms
        return QuorumReplica(
            *key,
            log_end_offset=progress.end_offset,
            last_fetch_ago_ms=now_ms - progress.last_fetch_ms,
            last_caught_up_ago_ms=now_ms - caught_up_ms if caught_up_ms != NEVER else -1,
            endpoint=endpoint,
        )
