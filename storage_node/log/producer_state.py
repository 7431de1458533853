"""The state of one producer id in one log: epoch, sequences, open transaction. Pure.

An epoch starts with sequence 0 and has no holes; after 2^31-1 comes 0. The last five batches are kept, so
that a batch that is sent again, because its response was lost, is recognised and not stored twice. A producer
that is not known may start with any sequence: its state may have expired. Source: Kafka
ProducerStateEntry.java, ProducerAppendInfo.java; KIP-98, KIP-360, KIP-890, KIP-1228.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from ...protocol.model import NO_OFFSET, NO_TIMESTAMP
from .producer_snapshot import ProducerState

if TYPE_CHECKING:
    from ...protocol.records.header import BatchHeader

RETAINED_BATCHES = 5  # max.in.flight.requests.per.connection of an idempotent producer
MAX_SEQUENCE = 2**31 - 1
NO_SEQUENCE = -1  # of batches that servers write for producers
NO_PRODUCER_EPOCH = -1
# From this transaction version on each end of a transaction increments the producer epoch (KIP-890).
EPOCH_BUMPING_VERSION = 2


def last_sequence_of(first: int, offset_delta: int) -> int:
    """Of the last record of a batch."""
    return first if first == NO_SEQUENCE else (first + offset_delta) & MAX_SEQUENCE


class WrittenBatch(NamedTuple):
    """A batch in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @classmethod
    def of(cls, header: BatchHeader, base_offset: int) -> WrittenBatch:
        delta, first = header.last_offset_delta, header.base_sequence
        last = (first + delta) & MAX_SEQUENCE if first >= 0 else NO_SEQUENCE
        return cls(last, base_offset + delta, delta, header.max_timestamp)

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Producer:
    """One producer id in one log.

    Invariant: the batches are of the newest epoch, oldest first.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_of_snapshot",
        "producer_id",
        "timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: list[WrittenBatch] = []
        self.is_of_snapshot = False  # earlier batches of this epoch may be in the log; see producer_recall.py
        self.coordinator_epoch = -1  # of the last marker
        self.timestamp_ms = NO_TIMESTAMP  # of the last batch or marker
        self.transaction_first_offset = NO_OFFSET  # of the open transaction

    @classmethod
    def of(cls, state: ProducerState) -> Producer:
        """From a snapshot, which has the last batch only."""
        self = cls(state.producer_id)
        self.epoch, self.timestamp_ms = state.producer_epoch, state.timestamp_ms
        self.coordinator_epoch = state.coordinator_epoch
        self.transaction_first_offset = max(state.transaction_first_offset, NO_OFFSET)
        if state.last_offset >= 0:
            self.batches.append(
                WrittenBatch(state.last_sequence, state.last_offset, state.offset_delta, state.timestamp_ms)
            )
            self.is_of_snapshot = True
        return self

    def to_state(self) -> ProducerState:
        return self._to_state(self.batches, self.transaction_first_offset)

    def state_before(self, offset: int) -> ProducerState:
        """For a follower that starts at `offset`: it gets the batches from there on."""
        first = self.transaction_first_offset
        batches = [batch for batch in self.batches if batch.last_offset < offset]
        return self._to_state(batches, first if first < offset else NO_OFFSET)

    def _to_state(self, batches: list[WrittenBatch], transaction_first_offset: int) -> ProducerState:
        last = batches[-1] if batches else WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
        return ProducerState(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.timestamp_ms,
            self.coordinator_epoch,
            transaction_first_offset,
        )

    @property
    def has_open_transaction(self) -> bool:
        """A transaction has started and no marker has ended it."""
        return self.transaction_first_offset != NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """Of the newest batch of this epoch; NO_SEQUENCE without any."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Of the newest batch of this epoch; NO_OFFSET without any."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    # --- before an append ------------------------------------------------------------------------------

    def repeated(self, epoch: int, first: int, last: int) -> WrittenBatch | None:
        """The earlier batch with these sequences."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def check_epoch(self, epoch: int) -> None:
        """Errors: InvalidProducerEpochError for an older epoch."""
        if epoch < self.epoch:
            raise InvalidProducerEpochError(
                f"producer {self.producer_id} has epoch {self.epoch}, the batch has {epoch}"
            )

    def check_sequence(self, epoch: int, first: int) -> None:
        """Errors: OutOfOrderSequenceNumberError for a batch of this or a newer epoch that does not follow."""
        if self.epoch == NO_PRODUCER_EPOCH:
            return
        last = self.last_sequence if epoch == self.epoch else NO_SEQUENCE
        # 0 follows NO_SEQUENCE, and the largest sequence
        if first != (last + 1) & MAX_SEQUENCE:
            raise OutOfOrderSequenceNumberError(
                f"producer {self.producer_id}, epoch {epoch}: sequence {first} does not follow {last}"
            )

    def check_marker(self, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Check that this marker may end the open transaction. From transaction version 2 on its epoch is
        newer than that of the data, unless it is sent again after the end (KAFKA-19999): so a late marker
        cannot end the next transaction.

        Errors: InvalidProducerEpochError, TransactionCoordinatorFencedError.
        """
        is_late = epoch < self.epoch
        if transaction_version >= EPOCH_BUMPING_VERSION and epoch == self.epoch:
            is_late = self.has_open_transaction
        if is_late:
            raise InvalidProducerEpochError(
                f"producer {self.producer_id} has epoch {self.epoch}, the marker has {epoch}"
            )
        if coordinator_epoch < self.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {self.producer_id}: coordinator epoch {coordinator_epoch} after"
                f" {self.coordinator_epoch}"
            )

    # --- after an append ----------------------------------------------------------------------------------

    def wrote(self, epoch: int, batch: WrittenBatch) -> None:
        if epoch != self.epoch:
            self._enter(epoch)
        batches = self.batches
        if len(batches) >= RETAINED_BATCHES:
            del batches[0]
            self.is_of_snapshot = False
        batches.append(batch)
        self.timestamp_ms = batch.timestamp_ms

    def ended(self, epoch: int, coordinator_epoch: int, timestamp_ms: int) -> int:
        """A marker was appended; the first offset of the transaction that it ends, or NO_OFFSET."""
        if epoch != self.epoch:
            self._enter(epoch)
        self.coordinator_epoch, self.timestamp_ms = coordinator_epoch, timestamp_ms
        first_offset, self.transaction_first_offset = self.transaction_first_offset, NO_OFFSET
        return first_offset

    def _enter(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches.clear()
        self.is_of_snapshot = False
