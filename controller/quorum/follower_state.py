"""The state of a follower or observer: fetches the metadata log from the leader, and truncates where it
diverges.

One request is in flight at a time. A fetch is sent only when the whole log is flushed, so its offset tells
the leader what is durable here, and the log is never truncated during a flush. While a flush is slow, a fetch
from the durable end keeps the fetch timeouts of leader and follower from passing; its response is not
appended. A follower whose log ends before the leader's log start fetches a snapshot first, piece by piece.
Source: Kafka FollowerState.java; KIP-595, KIP-630, KIP-853, KIP-1186.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    NO_ERROR,
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
)
from ...protocol.messages.quorum import (
    AddRaftVoterRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from ...protocol.metadata.features import OWN_RANGES
from ...runtime.config import MIB
from ...runtime.files.file_layer import MAX_SMALL_FILE_BYTES
from .epoch_state import EpochState
from .events import LoadSnapshot
from .roles import Role, RoleEvent
from .snapshots import SnapshotId
from .voters import endpoint_of, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer
    from .context import QuorumContext
    from .requests import Sent

# Bound: of one response. A larger batch comes alone.
FETCH_BYTES = MIB
_BAD_BATCHES = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError)


def fetch_request(context: QuorumContext, max_wait_ms: int) -> QuorumFetchRequest:
    """A fetch from the log end."""
    return _fetch_request(context, context.log.end_offset, context.log.last_epoch, FETCH_BYTES, max_wait_ms)


def keep_alive_request(context: QuorumContext) -> QuorumFetchRequest:
    """A fetch from the durable end, for no bytes."""
    log = context.log
    last_epoch = log.epoch_of(log.flushed_offset - 1) if log.flushed_offset else 0
    return _fetch_request(context, log.flushed_offset, last_epoch, 0, 0)


def _fetch_request(
    context: QuorumContext, offset: int, last_epoch: int, max_bytes: int, max_wait_ms: int
) -> QuorumFetchRequest:
    return QuorumFetchRequest(
        cluster_id=context.cluster_id,
        replica_id=context.key.replica_id,
        directory_id=context.key.directory_id,
        leader_epoch=context.epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        high_watermark=context.log.high_watermark,
        max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        features=OWN_RANGES,
    )


class FollowerState(EpochState):
    """Follows one leader in one epoch."""

    role = Role.FOLLOWER

    def __init__(self, context: QuorumContext, leader_id: int, now_ms: int) -> None:
        self._context = context
        self.leader_id = leader_id
        self.has_fetched = False  # the leader has responded in this epoch
        self._fetch_deadline_ms = self._next_fetch_deadline_ms(now_ms)
        self._extended_ms = 0  # by `on_stall`, since the leader's last response
        self._keep_alive_at_ms = now_ms
        self._leader_high_watermark = 0
        self._snapshot: SnapshotId | None = None  # that is being fetched
        self._snapshot_position = 0
        self._voter_change_at_ms = now_ms
        self._retry_at_ms = now_ms

    def poll(self, now_ms: int) -> RoleEvent | None:
        context, timeout_ms = self._context, self._context.config.quorum_fetch_timeout_ms
        if self._fetch_deadline_ms <= now_ms:
            return RoleEvent.FETCH_TIMEOUT if context.is_voter else RoleEvent.LEADER_LOST
        context.flush()
        if now_ms < self._retry_at_ms:
            return None
        if context.is_flushing:
            self._keep_alive(now_ms)
            return None
        self._keep_alive_at_ms = now_ms + timeout_ms // 4
        if self._snapshot is not None:
            context.requests.send(self.leader_id, self._snapshot_request(self._snapshot), now_ms)
        elif context.requests.is_free(self.leader_id, QuorumFetchRequest, now_ms):
            request = fetch_request(context, max_wait_ms=timeout_ms // 4)
            # The loss of one response must not cost the whole fetch timeout.
            context.requests.send(self.leader_id, request, now_ms, timeout_ms // 2)
        if now_ms >= self._voter_change_at_ms:
            self._voter_change_at_ms = now_ms + context.config.quorum_election_timeout_ms
            if (change := self._voter_change()) is not None:
                context.requests.send(self.leader_id, change, now_ms)
        return None

    def next_deadline_ms(self, now_ms: int) -> int | None:
        times_ms = [self._voter_change_at_ms, self._retry_at_ms]
        if self._context.is_flushing:
            times_ms.append(self._keep_alive_at_ms)
        return min([self._fetch_deadline_ms, *(at_ms for at_ms in times_ms if at_ms > now_ms)])

    def on_stall(self, stalled_ms: int) -> None:
        # Bound: one fetch timeout without a response; a follower that is always late would never campaign.
        if self._extended_ms < self._context.config.quorum_fetch_timeout_ms:
            self._extended_ms += stalled_ms
            self._fetch_deadline_ms += stalled_ms

    def check(self) -> None:
        assert self.leader_id == self._context.leader_id != self._context.key.replica_id

    # --- responses --------------------------------------------------------------------------------------

    def on_failed(self, now_ms: int) -> None:
        """The connection to the leader failed, perhaps because its process died: shorten the fetch timeout.
        If only this link failed, the other voters still fetch, and reject the pre-vote.

        The new deadline is random, so that not all followers campaign at the same time.
        """
        self.has_fetched = False
        wait_ms = self._context.config.quorum_fetch_timeout_ms // 4
        deadline_ms = now_ms + wait_ms + self._context.random.randrange(wait_ms)
        self._fetch_deadline_ms = min(self._fetch_deadline_ms, deadline_ms)

    def on_fetch(
        self, sent: Sent, response: QuorumFetchResponse, frames: Sequence[Buffer], now_ms: int
    ) -> None:
        """The leader responded to a fetch, without an error."""
        self._leader_responded(now_ms)
        if self._context.is_flushing or sent.body.fetch_offset != self._context.log.end_offset:
            return  # to a keep-alive: the log must not change during a flush, or has these records
        if response.diverging_epoch >= 0:
            self._truncate(response.diverging_epoch, response.diverging_end_offset, now_ms)
            return
        if response.snapshot_end_offset >= 0:
            self._snapshot = SnapshotId(response.snapshot_end_offset, response.snapshot_epoch)
            self._snapshot_position = 0
            return
        try:
            for frame in frames:
                self._context.log.append_as_follower(frame)
        except _BAD_BATCHES:
            self._context.log.rejected_batches += 1
            self._retry_later(now_ms)
        self._leader_high_watermark = max(self._leader_high_watermark, response.high_watermark)
        self._context.flush()
        self.advance_high_watermark()

    def on_snapshot(
        self, sent: Sent, response: FetchSnapshotResponse, frames: Sequence[Buffer], now_ms: int
    ) -> None:
        """The leader responded with a piece of the snapshot; after an error fetch from the log end again."""
        snapshot, data = self._snapshot, b"".join(bytes(frame) for frame in frames)
        is_next = snapshot is not None and sent.body.position == self._snapshot_position == response.position
        is_valid = response.error_code == NO_ERROR and data and response.size <= MAX_SMALL_FILE_BYTES
        if snapshot is None or not is_next or not is_valid:
            self._snapshot = None
            self._retry_later(now_ms)
            return
        self._leader_responded(now_ms)
        self._context.log.snapshots.receive(snapshot, self._snapshot_position, data)
        self._snapshot_position += len(data)
        if self._snapshot_position >= response.size:
            self._snapshot = None
            self._install(snapshot, now_ms)

    def advance_high_watermark(self) -> None:
        """To the leader's, as far as the records are durable here."""
        self._context.commit(min(self._leader_high_watermark, self._context.log.flushed_offset))

    # --- inside -----------------------------------------------------------------------------------------

    def _keep_alive(self, now_ms: int) -> None:
        if now_ms < self._keep_alive_at_ms or self._snapshot is not None:
            return
        timeout_ms = self._context.config.quorum_fetch_timeout_ms
        self._keep_alive_at_ms = now_ms + timeout_ms // 4
        request = keep_alive_request(self._context)
        self._context.requests.send(self.leader_id, request, now_ms, timeout_ms // 2)

    def _leader_responded(self, now_ms: int) -> None:
        self.has_fetched = True
        self._extended_ms = 0
        self._fetch_deadline_ms = self._next_fetch_deadline_ms(now_ms)

    def _next_fetch_deadline_ms(self, now_ms: int) -> int:
        """A random part of the timeout is left out: followers that lose the leader at the same time would all
        vote for themselves."""
        timeout_ms = self._context.config.quorum_fetch_timeout_ms
        return now_ms + timeout_ms - self._context.random.randrange(max(1, timeout_ms // 8))

    def _retry_later(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._context.config.quorum_retry_backoff_ms

    def _truncate(self, epoch: int, end_offset: int, now_ms: int) -> None:
        """Truncate to the end of the largest epoch that both logs may share; the next fetch checks it."""
        log = self._context.log
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        target = min(own_end_offset, end_offset) if own_epoch == epoch else own_end_offset
        if 0 <= target < log.end_offset:
            log.truncate_to(target)
        else:
            self._retry_later(now_ms)

    def _snapshot_request(self, snapshot: SnapshotId) -> FetchSnapshotRequest:
        context = self._context
        return FetchSnapshotRequest(
            cluster_id=context.cluster_id,
            replica_id=context.key.replica_id,
            directory_id=context.key.directory_id,
            leader_epoch=context.epoch,
            snapshot_end_offset=snapshot.end_offset,
            snapshot_epoch=snapshot.epoch,
            position=self._snapshot_position,
            max_bytes=FETCH_BYTES,
        )

    def _install(self, snapshot: SnapshotId, now_ms: int) -> None:
        log = self._context.log
        if snapshot.end_offset < log.high_watermark:
            return
        try:
            log.install_snapshot(snapshot)
        except CorruptMessageError:
            self._retry_later(now_ms)
            return
        self._context.effects.append(LoadSnapshot(snapshot))

    def _voter_change(self) -> Any | None:
        """The request that corrects this controller's entry in the voter set; None if it is correct."""
        context = self._context
        voters, key, endpoint = context.log.voters.latest, context.key, context.endpoint
        if context.is_voter:
            if endpoint_of(voters, key.replica_id) == endpoint:
                return None
            return UpdateRaftVoterRequest(context.cluster_id, *key, *endpoint)
        has_caught_up = 0 < self._leader_high_watermark <= context.log.flushed_offset
        if not context.config.quorum_auto_join or not voters.voters or not has_caught_up:
            return None
        for each in voters.voters:
            if each.voter_id == key.replica_id:  # with the directory id of a lost disk
                return RemoveRaftVoterRequest(context.cluster_id, *key_of(each))
        return AddRaftVoterRequest(context.cluster_id, *key, *endpoint)
