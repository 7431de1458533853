"""TxnOffsetCommit: offsets that count when their transaction commits. Pure.

1. The transaction coordinator adds this partition to the transaction, or says that the client has had it
   added: else nobody would end what is written here. Asked once per transaction.
2. The offsets are appended under the producer's id and epoch; the shard holds them back (offset_store.py).
3. The marker decides.

Hazard: the transaction may end between 1 and 2. After a marker that comes meanwhile the answer may be about
the transaction before: the client is to ask again.

Source: Kafka GroupCoordinatorService.java, ProducerStateManager.java (VerificationGuard); KIP-447, KIP-890.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InvalidProducerIdMappingError,
    KafkaError,
    StaleMemberEpochError,
    error_from_code,
)
from ...protocol.messages.groups import TopicNamePartitions
from ...protocol.messages.registry import ADD_PARTITIONS_TO_TXN
from ...protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitions,
    TxnOffsetCommitResponse,
)
from ...protocol.model import CONSUMER_OFFSETS, NO_NODE, TRANSACTION_STATE
from ...protocol.records.settings import INT16_MAX, INT64_MAX
from ..runtime.ports import Outcome, Stamp
from .offset_commits import refused_commit

if TYPE_CHECKING:
    from ...protocol.messages.transactions import TxnOffsetCommitRequest
    from ..runtime.ports import Now, Surroundings, Token
    from .group import Group
    from .offset_commits import OffsetCommits
    from .offset_store import OffsetStore


class TransactionalOffsets:
    """Offsets of transactions."""

    def __init__(
        self,
        partition: int,
        groups: dict[str, Group],
        around: Surroundings,
        store: OffsetStore,
        commits: OffsetCommits,
    ) -> None:
        self._own_partition = TopicNamePartitions(CONSUMER_OFFSETS, (partition,))
        self._groups = groups
        self._around = around
        self._store = store
        self._commits = commits
        self._asked: dict[
            int, list[Token]
        ] = {}  # requests under way to transaction coordinators, by producer

    def commit(self, body: TxnOffsetCommitRequest, token: Token, now: Now) -> Outcome:
        """TxnOffsetCommit."""
        if not (0 <= body.producer_id <= INT64_MAX and 0 <= body.producer_epoch <= INT16_MAX):
            raise InvalidProducerIdMappingError(f"{body.producer_id} in epoch {body.producer_epoch}")
        self._check(body)
        verifies = body.adds_partition or self._around.config.now.transaction_partition_verification_enable
        if not verifies or self._store.is_ongoing(Stamp(body.producer_id, body.producer_epoch)):
            return self._append(body, token, now)
        self._ask(body, token)
        return Outcome()

    def _check(self, body: TxnOffsetCommitRequest) -> None:
        """Clients of transactions know classic errors only."""
        group = self._groups.get(body.group_id)
        if group is None:
            if body.generation_id >= 0:
                raise IllegalGenerationError(f"there is no group {body.group_id}")
            return
        try:
            self._commits.check_member(group, body, body.generation_id, is_transactional=True)
        except StaleMemberEpochError as error:
            raise IllegalGenerationError(str(error)) from error

    def _append(self, body: TxnOffsetCommitRequest, token: Token, now: Now) -> Outcome:
        outcome = Outcome()
        results = self._commits.decide(body.group_id, body.offsets, now, outcome)
        if outcome.records:
            outcome.stamp = Stamp(body.producer_id, body.producer_epoch)
            outcome.on_failed = refused_commit(token)
        outcome.answer(token, TxnOffsetCommitResponse(results))
        return outcome

    # --- asking the transaction coordinator --------------------------------------------------------------

    def _ask(self, body: TxnOffsetCommitRequest, token: Token) -> None:
        transaction = TransactionPartitions(
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            (self._own_partition,),
            not body.adds_partition,
        )
        node_id = self._coordinator_of(body.transactional_id)
        self._asked.setdefault(body.producer_id, []).append(token)
        self._around.ask(
            node_id,
            ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest((transaction,)),
            self._around.config.now.offsets_commit_timeout_ms,
            lambda answer, now: self._answered(body, token, answer, now),
        )

    def _coordinator_of(self, transactional_id: str) -> int:
        """The node. Errors: CoordinatorNotAvailableError if there is none now."""
        topic = self._around.image.topics.get(TRANSACTION_STATE)
        if topic is not None:
            leader = topic.partitions[partition_of_id(transactional_id, len(topic.partitions))].leader
            if leader != NO_NODE:
                return leader
        raise CoordinatorNotAvailableError(f"nobody coordinates {transactional_id} now")

    def _answered(self, body: TxnOffsetCommitRequest, token: Token, answer: Any, now: Now) -> Outcome:
        asked = self._asked.get(body.producer_id, [])
        has_ended = token not in asked
        if not has_ended:
            asked.remove(token)
            if not asked:
                del self._asked[body.producer_id]
        try:
            _raise_refusal(answer)
            if has_ended:
                raise ConcurrentTransactionsError("a transaction has ended meanwhile")
            self._check(body)
        except KafkaError as error:
            refused = Outcome()
            refused.answer(token, error)
            return refused
        return self._append(body, token, now)

    def on_marker(self, producer_id: int) -> None:
        """A transaction of the producer has ended."""
        self._asked.pop(producer_id, None)

    def waiting(self) -> list[Token]:
        """Requests whose coordinator has not answered."""
        return [token for tokens in self._asked.values() for token in tokens]


def _raise_refusal(answer: Any) -> None:
    """Raise what the client gets if the coordinator has not agreed: what passes by itself, it tries again."""
    if isinstance(answer, KafkaError):
        raise _passed_on(answer)
    assert isinstance(answer, AddPartitionsToTxnResponse)
    for added in answer.transactions:
        for code in (added.error_code, *(each.error_code for each in added.results)):
            if code:
                raise _passed_on(error_from_code(code, added.error_detail))


def _passed_on(error: KafkaError) -> KafkaError:
    """NOT_COORDINATOR of the other coordinator, say, would have the client look for this one."""
    if error.retriable and not isinstance(error, ConcurrentTransactionsError):
        return CoordinatorLoadInProgressError(f"the transaction coordinator: {error}")
    return error
