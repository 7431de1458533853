"""Ask transaction coordinators to add partitions to transactions, or whether they were added. Pure.

Whoever wants the same partition in the same transaction while that is asked shares the answer, in the order
in which they came. While a producer's transaction before is still ending the question is asked again for a
little while, which is cheaper than to have the producer send its records again. Nobody waits longer than the
producer wanted, and a coordinator that says nothing is not waited for once the metadata name another.
Source: Kafka AddPartitionsToTxnManager.java, ReplicaManager.scala.
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


class OpenedBy(NamedTuple):
    """A transaction as its producer names it. `adds`: partitions are to be added, else looked for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


class _Waiter(NamedTuple):
    """Who wants to know about one partition, until when."""

    settled: Settled
    deadline_ms: int


@dataclass(slots=True, eq=False)
class _Question:
    """Partitions of one transaction, and who waits for the answer about each, in the order of their coming.
    In purgatory it waits for its deadlines, and for metadata that name another coordinator.

    Invariant: only the answer to the request of the newest `number` counts.
    """

    verifier: TransactionVerifier
    transaction: OpenedBy
    begun_ms: int
    wall_ms: int
    waiting: dict[TopicPartition, list[_Waiter]] = field(default_factory=dict)
    node_id: int = NO_NODE  # who is asked
    number: int = 0
    again_ms: int | None = None  # when to ask once more

    @property
    def first_deadline_ms(self) -> int:
        """When the first of those who wait gives up."""
        return min(waiter.deadline_ms for waiters in self.waiting.values() for waiter in waiters)

    @property
    def last_deadline_ms(self) -> int:
        """When nobody waits any more."""
        return max(waiter.deadline_ms for waiters in self.waiting.values() for waiter in waiters)

    def try_complete(self, now_ms: int) -> bool:
        """The metadata have moved on."""
        self.verifier.follow(self, now_ms)
        return False

    def on_expire(self, now_ms: int) -> None:
        """It is time to ask once more, or for somebody to give up."""
        self.verifier.time_came(self, now_ms)


