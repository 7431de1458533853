"""A follower or observer: fetches the metadata log of one leader, and goes back where it differs.

One request at a time: a fetch goes out only when everything that the log has is flushed, so its offset says
what is durable here, and nothing is cut while a flush runs. While a flush takes long, a fetch from the
durable part keeps leader and follower from taking each other for dead; its answer changes nothing. A follower
that is behind the start of the leader's log fetches a snapshot first, piece by piece. Source: KIP-595,
KIP-630, KIP-853, KIP-1186.
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
from ...runtime.config import MIB
from ...runtime.files.file_layer import MAX_SMALL_FILE_BYTES
from .events import LoadSnapshot
from .snapshots import SnapshotId
from .voters import endpoint_of, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer
    from .context import Context
    from .requests import Sent

# Bound: of one answer. Larger batches come alone.
FETCH_BYTES = MIB
_BAD_BATCHES = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError)


def fetch_request(context: Context, max_wait_ms: int) -> QuorumFetchRequest:
    """The fetch for what comes after this controller's log."""
    log = context.log
    return QuorumFetchRequest(
        cluster_id=context.cluster_id,
        replica_id=context.key.replica_id,
        directory_id=context.key.directory_id,
        leader_epoch=context.epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        high_watermark=log.high_watermark,
        max_bytes=FETCH_BYTES,
        max_wait_ms=max_wait_ms,
    )


def keep_alive_request(context: Context) -> QuorumFetchRequest:
    """A fetch for what comes after the durable part of this controller's log, whose answer is not
    appended."""
    log = context.log
    return QuorumFetchRequest(
        cluster_id=context.cluster_id,
        replica_id=context.key.replica_id,
        directory_id=context.key.directory_id,
        leader_epoch=context.epoch,
        fetch_offset=log.flushed_offset,
        last_fetched_epoch=log.epoch_of(log.flushed_offset - 1) if log.flushed_offset else 0,
        high_watermark=log.high_watermark,
        max_bytes=0,
        max_wait_ms=0,
    )


