"""Ask transaction coordinators to add partitions to transactions, or whether they were added. Pure.

Whoever wants the same partition in the same transaction while that is asked shares the answer, in the order
in which they came. While a producer's transaction before is still ending the question is asked again for a
little while, which is cheaper than to have the producer send its records again.
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
from ...protocol.model import TRANSACTION_STATE
from ..effects import AskPeer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol.messages.transactions import AddPartitionsToTxnResponse
    from ...protocol.model import TopicPartition
    from ...runtime.purgatory import Purgatory
    from ..live_config import LiveConfig
    from .replica_manager import ReplicaManager

ASK_TIMEOUT_MS = 30_000
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


@dataclass(slots=True, eq=False)
class _Question:
    """Partitions of one transaction, and who waits for the answer about each."""

    transaction: OpenedBy
    begun_ms: int
    wall_ms: int
    waiting: dict[TopicPartition, list[Callable[[KafkaError | None, int, int], None]]] = field(
        default_factory=dict
    )


class TransactionVerifier:
    """`settle` is called after an answer was handed on, like at the end of any event of the node."""

    def __init__(
        self,
        replicas: ReplicaManager,
        config: LiveConfig,
        purgatory: Purgatory,
        settle: Callable[[], None],
    ) -> None:
        self._replicas = replicas
        self._config = config
        self._purgatory = purgatory
        self._settle = settle
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
        wanted: Iterable[tuple[TopicPartition, Callable[[KafkaError | None, int, int], None]]],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """Have each partition in the transaction; then its callback, with an error for the producer or None,
        now_ms and wall_ms. It may be called before this returns."""
        question = _Question(transaction, now_ms, wall_ms)
        for name, settled in wanted:
            found = self._asked.get((transaction, name), question)
            found.waiting.setdefault(name, []).append(settled)
            self._asked[transaction, name] = found
        if question.waiting:
            self._send(question, list(question.waiting), now_ms, wall_ms)

    def _send(self, question: _Question, names: list[TopicPartition], now_ms: int, wall_ms: int) -> None:
        transaction = question.transaction
        try:
            node_id = self._coordinator_of(transaction.transactional_id)
        except KafkaError as error:
            for name in names:
                self._answer(question, name, error, now_ms, wall_ms)
            return
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
            self._replicas.surroundings.now_ms = at_ms
            self._heard(question, names, outcome, at_ms, at_wall_ms)
            self._settle()

        api = registry.ADD_PARTITIONS_TO_TXN
        effect = AskPeer(node_id, api, AddPartitionsToTxnRequest((asked,)), ASK_TIMEOUT_MS, answered)
        self._replicas.effects.append(effect)

    def _coordinator_of(self, transactional_id: str) -> int:
        """Errors: CoordinatorNotAvailableError."""
        image = self._replicas.image
        topic = image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailableError("no transaction was begun yet in this cluster")
        index = partition_of_id(transactional_id, len(topic.partitions))
        broker = image.brokers.get(topic.partitions[index].leader)
        if broker is None or broker.is_fenced:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE}-{index} has no leader")
        return broker.node_id

    def _heard(
        self,
        question: _Question,
        names: list[TopicPartition],
        outcome: AddPartitionsToTxnResponse | KafkaError,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        errors = _errors_in(outcome, names)
        again = [name for name in names if isinstance(errors[name], ConcurrentTransactionsError)]
        if again and question.transaction.adds and self._may_ask_again(question, again, now_ms):
            names = [name for name in names if name not in again]
        for name in names:
            self._answer(question, name, errors[name], now_ms, wall_ms)

    def _may_ask_again(self, question: _Question, names: list[TopicPartition], now_ms: int) -> bool:
        config = self._config.now
        if now_ms - question.begun_ms >= config.add_partitions_to_txn_retry_backoff_max_ms:
            return False
        retry = _Retry(self, question, names)
        deadline_ms = now_ms + config.add_partitions_to_txn_retry_backoff_ms
        try:
            self._purgatory.park(retry, (retry,), deadline_ms)
        except ThrottlingQuotaExceededError:
            return False
        return True

    def ask_again(self, question: _Question, names: list[TopicPartition]) -> None:
        """The pause is over."""
        self._send(question, names, self._replicas.surroundings.now_ms, question.wall_ms)

    def _answer(
        self, question: _Question, name: TopicPartition, error: KafkaError | None, now_ms: int, wall_ms: int
    ) -> None:
        del self._asked[question.transaction, name]
        told = None if error is None else _for_producer(error, adds=question.transaction.adds)
        for settled in question.waiting.pop(name):
            settled(told, now_ms, wall_ms)


class _Retry:
    """A pause in purgatory."""

    __slots__ = ("_names", "_question", "_verifier")

    def __init__(
        self, verifier: TransactionVerifier, question: _Question, names: list[TopicPartition]
    ) -> None:
        self._verifier, self._question, self._names = verifier, question, names

    def try_complete(self) -> bool:
        """Only time ends it."""
        return False

    def on_expire(self) -> None:
        """It is over."""
        self._verifier.ask_again(self._question, self._names)


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