class TransactionVerifier:
    """`settle` is called after an answer was handed on, like at the end of any event of the node."""

    def __init__(
        self,
        table: PartitionTable,
        output: StepOutput,
        config: LiveConfig,
        purgatory: Purgatory,
        settle: Callable[[int], None],
        metadata_key: Hashable,
    ) -> None:
        """`metadata_key` is what purgatory checks after the metadata have moved on."""
        self._table = table
        self._output = output
        self._config = config
        self._purgatory = purgatory
        self._settle = settle
        self._metadata_key = metadata_key
        self._asked: dict[tuple[OpenedBy, TopicPartition], _Question] = {}

    def __len__(self) -> int:
        """Partitions that are asked about."""
        return len(self._asked)

    @property
    def is_enabled(self) -> bool:
        """Whether partitions are looked for that the producer has added itself."""
        return self._config.now.transaction_partition_verification_enable

    def ask(
        self,
        transaction: OpenedBy,
        wanted: Iterable[tuple[TopicPartition, Settled]],
        deadline_ms: int,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """Have each partition in the transaction; then its callback, with an error for the producer or None,
        now_ms and wall_ms. It may be called before this returns, and is at the deadline."""
        question = _Question(self, transaction, now_ms, wall_ms)
        for name, settled in wanted:
            found = self._asked.get((transaction, name), question)
            found.waiting.setdefault(name, []).append(_Waiter(settled, deadline_ms))
            self._asked[transaction, name] = found
            if found is not question:
                self._park(found, now_ms)  # its first deadline may be an earlier one
        if question.waiting:
            try:
                self._send(question, now_ms)
            except KafkaError as error:
                self._end(question, error, now_ms, wall_ms)
            else:
                self._park(question, now_ms)

    # --- the question in purgatory ----------------------------------------------------------------------

    def _park(self, question: _Question, now_ms: int) -> None:
        self._purgatory.cancel(question)
        times = [question.first_deadline_ms, *([] if question.again_ms is None else [question.again_ms])]
        try:
            self._purgatory.park(question, (self._metadata_key,), min(times), now_ms)
        except ThrottlingQuotaExceededError as error:
            self._end(question, error, now_ms, question.wall_ms)

    def follow(self, question: _Question, now_ms: int) -> None:
        """Ask the coordinator that the metadata name, if it is another one: the one before may never answer.
        While nobody coordinates, wait."""
        try:
            if self._coordinator_of(question.transaction.transactional_id) != question.node_id:
                question.again_ms = None
                self._send(question, now_ms)
        except CoordinatorNotAvailableError:
            return

    def time_came(self, question: _Question, now_ms: int) -> None:
        """Ask once more, and tell those who cannot wait any longer."""
        wall_ms = question.wall_ms
        if question.again_ms is not None and question.again_ms <= now_ms:
            question.again_ms = None
            try:
                self._send(question, now_ms)
            except CoordinatorNotAvailableError as error:
                self._end(question, error, now_ms, wall_ms)
                return
        late = RequestTimedOutError("its coordinator did not answer in time")
        for name, waiters in list(question.waiting.items()):
            overdue = [waiter for waiter in waiters if waiter.deadline_ms <= now_ms]
            if len(overdue) == len(waiters):
                self._answer(question, name, late, now_ms, wall_ms)
            else:
                question.waiting[name] = [each for each in waiters if each not in overdue]
                self._tell(question, overdue, late, now_ms, wall_ms)
        if question.waiting:
            self._park(question, now_ms)

    # --- asking -----------------------------------------------------------------------------------------

    def _send(self, question: _Question, now_ms: int) -> None:
        """Errors: CoordinatorNotAvailableError."""
        transaction = question.transaction
        question.node_id = self._coordinator_of(transaction.transactional_id)
        question.number += 1
        number, names = question.number, list(question.waiting)
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
            if question.number == number and question.waiting:
                self._heard(question, outcome, at_ms, at_wall_ms)
            self._settle(at_ms)

        api = registry.ADD_PARTITIONS_TO_TXN
        timeout_ms = max(question.last_deadline_ms - now_ms, 1)
        body = AddPartitionsToTxnRequest((asked,))
        self._output.effects.append(AskPeer(question.node_id, api, body, timeout_ms, answered))

    def _coordinator_of(self, transactional_id: str) -> int:
        """Errors: CoordinatorNotAvailableError."""
        image = self._table.image
        topic = image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailableError("no transaction was begun yet in this cluster")
        index = partition_of_id(transactional_id, len(topic.partitions))
        broker = image.brokers.get(topic.partitions[index].leader)
        if broker is None or broker.is_fenced:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE}-{index} has no leader")
        return broker.node_id

    # --- answers ----------------------------------------------------------------------------------------

    def _heard(
        self,
        question: _Question,
        outcome: AddPartitionsToTxnResponse | KafkaError,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        errors = _errors_in(outcome, list(question.waiting))
        config = self._config.now
        waited_ms = now_ms - question.begun_ms
        may_ask_again = (
            question.transaction.adds and waited_ms < config.add_partitions_to_txn_retry_backoff_max_ms
        )
        for name, error in errors.items():
            if not (may_ask_again and isinstance(error, ConcurrentTransactionsError)):
                self._answer(question, name, error, now_ms, wall_ms)
        if question.waiting:
            question.again_ms = now_ms + config.add_partitions_to_txn_retry_backoff_ms
            self._park(question, now_ms)

    def _end(self, question: _Question, error: KafkaError, now_ms: int, wall_ms: int) -> None:
        for name in list(question.waiting):
            self._answer(question, name, error, now_ms, wall_ms)

    def _answer(
        self,
        question: _Question,
        name: TopicPartition,
        error: KafkaError | None,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        del self._asked[question.transaction, name]
        waiters = question.waiting.pop(name)
        if not question.waiting:
            self._purgatory.cancel(question)
        self._tell(question, waiters, error, now_ms, wall_ms)

    @staticmethod
    def _tell(
        question: _Question, waiters: list[_Waiter], error: KafkaError | None, now_ms: int, wall_ms: int
    ) -> None:
        told = None if error is None else _for_producer(error, adds=question.transaction.adds)
        for waiter in waiters:
            waiter.settled(told, now_ms, wall_ms)


def _errors_in(
    outcome: AddPartitionsToTxnResponse | KafkaError, names: list[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """What is said of each partition; of one that is not named nothing is known."""
    if isinstance(outcome, KafkaError):
        return dict.fromkeys(names, outcome)
    if len(outcome.transactions) != 1:
        return dict.fromkeys(names, NetworkError("the transaction coordinator answered something else"))
    (answer,) = outcome.transactions
    if answer.error_code != NO_ERROR:
        return dict.fromkeys(names, error_from_code(answer.error_code, answer.error_detail))
    codes = {(each.topic, each.partition): each.error_code for each in answer.results}
    errors: dict[TopicPartition, KafkaError | None] = {}
    for name in names:
        code = codes.get((name.topic, name.partition))
        if code is None:
            errors[name] = NetworkError(f"the transaction coordinator did not answer for {name}")
        else:
            errors[name] = None if code == NO_ERROR else error_from_code(code, "")
    return errors


def _for_producer(error: KafkaError, *, adds: bool) -> KafkaError:
    """In words that producers know: what may pass is an error that they repeat without new metadata."""
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError(error.detail)
    if isinstance(error, TransactionAbortableError) and not adds:
        return InvalidTxnStateError(error.detail)
    is_passing = isinstance(error, _RETRIABLE) or (
        isinstance(error, ConcurrentTransactionsError) and not adds
    )
    if is_passing:
        return NotEnoughReplicasError(f"the partition is not known to be in the transaction: {error!r}")
    return error