class Following:
    """Follows one leader in one epoch."""

    def __init__(self, context: Context, leader_id: int, now_ms: int) -> None:
        self._context = context
        self.leader_id = leader_id
        self.has_fetched = False  # the leader has answered in this epoch
        self.deadline_ms = self._deadline_ms(now_ms)  # the leader is lost then
        self._given_ms = 0  # by `give_back`, since the leader last answered
        self._keep_alive_at_ms = now_ms
        self._leader_high_watermark = 0
        self._snapshot: SnapshotId | None = None  # being fetched
        self._position = 0
        self._ask_at_ms = now_ms
        self._retry_at_ms = now_ms

    def poll(self, now_ms: int) -> None:
        """Keep one fetch under way."""
        context, timeout_ms = self._context, self._context.config.quorum_fetch_timeout_ms
        context.flush()
        if now_ms < self._retry_at_ms:
            return
        if context.is_flushing:
            self._keep_alive(now_ms)
            return
        self._keep_alive_at_ms = now_ms + timeout_ms // 4
        if self._snapshot is not None:
            context.requests.send(self.leader_id, self._snapshot_request(self._snapshot), now_ms)
        else:
            request = fetch_request(context, max_wait_ms=timeout_ms // 4)
            # A lost answer must not cost the whole fetch timeout.
            context.requests.send(self.leader_id, request, now_ms, timeout_ms // 2)
        if now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + context.config.quorum_election_timeout_ms
            if (change := self._wanted_change()) is not None:
                context.requests.send(self.leader_id, change, now_ms)

    def on_failed(self, now_ms: int) -> None:
        """The leader cannot be reached: its process may be dead, which is no reason to wait for the whole
        timeout. If only this link is down, the others hear the leader and will say no.

        By chance earlier or later, so that not all followers campaign at the same time.
        """
        self.has_fetched = False
        wait_ms = self._context.config.quorum_fetch_timeout_ms // 4
        self.deadline_ms = min(self.deadline_ms, now_ms + wait_ms + self._context.random.randrange(wait_ms))

    def give_back(self, lost_ms: int) -> None:
        """This controller stood still for so long. Bound: one fetch timeout without an answer of the leader;
        a controller that is always late would never miss it."""
        if self._given_ms < self._context.config.quorum_fetch_timeout_ms:
            self._given_ms += lost_ms
            self.deadline_ms += lost_ms

    def on_fetch(
        self, sent: Sent, response: QuorumFetchResponse, frames: Sequence[Buffer], now_ms: int
    ) -> None:
        """The leader answered a fetch, without an error."""
        self._heard(now_ms)
        if self._context.is_flushing or sent.body.fetch_offset != self._context.log.end_offset:
            return  # of a keep-alive: the log must not change now, or has what came
        if response.diverging_epoch >= 0:
            self._truncate(response.diverging_epoch, response.diverging_end_offset, now_ms)
            return
        if response.snapshot_end_offset >= 0:
            self._snapshot = SnapshotId(response.snapshot_end_offset, response.snapshot_epoch)
            self._position = 0
            return
        try:
            for frame in frames:
                self._context.log.append_as_follower(frame)
        except _BAD_BATCHES:
            self._retry_at_ms = now_ms + self._context.config.quorum_retry_backoff_ms
        self._leader_high_watermark = max(self._leader_high_watermark, response.high_watermark)
        self._context.flush()
        self.advance()

    def on_snapshot(
        self, sent: Sent, response: FetchSnapshotResponse, frames: Sequence[Buffer], now_ms: int
    ) -> None:
        """The leader answered with a piece of the snapshot, or with an error: then begin anew."""
        snapshot, data = self._snapshot, b"".join(bytes(frame) for frame in frames)
        is_wanted = snapshot is not None and sent.body.position == self._position == response.position
        is_sound = response.error_code == NO_ERROR and data and response.size <= MAX_SMALL_FILE_BYTES
        if snapshot is None or not is_wanted or not is_sound:
            self._snapshot = None
            self._retry_at_ms = now_ms + self._context.config.quorum_retry_backoff_ms
            return
        self._heard(now_ms)
        self._context.log.receive_snapshot(snapshot, self._position, data)
        self._position += len(data)
        if self._position >= response.size:
            self._snapshot = None
            self._install(snapshot, now_ms)

    def advance(self) -> None:
        """What is committed for the leader and durable here is committed here."""
        self._context.commit(min(self._leader_high_watermark, self._context.log.flushed_offset))

    def next_deadline_ms(self, now_ms: int) -> int:
        """When `poll` has something to do."""
        alarms = [self._ask_at_ms, self._retry_at_ms]
        if self._context.is_flushing:
            alarms.append(self._keep_alive_at_ms)
        later = [at for at in alarms if at > now_ms]
        return min([self.deadline_ms, *later])

    # --- inside -----------------------------------------------------------------------------------------

    def _keep_alive(self, now_ms: int) -> None:
        """The disk is slow: fetch from what is durable, so that neither fetch timeout passes."""
        if now_ms < self._keep_alive_at_ms or self._snapshot is not None:
            return
        timeout_ms = self._context.config.quorum_fetch_timeout_ms
        self._keep_alive_at_ms = now_ms + timeout_ms // 4
        self._context.requests.send(
            self.leader_id, keep_alive_request(self._context), now_ms, timeout_ms // 2
        )

    def _heard(self, now_ms: int) -> None:
        self.has_fetched = True
        self._given_ms = 0
        self.deadline_ms = self._deadline_ms(now_ms)

    def _deadline_ms(self, now_ms: int) -> int:
        """A little early, by chance: followers that lose a leader together would all vote for themselves."""
        timeout_ms = self._context.config.quorum_fetch_timeout_ms
        return now_ms + timeout_ms - self._context.random.randrange(max(1, timeout_ms // 8))

    def _truncate(self, epoch: int, end_offset: int, now_ms: int) -> None:
        """Go back to where this log and the leader's may still agree; the next fetch asks again."""
        log = self._context.log
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        target = min(own_end_offset, end_offset) if own_epoch == epoch else own_end_offset
        if not 0 <= target < log.end_offset:
            self._retry_at_ms = now_ms + self._context.config.quorum_retry_backoff_ms
            return
        log.truncate_to(target)

    def _snapshot_request(self, snapshot: SnapshotId) -> FetchSnapshotRequest:
        context = self._context
        return FetchSnapshotRequest(
            cluster_id=context.cluster_id,
            replica_id=context.key.replica_id,
            directory_id=context.key.directory_id,
            leader_epoch=context.epoch,
            snapshot_end_offset=snapshot.end_offset,
            snapshot_epoch=snapshot.epoch,
            position=self._position,
            max_bytes=FETCH_BYTES,
        )

    def _install(self, snapshot: SnapshotId, now_ms: int) -> None:
        log = self._context.log
        if snapshot.end_offset < log.high_watermark:
            return
        try:
            log.install_snapshot(snapshot)
        except CorruptMessageError:
            self._retry_at_ms = now_ms + self._context.config.quorum_retry_backoff_ms
            return
        self._context.effects.append(LoadSnapshot(snapshot))

    def _wanted_change(self) -> Any | None:
        """What the voter set should say of this controller and does not."""
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
            if each.voter_id == key.replica_id:  # of this controller's lost disk
                return RemoveRaftVoterRequest(context.cluster_id, *key_of(each))
        return AddRaftVoterRequest(context.cluster_id, *key, *endpoint)
