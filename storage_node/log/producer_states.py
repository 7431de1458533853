"""The producers with ids that a log knows, and its open transactions. Pure.

An offset is stable once its transaction has ended and the marker is committed: with read_committed a fetch
returns batches below the first unstable offset.

Invariant: a producer with an open transaction is not forgotten, unless the log is truncated.
Source: Kafka ProducerStateManager.java.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import InvalidTxnStateError
from ...protocol.model import NO_OFFSET
from ...protocol.records.header import CONTROL_BIT, TRANSACTIONAL_BIT
from ...runtime.config import MAX_LONG
from .producer_state import MAX_SEQUENCE, Producer, WrittenBatch, last_sequence_of
from .transaction_index import AbortedTransaction
from .verification import NO_GUARD, NO_TRANSACTION, UNCHECKED, Verifications

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.records.control import EndTransaction
    from ...protocol.records.header import BatchHeader
    from .producer_snapshot import ProducerState

# Bound: producers of one log, about 700 bytes each; beyond it the least recently active one is forgotten, as
# if it had expired.
MAX_PRODUCERS = 100_000
# Bound: ended transactions whose markers may not be committed. The oldest of more are taken to be committed:
# the outcome is decided, so readers see nothing wrong.
MAX_UNCOMMITTED_MARKERS = 1_000


class OpenTransaction(NamedTuple):
    """`timestamp_ms` is that of the producer's last batch."""

    producer_id: int
    first_offset: int
    timestamp_ms: int


