"""The value of one transactional id: which requests are valid, and the value after each.

Functions return the new value and do not change their arguments. The producer epoch is incremented by a new
producer, by each end of a transaction (transaction version 2) and by each fencing; a producer with an older
epoch is fenced. Epoch 32,767 is reserved for fencing: after 32,766 a producer gets a new producer id. Source:
Kafka TransactionMetadata.java, TransactionCoordinator.scala; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from ...protocol.model import NO_EPOCH
from ...protocol.records.transaction_records import TransactionTopic, TransactionValue
from ..runtime.ports import NO_PRODUCER_ID
from .states import COMPLETE, ENDING, OPEN, TxnState, state_of, status_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, PrepareTxnRequest

    TakeId = Callable[[], int]

Partition = tuple[str, int]  # topic and partition
MAX_EPOCH = 2**15 - 1
NO_TIME = -1
_EPOCH_BUMPS = 2  # the transaction version in which each end increments the epoch
_WITHOUT_BUMPS = 0


class Transaction(NamedTuple):
    """`last_epoch`: the previous epoch, which a retried request may still use. It is not in the record: after
    a load such a retry is fenced, as in Kafka."""

    value: TransactionValue
    last_epoch: int = NO_EPOCH

    @property
    def state(self) -> TxnState:
        return state_of(self.value.status, is_prepared=self.value.prepared_ms != NO_TIME)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.value.producer_epoch >= MAX_EPOCH - 1

    def partitions(self) -> list[Partition]:
        """The partitions of the transaction, sorted."""
        return [(each.topic, number) for each in self.value.partitions or () for number in each.partitions]

    def has(self, partition: Partition) -> bool:
        topic, number = partition
        return any(each.topic == topic and number in each.partitions for each in self.value.partitions or ())


def _moved(
    before: Transaction, state: TxnState, wall_ms: int, last_epoch: int, **facts: object
) -> Transaction:
    status = status_after(before.state, state)
    value = before.value._replace(
        previous_producer_id=before.value.producer_id,
        status=status,
        last_update_ms=wall_ms,
        prepared_ms=NO_TIME,
    )
    return Transaction(value._replace(**facts), last_epoch)  # type: ignore[arg-type]


def _fenced(before: Transaction, epoch: int) -> ProducerFencedError:
    return ProducerFencedError(
        "another producer uses this transactional.id, or its transaction timed out: the request's epoch is"
        f" {epoch}, the current one is {before.value.producer_epoch}"
    )


# --- producers ----------------------------------------------------------------------------------------------


def created(request: InitProducerIdRequest, wall_ms: int, producer_id: int) -> Transaction:
    """The first value of a transactional id."""
    return Transaction(
        TransactionValue(
            producer_id=producer_id,
            previous_producer_id=producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0,
            timeout_ms=request.transaction_timeout_ms,
            status=status_after(TxnState.EMPTY, TxnState.EMPTY),
            partitions=None,
            last_update_ms=wall_ms,
            start_ms=NO_TIME,
            client_transaction_version=_WITHOUT_BUMPS,
        )
    )


def initialized(
    before: Transaction, request: InitProducerIdRequest, wall_ms: int, take_id: TakeId
) -> Transaction:
    """The value for the next producer, or after an error for the same producer (KIP-360). An ongoing
    transaction is aborted first: the result is its abort. A prepared one is not aborted: the client has to
    retry.

    Errors: ProducerFencedError, ConcurrentTransactionsError, InvalidRequestError, those of `take_id`.
    """
    expected = _expected(request)
    value = before.value
    if expected is not None:
        _check_ended(before, *expected)
        is_known = expected[0] == value.producer_id
        is_retry = expected[0] == value.previous_producer_id and expected[1] >= MAX_EPOCH - 1
        if not is_known and not is_retry:
            raise ProducerFencedError(f"producer id {expected[0]} no longer belongs to the transactional id")
    if before.state in ENDING:
        raise ConcurrentTransactionsError("the previous transaction is still ending: retry")
    if before.state is TxnState.PREPARED:
        raise ConcurrentTransactionsError("the previous transaction is prepared: only its driver may end it")
    if before.state is TxnState.ONGOING:
        if expected is not None and expected[1] != value.producer_epoch:
            raise _fenced(before, expected[1])
        return fenced(before, wall_ms)
    return _next_producer(before, request, None if expected is None else expected[1], wall_ms, take_id)


def _expected(request: InitProducerIdRequest) -> tuple[int, int] | None:
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        raise InvalidRequestError("producer id and epoch must be given together")
    return (request.producer_id, request.producer_epoch) if has_id else None


def _next_producer(
    before: Transaction,
    request: InitProducerIdRequest,
    expected_epoch: int | None,
    wall_ms: int,
    take_id: TakeId,
) -> Transaction:
    value = before.value
    producer_id, epoch, last_epoch = value.producer_id, value.producer_epoch, before.last_epoch
    if expected_epoch in (None, epoch):
        last_epoch = NO_EPOCH if expected_epoch is None else epoch
        producer_id, epoch = (take_id(), 0) if before.is_exhausted else (producer_id, epoch + 1)
    elif expected_epoch != last_epoch:  # otherwise it is a retry of the last request: the epoch stays
        raise _fenced(before, expected_epoch)
    return _moved(
        before,
        TxnState.EMPTY,
        wall_ms,
        last_epoch,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=request.transaction_timeout_ms,
        partitions=None,
        start_ms=NO_TIME,
    )


# --- partitions ---------------------------------------------------------------------------------------------


def check_producer(before: Transaction | None, producer_id: int, producer_epoch: int) -> Transaction:
    """The value, if the producer is current and its transaction may continue.

    Errors: InvalidProducerIdMappingError, ProducerFencedError, ConcurrentTransactionsError,
    InvalidTxnStateError.
    """
    if before is not None:
        _check_ended(before, producer_id, producer_epoch)
    if before is None or before.value.producer_id != producer_id:
        raise InvalidProducerIdMappingError(
            f"producer id {producer_id} does not belong to the transactional id"
        )
    if before.value.producer_epoch != producer_epoch:
        raise _fenced(before, producer_epoch)
    if before.state in ENDING:
        raise ConcurrentTransactionsError("the previous transaction is still ending: retry")
    if before.state is TxnState.PREPARED:
        raise InvalidTxnStateError("the transaction is prepared: no partition can be added")
    return before


def _check_ended(before: Transaction, producer_id: int, producer_epoch: int) -> None:
    """A producer whose EndTxn was answered may send requests before the markers are written. Errors:
    ConcurrentTransactionsError."""
    if before.state in ENDING and next_producer(before) == (producer_id, producer_epoch):
        raise ConcurrentTransactionsError("the previous transaction is still ending: retry")


def with_partitions(before: Transaction, partitions: Iterable[Partition], wall_ms: int) -> Transaction | None:
    """A checked value with these partitions added; None if it has them all."""
    is_ongoing = before.state is TxnState.ONGOING
    new = [partition for partition in partitions if not (is_ongoing and before.has(partition))]
    if is_ongoing and not new:
        return None
    by_topic = {each.topic: set(each.partitions) for each in before.value.partitions or ()}
    for topic, number in new:
        by_topic.setdefault(topic, set()).add(number)
    return _moved(
        before,
        TxnState.ONGOING,
        wall_ms,
        before.last_epoch,
        partitions=tuple(
            TransactionTopic(topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic)
        ),
        start_ms=before.value.start_ms if is_ongoing else wall_ms,
        client_transaction_version=_EPOCH_BUMPS,
    )


# --- ends ---------------------------------------------------------------------------------------------------


def prepared(before: Transaction | None, request: PrepareTxnRequest, wall_ms: int) -> Transaction | None:
    """An ongoing transaction as Prepared: only EndTxn with its producer id and epoch ends it from here on.
    None if it is prepared already.

    Errors: InvalidProducerIdMappingError, ProducerFencedError, InvalidTxnStateError.
    """
    if before is None or before.value.producer_id != request.producer_id:
        raise InvalidProducerIdMappingError(
            f"producer id {request.producer_id} does not belong to the transactional id"
        )
    if before.value.producer_epoch != request.producer_epoch:
        raise _fenced(before, request.producer_epoch)
    if before.state is TxnState.PREPARED:
        return None
    if before.state is not TxnState.ONGOING:
        raise InvalidTxnStateError(
            f"the transactional id has no ongoing transaction, its state is {before.state.value}"
        )
    return _moved(before, TxnState.PREPARED, wall_ms, before.last_epoch, prepared_ms=wall_ms)


def fenced(before: Transaction, wall_ms: int) -> Transaction:
    """An ongoing transaction that the coordinator aborts. The epoch grows by two, one more than at an end by
    the producer, so that no retry of the producer matches it."""
    last_epoch = min(before.value.producer_epoch + 1, MAX_EPOCH)
    return _moved(
        before,
        TxnState.PREPARE_ABORT,
        wall_ms,
        last_epoch,
        producer_epoch=min(last_epoch + 1, MAX_EPOCH),
        client_transaction_version=_EPOCH_BUMPS,
    )


def ended(
    before: Transaction | None, request: EndTxnRequest, wall_ms: int, take_id: TakeId
) -> Transaction | None:
    """The transaction with its decision; None for a retry of a finished request.

    Errors: InvalidProducerIdMappingError, ProducerFencedError, ConcurrentTransactionsError,
    InvalidTxnStateError, those of `take_id`.
    """
    if before is not None and request.bumps_epoch:
        _check_ended(before, request.producer_id, request.producer_epoch)
    is_retry = _check_end(before, request)
    assert before is not None
    state, version = before.state, _EPOCH_BUMPS if request.bumps_epoch else _WITHOUT_BUMPS
    decision = TxnState.PREPARE_COMMIT if request.committed else TxnState.PREPARE_ABORT
    if state is decision:
        raise ConcurrentTransactionsError("the transaction is ending with this decision: retry")
    if is_retry and state is _completed(decision):
        return None
    is_new = state in OPEN or (version == _EPOCH_BUMPS and not request.committed and not is_retry)
    if not is_new or state in ENDING:
        raise InvalidTxnStateError(f"{decision.value} does not follow {state.value}")
    value = before.value
    start_ms = value.start_ms if state in OPEN else wall_ms
    if version == _WITHOUT_BUMPS:
        facts = {"start_ms": start_ms, "client_transaction_version": version}
        return _moved(before, decision, wall_ms, before.last_epoch, next_producer_id=NO_PRODUCER_ID, **facts)
    return _moved(
        before,
        decision,
        wall_ms,
        value.producer_epoch,
        producer_epoch=min(value.producer_epoch + 1, MAX_EPOCH),
        next_producer_id=take_id() if before.is_exhausted else NO_PRODUCER_ID,
        partitions=value.partitions or (),
        start_ms=start_ms,
        client_transaction_version=version,
    )


def _check_end(before: Transaction | None, request: EndTxnRequest) -> bool:
    """Whether it is a retry of an EndTxn for the transaction of its epoch. Errors: as `ended`."""
    value = None if before is None else before.value
    is_overflow = (
        value is not None
        and request.bumps_epoch
        and value.previous_producer_id == request.producer_id
        and request.producer_epoch == MAX_EPOCH - 1
        and value.producer_epoch == 0
    )
    if before is None or value is None or (value.producer_id != request.producer_id and not is_overflow):
        raise InvalidProducerIdMappingError(
            f"producer id {request.producer_id} does not belong to the transactional id"
        )
    is_current = value.producer_epoch == request.producer_epoch
    is_after = request.bumps_epoch and value.producer_epoch == request.producer_epoch + 1
    if not request.bumps_epoch:
        # without epoch increments the next transaction has the same epoch
        is_valid, is_retry = is_current, True
    else:
        is_retry = is_after or is_overflow
        if before.state in ENDING:
            is_valid = is_after
        elif before.state in COMPLETE:
            # The last epoch is not a producer's: a fenced producer cannot retry with it.
            is_valid = is_current or is_overflow or (is_after and value.producer_epoch < MAX_EPOCH)
        else:
            is_valid = is_current
    if not is_valid:
        raise _fenced(before, request.producer_epoch)
    return is_retry


def _completed(decision: TxnState) -> TxnState:
    is_commit = decision is TxnState.PREPARE_COMMIT
    return TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT


def next_producer(transaction: Transaction) -> tuple[int, int]:
    """Producer id and epoch of the next transaction."""
    value = transaction.value
    if value.next_producer_id != NO_PRODUCER_ID:
        return value.next_producer_id, 0
    return value.producer_id, value.producer_epoch


def completed(before: Transaction, wall_ms: int) -> Transaction:
    """The value after all markers are written."""
    producer_id, epoch = next_producer(before)
    return _moved(
        before,
        _completed(before.state),
        wall_ms,
        before.last_epoch,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=(),
    )
