"""Verification of transactional batches: AddPartitionsToTxn requests to transaction coordinators. Pure.

Batches of the same partition and transaction share a request in flight and its response, in the order of
their arrival. While the producer's previous transaction is still ending, the request is repeated for a short
time, which is cheaper than a retry of the producer. No batch waits longer than its produce request, and a
coordinator without a response is given up once the metadata has another one. Source: Kafka
AddPartitionsToTxnManager.java, ReplicaManager.scala.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    NO_ERROR,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    TransactionAbortableError,
    error_from_code,
)
from ...protocol.messages import registry
from ...protocol.messages.groups import TopicNamePartitions
from ...protocol.messages.transactions import AddPartitionsToTxnRequest, TransactionPartitions
from ...protocol.model import NO_NODE, TRANSACTION_STATE
from ..effects import AskPeer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ...protocol.messages.transactions import AddPartitionsToTxnResponse
    from ...protocol.model import TopicPartition
    from ...runtime.purgatory import Purgatory
    from ..configs.live_config import LiveConfig
    from .partition_table import PartitionTable
    from .step_output import StepOutput

    Settled = Callable[[KafkaError | None, int, int], None]

_RETRIABLE = (
    NetworkError,
    RequestTimedOutError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)


class ProducerTransaction(NamedTuple):
    """A transaction by its producer. `adds`: add the partitions; otherwise only check that they were
    added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


class _Waiter(NamedTuple):
    """A batch that waits for the verification of its partition, until the deadline."""

    settled: Settled
    deadline_ms: int


@dataclass(slots=True, eq=False)
class _Verification:
    """A request in flight for partitions of one transaction, and the batches that wait for each, in order. In
    purgatory it waits for its deadlines, and for metadata with another coordinator.

    Invariant: only the response to the request of the newest `number` counts.
    """

    verifier: TransactionVerifier
    transaction: ProducerTransaction
    begun_ms: int
    wall_ms: int
    waiting: dict[TopicPartition, list[_Waiter]] = field(default_factory=dict)
    node_id: int = NO_NODE  # the coordinator
    number: int = 0
    again_ms: int | None = None  # when to repeat the request

    @property
    def first_deadline_ms(self) -> int:
        """When the first batch times out."""
        return min(waiter.deadline_ms for waiters in self.waiting.values() for waiter in waiters)

    @property
    def last_deadline_ms(self) -> int:
        """When the last batch times out."""
        return max(waiter.deadline_ms for waiters in self.waiting.values() for waiter in waiters)

    def try_complete(self, now_ms: int) -> bool:
        """The metadata has changed."""
        self.verifier.follow(self, now_ms)
        return False

    def on_expire(self, now_ms: int) -> None:
        """A retry or a timeout is due."""
        self.verifier.expire(self, now_ms)


