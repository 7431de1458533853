"""A fetcher: fetches followed partitions from one leader and handles its responses. Pure.

A fetcher uses one fetch session: a request contains only the partitions that changed. While a fetch waits at
the leader, a second one may overtake it, so that a new partition, or one whose flush is done, does not wait
with it. Records are appended only if they were fetched in the present leader epoch and from the present
offset; the leader's log start and high watermark are taken from any response of the present leader epoch,
because the leader sends them once.

Invariant: a log is truncated only by leader epoch, or to the leader's range; never to a high watermark, and
never while a flush or a cleaning of it runs or checkpoints are written. Invariant: the high watermark is
taken only from responses that prove the log to agree with the leader's. Invariant: with durability=fsync, the
next offset is fetched when all records before it are flushed: to the leader, the fetch offset says what the
follower has. Source: Kafka AbstractFetcherThread.scala, ReplicaFetcherThread.scala; KIP-101, 227, 279, 595;
KAFKA-14704.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    error_from_code,
)
from ...protocol.messages.data import FetchPartition, FetchRequest
from ...protocol.model import NO_EPOCH, NO_OFFSET
from ...protocol.records.header import read_batch_header
from ...runtime.files.file_layer import DiskFullError
from .followed import Followed, FollowState, Truncation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.data import FetchPartitionResponse, FetchResponse
    from ...protocol.records.header import Buffer
    from .follower_parts import FollowerLimits, FollowerParts
    from .partition import Partition, PartitionKey

# Bound: fetches in flight: one that waits at the leader, and one that overtakes it.
_MAX_IN_FLIGHT = 2


class ReplicaFetcher:
    """See the module's docstring."""

    def __init__(self, leader_id: int, index: int, parts: FollowerParts, limits: FollowerLimits) -> None:
        self.leader_id, self.index = leader_id, index
        self.partitions: dict[PartitionKey, Followed] = {}
        self._parts = parts
        self._limits = limits
        self._to_fetch: dict[PartitionKey, None] = {}
        self._in_session: set[PartitionKey] = set()  # in the leader's session; never iterated
        self._forgotten: dict[PartitionKey, None] = {}
        self._delayed: dict[PartitionKey, None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._numbers = 0
        self._in_flight: deque[int] = deque()
        self._failures = 0
        self._retry_ms = 0

    # --- partitions ------------------------------------------------------------------------------------

    def add(self, partition: Partition, now_ms: int) -> None:
        """Follow the partition in its present leader epoch."""
        assert not partition.is_leader, "the leader fetches nothing"
        key = partition.key
        if not self.partitions:
            self._failures, self._retry_ms = 0, 0  # the first partition: forget earlier failures
        followed = self.partitions[key] = Followed(partition, partition.leader_epoch)
        self._delayed.pop(key, None)
        if key in self._in_session:
            # The session entry is stale: remove it and add the partition again.
            self._forgotten[key] = None
        if partition.log is not None and partition.log.recovery.has_loss:
            # New records would not fill the gap, and an in-sync replica with a gap could be elected.
            self._truncate(followed, Truncation(0, is_restart=True), now_ms)
        else:
            self._resume(followed, now_ms)

    def remove(self, key: PartitionKey) -> None:
        """Stop following the partition; responses in flight are ignored."""
        del self.partitions[key]
        self._to_fetch.pop(key, None)
        self._delayed.pop(key, None)
        if key in self._in_session:
            self._in_session.discard(key)
            self._forgotten[key] = None

    def flushed(self, key: PartitionKey, now_ms: int) -> None:
        """A flush of the partition's log has ended."""
        followed = self.partitions[key]
        if followed.state is FollowState.TRUNCATING:
            self._try_truncate(followed, now_ms)
        elif followed.state is FollowState.FLUSHING:
            self._learn_offsets(followed)
            self._resume(followed, now_ms)

    def start_moved(self, key: PartitionKey, now_ms: int) -> None:
        """The log start has moved: report it to the leader, whose DeleteRecords may wait for it."""
        followed = self.partitions[key]
        if followed.state is FollowState.READY:
            self._resume(followed, now_ms)

    def retry_truncations(self, now_ms: int) -> None:
        """Checkpoints or a cleaning have ended: do the truncations that waited for that."""
        for followed in list(self.partitions.values()):
            if followed.state is FollowState.TRUNCATING:
                self._try_truncate(followed, now_ms)

    # --- requests --------------------------------------------------------------------------------------

    def next_request(self, replica_epoch: int, now_ms: int) -> tuple[int, FetchRequest] | None:
        """The request to send now, with its number; None if there is none."""
        if now_ms < self._retry_ms:
            return None
        self._retry_ms = 0
        if self._delayed:
            self._end_delays(now_ms)
        if not self._is_request_due():
            return None
        self._numbers += 1
        number = self._numbers
        named = tuple(self._describe(key, number) for key in self._to_fetch)
        forgotten = tuple(self._forgotten)
        limits = self._limits
        request = FetchRequest(
            limits.wait_max_ms,
            limits.min_bytes,
            limits.response_max_bytes,
            0,
            named,
            self._parts.table.node_id,
            replica_epoch,
            self._session_id,
            self._session_epoch,
            forgotten,
        )
        self._in_session.update(self._to_fetch)
        self._to_fetch.clear()
        self._forgotten.clear()
        self._session_epoch += 1
        self._in_flight.append(number)
        return number, request

    def next_deadline_ms(self) -> int | None:
        """When `next_request` may have a request, unless a response or a flush comes before."""
        if self._retry_ms:
            return self._retry_ms
        if not self._delayed:
            return None
        return min(self.partitions[key].retry_ms for key in self._delayed)

    def _is_request_due(self) -> bool:
        if not self._in_flight:
            if self._session_epoch == 0:
                return bool(self._to_fetch)
            return bool(self.partitions or self._forgotten)
        if len(self._in_flight) >= _MAX_IN_FLIGHT or not self._session_id:
            return False
        return bool(self._to_fetch or self._forgotten)

    def _describe(self, key: PartitionKey, number: int) -> FetchPartition:
        followed = self.partitions[key]
        log = followed.partition.log
        assert log is not None, "only an online partition follows"
        followed.last_request = number
        followed.first_request = followed.first_request or number
        return FetchPartition(
            *key,
            log.log_end_offset,
            self._limits.max_bytes,
            followed.leader_epoch,
            log.epochs.latest_epoch,
            log.log_start_offset,
            followed.wants_producers,
        )

    # --- answers ---------------------------------------------------------------------------------------

    def answered(
        self, number: int, response: FetchResponse, frames: Sequence[Buffer], now_ms: int, wall_ms: int
    ) -> None:
        """A response; one of an earlier session is ignored."""
        if number not in self._in_flight:
            return
        if response.error_code != NO_ERROR:
            self.failed(number, now_ms)
            return
        self._in_flight.remove(number)
        self._failures, self._retry_ms = 0, 0
        self._session_id = response.session_id
        position = 0
        for key, answer in zip(response.keys, response.partitions, strict=False):
            data = frames[position : position + answer.frame_count]
            position += answer.frame_count
            followed = self.partitions.get(key)
            if followed is None or not 0 < followed.first_request <= number:
                continue
            is_of_now = number >= followed.last_request and key not in self._to_fetch
            if is_of_now and followed.state is FollowState.READY:
                self._take(followed, answer, data, now_ms, wall_ms)
            elif followed.state not in (FollowState.TRUNCATING, FollowState.FENCED):
                self._take_offsets(followed, answer)

    def failed(self, number: int, now_ms: int) -> None:
        """A fetch has failed: the session and all fetches in flight are lost."""
        if number not in self._in_flight:
            return
        self._in_flight.clear()
        self._failures += 1
        self._retry_ms = now_ms + self._limits.backoff_after(self._failures)
        self._session_id = self._session_epoch = 0
        self._in_session.clear()
        self._forgotten.clear()
        self._to_fetch = {
            key: None for key, followed in self.partitions.items() if followed.state is FollowState.READY
        }

    def _take(
        self,
        followed: Followed,
        answer: FetchPartitionResponse,
        data: Sequence[Buffer],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        try:
            if answer.error_code == OffsetOutOfRangeError.code:
                self._on_out_of_range(followed, answer, now_ms)
            elif answer.error_code != NO_ERROR:
                self._on_error(followed, error_from_code(answer.error_code, answer.error_detail), now_ms)
            elif answer.diverging_end_offset != NO_OFFSET:
                self._on_divergence(followed, answer, now_ms)
            elif answer.has_producers and data:
                self._take_producers(followed, answer, data[0], now_ms)
            else:
                self._append(followed, answer, data, now_ms, wall_ms)
        except DiskFullError as error:  # the batches before it are appended; fetch the others again
            self._parts.disks.failed(followed.partition, error, now_ms)
            self._delay(followed, now_ms)
        except KafkaStorageError as error:
            self._parts.disks.failed(followed.partition, error, now_ms)
        except KafkaError as error:  # a corrupt batch: the batches before it are appended
            self._note(followed, f"cannot append records from node {self.leader_id}: {error!r}")
            self._delay(followed, now_ms)

    def _take_offsets(self, followed: Followed, answer: FetchPartitionResponse) -> None:
        """A response of an earlier fetch offset, or in a state that cannot append. The log was not truncated
        since: the leader sends nothing after a divergence until the next fetch."""
        if answer.error_code == NO_ERROR and answer.diverging_end_offset == NO_OFFSET:
            followed.leader_watermark, followed.leader_start = answer.high_watermark, answer.log_start_offset
            self._learn_offsets(followed)

    def _append(
        self,
        followed: Followed,
        answer: FetchPartitionResponse,
        data: Sequence[Buffer],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        partition = followed.partition
        log = partition.log
        assert log is not None, "only an online partition follows"
        if data and log.start.is_inside(data[0], log.log_end_offset):
            if partition.is_flushing or self._parts.table.is_checkpointing or log.compaction.abort():
                self._delay(followed, now_ms)
                return
            base_offset = read_batch_header(data[0]).base_offset
            # Order: first, so that a full disk has changed nothing
            log.producers.move_snapshot_to(base_offset)
            self._restart(partition, base_offset, log.log_start_offset)
        for piece in data:
            try:
                log.append_as_follower(piece, wall_ms=wall_ms)
            except DiskFullError:
                if log.log_end_offset < log.log_start_offset:  # empty without the batch of its start
                    self._restart(partition, log.log_start_offset, log.log_start_offset)
                raise
            self._parts.counters.replicated_in_bytes += len(piece)
            if _is_under_throttle(partition):
                self._parts.throttle.take(len(piece), now_ms)
        self._parts.flushes.maybe_flush(partition)
        if answer.traced and self._parts.traces is not None:
            self._parts.traces.replicated(partition, answer.traced, now_ms)
        followed.failures = 0
        followed.leader_watermark, followed.leader_start = answer.high_watermark, answer.log_start_offset
        self._learn_offsets(followed)
        if data:
            self._resume(followed, now_ms)

    def _take_producers(
        self, followed: Followed, answer: FetchPartitionResponse, snapshot: Buffer, now_ms: int
    ) -> None:
        log = followed.partition.log
        assert log is not None, "only an online partition follows"
        if followed.wants_producers:
            log.restore_producers(snapshot)
            followed.has_producers = True
        followed.failures = 0
        followed.leader_watermark, followed.leader_start = answer.high_watermark, answer.log_start_offset
        self._learn_offsets(followed)
        self._resume(followed, now_ms)

    def _restart(self, partition: Partition, offset: int, log_start_offset: int) -> None:
        try:
            partition.restart_at(offset, log_start_offset)
        except DiskFullError as error:  # how much of it is done is unknown
            raise KafkaStorageError(str(error)) from error
        self._parts.moves.truncated(partition)

    def _resume(self, followed: Followed, now_ms: int) -> None:
        """Fetch the next records, with durability=fsync after the flush of the last ones."""
        partition = followed.partition
        log = partition.log
        assert log is not None, "only an online partition follows"
        if partition.safe_end_offset < log.log_end_offset:
            followed.become(FollowState.FLUSHING)
            self._to_fetch.pop(partition.key, None)
            self._parts.flushes.maybe_flush(partition)
        else:
            followed.become(FollowState.READY)
            self._to_fetch[partition.key] = None
            self._maybe_throttle(followed, now_ms)

    def _maybe_throttle(self, followed: Followed, now_ms: int) -> None:
        """Delay the next fetch while follower.replication.throttled.rate is exceeded."""
        partition = followed.partition
        throttle = self._parts.throttle
        if _is_under_throttle(partition) and not throttle.has_room(now_ms):
            del self._to_fetch[partition.key]
            followed.become(FollowState.DELAYED)
            followed.retry_ms = throttle.room_ms(now_ms)
            self._delayed[partition.key] = None

    def _learn_offsets(self, followed: Followed) -> None:
        """Take the leader's high watermark and, up to that, its log start."""
        partition = followed.partition
        if followed.leader_watermark != NO_OFFSET and partition.learn_high_watermark(
            followed.leader_watermark
        ):
            self._parts.output.changed.append(partition.key)
        self._parts.log_starts.request_start(partition, min(followed.leader_start, partition.high_watermark))

    # --- truncation ------------------------------------------------------------------------------------

    def _on_divergence(self, followed: Followed, answer: FetchPartitionResponse, now_ms: int) -> None:
        """Truncate to where both logs have the same epochs. If this log does not have the epoch, truncate
        to the end of the previous one, and fetch again (KIP-279)."""
        log = followed.partition.log
        assert log is not None, "only an online partition follows"
        epoch, leader_end = answer.diverging_epoch, answer.diverging_end_offset
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == NO_EPOCH:
            offset = leader_end
        elif own_epoch == epoch:
            offset = min(own_end, leader_end)
        else:
            offset = own_end
        if log.log_start_offset < answer.log_start_offset >= offset:
            # No common records are left: those below the leader's log start cannot be compared.
            self._truncate(followed, Truncation(answer.log_start_offset, is_restart=True), now_ms)
        else:
            self._truncate(followed, Truncation(min(offset, log.log_end_offset), is_restart=False), now_ms)

    def _on_out_of_range(self, followed: Followed, answer: FetchPartitionResponse, now_ms: int) -> None:
        """Truncate to the leader's log end if this log is longer; restart at the leader's log start if it
        ends before."""
        log = followed.partition.log
        assert log is not None, "only an online partition follows"
        start, end = answer.log_start_offset, answer.diverging_end_offset
        if start < 0 or end < 0:
            self._delay(followed, now_ms)
        elif log.log_end_offset > end:
            self._truncate(followed, Truncation(end, is_restart=end < log.log_start_offset), now_ms)
        elif log.log_end_offset < start:
            self._truncate(followed, Truncation(start, is_restart=True), now_ms)
        else:
            self._delay(followed, now_ms)  # the leader's log has changed meanwhile: fetch again

    def _truncate(self, followed: Followed, truncation: Truncation, now_ms: int) -> None:
        followed.truncation = truncation
        followed.become(FollowState.TRUNCATING)
        self._try_truncate(followed, now_ms)

    def _try_truncate(self, followed: Followed, now_ms: int) -> None:
        partition, truncation = followed.partition, followed.truncation
        assert truncation is not None, "a truncation is pending"
        assert partition.log is not None, "only an online partition is truncated"
        if partition.is_flushing or self._parts.table.is_checkpointing or partition.log.compaction.abort():
            return
        old_end, watermark = partition.log.log_end_offset, partition.high_watermark
        try:
            if truncation.is_restart:
                partition.restart_at(truncation.offset)
                followed.has_producers = False
            else:
                partition.truncate_to(truncation.offset)
        except KafkaStorageError as error:
            # Also on a full disk: how much of it is truncated is unknown.
            self._parts.disks.failed(partition, KafkaStorageError(str(error)), now_ms)
            return
        end = partition.log.log_end_offset
        self._parts.moves.truncated(partition)
        if end != old_end:
            lost = f", below its high watermark {watermark}" if end < watermark else ""
            # Losing unacknowledged records is normal after an election; below the high watermark it is not.
            level = logging.WARNING if lost else logging.INFO
            how = "truncated" if end < old_end else "restarted"
            self._note(followed, f"{how} from {old_end} to {end} as on leader {self.leader_id}{lost}", level)
        followed.truncation = None
        followed.leader_watermark = followed.leader_start = NO_OFFSET
        self._parts.output.changed.append(partition.key)
        self._resume(followed, now_ms)

    # --- errors ----------------------------------------------------------------------------------------

    def _on_error(self, followed: Followed, error: KafkaError, now_ms: int) -> None:
        """Stop if the leader epoch is fenced, until metadata brings the next; retry after other errors."""
        if isinstance(error, FencedLeaderEpochError):
            followed.become(FollowState.FENCED)
        else:
            self._delay(followed, now_ms)

    def _delay(self, followed: Followed, now_ms: int) -> None:
        followed.failures += 1
        followed.become(FollowState.DELAYED)
        followed.retry_ms = now_ms + self._limits.backoff_after(followed.failures)
        self._delayed[followed.partition.key] = None

    def _end_delays(self, now_ms: int) -> None:
        for key in [key for key in self._delayed if self.partitions[key].retry_ms <= now_ms]:
            del self._delayed[key]
            self._resume(self.partitions[key], now_ms)

    def _note(self, followed: Followed, text: str, level: int = logging.WARNING) -> None:
        self._parts.output.note(level, f"{followed.partition.topic_partition}: {text}")

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._in_flight) <= _MAX_IN_FLIGHT
        for key in self._to_fetch:
            followed = self.partitions[key]
            assert followed.state is FollowState.READY, "only READY partitions are fetched"
        for key, followed in self.partitions.items():
            assert (key in self._delayed) == (followed.state is FollowState.DELAYED)
            assert followed.leader_epoch == followed.partition.leader_epoch, (
                "followed in an older leader epoch"
            )
            assert not followed.partition.is_leader, "the leader fetches nothing"


def _is_under_throttle(partition: Partition) -> bool:
    return partition.is_throttled_as_follower and partition.node_id not in partition.isr
