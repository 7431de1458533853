"""Decides which batches are sent to which node, and handles the responses. Step shape, pure.

Invariants: without a producer id a partition has at most one batch under way, so order is kept; with one,
`sequences.py` says which may go. A node has at most `max_in_flight` requests; a batch is resolved exactly
once; no batch outlives its deadline unresolved. A batch is retried only while its deadline, its retries and
its error allow it.
Source: Kafka Sender.java, RecordAccumulator.java; KIP-91, KIP-98, KIP-126, KIP-360, KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ConcurrentTransactionsError,
    CorruptMessageError,
    DeliveryTimeoutError,
    DuplicateSequenceNumberError,
    HeadraceError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumberError,
    RecordBatchTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownProducerIdError,
    error_from_code,
)
from .causes import cause_of
from .effects import (
    Effect,
    MemoryFreed,
    RecordsRefused,
    RefreshMetadata,
    RequestProducerId,
    Resolve,
    SendProduce,
    TakeHint,
    Target,
)
from .refused_records import reason_of, record_errors_of
from .transactions import wait_after

if TYPE_CHECKING:
    from ...protocol.messages.data import ProducePartitionResponse, ProduceResponse
    from ..cluster.backoff import Backoff
    from ..cluster.metadata import ClusterView
    from .accumulator import Accumulator
    from .batches import Batch, Identity, PartitionQueue
    from .sequences import Sequences

# A batch of several records is split.
_TOO_LARGE = (MessageTooLargeError, RecordBatchTooLargeError)
# A sequence before the batch is missing; with the second error the leader has no producer state at all.
_OUT_OF_ORDER = (OutOfOrderSequenceNumberError, UnknownProducerIdError)
# After these errors the batch is not stored. After other errors, or without a response, it may be in the log.
_NOT_STORED = (
    *_OUT_OF_ORDER,
    *_TOO_LARGE,
    ConcurrentTransactionsError,
    NotEnoughReplicasError,
    ThrottlingQuotaExceededError,
)
Split = Callable[["Batch", int], "list[Batch]"]  # (batch, max bytes) -> its records in smaller batches
# (batch, errors by the index of the record) -> the other records of the batch
Without = Callable[["Batch", "dict[int, BaseException]"], "Batch"]


@dataclass(slots=True)
class SenderCounters:
    """Totals since the producer was made."""

    records_sent: int = 0
    bytes_sent: int = 0
    batches_sent: int = 0
    requests_sent: int = 0
    records_failed: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    batches_duplicate: int = 0  # stored by an earlier attempt


@dataclass(slots=True)
class Sender:
    """Sends the batches of one producer. `acks` is 0, 1 or -1."""

    accumulator: Accumulator
    backoff: Backoff
    split: Split
    without: Without
    acks: int
    retries: int
    max_in_flight: int
    max_request_bytes: int
    sequences: Sequences | None = None  # of an idempotent producer
    counters: SenderCounters = field(default_factory=SenderCounters)
    in_flight: dict[int, SendProduce] = field(default_factory=dict)
    _per_node: dict[int, int] = field(default_factory=dict)
    # Batches that wait for a retry because their leader rejected them: an ordered set. They are sent to a new
    # leader at once (KIP-951); the metadata is refreshed until there is one.
    _refused: dict[Batch, None] = field(default_factory=dict)
    _check_leaders: bool = False  # the metadata may have the newer leader already
    _is_requesting_id: bool = False  # InitProducerId is in flight
    _failed_by: HeadraceError | None = None
    _next_id: int = 0
    _metadata_error: BaseException | None = None

    def poll(
        self, view: ClusterView, now_ms: int, metadata_error: BaseException | None = None
    ) -> tuple[Effect, ...]:
        """Fail expired batches and send ready ones. `metadata_error`: that of the last metadata refresh, if
        it failed."""
        self._metadata_error = metadata_error
        is_news = self._check_leaders or view is not self.accumulator.view
        self.accumulator.view, self._check_leaders = view, False
        self.accumulator.needs_wake = False
        self.accumulator.update_ready(now_ms)
        effects: list[Effect] = [*self._expire(now_ms)]
        if is_news and self._refused:
            self._retry_at_new_leaders(view, now_ms, effects)
        if self.sequences is not None and not self._has_producer_id(self.sequences, now_ms, effects):
            return tuple(effects)
        # Batches that do not fit into one request are sent in the next one.
        while sends := self._drain(view, now_ms, effects):
            effects += sends
        return tuple(effects)

    def cause_of(self, batch: Batch) -> str:
        """Why a batch is not acknowledged yet, as text."""
        has_identity = self.sequences is None or self.sequences.identity is not None
        view = self.accumulator.view
        assert view is not None, "polled"
        in_flight = self.in_flight.values()
        return cause_of(batch, view, in_flight, self._metadata_error, has_identity=has_identity)

    def oldest_cause(self) -> str:
        """Why the oldest batch is not acknowledged yet; empty without a batch."""
        batch = next(iter(self.accumulator.live), None)
        if batch is None or self.accumulator.view is None:
            return ""
        return f"{batch.queue.topic.name}-{batch.queue.partition} waits: {self.cause_of(batch)}"

    def next_due_ms(self) -> int | None:
        """The time of the next `poll` without an event; None for never."""
        return self.accumulator.next_due_ms()

    def on_response(
        self, request_id: int, response: ProduceResponse | None, now_ms: int
    ) -> tuple[Effect, ...]:
        """The response to a request; None for acks=0, after the request was sent."""
        send = self._ended(request_id)
        effects: list[Effect] = []
        if response is None:
            for batch in send.batches:
                self._succeed(batch, -1, -1, now_ms, effects)
        elif len(response.partitions) != len(send.batches):
            fault = CorruptMessageError(f"{len(response.partitions)} results for {len(send.batches)} batches")
            for batch in send.batches:
                self._fail(batch, fault, now_ms, effects)
        else:
            for batch, answer in zip(send.batches, response.partitions, strict=True):
                self._on_partition_response(batch, answer, now_ms, effects)
        effects.append(MemoryFreed())
        return tuple(effects)

    def on_failure(self, request_id: int, error: HeadraceError, now_ms: int) -> tuple[Effect, ...]:
        """The request failed as a whole: its batches may be stored or not."""
        effects: list[Effect] = []
        for batch in self._ended(request_id).batches:
            self._retry_or_fail(batch, error, now_ms, effects)
        effects.append(MemoryFreed())
        return tuple(effects)

    def on_identity(self, identity: Identity, now_ms: int) -> None:
        """The producer id has been assigned, or its epoch was raised."""
        assert self.sequences is not None
        self._is_requesting_id = False
        for queue in self.sequences.on_identity(identity):
            self._update_ready(queue, now_ms)

    def fail_unsent(self, error: HeadraceError | None, now_ms: int) -> tuple[Effect, ...]:
        """The transaction has failed or is aborted: fail all batches that are in no request with `error`, and
        the others too unless they are acknowledged; no batch is retried. None: the next transaction
        begins."""
        self._failed_by = error
        if error is None:
            return ()
        effects: list[Effect] = []
        for batch in [batch for batch in self.accumulator.live if not batch.is_on_wire]:
            self.accumulator.remove(batch)
            self._fail(batch, error, now_ms, effects)
        effects.append(MemoryFreed())
        return tuple(effects)

    def abort(self, error: BaseException) -> tuple[Effect, ...]:
        """Fail every batch with `error`; later responses are ignored."""
        dropped = self.accumulator.close_all()
        self._refused.clear()
        if self.sequences is not None:
            self.sequences.forget()
        self.counters.records_failed += sum(batch.count for batch in dropped)
        return (*(Resolve(batch, error=error) for batch in dropped), MemoryFreed())

    # --- sending ----------------------------------------------------------------------------------------

    def _drain(self, view: ClusterView, now_ms: int, effects: list[Effect]) -> list[Effect]:
        by_node: dict[int, list[tuple[Batch, Target]]] = {}
        room: dict[int, int] = {}
        for queue in list(self.accumulator.ready):
            found = view.leader_of(queue.topic.name, queue.partition)
            if found is None:
                if RefreshMetadata() not in effects:
                    effects.append(RefreshMetadata())
                continue
            topic_id, leader, epoch = found
            if self._per_node.get(leader, 0) >= self.max_in_flight:
                continue
            size_bytes = _first_size(queue)
            if leader in by_node and room[leader] < size_bytes:
                continue  # the next request
            batch = self._take(queue, now_ms)
            batch.leader = (topic_id, epoch)
            self._refused.pop(batch, None)
            room[leader] = room.get(leader, self.max_request_bytes) - size_bytes
            by_node.setdefault(leader, []).append((batch, Target(topic_id, queue.partition, epoch)))
        return [self._send(node_id, pairs) for node_id, pairs in by_node.items()]

    def _retry_at_new_leaders(self, view: ClusterView, now_ms: int, effects: list[Effect]) -> None:
        """Retry rejected batches at a newer leader without backoff."""
        for batch in list(self._refused):
            queue = batch.queue
            if batch.is_on_wire or batch not in self.accumulator.live:
                del self._refused[batch]
                continue
            found = view.leader_of(queue.topic.name, queue.partition)
            if found is None or (found[0], found[2]) == batch.leader:
                if RefreshMetadata() not in effects:
                    effects.append(RefreshMetadata())
                continue
            del self._refused[batch]
            batch.retry_at_ms = now_ms
            self.accumulator.touch(queue, now_ms)

    def _take(self, queue: PartitionQueue, now_ms: int) -> Batch:
        batch = self.accumulator.take_first(queue)
        batch.attempts += 1
        batch.is_on_wire = True
        if self.sequences is not None:
            self.sequences.taken(batch)
        else:
            # Even with retries=0: a request may overtake another while a connection opens, and the parts of a
            # split batch are sent after the next batch.
            queue.is_muted = True
        self._update_ready(queue, now_ms)
        return batch

    def _update_ready(self, queue: PartitionQueue, now_ms: int) -> None:
        """Update whether the first batch of the queue may be sent now."""
        if self.sequences is not None:
            queue.is_muted = self.sequences.must_wait(queue)
        self.accumulator.touch(queue, now_ms)

    def _has_producer_id(self, sequences: Sequences, now_ms: int, effects: list[Effect]) -> bool:
        """Renumber if necessary; False without a producer id."""
        for queue in sequences.renumber():
            self._update_ready(queue, now_ms)
        if sequences.identity is not None:
            return True
        if self.accumulator.live and not self._is_requesting_id and not sequences.is_transactional:
            self._is_requesting_id = True
            effects.append(RequestProducerId())
        return False

    def _send(self, node_id: int, pairs: list[tuple[Batch, Target]]) -> SendProduce:
        self._next_id += 1
        batches, targets = zip(*pairs, strict=True)
        send = SendProduce(self._next_id, node_id, batches, targets)
        self.in_flight[send.request_id] = send
        self._per_node[node_id] = self._per_node.get(node_id, 0) + 1
        self.counters.requests_sent += 1
        self.counters.batches_sent += len(batches)
        return send

    def _expire(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for batch in self.accumulator.expired(now_ms):
            self._refused.pop(batch, None)
            if self.sequences is not None and batch.stamp is not None and not batch.is_on_wire:
                self.sequences.failed(batch)
                self._update_ready(batch.queue, now_ms)
            waited_ms = now_ms - batch.created_ms
            error = DeliveryTimeoutError(
                f"{batch.queue.topic.name}-{batch.queue.partition}: not acknowledged within {waited_ms} ms"
                f" and {batch.attempts} attempts; {self.cause_of(batch)}"
            )
            error.__cause__ = batch.last_error or self._metadata_error
            self.counters.records_failed += batch.count
            effects += (Resolve(batch, error=error), MemoryFreed())
        return effects

    # --- outcomes ---------------------------------------------------------------------------------------

    def _ended(self, request_id: int) -> SendProduce:
        send = self.in_flight.pop(request_id)
        self._per_node[send.node_id] -= 1
        for batch in send.batches:
            batch.is_on_wire = False
            if self.sequences is not None:
                self.sequences.request_ended(batch)
            else:
                batch.queue.is_muted = False
        return send

    def _on_partition_response(
        self, batch: Batch, answer: ProducePartitionResponse, now_ms: int, effects: list[Effect]
    ) -> None:
        is_duplicate = answer.error_code == DuplicateSequenceNumberError.code
        self.counters.batches_duplicate += is_duplicate
        if not answer.error_code or is_duplicate:
            self._succeed(batch, answer.base_offset, answer.log_append_time_ms, now_ms, effects)
            return
        queue = batch.queue
        if answer.leader_id >= 0:
            effects.append(TakeHint(queue.topic.name, queue.partition, answer.leader_id, answer.leader_epoch))
        error = error_from_code(answer.error_code, answer.error_detail)
        record_errors = record_errors_of(answer, error, batch.count)
        if record_errors and batch in self.accumulator.live and not batch.is_expired:
            self._records_refused(batch, error, record_errors, now_ms, effects)
        else:
            self._retry_or_fail(batch, error, now_ms, effects)

    def _succeed(
        self, batch: Batch, base_offset: int, append_ms: int, now_ms: int, effects: list[Effect]
    ) -> None:
        self.counters.records_sent += batch.count
        self.counters.bytes_sent += len(batch.data or b"")
        if self.sequences is not None:
            self.sequences.acked(batch)
        self._release(batch, now_ms)
        if not batch.is_expired:
            effects.append(Resolve(batch, base_offset, append_ms))

    def _fail(
        self,
        batch: Batch,
        error: BaseException,
        now_ms: int,
        effects: list[Effect],
        record_errors: dict[int, BaseException] | None = None,
    ) -> None:
        if self.sequences is not None and batch.stamp is not None:
            self.sequences.failed(batch)
        self._release(batch, now_ms)
        if not batch.is_expired:
            self.counters.records_failed += batch.count
            effects.append(Resolve(batch, error=error, record_errors=record_errors))

    def _records_refused(
        self,
        batch: Batch,
        error: HeadraceError,
        record_errors: dict[int, BaseException],
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        """The leader rejected the batch because of these records (KIP-467): they fail, the others are sent
        again in a new batch.

        The others fail too in a transaction, which must be aborted anyway, and if an earlier attempt of an
        idempotent batch may be stored: under other numbers its records could be stored twice.
        """
        sequences = self.sequences
        is_safe = sequences is None or not (sequences.is_transactional or batch.is_in_doubt)
        if not is_safe or len(record_errors) == batch.count or self._failed_by is not None:
            reason = reason_of(record_errors, batch.count, error)
            self._fail(batch, reason, now_ms, effects, record_errors)
            return
        self.counters.records_failed += len(record_errors)
        self.counters.batches_retried += 1
        part = self.without(batch, record_errors)
        effects.append(RecordsRefused(batch, record_errors))
        if sequences is not None:
            sequences.shortened(batch, part)
        self.accumulator.replace(batch, [part])
        self._update_ready(batch.queue, now_ms)

    def _retry_or_fail(self, batch: Batch, error: HeadraceError, now_ms: int, effects: list[Effect]) -> None:
        if error.refresh_metadata:
            effects.append(RefreshMetadata())
        batch.last_error = error
        batch.is_in_doubt = batch.is_in_doubt or not isinstance(error, _NOT_STORED)
        if batch not in self.accumulator.live or batch.is_expired:
            self._fail(batch, error, now_ms, effects)  # it is resolved already
        elif self._failed_by is not None:
            self._fail(batch, self._failed_by, now_ms, effects)
        elif isinstance(error, _TOO_LARGE) and batch.count > 1:
            self._split(batch, now_ms)
        elif isinstance(error, _OUT_OF_ORDER) and self.sequences is not None:
            self._out_of_order(self.sequences, batch, error, now_ms, effects)
        elif error.retriable and batch.attempts <= self.retries:
            self._retry(batch, error, now_ms)
        else:
            self._fail(batch, error, now_ms, effects)

    def _retry(self, batch: Batch, error: HeadraceError, now_ms: int) -> None:
        self.counters.batches_retried += 1
        batch.retry_at_ms = now_ms + wait_after(error, batch.attempts, self.backoff)
        if error.refresh_metadata:
            self._refused[batch] = None
            self._check_leaders = True
        self.accumulator.put_back(batch)
        self._update_ready(batch.queue, now_ms)

    def _out_of_order(
        self,
        sequences: Sequences,
        batch: Batch,
        error: HeadraceError,
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        if not sequences.is_first(batch):
            # An earlier batch is in flight: this one is sent again when all earlier ones have their outcome.
            batch.attempts -= 1
            self.counters.batches_retried += 1
            batch.retry_at_ms = now_ms
            self.accumulator.put_back(batch)
            self._update_ready(batch.queue, now_ms)
        elif sequences.is_transactional or batch.attempts > self.retries:
            self._fail(batch, error, now_ms, effects)
        elif batch.is_in_doubt:
            # A leader that restarts may lose producer state of older batches. This batch may be one of those,
            # and under another sequence it would be stored twice.
            doubt = "an earlier attempt may have been stored, so the batch gets no other sequence"
            self._fail(batch, type(error)(f"{doubt}: {error}"), now_ms, effects)
        else:
            sequences.has_gap(batch.queue)
            self._retry(batch, error, now_ms)

    def _split(self, batch: Batch, now_ms: int) -> None:
        """The batch is above the limit of the topic: split it in halves, and limit later batches likewise.

        In halves, not by batch.size, because the limit may be below batch.size; a few rounds find it.
        """
        self.counters.batches_split += 1
        queue = batch.queue
        limit = max(batch.size_bytes // 2, 1)
        self.accumulator.learn_limit(queue.topic, limit, now_ms)
        parts = self.split(batch, limit)
        if self.sequences is not None:
            self.sequences.split(batch, parts)
        self.accumulator.replace(batch, parts)
        self._update_ready(queue, now_ms)

    def _release(self, batch: Batch, now_ms: int) -> None:
        self.accumulator.forget(batch)
        self._update_ready(batch.queue, now_ms)


def _first_size(queue: PartitionQueue) -> int:
    batch = queue.batches[0]
    if batch.data is not None:
        return len(batch.data)
    # What is charged to an open batch bounds it: records may still join while the request is made up.
    return batch.charged_bytes if batch.is_open else batch.size_bytes
