"""The leader of one epoch: serves fetches, counts who has what, and says what is committed.

Invariants: only what is flushed counts, here and there; nothing is committed before a record of this epoch
is, so a record of an earlier epoch is committed only by one of this (Raft 5.4.2); the first record of
the epoch is the LeaderChange, and whoever decides is told to begin only once that is committed.
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
from .events import BecameLeader
from .snapshots import SnapshotId
from .voter_changes import VoterChanges
from .voters import BOOTSTRAP_OFFSET, ReplicaKey, endpoint_of, majority_value, voter, with_voter

if TYPE_CHECKING:
    from .context import Context

MAX_FETCH_BYTES = 8 * MIB
MAX_FETCH_WAIT_MS = 500
MAX_OBSERVERS = 1000  # Bound: the one that was not heard for longest is forgotten
NEVER = -1


@dataclass(slots=True)
class Progress:
    """How far a replica is."""

    end_offset: int = 0  # it has flushed everything below
    last_fetch_ms: int = NEVER
    last_caught_up_ms: int = NEVER
    greet_at_ms: int = NEVER  # of a voter: when to say again who leads
    given_ms: int = 0  # in which the leader stood still, since the last fetch


@dataclass(frozen=True, slots=True)
class _Parked:
    """A fetch that waits for news."""

    token: Any
    request: QuorumFetchRequest
    deadline_ms: int


class Leading:
    """Leads one epoch."""

    def __init__(self, context: Context, granting: tuple[ReplicaKey, ...], now_ms: int) -> None:
        self._context = context
        self._log = context.log
        self._start_ms = now_ms
        self._progress: dict[ReplicaKey, Progress] = {}
        self._parked: dict[ReplicaKey, _Parked] = {}
        self.is_active = False
        self.epoch_start_offset = self._log.end_offset
        self.changes = VoterChanges(context, self)
        self._begin_epoch(granting, now_ms)

    def _begin_epoch(self, granting: tuple[ReplicaKey, ...], now_ms: int) -> None:
        context, log = self._context, self._log
        ids = tuple(key.replica_id for key in context.voters)
        change = LeaderChange(context.key.replica_id, ids, tuple(key.replica_id for key in granting))
        log.append_control(change, context.epoch, context.wall_ms(now_ms))
        voters = log.voters.latest
        # Its members stay the same, so this needs no majority of the set before.
        if (
            log.voters.latest_offset == BOOTSTRAP_OFFSET
            or endpoint_of(voters, context.key.replica_id) != context.endpoint
        ):
            voters = with_voter(voters, voter(context.key, context.endpoint))
            log.append_control(voters, context.epoch, context.wall_ms(now_ms))
        for key in context.voters:
            self._progress_of(key).greet_at_ms = now_ms
        context.flush()

    # --- events -----------------------------------------------------------------------------------------

    def append(self, batches: tuple[bytes, ...], now_ms: int) -> None:
        """Write decisions."""
        assert self.is_active, "the records of earlier epochs are not all committed yet"
        for batch in batches:
            self._log.append_batch(batch, self._context.epoch, self._context.wall_ms(now_ms))
        self.on_appended()

    def on_appended(self) -> None:
        """There is something new in the log: bring it to the disk here, and to the others."""
        self._context.flush()
        self._answer_parked()

    def on_fetch(self, token: Any, request: QuorumFetchRequest, now_ms: int) -> None:
        """A replica of this epoch fetches: count what it has, give it what it lacks."""
        key = ReplicaKey(request.replica_id, request.directory_id)
        progress = self._heard(key, now_ms)
        try:
            parted = self._where_parted(request)
        except KafkaError as error:
            parted = QuorumFetchResponse(error.code, **self._context.leader_facts())
        if parted is not None:
            self._context.reply(token, parted)
            return
        progress.end_offset = max(progress.end_offset, request.fetch_offset)
        if request.fetch_offset >= self._log.end_offset:
            progress.last_caught_up_ms = now_ms
        self.advance()
        if (before := self._parked.pop(key, None)) is not None:
            self._answer(before)
        deadline_ms = now_ms + min(max(request.max_wait_ms, 0), MAX_FETCH_WAIT_MS)
        fetch = _Parked(token, request, deadline_ms)
        if deadline_ms > now_ms and not self._has_news(request):
            self._parked[key] = fetch
        else:
            self._answer(fetch)

    def on_fetch_snapshot(self, token: Any, request: FetchSnapshotRequest, now_ms: int) -> None:
        """A replica fetches a piece of a snapshot."""
        self._heard(ReplicaKey(request.replica_id, request.directory_id), now_ms)
        snapshot = SnapshotId(request.snapshot_end_offset, request.snapshot_epoch)
        facts = self._context.leader_facts()
        try:
            size, data = self._log.snapshot_chunk(
                snapshot, request.position, min(max(request.max_bytes, 1), MAX_FETCH_BYTES)
            )
        except KafkaError as error:
            self._context.reply(token, FetchSnapshotResponse(error.code, **facts))
            return
        response = FetchSnapshotResponse(0, size=size, position=request.position, **facts)
        self._context.reply(token, response, (data,))

    def advance(self) -> None:
        """Commit what a majority has flushed, once that reaches into this epoch."""
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
            # Order: after Committed: a leader that has not applied what others were promised must not decide.
            self.is_active = True
            context.effects.append(BecameLeader(context.epoch))
        self.changes.on_committed()
        self._answer_parked()

    def poll(self, now_ms: int) -> None:
        """Answer fetches that have waited long enough; tell voters that do not fetch who leads."""
        for key in [key for key, fetch in self._parked.items() if fetch.deadline_ms <= now_ms]:
            self._answer(self._parked.pop(key))
        for key in self._others():
            progress = self._progress_of(key)
            if progress.greet_at_ms <= now_ms:
                progress.greet_at_ms = now_ms + self._greet_ms
                self._greet(key, now_ms)

    def give_back(self, lost_ms: int) -> None:
        """This leader stood still for so long, and could receive no fetch. Bound: one fetch timeout per voter
        without a fetch of it; a leader that is always late would never resign."""
        for key in self._others():
            progress = self._progress_of(key)
            if progress.given_ms < self._context.config.quorum_fetch_timeout_ms:
                progress.given_ms += lost_ms

    def close(self) -> None:
        """The epoch is over for this leader: whoever waits is told."""
        for fetch in self._parked.values():
            body = QuorumFetchResponse(NotLeaderOrFollowerError.code, **self._context.leader_facts())
            self._context.reply(fetch.token, body)
        self._parked.clear()
        self.changes.close()

    # --- facts ------------------------------------------------------------------------------------------

    @property
    def is_removed(self) -> bool:
        """Whether this leader is no voter any more, and that is committed."""
        is_committed = self._log.voters.latest_offset < self._log.high_watermark
        return is_committed and not self._context.is_voter

    def quorum_deadline_ms(self) -> int | None:
        """When this leader has not heard a majority for too long; None if it is one alone."""
        context = self._context
        needed = len(context.voters) // 2 + 1 - (1 if context.is_voter else 0)
        if needed <= 0:
            return None
        others = [self._progress_of(key) for key in self._others()]
        heard = [max(each.last_fetch_ms, self._start_ms) + each.given_ms for each in others]
        return sorted(heard, reverse=True)[needed - 1] + context.config.quorum_fetch_timeout_ms * 3 // 2

    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do, or the majority is lost."""
        deadlines = [fetch.deadline_ms for fetch in self._parked.values()]
        deadlines += [self._progress_of(key).greet_at_ms for key in self._others()]
        quorum_deadline_ms = self.quorum_deadline_ms()
        return min(
            deadlines if quorum_deadline_ms is None else [*deadlines, quorum_deadline_ms], default=None
        )

    def successors(self) -> tuple[int, ...]:
        """The other voters, the one that has most first."""
        others = sorted(self._others(), key=lambda key: (-self._progress_of(key).end_offset, key))
        return tuple(key.replica_id for key in others)

    def has_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer fetches, and has what is committed."""
        progress = self._progress.get(key)
        if progress is None or progress.last_fetch_ms == NEVER:
            return False
        is_fetching = now_ms - progress.last_fetch_ms <= self._context.config.quorum_fetch_timeout_ms
        return is_fetching and progress.end_offset >= self._log.high_watermark

    def describe(self, now_ms: int) -> DescribeQuorumResponse:
        """Voters and observers with their progress."""
        voters = self._context.voters
        observers = sorted(key for key in self._progress if key not in voters and key != self._context.key)
        return DescribeQuorumResponse(
            0,
            high_watermark=self._log.high_watermark,
            voters=tuple(self._described(key, now_ms) for key in voters),
            observers=tuple(self._described(key, now_ms) for key in observers),
            **self._context.leader_facts(),
        )

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _greet_ms(self) -> int:
        return self._context.config.quorum_fetch_timeout_ms // 2

    def _others(self) -> list[ReplicaKey]:
        return [key for key in self._context.voters if key != self._context.key]

    def _progress_of(self, key: ReplicaKey) -> Progress:
        if key not in self._progress:
            observers = [each for each in self._progress if each not in self._context.voters]
            if len(observers) >= MAX_OBSERVERS:
                del self._progress[min(observers, key=lambda each: self._progress[each].last_fetch_ms)]
            self._progress[key] = Progress()
        return self._progress[key]

    def _heard(self, key: ReplicaKey, now_ms: int) -> Progress:
        progress = self._progress_of(key)
        progress.last_fetch_ms, progress.given_ms = now_ms, 0
        progress.greet_at_ms = now_ms + self._greet_ms
        return progress

    def _greet(self, key: ReplicaKey, now_ms: int) -> None:
        context = self._context
        endpoint = QuorumEndpoint(*context.endpoint)
        body = BeginQuorumEpochRequest(
            context.cluster_id, *key, context.key.replica_id, context.epoch, endpoint
        )
        context.requests.send(key.replica_id, body, now_ms, self._greet_ms)

    def _where_parted(self, request: QuorumFetchRequest) -> QuorumFetchResponse | None:
        """The answer to a replica whose log is not a beginning of this one; None if it is.

        Errors: InvalidRequest, UnknownLeaderEpoch for what no replica of this epoch can ask.
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
            return self._behind(log.snapshots[0])
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        if own_epoch < 0:
            raise UnknownLeaderEpochError(f"epoch {epoch} is newer than any in the log")
        if own_epoch == epoch and offset <= own_end_offset:
            return None
        return QuorumFetchResponse(
            0,
            high_watermark=log.high_watermark,
            log_start_offset=start_offset,
            diverging_epoch=own_epoch,
            diverging_end_offset=own_end_offset,
            **self._context.leader_facts(),
        )

    def _behind(self, snapshot: SnapshotId) -> QuorumFetchResponse:
        return QuorumFetchResponse(
            0,
            high_watermark=self._log.high_watermark,
            log_start_offset=self._log.start_offset,
            snapshot_end_offset=snapshot.end_offset,
            snapshot_epoch=snapshot.epoch,
            **self._context.leader_facts(),
        )

    def _has_news(self, request: QuorumFetchRequest) -> bool:
        log = self._log
        return request.fetch_offset < log.end_offset or request.high_watermark < log.high_watermark

    def _answer_parked(self) -> None:
        for key in [key for key, fetch in self._parked.items() if self._has_news(fetch.request)]:
            self._answer(self._parked.pop(key))

    def _answer(self, fetch: _Parked) -> None:
        """Give what follows the fetch offset, flushed here or not: it counts where it is flushed."""
        log, request = self._log, fetch.request
        error_code, frames = 0, []
        try:
            # The log may have been cut at its start since the fetch came; that is told to the next one.
            if log.start_offset <= request.fetch_offset < log.end_offset:
                frames = log.read(request.fetch_offset, min(max(request.max_bytes, 0), MAX_FETCH_BYTES))
        except KafkaError as error:
            error_code = error.code
        body = QuorumFetchResponse(
            error_code,
            high_watermark=log.high_watermark,
            log_start_offset=log.start_offset,
            **self._context.leader_facts(),
        )
        self._context.reply(fetch.token, body, frames)

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
