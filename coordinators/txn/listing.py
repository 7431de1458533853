"""DescribeTransactions and ListTransactions. Source: Kafka TransactionStateManager.scala
listTransactionStates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, KafkaError, TransactionalIdNotFoundError
from ...protocol.messages.groups import TopicNamePartitions
from ...protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsResponse,
)
from ...runtime.regex import compile_regex
from .states import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
    from .transaction import Transaction


def described(
    known: Mapping[str, Transaction], request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """One description or error per id."""
    return DescribeTransactionsResponse(
        tuple(_described(name, known.get(name)) for name in request.transactional_ids)
    )


def _described(name: str, transaction: Transaction | None) -> DescribedTransaction:
    if transaction is None:
        missing = TransactionalIdNotFoundError if name else InvalidRequestError
        return DescribedTransaction(missing.code, name)
    value = transaction.value
    return DescribedTransaction(
        error_code=0,
        transactional_id=name,
        state=transaction.state.value,
        timeout_ms=value.timeout_ms,
        start_ms=value.start_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        topics=tuple(TopicNamePartitions(each.topic, each.partitions) for each in value.partitions or ()),
        prepared_ms=value.prepared_ms,
    )


def listed(
    known: Mapping[str, Transaction], request: ListTransactionsRequest, wall_ms: int
) -> ListTransactionsResponse:
    """The ids that match all filters; an unknown state matches nothing. A pattern has to match the whole
    id."""
    states = {BY_NAME[name] for name in request.states if name in BY_NAME}
    unknown = tuple(name for name in request.states if name not in BY_NAME)
    producer_ids = set(request.producer_ids)
    found = []
    try:
        matches = _matcher(request.transactional_id_pattern)
        for name, transaction in known.items():
            value = transaction.value
            is_wanted = (
                (not request.states or transaction.state in states)
                and (not producer_ids or value.producer_id in producer_ids)
                and (request.duration_ms < 0 or wall_ms - value.start_ms > request.duration_ms)
                and matches(name)
            )
            if is_wanted:
                facts = (name, value.producer_id, transaction.state.value, value.prepared_ms)
                found.append(ListedTransaction(*facts))
    except KafkaError as error:
        return ListTransactionsResponse(error.code, unknown, (), error.detail)
    return ListTransactionsResponse(0, unknown, tuple(found))


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    """Errors: InvalidRegularExpressionError, also from the returned function if a match takes too long."""
    return compile_regex(pattern).matches if pattern else lambda _: True
