"""The transactions part of the admin client: open and hanging transactions, producers, aborts, fencing.

A transaction hangs in a partition when it is open there, but not at its coordinator: consumers of committed
records wait for its end for ever. Source: KIP-664, Kafka TransactionsCommand.java.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidTxnStateError, KafkaError, TransactionalIdNotFoundError
from ...protocol.messages import registry as apis
from ...protocol.messages import transactions
from ...protocol.messages.groups import TRANSACTION_KEY, PartitionResult, TopicNamePartitions
from ...protocol.model import TopicPartition
from ..cluster.leaders_io import LeaderQuery, query_leaders
from .admin_types import Results
from .coordinator_requester_io import CoordinatorRequester
from .group_types import (
    HangingTransaction,
    ProducerDescription,
    ProducerIdAndEpoch,
    TransactionDescription,
    TransactionListing,
    TransactionState,
    known_names,
)
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .coordinator_requester_io import Coordinator
    from .requester_io import AdminRequester, Call

# The timeout of a producer that is only fenced: any valid value.
_FENCE_TIMEOUT_MS = 1
# The version whose markers may have the epoch of the transaction; later ones raise it.
_ADMIN_VERSION = 0
_ENDING = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_UNDER_WAY = (TransactionState.ONGOING, TransactionState.PREPARED, *_ENDING)
_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
MAX_PARTITIONS = 500  # Bound: of one request; each may have many producers
Producers = tuple[ProducerDescription, ...]


def _place(_topic_id: bytes, _partition: int, tp: TopicPartition, _epoch: int) -> TopicNamePartitions:
    return TopicNamePartitions(tp.topic, (tp.partition,))


def _producers_body(
    entries: tuple[TopicNamePartitions, ...], _timeout_ms: int
) -> transactions.DescribeProducersRequest:
    return transactions.DescribeProducersRequest(entries)


def _producers(answer: transactions.PartitionProducers) -> Producers:
    return tuple(
        ProducerDescription(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
        )
        for each in answer.producers
    )


_PRODUCERS: LeaderQuery[TopicPartition, Producers] = LeaderQuery(
    apis.DESCRIBE_PRODUCERS, _place, _producers_body, _producers, failure="its producers are not known"
)


class TransactionEngine:
    """Runs on the loop of the client. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester
        self._coordinator_requester = CoordinatorRequester(requester, TRANSACTION_KEY)

    # --- describing -------------------------------------------------------------------------------------

    async def find(
        self,
        states: Iterable[str],
        producer_ids: Iterable[int],
        *,
        longer_than: float | None,
        pattern: str | None,
        timeout: float | None,
    ) -> list[TransactionListing]:
        """Transactional ids. Errors: ConfigError for an unknown state, InvalidRegularExpressionError."""
        wanted = known_names(TransactionState, states)
        if longer_than is not None and not wanted:
            wanted = _UNDER_WAY  # coordinators list ids without a transaction for any duration
        request = transactions.ListTransactionsRequest(
            wanted,
            tuple(producer_ids),
            -1 if longer_than is None else int(longer_than * 1000),
            pattern,
        )
        return await self._listed(request, self._requester.call(timeout))

    async def describe(
        self, transactional_ids: Sequence[str], *, timeout: float | None
    ) -> Results[str, TransactionDescription]:
        """The state of each id at its coordinator, or the error."""
        return await self._described(transactional_ids, self._requester.call(timeout))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None
    ) -> Results[TopicPartition, Producers]:
        """The producers of each partition, by its leader, or the error."""
        return await self._producers(partitions, self._requester.call(timeout))

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, longer_than: float, timeout: float | None
    ) -> list[HangingTransaction]:
        """Transactions without records for `longer_than` seconds. Errors: of partitions and coordinators,
        because their transactions might hang."""
        call = self._requester.call(timeout)
        latest_ms = self._requester.hub.wall_ms() - int(longer_than * 1000)
        found = await self._open(partitions, call)
        old = {place: each for place, each in found.items() if each.last_timestamp_ms < latest_ms}
        if not old:
            return []
        request = transactions.ListTransactionsRequest(producer_ids=tuple({key[1] for key in old}))
        names = {each.producer_id: each.transactional_id for each in await self._listed(request, call)}
        known = await self._described(sorted(names.values()), call)
        of_ids = {each.producer_id: each for each in _existing(known)}
        suspects = {
            key: producer
            for key, producer in old.items()
            if key[1] not in of_ids or key[0] not in of_ids[key[1]].partitions
        }
        # A transaction that ended between the two requests does not hang: it is not open any more.
        still = await self._open({tp for tp, _ in suspects}, call)
        return [
            HangingTransaction(tp, producer, names.get(producer_id))
            for (tp, producer_id), producer in sorted(suspects.items(), key=lambda item: item[0])
            if (now := still.get((tp, producer_id))) is not None
            and now.transaction_start_offset == producer.transaction_start_offset
        ]

    # --- changing ---------------------------------------------------------------------------------------

    async def abort(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        timeout: float | None,
    ) -> None:
        """Errors: of the leader."""

        def body(
            entries: tuple[TopicNamePartitions, ...], _timeout_ms: int
        ) -> transactions.WriteTxnMarkersRequest:
            # A producer whose first transaction hangs is not known to a coordinator.
            epoch = max(coordinator_epoch, 0)
            facts = (producer_id, producer_epoch, False, entries, epoch, _ADMIN_VERSION)
            return transactions.WriteTxnMarkersRequest((transactions.TransactionMarker(*facts),))

        question: LeaderQuery[TopicPartition, None] = LeaderQuery(
            apis.WRITE_TXN_MARKERS,
            _place,
            body,
            _nothing,
            failure="no marker is known to be written",
            answers=_marker_results,
        )
        Results(await self._ask_leaders(question, {tp: tp}, self._requester.call(timeout)))[tp]

    async def fence(
        self, transactional_ids: Sequence[str], *, timeout: float | None
    ) -> Results[str, ProducerIdAndEpoch]:
        """The new producer id and epoch of each id; older producers are fenced, and their transactions
        aborted. A prepared one is waited for."""

        async def ask(at: Coordinator) -> ProducerIdAndEpoch | KafkaError:
            request = transactions.InitProducerIdRequest(at.key, _FENCE_TIMEOUT_MS)
            answer = await at.ask(apis.INIT_PRODUCER_ID, request)
            return error_of(answer) or ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

        return await self._coordinator_requester.each(transactional_ids, ask, self._requester.call(timeout))

    async def abort_prepared(
        self, transactional_ids: Sequence[str], *, timeout: float | None
    ) -> Results[str, None]:
        """None for each id whose prepared transaction was aborted; InvalidTxnStateError without one."""

        async def ask(at: Coordinator) -> KafkaError | None:
            request = transactions.DescribeTransactionsRequest((at.key,))
            (found,) = (await at.ask(apis.DESCRIBE_TRANSACTIONS, request)).transactions
            if at.may_have_run and found.state in _ABORTED:
                return None
            if not found.error_code and found.state != TransactionState.PREPARED:
                return InvalidTxnStateError(f"nothing is prepared: {at.key} is {found.state}")
            end = transactions.EndTxnRequest(at.key, found.producer_id, found.producer_epoch, committed=False)
            return error_of(found) or error_of(await at.ask(apis.END_TXN, end))

        return await self._coordinator_requester.each(transactional_ids, ask, self._requester.call(timeout))

    # --- inside -----------------------------------------------------------------------------------------

    async def _listed(
        self, request: transactions.ListTransactionsRequest, call: Call
    ) -> list[TransactionListing]:
        answers = await self._coordinator_requester.everywhere(apis.LIST_TRANSACTIONS, request, call)
        found = {
            each.transactional_id: TransactionListing(
                *(each.transactional_id, each.producer_id, TransactionState(each.state), node_id),
                _time(each.prepared_ms),
            )
            for node_id, answer in answers.items()
            for each in answer.transactions
        }
        return [found[name] for name in sorted(found)]

    async def _described(self, names: Sequence[str], call: Call) -> Results[str, TransactionDescription]:
        async def ask(at: Coordinator) -> TransactionDescription | KafkaError:
            request = transactions.DescribeTransactionsRequest((at.key,))
            (found,) = (await at.ask(apis.DESCRIBE_TRANSACTIONS, request)).transactions
            return error_of(found) or _description(found, at.node_id)

        return await self._coordinator_requester.each(names, ask, call)

    async def _producers(
        self, partitions: Iterable[TopicPartition], call: Call
    ) -> Results[TopicPartition, Producers]:
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, Any] = {}
        for start in range(0, len(wanted), MAX_PARTITIONS):
            some = {tp: tp for tp in wanted[start : start + MAX_PARTITIONS]}
            found |= await self._ask_leaders(_PRODUCERS, some, call)
        return Results(found)

    async def _open(
        self, partitions: Iterable[TopicPartition], call: Call
    ) -> dict[tuple[TopicPartition, int], ProducerDescription]:
        """Open transactions, by partition and producer id. Errors: of the partitions."""
        return {
            (tp, producer.producer_id): producer
            for tp, producers in (await self._producers(partitions, call)).items()
            for producer in producers
            if producer.transaction_start_offset is not None
        }

    async def _ask_leaders(
        self, question: LeaderQuery[Any, Any], wanted: Mapping[TopicPartition, Any], call: Call
    ) -> dict[TopicPartition, Any]:
        return await query_leaders(
            self._requester.hub,
            question,
            wanted,
            deadline_ms=call.deadline_ms,
            request_timeout_ms=self._requester.config.request_timeout_ms,
            backoff=self._requester.backoff,
        )


def _marker_results(response: transactions.WriteTxnMarkersResponse) -> tuple[PartitionResult, ...]:
    return response.markers[0].results


def _nothing(_answer: PartitionResult) -> None:
    """The result of a written marker: nothing."""


def _description(found: transactions.DescribedTransaction, node_id: int) -> TransactionDescription:
    return TransactionDescription(
        found.transactional_id,
        TransactionState(found.state),
        node_id,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        _time(found.start_ms),
        tuple(
            TopicPartition(topic.topic, number)
            for topic in sorted(found.topics, key=attrgetter("topic"))
            for number in topic.partitions
        ),
        _time(found.prepared_ms),
    )


def _time(wall_ms: int) -> int | None:
    return None if wall_ms < 0 else wall_ms


def _existing(found: Results[str, TransactionDescription]) -> list[TransactionDescription]:
    """Ignore ids that expired meanwhile. Errors: any other."""
    return [
        found[name] for name in found if not isinstance(found.errors.get(name), TransactionalIdNotFoundError)
    ]
