"""Produce: append one batch per entry, answer at once or when the records are safe enough.

Source: Kafka ReplicaManager.appendRecords, DelayedProduce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    InvalidRequiredAcksError,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import ProducePartition, ProducePartitionResponse, ProduceResponse
from .delayed_entries import DelayedEntries, WaitingEntry
from .partition import ACKS_ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.data import ProduceRequest
    from ...protocol.records.header import Buffer
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..replies import Incoming, Replies
    from .partition import Partition
    from .replica_manager import ReplicaManager

_LEGAL_ACKS = frozenset((0, 1, ACKS_ALL))


class ProduceHandler:
    """Appends, and parks what must wait for the disk or the in-sync replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        *,
        max_wait_ms: int,
        max_partitions: int,
        max_waiting: int,
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._max_wait_ms = max_wait_ms
        self._max_partitions = max_partitions
        self._max_waiting = max_waiting

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> None:
        """Append every entry, each on its own, and answer for all of them together.

        Errors: InvalidRequestError (nothing was appended) if frames and entries do not pair up.
        ThrottlingQuotaExceededError before any append, when no further request could be parked.
        """
        body: ProduceRequest = request.body
        frames = request.frames
        self._check_shape(body, frames)
        answers: list[ProducePartitionResponse] = []
        waiting: list[WaitingEntry] = []
        for index, entry in enumerate(body.partitions):
            try:
                answers.append(self._append(index, entry, frames[index], body.acks, wall_ms, waiting))
            except KafkaError as error:
                answers.append(self._failed(entry, error))
        if body.acks == 0:
            self._replies.no_reply(request)
        elif not waiting:
            self._replies.reply(request, ProduceResponse(tuple(answers)))
        else:
            self._park(request, answers, waiting, now_ms)

    def _check_shape(self, body: ProduceRequest, frames: Sequence[Buffer]) -> None:
        if len(frames) != len(body.partitions):
            raise InvalidRequestError(f"{len(body.partitions)} entries came with {len(frames)} batches")
        if len(frames) > self._max_partitions:
            raise InvalidRequestError(f"{len(frames)} entries, at most {self._max_partitions} are allowed")
        if body.acks not in _LEGAL_ACKS:
            raise InvalidRequiredAcksError(f"acks {body.acks}, only 0, 1 and -1 exist")
        if body.acks and len(self._purgatory) >= self._max_waiting:
            raise ThrottlingQuotaExceededError(f"{len(self._purgatory)} produce requests are waiting already")

    def _append(
        self,
        index: int,
        entry: ProducePartition,
        frame: Buffer,
        acks: int,
        wall_ms: int,
        waiting: list[WaitingEntry],
    ) -> ProducePartitionResponse:
        replicas = self._replicas
        partition = replicas.find(entry.topic_id, entry.partition)
        log = partition.leader_log(entry.leader_epoch)
        if acks == ACKS_ALL and partition.is_under_min_isr:
            raise NotEnoughReplicasError(
                f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas, acks=all needs"
                f" {partition.min_isr}"
            )
        try:
            info = log.append_as_leader(frame, leader_epoch=partition.leader_epoch, wall_ms=wall_ms)
        except KafkaStorageError as error:
            # Order: a bad disk is offline before any later entry or request is acknowledged.
            replicas.disk_failed(partition, error)
            raise
        end_offset = info.last_offset + 1
        self._counters.produced(len(frame), end_offset - info.base_offset)
        if partition.in_sync is not None:
            replicas.appended.append(partition.key)  # its followers are told
        if partition.advance():
            replicas.changed.append(partition.key)
        replicas.maybe_flush(partition)
        if acks and not partition.is_acked(end_offset, acks):
            waiting.append(WaitingEntry(index, partition, partition.leader_epoch, end_offset))
        return ProducePartitionResponse(0, info.base_offset, info.log_append_time_ms, log.log_start_offset)

    def _failed(self, entry: ProducePartition, error: KafkaError) -> ProducePartitionResponse:
        self._counters.failed_produce_entries += 1
        leader, epoch = self._replicas.leader_hint(entry.topic_id, entry.partition)
        return ProducePartitionResponse(
            error.code, error_detail=error.detail, leader_id=leader, leader_epoch=epoch
        )

    def _park(
        self,
        request: Incoming,
        answers: list[ProducePartitionResponse],
        waiting: list[WaitingEntry],
        now_ms: int,
    ) -> None:
        body: ProduceRequest = request.body
        delayed = DelayedProduce(request, answers, waiting, self)
        keys = (request.peer.session, *dict.fromkeys(item.partition.key for item in waiting))
        wait_ms = min(max(body.timeout_ms, 0), self._max_wait_ms)
        self._purgatory.park(delayed, keys, now_ms + wait_ms)

    def finish(self, request: Incoming, answers: list[ProducePartitionResponse]) -> None:
        """See delayed_entries.Owner."""
        self._replies.reply(request, ProduceResponse(tuple(answers)))

    def abandon(self, request: Incoming) -> None:
        """See delayed_entries.Owner."""
        self._replies.no_reply(request)

    def lost(self, item: WaitingEntry, error: KafkaError) -> ProducePartitionResponse:
        """See delayed_entries.Owner."""
        return self._failed(ProducePartition(*item.partition.key), error)


def _too_few(partition: Partition) -> NotEnoughReplicasAfterAppendError:
    return NotEnoughReplicasAfterAppendError(
        f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas now, acks=all needs"
        f" {partition.min_isr}"
    )


class DelayedProduce(DelayedEntries[ProducePartitionResponse]):
    """A produce request whose batches are not safe enough yet."""

    __slots__ = ()

    def _settled(self, item: WaitingEntry) -> ProducePartitionResponse | KafkaError | None:
        acks: int = self._request.body.acks
        if not item.partition.is_acked(item.offset, acks):
            return None
        if acks == ACKS_ALL and item.partition.is_under_min_isr:
            # Committed, but by fewer than asked for: the ISR has shrunk since the append.
            return _too_few(item.partition)
        return self._answers[item.index]

    def _overdue(self, item: WaitingEntry) -> KafkaError:
        if self._request.body.acks == ACKS_ALL and item.partition.is_under_min_isr:
            return _too_few(item.partition)
        name = item.partition.topic_partition
        return RequestTimedOutError(f"{name} was not committed up to {item.offset} in time")
