"""Producer ids and transactions. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.messages import registry
from ...protocol.messages import transactions as m
from ...protocol.messages.groups import PartitionResult, TopicNamePartitions
from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from .calls import Call, KafkaApi, error_alone
from .coordinator_requests import SplitRequest, ask_many, ask_one
from .offsets import commit_failed, committed
from .plain import by_topic, each, fields, message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.envelope import Api

# From these versions on.
_BATCHED = 4  # AddPartitionsToTxn: several transactions
_ENDS_BUMP = 5  # EndTxn and TxnOffsetCommit: transactions by KIP-890
# A prepared transaction is open and has no timeout: reported to Kafka clients as in KIP-939.
_PREPARED, _ONGOING = "Prepared", "Ongoing"
_NO_TIMEOUT_MS = 2**31 - 1


def _ask_coordinator(call: Call, api: Api, request: Any) -> None:
    """Send the request to the coordinator of its transactional id; the response has Kafka's fields."""

    def done(answer: Any) -> None:
        call.answer(fields(answer))

    ask_one(call, TRANSACTION_STATE, request.transactional_id, api, request, done)


def _init(call: Call) -> None:
    request = message(m.InitProducerIdRequest, call.body)
    if request.transactional_id is None:
        call.ask(registry.INIT_PRODUCER_ID, request, lambda answer: call.answer(fields(answer)))
    else:
        _ask_coordinator(call, registry.INIT_PRODUCER_ID, request)


def _init_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


def _add_offsets(call: Call) -> None:
    _ask_coordinator(call, registry.ADD_OFFSETS_TO_TXN, message(m.AddOffsetsToTxnRequest, call.body))


def _end(call: Call) -> None:
    request = message(m.EndTxnRequest, call.body, bumps_epoch=call.version >= _ENDS_BUMP)
    _ask_coordinator(call, registry.END_TXN, request)


# --- AddPartitionsToTxn --------------------------------------------------------------------------------


def _add_partitions(call: Call) -> None:
    many = SplitRequest(
        TRANSACTION_STATE,
        registry.ADD_PARTITIONS_TO_TXN,
        lambda some: m.AddPartitionsToTxnRequest(tuple(some)),
        lambda response: response.transactions,
        lambda item, code, text: m.AddedPartitions(item.transactional_id, code, (), text),
    )
    items = _transactions(call)
    named = [(item.transactional_id, item) for item in items]
    ask_many(call, many, named, lambda answers: call.answer(_added(call, items, answers)))


def _transactions(call: Call) -> list[m.TransactionPartitions]:
    body = call.body
    if call.version >= _BATCHED:
        return [
            message(m.TransactionPartitions, each, topics=_named(each.topics)) for each in body.transactions
        ]
    return [
        m.TransactionPartitions(
            body.v3_and_below_transactional_id,
            body.v3_and_below_producer_id,
            body.v3_and_below_producer_epoch,
            _named(body.v3_and_below_topics),
        )
    ]


def _named(topics: Sequence[Any], numbers: str = "partitions") -> tuple[TopicNamePartitions, ...]:
    return tuple(TopicNamePartitions(topic.name, tuple(getattr(topic, numbers))) for topic in topics)


def _added(
    call: Call, items: Sequence[m.TransactionPartitions], answers: Sequence[m.AddedPartitions]
) -> dict[str, Any]:
    reply = []
    for item, answer in zip(items, answers, strict=True):
        results = answer.results or _all_failed(item.topics, answer.error_code)
        topics = by_topic(results, "results_by_partition", error_code="partition_error_code")
        reply.append({"transactional_id": item.transactional_id, "topic_results": topics})
    if call.version < _BATCHED:
        return {"results_by_topic_v3_and_below": reply[0]["topic_results"]}
    return {"error_code": 0, "results_by_transaction": reply}


def _all_failed(topics: Sequence[TopicNamePartitions], code: int) -> list[PartitionResult]:
    return [PartitionResult(topic.topic, number, code) for topic in topics for number in topic.partitions]


def _add_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    if call.version >= _BATCHED:
        return {"error_code": code, "results_by_transaction": ()}
    items = _transactions(call)
    return _added(call, items, [m.AddedPartitions(items[0].transactional_id, code)])


# --- TxnOffsetCommit -----------------------------------------------------------------------------------


def _commit_offsets(call: Call) -> None:
    offsets, _, _ = committed(call)
    request = message(
        m.TxnOffsetCommitRequest, call.body, offsets=offsets, adds_partition=call.version >= _ENDS_BUMP
    )

    def done(response: m.TxnOffsetCommitResponse) -> None:
        call.answer({"topics": by_topic(response.results)})

    ask_one(call, CONSUMER_OFFSETS, request.group_id, registry.TXN_OFFSET_COMMIT, request, done)


# --- what admins ask -----------------------------------------------------------------------------------


