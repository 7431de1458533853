"""The checks of all apis, made from the table of required operations. Pure.

A check first requires the rights for the whole request, then those for each of its resources. Source: Kafka
KafkaApis.scala,
ControllerApis.scala.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import OperationNotAttemptedError
from ...protocol.messages import control, data, groups, lag, registry, streams_groups, transactions
from ...protocol.metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from ...protocol.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.security.required_operations import REQUIRED, Scope
from .access import refusal
from .described import (
    consumer_heartbeat,
    consumers_topics,
    described_transactions,
    metadata,
    offset_fetch,
    only_shown,
    streams_heartbeat,
    streams_topics,
    tokens,
    topology_topics,
    without_secret_topics,
)
from .entries import Entries, by_name, by_topic_id, check_entries, each_need
from .outcomes import allows_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ...protocol.security.required_operations import Need, Required
    from .access import Access
    from .entries import Refused
    from .outcomes import Check, MakeCheck, Outcome

_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


# --- the whole request -----------------------------------------------------------------------------------


Names = Callable[["Access", Any], "Iterable[str]"]


def _named(field: str) -> Names:
    """The resource that a field of the request names; a null field names none."""

    def names(_access: Access, body: Any) -> Iterable[str]:
        name = getattr(body, field)
        return () if name is None else (name,)

    return names


_ALWAYS = (CLUSTER_NAME,)
_DEFAULT: dict[ResourceType, Names] = {
    _CLUSTER: lambda _access, _body: _ALWAYS,
    _GROUP: _named("group_id"),
    _TRANSACTIONAL_ID: _named("transactional_id"),
}
# The resources of a request to which a requirement applies; the table describes them in words.
_SPECIAL: dict[tuple[int, AclOperation, ResourceType], Names] = {
    (registry.FETCH.key, AclOperation.CLUSTER_ACTION, _CLUSTER): lambda _access, body: (
        _ALWAYS if body.replica_id >= 0 else ()
    ),
    (registry.INIT_PRODUCER_ID.key, AclOperation.IDEMPOTENT_WRITE, _CLUSTER): lambda _access, body: (
        _ALWAYS if body.transactional_id is None else ()
    ),
    (registry.CONSUMER_GROUP_HEARTBEAT.key, AclOperation.DESCRIBE, _TOPIC): lambda _access, body: (
        body.subscribed_topic_names or ()
    ),
    (registry.STREAMS_GROUP_HEARTBEAT.key, AclOperation.DESCRIBE, _TOPIC): lambda _access, body: (
        topology_topics(body.topology)
    ),
    (registry.CREATE_DELEGATION_TOKEN.key, AclOperation.CREATE_TOKENS, ResourceType.USER): (
        lambda access, body: () if body.owner in ("", str(access.identity.principal)) else (body.owner,)
    ),
}


def _checked(key: int, needs: tuple[Need, ...]) -> Check:
    """The check of one api."""
    make = EACH.get(key)
    of_each = allows_all if make is None else make(needs)
    of_all = [
        (need, _SPECIAL.get((key, *need.right)) or _DEFAULT[need.right.resource_type])
        for need in needs
        if need.scope is Scope.REQUEST
    ]
    if not of_all:
        return of_each

    def check(access: Access, body: Any, frames: Sequence[Buffer]) -> Outcome:
        for need, names in of_all:
            for name in names(access, body):
                if not access.may(need, name):
                    raise refusal(need.right.resource_type)
        return of_each(access, body, frames)

    return check


# --- each resource ---------------------------------------------------------------------------------------


def _records(api: Api, result: type[Any], *, has_frames: bool = False) -> MakeCheck:
    return by_topic_id(api, "partitions", "partitions", result, has_frames=has_frames)


def _fetch(needs: tuple[Need, ...]) -> Check:
    """Followers need no right for topics."""
    of_client = _records(registry.FETCH, data.FetchPartitionResponse)(needs)

    def check(access: Access, body: Any, frames: Sequence[Buffer]) -> Outcome:
        return of_client(access, body, frames) if body.replica_id < 0 else None

    return check


def _item(name: str, error: KafkaError) -> control.ItemError:
    return control.ItemError(name, error.code, error.detail)


def _topics(api: Api, entries: str, results: str, refused: Callable[[str, KafkaError], Any]) -> MakeCheck:
    """Topics by name, each with a name of its own in the results."""

    def name(entry: Any) -> str:
        return entry if isinstance(entry, str) else str(entry.name)

    return by_name(api, entries, results, _TOPIC, name, lambda entry, error: (refused(name(entry), error),))


def _group_ids(api: Api, results: str, described: Callable[..., Any]) -> MakeCheck:
    return by_name(
        api,
        "group_ids",
        results,
        _GROUP,
        str,
        lambda group_id, error: (described(group_id, error),),
    )


def _offsets(api: Api, results: str = "results") -> MakeCheck:
    """Committed offsets by topic."""
    return by_name(
        api,
        "offsets",
        results,
        _TOPIC,
        lambda entry: str(entry.topic),
        lambda entry, error: (groups.PartitionResult(entry.topic, entry.partition, error.code),),
    )


def _partitions(api: Api, results: str, result: Callable[[str, int, int], Any]) -> MakeCheck:
    """Topics by name with partitions, each with a result of its own."""
    return by_name(
        api,
        "topics",
        results,
        _TOPIC,
        lambda entry: str(entry.topic),
        lambda entry, error: tuple(result(entry.topic, number, error.code) for number in entry.partitions),
    )


def _find_coordinator(needs: tuple[Need, ...]) -> Check:
    kinds = {groups.GROUP_KEY: _GROUP, groups.TRANSACTION_KEY: _TRANSACTIONAL_ID}
    of_kind = {kind: each_need(needs, kind) for kind in kinds.values()}

    def refused(access: Access, body: groups.FindCoordinatorRequest, key: str) -> Refused | None:
        kind = kinds.get(body.key_type)
        if kind is None or access.may(of_kind[kind], key):
            return None
        error = refusal(kind)
        return (groups.Coordinator(error.code, key, error_detail=error.detail),)

    return check_entries(Entries(registry.FIND_COORDINATOR, "keys", "coordinators", refused))


def _configs(
    api: Api, resource: Callable[[Any], control.ConfigResource], failed: Callable[..., Any]
) -> MakeCheck:
    """Configs of resources of several types."""
    kinds = {TOPIC_RESOURCE: _TOPIC, GROUP_RESOURCE: _GROUP}

    def make(needs: tuple[Need, ...]) -> Check:
        of_kind = {kind: each_need(needs, kind) for kind in (_TOPIC, _GROUP, _CLUSTER)}

        def refused(access: Access, _body: Any, entry: Any) -> Refused | None:
            asked = resource(entry)
            kind = kinds.get(asked.resource_type, _CLUSTER)
            name = CLUSTER_NAME if kind is _CLUSTER else asked.name
            return None if access.may(of_kind[kind], name) else (failed(asked, refusal(kind)),)

        return check_entries(Entries(api, "resources", "results", refused))

    return make


def _add_partitions(needs: tuple[Need, ...]) -> Check:
    """Without the right for one topic, no partition of the transaction is added."""
    of_id, of_topic = each_need(needs, _TRANSACTIONAL_ID), each_need(needs, _TOPIC)

    def refused(access: Access, _body: Any, entry: transactions.TransactionPartitions) -> Refused | None:
        if not access.may(of_id, entry.transactional_id):
            error = refusal(_TRANSACTIONAL_ID)
            return (transactions.AddedPartitions(entry.transactional_id, error.code, (), error.detail),)
        secret = {each.topic for each in entry.topics if not access.may(of_topic, each.topic)}
        if not secret:
            return None
        results = tuple(
            groups.PartitionResult(
                each.topic,
                number,
                refusal(_TOPIC).code if each.topic in secret else OperationNotAttemptedError.code,
            )
            for each in entry.topics
            for number in each.partitions
        )
        return (transactions.AddedPartitions(entry.transactional_id, 0, results),)

    return check_entries(Entries(registry.ADD_PARTITIONS_TO_TXN, "transactions", "transactions", refused))


EACH: dict[int, MakeCheck] = {
    registry.PRODUCE.key: _records(registry.PRODUCE, data.ProducePartitionResponse, has_frames=True),
    registry.FETCH.key: _fetch,
    registry.LIST_OFFSETS.key: _records(registry.LIST_OFFSETS, data.ListOffsetsPartitionResponse),
    registry.DELETE_RECORDS.key: _records(registry.DELETE_RECORDS, data.DeleteRecordsPartitionResponse),
    registry.OFFSET_FOR_LEADER_EPOCH.key: _records(registry.OFFSET_FOR_LEADER_EPOCH, data.EpochAnswer),
    registry.COUNT_RECORDS.key: _records(registry.COUNT_RECORDS, lag.CountRecordsPartitionResponse),
    registry.METADATA.key: metadata,
    registry.OFFSET_COMMIT.key: _offsets(registry.OFFSET_COMMIT),
    registry.TXN_OFFSET_COMMIT.key: _offsets(registry.TXN_OFFSET_COMMIT),
    registry.OFFSET_FETCH.key: offset_fetch,
    registry.OFFSET_DELETE.key: _partitions(registry.OFFSET_DELETE, "results", groups.PartitionResult),
    registry.FIND_COORDINATOR.key: _find_coordinator,
    registry.LIST_GROUPS.key: only_shown("groups", _GROUP, lambda group: str(group.group_id)),
    registry.DESCRIBE_GROUPS.key: _group_ids(
        registry.DESCRIBE_GROUPS,
        "groups",
        lambda group_id, error: groups.DescribedGroup(error.code, group_id, error_detail=error.detail),
    ),
    registry.DELETE_GROUPS.key: _group_ids(
        registry.DELETE_GROUPS,
        "results",
        lambda group_id, error: groups.DeletedGroup(group_id, error.code, error.detail),
    ),
    registry.CONSUMER_GROUP_DESCRIBE.key: without_secret_topics(
        partial(_group_ids, registry.CONSUMER_GROUP_DESCRIBE, "groups"),
        lambda group_id, error: groups.DescribedConsumerGroup(
            error.code, group_id, error_detail=error.detail
        ),
        consumers_topics,
    ),
    registry.STREAMS_GROUP_DESCRIBE.key: without_secret_topics(
        partial(_group_ids, registry.STREAMS_GROUP_DESCRIBE, "groups"),
        lambda group_id, error: streams_groups.DescribedStreamsGroup(
            error.code, group_id, error_detail=error.detail
        ),
        streams_topics,
    ),
    registry.CONSUMER_GROUP_HEARTBEAT.key: consumer_heartbeat,
    registry.STREAMS_GROUP_HEARTBEAT.key: streams_heartbeat,
    registry.ADD_PARTITIONS_TO_TXN.key: _add_partitions,
    registry.DESCRIBE_TRANSACTIONS.key: described_transactions(
        by_name(
            registry.DESCRIBE_TRANSACTIONS,
            "transactional_ids",
            "transactions",
            _TRANSACTIONAL_ID,
            str,
            lambda each, error: (
                transactions.DescribedTransaction(error.code, each, error_detail=error.detail),
            ),
        )
    ),
    registry.LIST_TRANSACTIONS.key: only_shown(
        "transactions", _TRANSACTIONAL_ID, lambda listed: str(listed.transactional_id)
    ),
    registry.DESCRIBE_DELEGATION_TOKEN.key: tokens,
    registry.DESCRIBE_PRODUCERS.key: _partitions(
        registry.DESCRIBE_PRODUCERS, "partitions", transactions.PartitionProducers
    ),
    registry.CREATE_TOPICS.key: _topics(
        registry.CREATE_TOPICS,
        "topics",
        "topics",
        lambda name, error: control.CreatedTopic(name, error.code, error.detail),
    ),
    registry.DELETE_TOPICS.key: _topics(registry.DELETE_TOPICS, "names", "results", _item),
    registry.CREATE_PARTITIONS.key: _topics(registry.CREATE_PARTITIONS, "topics", "results", _item),
    registry.DESCRIBE_CONFIGS.key: _configs(
        registry.DESCRIBE_CONFIGS,
        lambda entry: entry,
        lambda asked, error: control.DescribedConfigs(asked, error.code, error.detail),
    ),
    registry.INCREMENTAL_ALTER_CONFIGS.key: _configs(
        registry.INCREMENTAL_ALTER_CONFIGS,
        lambda entry: entry.resource,
        lambda asked, error: _item(asked.name, error),
    ),
}


def checks_of(required: Mapping[int, Required]) -> dict[int, Check]:
    """The check of each api of headrace, by key."""
    return {key: _checked(key, each.needs) for key, each in required.items() if key in registry.APIS_BY_KEY}


CHECKS = checks_of(REQUIRED)
