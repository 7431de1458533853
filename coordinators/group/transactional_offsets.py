"""TxnOffsetCommit: offsets that become visible when their transaction commits. Pure.

1. The transaction coordinator adds this partition to the transaction, or confirms that the client has added
   it: otherwise no marker would end the pending offsets. Once per transaction.
2. The offsets are appended with the producer's id and epoch; the shard keeps them pending (offset_store.py).
3. The marker commits or aborts them.

Hazard: the transaction may end between 1 and 2. If a marker arrives meanwhile, the response to 1 may concern
the transaction before: the client has to retry.

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
from ..runtime.ports import Outcome, ProducerIdAndEpoch
from .offset_commits import refused_commit

if TYPE_CHECKING:
    from ...protocol.messages.transactions import TxnOffsetCommitRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .group import Group
    from .offset_commits import OffsetCommits
    from .offset_store import OffsetStore


class TransactionalOffsets:
    """Handles TxnOffsetCommit for one group shard."""

    def __init__(
        self,
        partition: int,
        groups: dict[str, Group],
        context: ShardContext,
        store: OffsetStore,
        commits: OffsetCommits,
    ) -> None:
        self._own_partition = TopicNamePartitions(CONSUMER_OFFSETS, (partition,))
        self._groups = groups
        self._context = context
        self._store = store
        self._commits = commits
        self._asked: dict[
            int, list[Token]
        ] = {}  # requests in flight to transaction coordinators, by producer

    def commit(self, body: TxnOffsetCommitRequest, token: Token, now: Now) -> Outcome:
        """TxnOffsetCommit."""
        if not (0 <= body.producer_id <= INT64_MAX and 0 <= body.producer_epoch <= INT16_MAX):
            raise InvalidProducerIdMappingError(
                f"producer id {body.producer_id} with epoch {body.producer_epoch} is invalid"
            )
        self._check(body)
        verifies = body.adds_partition or self._context.config.now.transaction_partition_verification_enable
        if not verifies or self._store.is_ongoing(ProducerIdAndEpoch(body.producer_id, body.producer_epoch)):
            return self._append(body, token, now)
        self._ask(body, token)
        return Outcome()

    def _check(self, body: TxnOffsetCommitRequest) -> None:
        """Transactional clients know classic errors only."""
        group = self._groups.get(body.group_id)
        if group is None:
            if body.generation_id >= 0:
                raise IllegalGenerationError(f"group {body.group_id!r} does not exist")
            return
        try:
            self._commits.check_member(group, body, body.generation_id, is_transactional=True)
        except StaleMemberEpochError as error:
            raise IllegalGenerationError(str(error)) from error

    def _append(self, body: TxnOffsetCommitRequest, token: Token, now: Now) -> Outcome:
        outcome = Outcome()
        results = self._commits.decide(body.group_id, body.offsets, now, outcome)
        if outcome.records:
            outcome.producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
            outcome.on_failed = refused_commit(token)
        outcome.answer(token, TxnOffsetCommitResponse(results))
        return outcome

    # --- verification by the transaction coordinator --------------------------------------------------------

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
        self._context.ask(
            node_id,
            ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest((transaction,)),
            self._context.config.now.offsets_commit_timeout_ms,
            lambda answer, now: self._answered(body, token, answer, now),
        )

    def _coordinator_of(self, transactional_id: str) -> int:
        """The node that coordinates the id. Errors: CoordinatorNotAvailableError."""
        topic = self._context.image.topics.get(TRANSACTION_STATE)
        if topic is not None:
            leader = topic.partitions[partition_of_id(transactional_id, len(topic.partitions))].leader
            if leader != NO_NODE:
                return leader
        raise CoordinatorNotAvailableError(
            f"the partition of transactional id {transactional_id!r} has no leader: retry"
        )

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
                raise ConcurrentTransactionsError(
                    "the producer's transaction ended during this commit: retry"
                )
            self._check(body)
        except KafkaError as error:
            refused = Outcome()
            refused.answer(token, error)
            return refused
        return self._append(body, token, now)

    def on_marker(self, producer_id: int) -> None:
        """The producer's transaction has ended: invalidate its requests in flight."""
        self._asked.pop(producer_id, None)

    def waiting(self) -> list[Token]:
        """Requests that wait for a transaction coordinator."""
        return [token for tokens in self._asked.values() for token in tokens]


def _raise_refusal(answer: Any) -> None:
    """Raise the client's error unless the coordinator agreed; transient errors are retriable for the
    client."""
    if isinstance(answer, KafkaError):
        raise _passed_on(answer)
    assert isinstance(answer, AddPartitionsToTxnResponse)
    for added in answer.transactions:
        for code in (added.error_code, *(each.error_code for each in added.results)):
            if code:
                raise _passed_on(error_from_code(code, added.error_detail))


def _passed_on(error: KafkaError) -> KafkaError:
    """The client's error for a transaction coordinator's one: NOT_COORDINATOR there must not make the client
    look up this group coordinator again."""
    if error.retriable and not isinstance(error, ConcurrentTransactionsError):
        return CoordinatorLoadInProgressError(f"the transaction coordinator answered: {error}")
    return error