class TransactionVerifier:
    """`settle` is called after a response, as at the end of any event of the node."""

    def __init__(
        self,
        table: PartitionTable,
        output: StepOutput,
        config: LiveConfig,
        purgatory: Purgatory,
        settle: Callable[[int], None],
        metadata_key: Hashable,
    ) -> None:
        """`metadata_key`: purgatory checks it after each change of the metadata."""
        self._table = table
        self._output = output
        self._config = config
        self._purgatory = purgatory
        self._settle = settle
        self._metadata_key = metadata_key
        self._asked: dict[tuple[ProducerTransaction, TopicPartition], _Verification] = {}

    def __len__(self) -> int:
        """Partitions being verified."""
        return len(self._asked)

    @property
    def is_enabled(self) -> bool:
        """Whether partitions are verified that the producer has added itself."""
        return self._config.now.transaction_partition_verification_enable

    def ask(
        self,
        transaction: ProducerTransaction,
        partitions: Iterable[tuple[TopicPartition, Settled]],
        deadline_ms: int,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """Add or verify each partition; then its callback gets an error for the producer or None, now_ms and
        wall_ms. It may be called before this returns, and at the latest at the deadline."""
        verification = _Verification(self, transaction, now_ms, wall_ms)
        for name, settled in partitions:
            found = self._asked.get((transaction, name), verification)
            found.waiting.setdefault(name, []).append(_Waiter(settled, deadline_ms))
            self._asked[transaction, name] = found
            if found is not verification:
                self._park(found, now_ms)  # its first deadline may be earlier now
        if verification.waiting:
            try:
                self._send(verification, now_ms)
            except KafkaError as error:
                self._end(verification, error, now_ms, wall_ms)
            else:
                self._park(verification, now_ms)

    # --- in purgatory ----------------------------------------------------------------------

    def _park(self, verification: _Verification, now_ms: int) -> None:
        self._purgatory.cancel(verification)
        times = [
            verification.first_deadline_ms,
            *([] if verification.again_ms is None else [verification.again_ms]),
        ]
        try:
            self._purgatory.park(verification, (self._metadata_key,), min(times), now_ms)
        except ThrottlingQuotaExceededError as error:
            self._end(verification, error, now_ms, verification.wall_ms)

    def follow(self, verification: _Verification, now_ms: int) -> None:
        """Send the request to the coordinator in the metadata if it is another one: the previous one may
        never respond. Without a coordinator, wait."""
        try:
            if self._coordinator_of(verification.transaction.transactional_id) != verification.node_id:
                verification.again_ms = None
                self._send(verification, now_ms)
        except CoordinatorNotAvailableError:
            return

    def expire(self, verification: _Verification, now_ms: int) -> None:
        """Repeat the request if that is due, and time out batches."""
        wall_ms = verification.wall_ms
        if verification.again_ms is not None and verification.again_ms <= now_ms:
            verification.again_ms = None
            try:
                self._send(verification, now_ms)
            except CoordinatorNotAvailableError as error:
                self._end(verification, error, now_ms, wall_ms)
                return
        late = RequestTimedOutError("the transaction coordinator did not respond in time")
        for name, waiters in list(verification.waiting.items()):
            overdue = [waiter for waiter in waiters if waiter.deadline_ms <= now_ms]
            if len(overdue) == len(waiters):
                self._answer(verification, name, late, now_ms, wall_ms)
            else:
                verification.waiting[name] = [each for each in waiters if each not in overdue]
                self._notify(verification, overdue, late, now_ms, wall_ms)
        if verification.waiting:
            self._park(verification, now_ms)

    # --- requests ---------------------------------------------------------------------------------------

    def _send(self, verification: _Verification, now_ms: int) -> None:
        """Errors: CoordinatorNotAvailableError."""
        transaction = verification.transaction
        verification.node_id = self._coordinator_of(transaction.transactional_id)
        verification.number += 1
        number, names = verification.number, list(verification.waiting)
        by_topic: dict[str, list[int]] = {}
        for name in names:
            by_topic.setdefault(name.topic, []).append(name.partition)
        asked = TransactionPartitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            tuple(TopicNamePartitions(topic, tuple(indexes)) for topic, indexes in by_topic.items()),
            verify_only=not transaction.adds,
        )

        def answered(outcome: Any, at_ms: int, at_wall_ms: int) -> None:
            if verification.number == number and verification.waiting:
                self._answered(verification, outcome, at_ms, at_wall_ms)
            self._settle(at_ms)

        api = registry.ADD_PARTITIONS_TO_TXN
        timeout_ms = max(verification.last_deadline_ms - now_ms, 1)
        body = AddPartitionsToTxnRequest((asked,))
        self._output.effects.append(AskPeer(verification.node_id, api, body, timeout_ms, answered))

    def _coordinator_of(self, transactional_id: str) -> int:
        """Errors: CoordinatorNotAvailableError."""
        image = self._table.image
        topic = image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailableError(f"the topic {TRANSACTION_STATE} does not exist yet")
        index = partition_of_id(transactional_id, len(topic.partitions))
        broker = image.brokers.get(topic.partitions[index].leader)
        if broker is None or broker.is_fenced:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE}-{index} has no leader")
        return broker.node_id

    # --- responses -------------------------------------------------------------------------------------

    def _answered(
        self,
        verification: _Verification,
        outcome: AddPartitionsToTxnResponse | KafkaError,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        errors = _errors_in(outcome, list(verification.waiting))
        config = self._config.now
        waited_ms = now_ms - verification.begun_ms
        may_ask_again = (
            verification.transaction.adds and waited_ms < config.add_partitions_to_txn_retry_backoff_max_ms
        )
        for name, error in errors.items():
            if not (may_ask_again and isinstance(error, ConcurrentTransactionsError)):
                self._answer(verification, name, error, now_ms, wall_ms)
        if verification.waiting:
            verification.again_ms = now_ms + config.add_partitions_to_txn_retry_backoff_ms
            self._park(verification, now_ms)

    def _end(self, verification: _Verification, error: KafkaError, now_ms: int, wall_ms: int) -> None:
        for name in list(verification.waiting):
            self._answer(verification, name, error, now_ms, wall_ms)

    def _answer(
        self,
        verification: _Verification,
        name: TopicPartition,
        error: KafkaError | None,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        del self._asked[verification.transaction, name]
        waiters = verification.waiting.pop(name)
        if not verification.waiting:
            self._purgatory.cancel(verification)
        self._notify(verification, waiters, error, now_ms, wall_ms)

    @staticmethod
    def _notify(
        verification: _Verification,
        waiters: list[_Waiter],
        error: KafkaError | None,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        for_producer = None if error is None else _for_producer(error, adds=verification.transaction.adds)
        for waiter in waiters:
            waiter.settled(for_producer, now_ms, wall_ms)


def _errors_in(
    outcome: AddPartitionsToTxnResponse | KafkaError, names: list[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """The error or None of each partition; NetworkError for one that is not in the response."""
    if isinstance(outcome, KafkaError):
        return dict.fromkeys(names, outcome)
    if len(outcome.transactions) != 1:
        return dict.fromkeys(names, NetworkError("the transaction coordinator sent another transaction"))
    (answer,) = outcome.transactions
    if answer.error_code != NO_ERROR:
        return dict.fromkeys(names, error_from_code(answer.error_code, answer.error_detail))
    codes = {(each.topic, each.partition): each.error_code for each in answer.results}
    errors: dict[TopicPartition, KafkaError | None] = {}
    for name in names:
        code = codes.get((name.topic, name.partition))
        if code is None:
            errors[name] = NetworkError(f"{name} is not in the response of the transaction coordinator")
        else:
            errors[name] = None if code == NO_ERROR else error_from_code(code, "")
    return errors


def _for_producer(error: KafkaError, *, adds: bool) -> KafkaError:
    """The error for the producer: after a transient one it retries without new metadata."""
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError(error.detail)
    if isinstance(error, TransactionAbortableError) and not adds:
        return InvalidTxnStateError(error.detail)
    is_passing = isinstance(error, _RETRIABLE) or (
        isinstance(error, ConcurrentTransactionsError) and not adds
    )
    if is_passing:
        return NotEnoughReplicasError(f"the partition could not be verified in the transaction: {error!r}")
    return error
