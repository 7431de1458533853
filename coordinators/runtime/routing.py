"""The groups or transactional ids of each api's requests. Pure.

Source of the apis with optional ids: Kafka GroupCoordinatorService.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import InvalidGroupIdError, InvalidRequestError
from ...protocol.messages import groups, registry, streams_groups, transactions
from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError

# Bound: ids are kept in memory and in every record. Kafka's own bound is that of its strings, 32,767.
MAX_ID_LENGTH = 2_048


class OneKey(NamedTuple):
    """An api with one id per request."""

    topic: str
    field: str
    may_be_empty: bool = False

    def key(self, body: Any) -> str:
        """The id. Errors: InvalidGroupIdError, InvalidRequestError."""
        key: str = getattr(body, self.field)
        check_key(self.topic, key, may_be_empty=self.may_be_empty)
        return key


class ManyKeys(NamedTuple):
    """An api with several ids per request, which are divided by shard; the response keeps their order."""

    topic: str
    items: str  # request field with the ids or items
    answers: str  # response field with the results
    key_of: Callable[[Any], str]
    failed: Callable[[Any, KafkaError], Any]  # the result of one item for an error
    may_be_empty: bool = False

    def key(self, item: Any) -> str:
        """The id of one item. Errors: InvalidGroupIdError, InvalidRequestError."""
        key = self.key_of(item)
        check_key(self.topic, key, may_be_empty=self.may_be_empty)
        return key


class AllShards(NamedTuple):
    """An api whose request goes to every shard of the node."""

    topic: str
    # merges responses; the error code and detail of failed shards
    merged: Callable[[list[Any], int, str], Any]


def check_key(topic: str, key: str, *, may_be_empty: bool = False) -> None:
    """Errors: InvalidGroupIdError, InvalidRequestError for an id that is empty or too long."""
    if len(key) <= MAX_ID_LENGTH and (key or may_be_empty):
        return
    is_group = topic == CONSUMER_OFFSETS
    name = "group" if is_group else "transactional"
    detail = f"the {name} id has {len(key)} characters, at most {MAX_ID_LENGTH} are allowed"
    if not key:
        detail = f"the {name} id must not be empty"
    raise InvalidGroupIdError(detail) if is_group else InvalidRequestError(detail)


def _same(item: Any) -> str:
    key: str = item
    return key


def _group_of(item: Any) -> str:
    key: str = item.group_id
    return key


def _id_of(item: Any) -> str:
    key: str = item.transactional_id
    return key


def _groups(responses: list[groups.ListGroupsResponse], code: int, detail: str) -> groups.ListGroupsResponse:
    found = tuple(group for response in responses for group in response.groups)
    return groups.ListGroupsResponse(code, found, detail)


def _transactions(
    responses: list[transactions.ListTransactionsResponse], code: int, detail: str
) -> transactions.ListTransactionsResponse:
    unknown = tuple(dict.fromkeys(state for response in responses for state in response.unknown_states))
    found = tuple(each for response in responses for each in response.transactions)
    return transactions.ListTransactionsResponse(code, unknown, found, detail)


Route = OneKey | ManyKeys | AllShards

ROUTES: dict[int, Route] = {
    registry.OFFSET_COMMIT.key: OneKey(CONSUMER_OFFSETS, "group_id", may_be_empty=True),
    registry.JOIN_GROUP.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    registry.HEARTBEAT.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    registry.LEAVE_GROUP.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    registry.SYNC_GROUP.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    registry.OFFSET_DELETE.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    # consumer_requests.py and streams_requests.py check the group ids of heartbeats
    registry.CONSUMER_GROUP_HEARTBEAT.key: OneKey(CONSUMER_OFFSETS, "group_id", may_be_empty=True),
    registry.STREAMS_GROUP_HEARTBEAT.key: OneKey(CONSUMER_OFFSETS, "group_id", may_be_empty=True),
    registry.TXN_OFFSET_COMMIT.key: OneKey(CONSUMER_OFFSETS, "group_id"),
    registry.OFFSET_FETCH.key: ManyKeys(
        CONSUMER_OFFSETS,
        "groups",
        "groups",
        _group_of,
        lambda item, error: groups.OffsetsOfGroup(error.code, item.group_id, (), error.detail),
        may_be_empty=True,
    ),
    registry.DESCRIBE_GROUPS.key: ManyKeys(
        CONSUMER_OFFSETS,
        "group_ids",
        "groups",
        _same,
        lambda item, error: groups.DescribedGroup(error.code, item, error_detail=error.detail),
        may_be_empty=True,
    ),
    registry.DELETE_GROUPS.key: ManyKeys(
        CONSUMER_OFFSETS,
        "group_ids",
        "results",
        _same,
        lambda item, error: groups.DeletedGroup(item, error.code, error.detail),
        may_be_empty=True,
    ),
    registry.CONSUMER_GROUP_DESCRIBE.key: ManyKeys(
        CONSUMER_OFFSETS,
        "group_ids",
        "groups",
        _same,
        lambda item, error: groups.DescribedConsumerGroup(error.code, item, error_detail=error.detail),
    ),
    registry.STREAMS_GROUP_DESCRIBE.key: ManyKeys(
        CONSUMER_OFFSETS,
        "group_ids",
        "groups",
        _same,
        lambda item, error: streams_groups.DescribedStreamsGroup(error.code, item, error_detail=error.detail),
    ),
    registry.LIST_GROUPS.key: AllShards(CONSUMER_OFFSETS, _groups),
    registry.INIT_PRODUCER_ID.key: OneKey(TRANSACTION_STATE, "transactional_id"),
    registry.ADD_OFFSETS_TO_TXN.key: OneKey(TRANSACTION_STATE, "transactional_id"),
    registry.PREPARE_TXN.key: OneKey(TRANSACTION_STATE, "transactional_id"),
    registry.END_TXN.key: OneKey(TRANSACTION_STATE, "transactional_id"),
    registry.ADD_PARTITIONS_TO_TXN.key: ManyKeys(
        TRANSACTION_STATE,
        "transactions",
        "transactions",
        _id_of,
        lambda item, error: transactions.AddedPartitions(item.transactional_id, error.code, (), error.detail),
    ),
    registry.DESCRIBE_TRANSACTIONS.key: ManyKeys(
        TRANSACTION_STATE,
        "transactional_ids",
        "transactions",
        _same,
        lambda item, error: transactions.DescribedTransaction(error.code, item, error_detail=error.detail),
    ),
    registry.LIST_TRANSACTIONS.key: AllShards(TRANSACTION_STATE, _transactions),
}
assert ROUTES.keys() == {api.key for api in (*registry.GROUP_APIS, *registry.TRANSACTION_APIS)}