def _describe(call: Call) -> None:
    many = SplitRequest(
        TRANSACTION_STATE,
        registry.DESCRIBE_TRANSACTIONS,
        lambda some: m.DescribeTransactionsRequest(tuple(some)),
        lambda response: response.transactions,
        lambda item, code, text: m.DescribedTransaction(code, item, error_detail=text),
    )
    # Bound: an id that is named twice is described once
    named = [(each, each) for each in dict.fromkeys(call.body.transactional_ids)]

    def done(answers: list[m.DescribedTransaction]) -> None:
        call.answer({"transaction_states": [_state(answer) for answer in answers]})

    ask_many(call, many, named, done)


def _state(described: m.DescribedTransaction) -> dict[str, Any]:
    reply = fields(
        described,
        state="transaction_state",
        timeout_ms="transaction_timeout",
        start_ms="transaction_start_time",
    )
    if described.state == _PREPARED:
        reply |= {"transaction_state": _ONGOING, "transaction_timeout": _NO_TIMEOUT_MS}
    if described.error_code:  # an unknown producer has no entry
        no_producer = {"producer_id": 0, "producer_epoch": 0}
        reply |= {"transaction_timeout": 0, "transaction_start_time": 0, **no_producer}
    return reply | {"topics": each(described.topics)}


def _describe_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    states = [
        _state(m.DescribedTransaction(code, each, error_detail=text)) for each in call.body.transactional_ids
    ]
    return {"transaction_states": states}


def _list(call: Call) -> None:
    """The transactional ids of this node alone: clients ask all nodes. Prepared transactions are listed as
    ongoing, and alone if the filter names their state."""
    body = call.body
    states = tuple(body.state_filters)
    request = m.ListTransactionsRequest(
        (*states, _PREPARED) if _ONGOING in states else states,
        tuple(body.producer_id_filters),
        getattr(body, "duration_filter", -1),
        getattr(body, "transactional_id_pattern", None),
    )

    def done(response: m.ListTransactionsResponse) -> None:
        call.answer(
            {
                "error_code": response.error_code,
                "unknown_state_filters": response.unknown_states,
                "transaction_states": [_listed(each) for each in response.transactions],
            }
        )

    call.ask(registry.LIST_TRANSACTIONS, request, done)


def _listed(listed: m.ListedTransaction) -> dict[str, Any]:
    reply = fields(listed, state="transaction_state")
    return reply | {"transaction_state": _ONGOING} if listed.state == _PREPARED else reply


def _list_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "unknown_state_filters": (), "transaction_states": ()}


def _describe_producers(call: Call) -> None:
    request = m.DescribeProducersRequest(_named(call.body.topics, "partition_indexes"))
    call.ask(registry.DESCRIBE_PRODUCERS, request, partial(_producers, call))


def _producers(call: Call, response: m.DescribeProducersResponse) -> None:
    topics = by_topic(response.partitions, producers="active_producers")
    for topic in topics:
        for partition in topic["partitions"]:
            partition["active_producers"] = each(
                partition["active_producers"], last_timestamp_ms="last_timestamp"
            )
    call.answer({"topics": topics})


def _producers_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    partitions = [
        m.PartitionProducers(topic.name, number, code, (), text)
        for topic in call.body.topics
        for number in topic.partition_indexes
    ]
    return {"topics": by_topic(partitions, producers="active_producers")}


def _write_markers(call: Call) -> None:
    """Sent by an admin client that aborts a transaction unknown to its coordinator."""
    markers = tuple(
        message(
            m.TransactionMarker,
            marker,
            committed=marker.transaction_result,
            topics=_named(marker.topics, "partition_indexes"),
            transaction_version=getattr(marker, "transaction_version", 0),
        )
        for marker in call.body.markers
    )

    def done(response: m.WriteTxnMarkersResponse) -> None:
        call.answer({"markers": [_written(each.producer_id, each.results) for each in response.markers]})

    call.ask(registry.WRITE_TXN_MARKERS, m.WriteTxnMarkersRequest(markers), done)


def _written(producer_id: int, results: Sequence[PartitionResult]) -> dict[str, Any]:
    return {"producer_id": producer_id, "topics": by_topic(results)}


def _write_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    def failed(marker: Any) -> list[PartitionResult]:
        return _all_failed(_named(marker.topics, "partition_indexes"), code)

    return {"markers": [_written(marker.producer_id, failed(marker)) for marker in call.body.markers]}


TRANSACTION_APIS = (
    KafkaApi(22, "InitProducerId", 0, 5, _init, _init_failed),
    KafkaApi(24, "AddPartitionsToTxn", 0, 5, _add_partitions, _add_failed),
    KafkaApi(25, "AddOffsetsToTxn", 0, 4, _add_offsets, error_alone),
    KafkaApi(26, "EndTxn", 0, 5, _end, error_alone),
    KafkaApi(27, "WriteTxnMarkers", 1, 2, _write_markers, _write_failed),
    KafkaApi(28, "TxnOffsetCommit", 0, 5, _commit_offsets, commit_failed),
    KafkaApi(61, "DescribeProducers", 0, 0, _describe_producers, _producers_failed),
    KafkaApi(65, "DescribeTransactions", 0, 0, _describe, _describe_failed),
    KafkaApi(66, "ListTransactions", 0, 2, _list, _list_failed),
)
