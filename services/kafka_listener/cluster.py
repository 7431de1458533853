"""ApiVersions, Metadata and DescribeTopicPartitions. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import (
    InvalidRequestError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages import registry
from ...protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from ...protocol.messages.data import MetadataRequest
from ...protocol.metadata.features import SUPPORTED, level_of
from ...protocol.model import INTERNAL_TOPICS, NO_NODE
from .calls import Call, KafkaApi
from .codes import API_VERSIONS
from .entities import id_of
from .operations_allowed import NOT_ASKED, on_cluster, on_topic
from .topics import endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.data import MetadataResponse, PartitionMetadata, TopicMetadata

UNSUPPORTED_VERSION = 35
_FEATURES_SHOW_ZERO = (
    4  # Clients take a lowest feature level of 0 for an error before this version of ApiVersions.
)
# Clients wait 30 s or longer for a response.
_MAKE_TIMEOUT_MS = 10_000
# Bound: named topics in a response that is kept for equal requests.
_MAX_NAMED = 100
_NULL_NAMES = 12  # Metadata: from this version on
MAX_PAGE = 2_000  # partitions in one response of DescribeTopicPartitions


# --- ApiVersions ---------------------------------------------------------------------------------------


def _api_versions(call: Call) -> None:
    if not _is_named(getattr(call.body, "client_software_name", "x")):
        raise InvalidRequestError("a client software name has only letters, digits, '.' and '-'")
    if hasattr(call.body, "client_software_name"):
        call.peer.software = (call.body.client_software_name, call.body.client_software_version)
    offset = max(call.host.image.offset, 0)
    call.answer_shared(offset, lambda: _versions(call, offset), is_ready=True)


def _versions(call: Call, offset: int) -> dict[str, Any]:
    features = {n: span for n, span in SUPPORTED.items() if call.version >= _FEATURES_SHOW_ZERO or span[0]}
    levels = {name: level_of(call.host.image, name) for name in SUPPORTED}
    return {
        "error_code": 0,
        "api_keys": _ranges(call),
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high} for name, (low, high) in features.items()
        ],
        "finalized_features_epoch": offset,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in levels.items()
            if level
        ],
    }


def _ranges(call: Call) -> list[dict[str, int]]:
    return [
        {
            "api_key": api.key,
            "min_version": api.low if api.advertised_low is None else api.advertised_low,
            "max_version": api.high,
        }
        for api in call.plane.served.values()
    ]


def _api_versions_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    """UNSUPPORTED_VERSION with the range of ApiVersions alone, in which the client finds a common version."""
    own = [each for each in _ranges(call) if each["api_key"] == API_VERSIONS]
    return {"error_code": code, "api_keys": own if code == UNSUPPORTED_VERSION else []}


def _is_named(name: str) -> bool:
    return bool(name) and name[0].isalnum() and all(c.isascii() and (c.isalnum() or c in ".-") for c in name)


# --- Metadata ------------------------------------------------------------------------------------------


def _metadata(call: Call) -> None:
    topics = call.body.topics
    if topics is None or (call.version == 0 and not topics):
        asked = MetadataRequest()
    else:
        # The id wins over the name: Kafka's own client sends an empty name beside it, not null.
        ids = [id_of(topic.topic_id) for topic in topics if _has_id(topic)]
        names = [topic.name for topic in topics if not _has_id(topic)]
        if None in names:
            raise InvalidRequestError("a topic needs a name or an id")
        asked = MetadataRequest(tuple(names), tuple(ids))
    call.ask(registry.METADATA, asked, partial(_create_missing, call, asked))


def _has_id(topic: Any) -> bool:
    return getattr(topic, "topic_id", None) is not None


def _create_missing(call: Call, asked: MetadataRequest, response: MetadataResponse) -> None:
    """Create the missing topics, if the client allows it, and describe again."""
    missing = [
        topic.name
        for topic in response.topics
        if topic.error_code == UnknownTopicOrPartitionError.code and topic.name not in INTERNAL_TOPICS
    ]
    may_make = getattr(call.body, "allow_auto_topic_creation", True)  # the first versions had no such field
    if not missing or not may_make or not call.host.config.now.auto_create_topics_enable:
        # Order: a missing topic may exist the next time, so that the response must not be kept.
        _describe(call, asked, response, is_ready=not missing)
        return
    specs = tuple(NewTopicSpec(name) for name in missing)
    client = (call.peer.identity.principal.name, call.peer.client_id)
    make = CreateTopicsRequest(specs, _MAKE_TIMEOUT_MS, False, *client)

    def again(outcome: Any) -> None:
        # Whether it was created or not, or by another client.
        call.plane.throttle.note_controller(call, getattr(outcome, "throttle_ms", 0))
        refused = {
            topic.name
            for topic in getattr(outcome, "topics", ())
            if topic.error_code == TopicAuthorizationFailedError.code
        }

        def described(response: MetadataResponse) -> None:
            _describe(call, asked, _without(response, refused))

        call.ask(registry.METADATA, asked, described)

    call.ask(registry.CREATE_TOPICS, make, again, failed=again)


def _without(response: MetadataResponse, refused: set[str]) -> MetadataResponse:
    """The response, with an error for the missing topics that the client may not create."""
    code = TopicAuthorizationFailedError.code
    topics = tuple(
        msgspec.structs.replace(topic, error_code=code)
        if topic.error_code and topic.name in refused
        else topic
        for topic in response.topics
    )
    return msgspec.structs.replace(response, topics=topics)


def _describe(
    call: Call, asked: MetadataRequest, response: MetadataResponse, *, is_ready: bool = False
) -> None:
    if len(asked.topics or ()) + len(asked.topic_ids) > _MAX_NAMED:
        call.answer(_described(call, response))
        return
    # Everything that the response depends on: the image, the node, the listener, and the client's rights.
    of_topics, of_cluster = _asked_operations(call)
    key = (
        asked.topics,
        asked.topic_ids,
        response.metadata_offset,
        call.peer.listener,
        of_topics,
        of_cluster,
        audience := call.audience,
    )
    is_ready = is_ready and audience is None and response.metadata_offset == call.host.image.offset
    call.answer_shared(key, lambda: _described(call, response), is_ready=is_ready)


def _asked_operations(call: Call) -> tuple[bool, bool]:
    """Whether the client asks for the operations allowed on topics, and on the cluster."""
    return (
        getattr(call.body, "include_topic_authorized_operations", False),
        getattr(call.body, "include_cluster_authorized_operations", False),
    )


def _described(call: Call, response: MetadataResponse) -> dict[str, Any]:
    of_topics, of_cluster = _asked_operations(call)
    image, listener = call.host.image, call.peer.listener
    brokers = endpoints(image, listener, {node.node_id for node in response.nodes})
    reachable = {broker["node_id"] for broker in brokers}
    return {
        "brokers": brokers,
        "cluster_id": response.cluster_id,
        # Any node forwards requests to the active controller; Kafka clients use the node in this field.
        "controller_id": call.host.node_id,
        "topics": [_topic(call, topic, reachable, of_topics) for topic in response.topics],
        "cluster_authorized_operations": on_cluster(call, is_asked=of_cluster),
        "error_code": 0,
    }


def _topic(call: Call, topic: TopicMetadata, reachable: set[int], of_topics: bool) -> dict[str, Any]:
    is_asked = of_topics and bool(topic.name) and not _is_refused(topic)
    return {
        "error_code": topic.error_code,
        "name": _name_of(topic.name, call.version),
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(each, reachable) for each in topic.partitions],
        "topic_authorized_operations": on_topic(call, topic.name, is_asked=is_asked),
    }


def _is_refused(topic: TopicMetadata) -> bool:
    return topic.error_code == TopicAuthorizationFailedError.code


def _name_of(name: str | None, version: int) -> str | None:
    """The name of a topic; for an unknown id null, or empty in the first versions with ids."""
    return name or (None if version >= _NULL_NAMES else "")


def _partition(partition: PartitionMetadata, reachable: set[int]) -> dict[str, Any]:
    leader, code = partition.leader, 0
    if leader == NO_NODE:
        code = LeaderNotAvailableError.code
    elif leader not in reachable:
        code = ListenerNotFoundError.code
        leader = NO_NODE
    return {
        "error_code": code,
        "partition_index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline_replicas,
    }


def _metadata_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    topics = call.body.topics or ()
    return {
        "brokers": (),
        "controller_id": NO_NODE,
        "topics": [
            {
                "error_code": code,
                "name": _name_of(topic.name, call.version),
                "topic_id": id_of(getattr(topic, "topic_id", None)),
                "partitions": (),
            }
            for topic in topics
        ],
        "error_code": code,
    }


# --- DescribeTopicPartitions ---------------------------------------------------------------------------


def _describe_partitions(call: Call) -> None:
    names = tuple(topic.name for topic in call.body.topics)
    asked = MetadataRequest(names or None)
    call.ask(registry.METADATA, asked, partial(_page, call))


def _page(call: Call, response: MetadataResponse) -> None:
    """Up to the limit of partitions from the cursor on, ordered by topic name (KIP-966)."""
    body = call.body
    cursor = body.cursor
    first, number = ("", 0) if cursor is None else (cursor.topic_name, max(cursor.partition_index, 0))
    left = max(min(body.response_partition_limit, MAX_PAGE), 1)
    reply: list[dict[str, Any]] = []
    next_cursor = None
    for topic in sorted(response.topics, key=lambda each: each.name):
        if topic.name < first:
            continue
        skipped = number if topic.name == first else 0
        partitions = topic.partitions[skipped : skipped + left]
        if not left:
            next_cursor = {"topic_name": topic.name, "partition_index": skipped}
            break
        reply.append(_described_topic(call, topic, partitions))
        left -= len(partitions)
        if skipped + len(partitions) < len(topic.partitions):
            next_cursor = {"topic_name": topic.name, "partition_index": skipped + len(partitions)}
            break
    call.answer({"topics": reply, "next_cursor": next_cursor})


def _described_topic(
    call: Call, topic: TopicMetadata, partitions: Sequence[PartitionMetadata]
) -> dict[str, Any]:
    return {
        "error_code": topic.error_code,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": 0,  # Only the leader reports that there is no leader, unlike in Metadata.
                "partition_index": each.partition,
                "leader_id": each.leader,
                "leader_epoch": each.leader_epoch,
                "replica_nodes": each.replicas,
                "isr_nodes": each.isr,
                "eligible_leader_replicas": each.elr,
                "last_known_elr": each.last_known_elr,
                "offline_replicas": each.offline_replicas,
            }
            for each in partitions
        ],
        "topic_authorized_operations": NOT_ASKED
        if _is_refused(topic)
        else on_topic(call, topic.name, is_asked=True),
    }


def _describe_partitions_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    topics = [
        {"error_code": code, "name": topic.name, "partitions": (), "topic_id": b"", "is_internal": False}
        for topic in call.body.topics
    ]
    return {"topics": topics, "next_cursor": None}


CLUSTER_APIS = (
    KafkaApi(3, "Metadata", 0, 13, _metadata, _metadata_failed),
    KafkaApi(API_VERSIONS, "ApiVersions", 0, 4, _api_versions, _api_versions_failed),
    KafkaApi(75, "DescribeTopicPartitions", 0, 0, _describe_partitions, _describe_partitions_failed),
)