class ProducerStates:
    """See the module's docstring. Owner's thread."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, Producer] = OrderedDict()  # least recently active first
        self._open: OrderedDict[int, int] = OrderedDict()  # first offset to producer, rising
        self._ended: list[tuple[int, int]] = []  # heap: first offset, offset of the marker
        self._verifications = Verifications()

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def all(self) -> Iterable[Producer]:
        return self._producers.values()

    @property
    def is_empty(self) -> bool:
        """No producer is known, and no marker is uncommitted."""
        return not self._producers and not self._ended

    # --- snapshots --------------------------------------------------------------------------------------

    def to_snapshot(self) -> list[ProducerState]:
        """With the last batch of each producer."""
        return [producer.to_state() for producer in self._producers.values()]

    def to_snapshot_before(self, offset: int) -> list[ProducerState]:
        """As `to_snapshot`, without the batches from `offset` on."""
        return [producer.state_before(offset) for producer in self._producers.values()]

    def restore(self, states: Iterable[ProducerState]) -> None:
        """Load a snapshot; pending verifications stay."""
        self.clear()
        for state in states:
            self._producers[state.producer_id] = Producer.of(state)
        self._open = OrderedDict(
            sorted(
                (producer.transaction_first_offset, producer.producer_id)
                for producer in self._producers.values()
                if producer.has_open_transaction
            )
        )

    def clear(self) -> None:
        self._producers.clear()
        self._open.clear()
        self._ended.clear()

    # --- before an append -------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, wall_ms: int, *, bumps_epoch: bool
    ) -> int:
        """The guard for a transactional batch that the coordinator must verify; NO_GUARD if the batch
        continues an open transaction. Errors: InvalidProducerEpochError."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            producer.check_epoch(epoch)
            if producer.has_open_transaction and producer.epoch == epoch:
                return NO_GUARD
        return self._verifications.begin(producer_id, epoch, sequence, wall_ms, bumps_epoch=bumps_epoch)

    def check(
        self, header: BatchHeader, *, is_of_client: bool = True, guard: int = NO_GUARD
    ) -> WrittenBatch | None:
        """Check that a data batch with a producer id may be appended; the earlier batch that it duplicates,
        or None.

        Batches that servers write for a producer have no sequence. Errors: InvalidProducerEpochError,
        OutOfOrderSequenceNumberError; InvalidTxnStateError if the transaction is not verified, or the
        verification is void.
        """
        if is_of_client and self._is_next_in_sequence(header):
            return None
        producer_id, epoch = header.producer_id, header.producer_epoch
        producer = self._producers.get(producer_id)
        first = header.base_sequence
        if producer is not None:
            if is_of_client:
                last = last_sequence_of(first, header.last_offset_delta)
                repeated = producer.repeated(epoch, first, last)
                if repeated is not None:
                    return repeated
            producer.check_epoch(epoch)
        is_open = producer is not None and producer.has_open_transaction
        verification = self._verifications.get(producer_id)
        if header.is_transactional and guard == NO_TRANSACTION:
            raise InvalidTxnStateError("a transactional batch needs a transactional id")
        if header.is_transactional and guard != UNCHECKED:
            continues = producer is not None and is_open and producer.epoch == epoch
            if not continues and (verification is None or verification.guard != guard):
                raise InvalidTxnStateError(f"a batch of producer {producer_id} is in no verified transaction")
        if is_of_client:
            if verification is not None:
                verification.check_sequence(producer, producer_id, first)
            if producer is not None:
                producer.check_sequence(epoch, first)
        if is_open and not header.is_transactional:
            raise InvalidTxnStateError(f"producer {producer_id} has an open transaction, its batch has none")
        return None

    def _is_next_in_sequence(self, header: BatchHeader) -> bool:
        """Whether the batch is the common case: not transactional, and next in its producer's sequence. Then
        `check` has nothing else to check."""
        producer = self._producers.get(header.producer_id)
        if producer is None or not producer.batches:
            return False
        last = producer.batches[-1].last_sequence
        return (
            last >= 0
            and header.base_sequence == (last + 1) & MAX_SEQUENCE
            and header.producer_epoch == producer.epoch
            and producer.transaction_first_offset == NO_OFFSET
            and not header.attributes & TRANSACTIONAL_BIT
            and self._verifications.get(header.producer_id) is None
        )

    def check_marker(self, header: BatchHeader, marker: EndTransaction, transaction_version: int) -> None:
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            producer.check_marker(header.producer_epoch, marker.coordinator_epoch, transaction_version)

    # --- after it ---------------------------------------------------------------------------------------

    def wrote(
        self, header: BatchHeader, base_offset: int, marker: EndTransaction | None
    ) -> AbortedTransaction | None:
        """A batch with a producer id was appended at `base_offset`; the transaction index entry if it aborts
        a transaction. Nothing is refused: the leader has checked it."""
        producer_id = header.producer_id
        is_transactional = header.attributes & TRANSACTIONAL_BIT
        if is_transactional:
            self._verifications.wrote(producer_id, header.producer_epoch, is_control=header.is_control)
        if header.attributes & CONTROL_BIT:
            return None if marker is None else self._end(header, base_offset, marker)
        producer = self._known(producer_id)
        producer.wrote(header.producer_epoch, WrittenBatch.of(header, base_offset))
        if is_transactional and not producer.has_open_transaction:
            producer.transaction_first_offset = base_offset
            self._open[base_offset] = producer_id
        return None

    def _end(self, header: BatchHeader, offset: int, marker: EndTransaction) -> AbortedTransaction | None:
        producer = self._known(header.producer_id)
        first_offset = producer.ended(header.producer_epoch, marker.coordinator_epoch, header.max_timestamp)
        if first_offset == NO_OFFSET:
            return None  # the transaction has no batch in this log
        del self._open[first_offset]
        if len(self._ended) >= MAX_UNCOMMITTED_MARKERS:
            heapq.heappop(self._ended)
        heapq.heappush(self._ended, (first_offset, offset))
        if marker.is_commit:
            return None
        last_stable_offset = next(iter(self._open), offset + 1)
        return AbortedTransaction(0, producer.producer_id, first_offset, offset, last_stable_offset)

    def _known(self, producer_id: int) -> Producer:
        producers = self._producers
        producer = producers.get(producer_id)
        if producer is None:
            if len(producers) >= MAX_PRODUCERS:
                self._forget_one()
            producer = producers[producer_id] = Producer(producer_id)
        else:
            producers.move_to_end(producer_id)
        return producer

    def _forget_one(self) -> None:
        for producer_id, producer in self._producers.items():
            if not producer.has_open_transaction:
                del self._producers[producer_id]
                return

    def expire(self, before_ms: int) -> None:
        """Forget the producers whose last batch is not newer than this timestamp, and the verifications that
        started before it."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.timestamp_ms <= before_ms and not producer.has_open_transaction
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._verifications.expire(before_ms)

    # --- transactions -----------------------------------------------------------------------------------

    @property
    def has_transactions(self) -> bool:
        """There may be a first unstable offset."""
        return bool(self._open or self._ended)

    def first_unstable_offset(self, high_watermark: int) -> int:
        """The first offset of the first transaction that is open, or whose marker is not committed; MAX_LONG
        if there is none. The high watermark does not move back without `clear`."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            heapq.heappop(ended)
        first = ended[0][0] if ended else MAX_LONG
        return min(first, next(iter(self._open), MAX_LONG)) if self._open else first

    @property
    def oldest_transaction(self) -> OpenTransaction | None:
        """The open transaction with the lowest first offset."""
        for first_offset, producer_id in self._open.items():
            return OpenTransaction(producer_id, first_offset, self._producers[producer_id].timestamp_ms)
        return None

    def check_invariants(self, end_offset: int) -> None:
        for first_offset, producer_id in self._open.items():
            producer = self._producers.get(producer_id)
            assert producer is not None, f"producer {producer_id} with an open transaction was forgotten"
            assert producer.transaction_first_offset == first_offset, "two open transactions of one producer"
            assert first_offset < end_offset, "a transaction starts above the log end offset"
        assert list(self._open) == sorted(self._open), "open transactions are not in order"
