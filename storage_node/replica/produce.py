"""Produce: append one batch per entry, respond at once or when `acks` is satisfied.

The first batch of a transaction in a partition waits until the transaction coordinator has added the
partition (KIP-890); later batches of the producer for that partition wait with it, all others are appended.
Where the topic's `compression.type` differs from the batch's codec, a thread recompresses the batch, and
later batches of the partition are appended after it (recompressor.py). Source: Kafka
ReplicaManager.handleProduceAppend, DelayedProduce; KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NO_ERROR,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    RecordBatchTooLargeError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import ProducePartitionResponse, ProduceResponse
from ...protocol.model import AUDIT_TOPIC, SERVER_CLIENT_ID
from ...protocol.records.header import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_batch_header,
)
from ...protocol.records.recompressing import needs_recompression
from ..effects import Recompress
from ..log.append_rules import check_before_recompression
from ..log.tail_cache import stable_buffer
from ..log.verification import NO_GUARD, NO_TRANSACTION, UNCHECKED
from .appending import Acked, check_in_sync
from .batch_traces import Appended
from .delayed_entries import DelayedEntries, Waiting
from .partition import ACKS_ALL
from .recompressor import QueuedBatch, Recompressor
from .verifying import ProducerTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.data import ProduceRequest
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer, Compression
    from ...protocol.transport.replies import Incoming, Replies, Sender
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..log.append_rules import AppendInfo
    from ..log.config import LogConfig
    from ..log.log import Log
    from .appending import LeaderAppender
    from .batch_traces import BatchTraces
    from .partition import Partition
    from .partition_table import PartitionTable
    from .step_output import StepOutput
    from .verifying import TransactionVerifier

_LEGAL_ACKS = frozenset((0, 1, ACKS_ALL))
_PENDING = ProducePartitionResponse(NO_ERROR)
# Bound: bytes of the requests that wait for transaction coordinators.
_MAX_HELD_BYTES = 256 * 1024 * 1024
_TOO_LARGE = (MessageTooLargeError, RecordBatchTooLargeError)


@dataclass(slots=True, eq=False)
class _Produce:
    """A request in progress. `unappended` entries wait for a transaction coordinator or for recompression,
    `waiting` ones for acks.

    Order: `frames` may be in memory that is reused after the event of the request, unless it `is_held`.
    """

    request: Incoming
    frames: Sequence[Buffer]
    deadline_ms: int
    answers: list[ProducePartitionResponse]
    waiting: list[Waiting]
    unappended: int = 0
    is_held: bool = False  # counted among the requests that wait for coordinators
    began_ms: int = 0
    traced: list[Appended] | None = None  # sampled batches that were appended

    @property
    def held_bytes(self) -> int:
        """The size of its batches."""
        return sum(map(len, self.frames))


class ProduceHandler:
    """Appends, and parks requests that wait for the disk, in-sync replicas or a transaction coordinator."""

    def __init__(
        self,
        table: PartitionTable,
        output: StepOutput,
        appender: LeaderAppender,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        *,
        max_wait_ms: int,
        max_partitions: int,
        max_waiting: int,
        verifier: TransactionVerifier,
    ) -> None:
        self._table = table
        self._appender = appender
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._max_wait_ms = max_wait_ms
        self._max_partitions = max_partitions
        self._max_waiting = max_waiting
        self._verifier = verifier
        self.traces: BatchTraces | None = None
        self._held_requests = self._held_bytes = 0
        self.recompressor = Recompressor(lambda item: output.effects.append(Recompress(item)))

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> None:
        """Append each entry independently; one response for all of them.

        Errors, with nothing appended: InvalidRequestError if the counts of frames and entries differ,
        InvalidProducerIdMappingError for transactions of several producers, ThrottlingQuotaExceededError when
        no further request could be parked.
        """
        body: ProduceRequest = request.body
        frames = request.frames
        self._check_shape(body, frames)
        deadline_ms = now_ms + min(max(body.timeout_ms, 0), self._max_wait_ms)
        produce = _Produce(request, frames, deadline_ms, [_PENDING] * len(frames), [])
        if self.traces is not None:
            produce.began_ms, produce.traced = now_ms, []
        if body.transactional_id is not None:
            self._take_transactional(produce, now_ms, wall_ms)
            return
        for index in range(len(frames)):
            try:
                self._append(produce, index, NO_TRANSACTION, now_ms, wall_ms)
            except KafkaError as error:
                produce.answers[index] = self._failed(produce, index, error, len(frames[index]))
        if not produce.unappended:
            self._conclude(produce, now_ms)

    def _take_transactional(self, produce: _Produce, now_ms: int, wall_ms: int) -> None:
        """Entries of a producer with a transactional id. Errors: as `handle`."""
        body: ProduceRequest = produce.request.body
        frames = produce.frames
        transaction = self._transaction_of(body, frames)
        asks: list[tuple[TopicPartition, Callable[[KafkaError | None, int, int], None]]] = []
        for index, frame in enumerate(frames):
            guard = NO_GUARD
            try:
                if _is_transactional(frame):
                    guard, name = self._guard(produce, index, transaction, wall_ms)
                    if guard > NO_GUARD:
                        asks.append((name, partial(self._verified, produce, index, guard)))
                        continue
                self._append(produce, index, guard, now_ms, wall_ms)
            except KafkaError as error:
                produce.answers[index] = self._failed(produce, index, error, len(frame))
        produce.unappended += len(asks)
        if not produce.unappended:
            self._conclude(produce, now_ms)
        if not asks:
            return
        produce.is_held = True
        produce.frames = [stable_buffer(frame) for frame in frames]
        self._held_requests += 1
        self._held_bytes += produce.held_bytes
        self._verifier.ask(transaction, asks, produce.deadline_ms, now_ms, wall_ms)

    def _check_shape(self, body: ProduceRequest, frames: Sequence[Buffer]) -> None:
        if len(frames) != len(body.partitions):
            raise InvalidRequestError(f"{len(body.partitions)} entries came with {len(frames)} batches")
        if len(frames) > self._max_partitions:
            raise InvalidRequestError(f"{len(frames)} entries, at most {self._max_partitions} are allowed")
        if body.acks not in _LEGAL_ACKS:
            raise InvalidRequiredAcksError(f"acks {body.acks}: must be 0, 1 or -1")
        waiting = len(self._purgatory) + self._held_requests + len(self.recompressor)
        if body.acks and waiting >= self._max_waiting:
            raise ThrottlingQuotaExceededError(f"{waiting} produce requests are waiting already")

    # --- transactions -----------------------------------------------------------------------------------

    def _transaction_of(self, body: ProduceRequest, frames: Sequence[Buffer]) -> ProducerTransaction:
        """The transaction of the batches. Errors: InvalidProducerIdMappingError,
        ThrottlingQuotaExceededError."""
        headers = [header for frame in frames if (header := _header_of(frame)) and header.is_transactional]
        producers = {(header.producer_id, header.producer_epoch) for header in headers}
        if len(producers) > 1:
            raise InvalidProducerIdMappingError("transactional batches of more than one producer")
        if self._held_requests >= self._max_waiting or self._held_bytes >= _MAX_HELD_BYTES:
            raise ThrottlingQuotaExceededError(
                f"{self._held_requests} requests wait for transaction coordinators already"
            )
        (producer,) = producers or ((-1, -1),)
        assert body.transactional_id is not None, "checked by the caller"
        return ProducerTransaction(body.transactional_id, *producer, body.adds_partitions)

    def _guard(
        self, produce: _Produce, index: int, transaction: ProducerTransaction, wall_ms: int
    ) -> tuple[int, TopicPartition]:
        """The verification guard of a transactional batch, and its partition. NO_GUARD or UNCHECKED: no
        request to the coordinator is needed. Errors: as `_append`; InvalidProducerEpochError."""
        partition, log = self._find(produce, index)
        name = partition.topic_partition
        header = _header_of(produce.frames[index])
        if header is None or header.producer_id < 0:
            return NO_GUARD, name  # the append raises the error
        if not (transaction.adds or self._verifier.is_enabled):
            return UNCHECKED, name
        guard = log.producers.states.begin_verification(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            wall_ms,
            bumps_epoch=transaction.adds,
        )
        return guard, name

    def _verified(
        self,
        produce: _Produce,
        index: int,
        guard: int,
        error: KafkaError | None,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """The coordinator has verified or refused one entry, or the request has timed out."""
        try:
            if error is not None:
                self._counters.failed_verifications += 1
                raise error
            self._append(produce, index, guard, now_ms, wall_ms)
        except KafkaError as failure:
            produce.answers[index] = self._failed(produce, index, failure, len(produce.frames[index]))
        self._entry_done(produce, now_ms)

    def _entry_done(self, produce: _Produce, now_ms: int) -> None:
        """One of the unappended entries has been appended, refused, or queued for recompression."""
        produce.unappended -= 1
        if produce.unappended:
            return
        if produce.is_held:
            self._held_requests -= 1
            self._held_bytes -= produce.held_bytes
        self._conclude(produce, now_ms)

    # --- appending --------------------------------------------------------------------------------------

    def _find(self, produce: _Produce, index: int) -> tuple[Partition, Log]:
        """Errors: InvalidTopicError for an internal topic; those of `find` and `leader_log`."""
        entry = produce.request.body.partitions[index]
        partition = self._table.find(entry.topic_id, entry.partition)
        if partition.is_internal:
            topic = partition.topic_partition.topic
            if topic != AUDIT_TOPIC or not _is_server(produce.request.peer):
                raise InvalidTopicError(f"clients cannot write to the internal topic {topic}")
        return partition, partition.leader_log(entry.leader_epoch)

    def _append(self, produce: _Produce, index: int, guard: int, now_ms: int, wall_ms: int) -> None:
        """Append one entry, or queue it for recompression. Errors: those of the append."""
        partition, log = self._find(produce, index)
        frame = produce.frames[index]
        if log.config.target_compression is not None or self.recompressor.queues:
            target = log.config.target_compression
            if target is not None and not needs_recompression(frame, target):
                target = None
            if target is not None or partition.key in self.recompressor.queues:
                self._queue(produce, index, guard, partition, log.config, target)
                return
        info = self._appender.append(
            partition,
            frame,
            now_ms,
            wall_ms,
            acks=produce.request.body.acks,
            guard=guard,
        )
        if produce.traced is not None:
            self._trace(produce, index, partition, frame, info, now_ms)
        self._appended(produce, index, partition, log, info, len(frame))

    def _trace(
        self,
        produce: _Produce,
        index: int,
        partition: Partition,
        frame: Buffer,
        info: AppendInfo,
        now_ms: int,
    ) -> None:
        assert self.traces is not None, "checked by the caller"
        assert produce.traced is not None, "checked by the caller"
        given = produce.request.body.partitions[index].traceparents
        batch = self.traces.appended(partition, frame, given, info, now_ms)
        if batch is not None:
            produce.traced.append(Appended(index, partition, batch))

    def _appended(
        self,
        produce: _Produce,
        index: int,
        partition: Partition,
        log: Log,
        info: AppendInfo,
        size_bytes: int,
    ) -> None:
        """An entry of `size_bytes`, as received, is in the log."""
        acks = produce.request.body.acks
        end_offset = info.last_offset + 1
        if not info.is_repeated:
            self._counters.produced(partition.traffic, size_bytes, end_offset - info.base_offset)
            partition.produced_bytes += size_bytes
        if acks and not partition.is_acked(end_offset, acks):
            produce.waiting.append(Waiting(index, partition, partition.leader_epoch, end_offset))
        produce.answers[index] = ProducePartitionResponse(
            NO_ERROR, info.base_offset, info.log_append_time_ms, log.log_start_offset
        )

    def _queue(
        self,
        produce: _Produce,
        index: int,
        guard: int,
        partition: Partition,
        config: LogConfig,
        target: Compression | None,
    ) -> None:
        """Queue the entry behind the batches of its partition. Errors: those of the checks before that."""
        frame = produce.frames[index]
        if produce.request.body.acks == ACKS_ALL:
            check_in_sync(partition)
        check_before_recompression(frame, config)
        append = partial(self._dequeued, produce, index, guard, len(frame))
        level = config.target_level
        self.recompressor.add(QueuedBatch(partition.key, stable_buffer(frame), target, level, append))
        produce.unappended += 1

    def _dequeued(
        self,
        produce: _Produce,
        index: int,
        guard: int,
        size_bytes: int,
        item: QueuedBatch,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """The entry is the first of its partition's queue and in the codec of its topic."""
        try:
            partition, log = self._find(produce, index)
            if item.error is not None:
                raise item.error
            info = self._appender.append(
                partition,
                item.batch,
                now_ms,
                wall_ms,
                checked=item.facts,
                acks=produce.request.body.acks,
                guard=guard,
            )
            if produce.traced is not None:
                self._trace(produce, index, partition, item.batch, info, now_ms)
            self._appended(produce, index, partition, log, info, size_bytes)
        except KafkaError as error:
            produce.answers[index] = self._failed(produce, index, error, size_bytes)
        self._entry_done(produce, now_ms)

    def _failed(
        self, produce: _Produce, index: int, error: KafkaError, size_bytes: int = 0
    ) -> ProducePartitionResponse:
        entry = produce.request.body.partitions[index]
        rejected = size_bytes if isinstance(error, _TOO_LARGE) else 0
        self._counters.failed_produce_entries += 1
        self._counters.rejected_bytes += rejected
        partition = self._table.partitions.get((entry.topic_id, entry.partition))
        if partition is not None:
            partition.traffic.failed_produce_entries += 1
            partition.traffic.rejected_bytes += rejected
        leader, epoch = self._table.leader_hint(entry.topic_id, entry.partition)
        return ProducePartitionResponse(
            error.code,
            error_detail=error.detail,
            leader_id=leader,
            leader_epoch=epoch,
            record_errors=getattr(error, "record_errors", ()),
        )

    # --- responses --------------------------------------------------------------------------------------

    def _conclude(self, produce: _Produce, now_ms: int) -> None:
        """Every entry is appended or refused."""
        request = produce.request
        body: ProduceRequest = request.body
        if body.acks == 0:
            self._end_spans(produce)
            self._replies.no_reply(request)
        elif not produce.waiting:
            self._answer(produce)
        else:
            delayed = DelayedEntries(
                produce.waiting,
                Acked(body.acks),
                settled=partial(self._settled, produce),
                finished=partial(self._answer, produce),
                is_wanted=lambda: request.peer.is_connected,
                abandoned=lambda: self._replies.no_reply(request),
            )
            keys = (request.peer.session, *dict.fromkeys(item.partition.key for item in produce.waiting))
            try:
                self._purgatory.park(delayed, keys, produce.deadline_ms, now_ms)
            except ThrottlingQuotaExceededError:
                # Markers have filled purgatory during the verification. The batches are appended but the
                # request cannot wait: respond as after its timeout.
                delayed.on_expire(now_ms)

    def _settled(self, produce: _Produce, item: Waiting, error: KafkaError | None) -> None:
        if error is not None:  # appended, but not acknowledged
            produce.answers[item.index] = self._failed(produce, item.index, error)

    def _end_spans(self, produce: _Produce) -> None:
        for appended in produce.traced or ():
            assert self.traces is not None, "without it nothing is traced"
            peer, acks = produce.request.peer, produce.request.body.acks
            error_code = produce.answers[appended.entry].error_code
            self.traces.acknowledged(appended, produce.began_ms, peer.client_id, acks, error_code)

    def _answer(self, produce: _Produce) -> None:
        if produce.traced:
            self._end_spans(produce)
        self._replies.reply(produce.request, ProduceResponse(tuple(produce.answers)))


def _is_transactional(frame: Buffer) -> bool:
    """Whether the batch's attributes say so; the batch is not validated."""
    return len(frame) >= HEADER_BYTES and bool(frame[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT)


def _header_of(frame: Buffer) -> BatchHeader | None:
    try:
        return read_batch_header(frame)
    except KafkaError:
        return None


def _is_server(peer: Sender) -> bool:
    """Whether the request is from a node of the cluster. Without authentication its client id says so."""
    identity = peer.identity
    return identity.is_server or (
        not identity.is_authenticated and peer.client_id.startswith(SERVER_CLIENT_ID)
    )
