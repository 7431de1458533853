"""Version 3: topics, partitions, replicas and reassignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NewTopic
from ...protocol.errors import UnknownTopicOrPartitionError
from ...protocol.model import TopicPartition
from ..web.problems import Problem
from ..web.routes import Route
from .shapes import CreateTopic, Page, Partition, PartitionCount, Reassignment, Replica, Topic
from .v3_clusters import CLUSTER, broker_id, links_of, path_number

if TYPE_CHECKING:
    from ...clients.admin.admin_types import PartitionDescription, PartitionReassignment, TopicDescription
    from ..web.calls_io import Call
    from .links import Links

TOPICS = f"{CLUSTER}/topics"
TOPIC = f"{TOPICS}/{{topic_name}}"
PARTITION = f"{TOPIC}/partitions/{{partition_id}}"
_TAG = "v3 Topics"


async def _list_topics(call: Call) -> Page[Topic]:
    links = await links_of(call)
    found = await _described_all(call)
    return links.page("KafkaTopicList", [_topic(links, each) for each in found], "topics")


async def _get_topic(call: Call) -> Topic:
    links = await links_of(call)
    return _topic(links, await described(call))


async def _create_topic(call: Call) -> Topic:
    links = await links_of(call)
    wanted = await call.json(CreateTopic)
    new = NewTopic(
        wanted.topic_name,
        wanted.partitions_count,
        wanted.replication_factor,
        {each.name: each.value for each in wanted.configs if each.value is not None},
        _assignments(wanted),
    )
    results = await call.clients.admin.create_topics(new, validate_only=wanted.validate_only)
    made = results[wanted.topic_name]
    return _topic_document(links, made.name, made.partitions, made.replication_factor)


async def _add_partitions(call: Call) -> Topic:
    links = await links_of(call)
    name, wanted = call.params["topic_name"], await call.json(PartitionCount)
    results = await call.clients.admin.create_partitions({name: wanted.partitions_count})
    results.raise_for_errors()
    found = await described(call)
    factor = found.partitions[0].replication_factor
    return _topic_document(links, name, max(wanted.partitions_count, len(found.partitions)), factor)


async def _delete_topic(call: Call) -> None:
    await links_of(call)
    (await call.clients.admin.delete_topics(call.params["topic_name"])).raise_for_errors()


async def _list_partitions(call: Call) -> Page[Partition]:
    links = await links_of(call)
    topic = await described(call)
    data = [_partition(links, each) for each in topic.partitions]
    return links.page("KafkaPartitionList", data, "topics", topic.name, "partitions")


async def _get_partition(call: Call) -> Partition:
    links = await links_of(call)
    return _partition(links, await described_partition(call))


async def _list_replicas(call: Call) -> Page[Replica]:
    links = await links_of(call)
    found = await described_partition(call)
    path = ("topics", found.topic, "partitions", found.partition, "replicas")
    return links.page("KafkaReplicaList", [_replica(links, found, node) for node in found.replicas], *path)


async def _get_replica(call: Call) -> Replica:
    links = await links_of(call)
    found, node = await described_partition(call), broker_id(call)
    if node not in found.replicas:
        raise Problem(404, f"{found.topic}-{found.partition} has no replica on broker {node}")
    return _replica(links, found, node)


async def _replicas_of_broker(call: Call) -> Page[Replica]:
    links, node = await links_of(call), broker_id(call)
    data = [
        _replica(links, each, node)
        for topic in await _described_all(call)
        for each in topic.partitions
        if node in each.replicas
    ]
    return links.page("KafkaReplicaList", data, "brokers", node, "partition-replicas")


async def _all_reassignments(call: Call) -> Page[Reassignment]:
    return await _reassignments(call, None)


async def _topic_reassignments(call: Call) -> Page[Reassignment]:
    return await _reassignments(call, call.params["topic_name"])


async def _get_reassignment(call: Call) -> Reassignment:
    links = await links_of(call)
    tp = partition_of(call)
    found = await call.clients.admin.list_partition_reassignments([tp])
    if tp not in found:
        raise Problem(404, f"{tp} is not being reassigned")
    return _reassignment(links, tp, found[tp])


async def described(call: Call) -> TopicDescription:
    """The topic in the path. Errors: UnknownTopicOrPartitionError, with its name."""
    name = call.params["topic_name"]
    try:
        return (await call.clients.admin.describe_topics(name))[name]
    except UnknownTopicOrPartitionError:
        raise no_topic(name) from None


def no_topic(name: str, code: int = 40403) -> Problem:
    """The response for a topic that is unknown, or that the user may not describe."""
    return Problem(404, f"topic {name!r} does not exist, or may not be described", code)


def partition_of(call: Call) -> TopicPartition:
    """The partition in the path. Errors: Problem 404."""
    return TopicPartition(call.params["topic_name"], path_number(call, "partition_id", "partition"))


async def described_partition(call: Call, code: int = 40403) -> PartitionDescription:
    """The partition in the path. Errors: Problem 404."""
    tp, topic = partition_of(call), await described(call)
    for each in topic.partitions:
        if each.partition == tp.partition:
            return each
    raise Problem(404, f"partition {tp} does not exist", code)


async def _described_all(call: Call) -> list[TopicDescription]:
    admin = call.clients.admin
    names = [each.name for each in await admin.list_topics(internal=True)]
    if not names:
        return []
    results = await admin.describe_topics(*names)
    return [results[name] for name in names if name not in results.errors]  # others were deleted meanwhile


async def _reassignments(call: Call, topic: str | None) -> Page[Reassignment]:
    links = await links_of(call)
    found = await call.clients.admin.list_partition_reassignments()
    data = [_reassignment(links, tp, found[tp]) for tp in sorted(found) if topic in (None, tp.topic)]
    return links.page(
        "KafkaReassignmentList", data, "topics", topic or "-", "partitions", "-", "reassignment"
    )


def _assignments(wanted: CreateTopic) -> dict[int, tuple[int, ...]]:
    given = wanted.replicas_assignments
    merged: dict[str, list[int]] = {}
    for each in given if isinstance(given, list) else [given or {}]:
        merged |= each
    try:
        return {int(partition): tuple(replicas) for partition, replicas in merged.items()}
    except ValueError:
        raise Problem(422, "replicas_assignments: partitions are numbers") from None


def _topic(links: Links, topic: TopicDescription) -> Topic:
    factor = max((each.replication_factor for each in topic.partitions), default=0)
    return _topic_document(links, topic.name, len(topic.partitions), factor, is_internal=topic.is_internal)


def _topic_document(
    links: Links, name: str, partitions: int, replication_factor: int, *, is_internal: bool = False
) -> Topic:
    return Topic(
        metadata=links.metadata("topics", name, name=f"topic={name}"),
        cluster_id=links.cluster_id,
        topic_name=name,
        is_internal=is_internal,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=links.related("topics", name, "partitions"),
        configs=links.related("topics", name, "configs"),
        partition_reassignments=links.related("topics", name, "partitions", "-", "reassignment"),
    )


def _partition(links: Links, found: PartitionDescription) -> Partition:
    path = ("topics", found.topic, "partitions", found.partition)
    return Partition(
        metadata=links.metadata(*path, name=f"topic={found.topic}/partition={found.partition}"),
        cluster_id=links.cluster_id,
        topic_name=found.topic,
        partition_id=found.partition,
        leader=links.related(*path, "replicas", found.leader) if found.leader >= 0 else None,
        replicas=links.related(*path, "replicas"),
        reassignment=links.related(*path, "reassignment"),
    )


def _replica(links: Links, found: PartitionDescription, node: int) -> Replica:
    name = f"topic={found.topic}/partition={found.partition}/replica={node}"
    path = ("topics", found.topic, "partitions", found.partition, "replicas", node)
    return Replica(
        metadata=links.metadata(*path, name=name),
        cluster_id=links.cluster_id,
        topic_name=found.topic,
        partition_id=found.partition,
        broker_id=node,
        is_leader=node == found.leader,
        is_in_sync=node in found.isr,
        broker=links.related("brokers", node),
    )


def _reassignment(links: Links, tp: TopicPartition, found: PartitionReassignment) -> Reassignment:
    path = ("topics", tp.topic, "partitions", tp.partition)
    name = f"topic={tp.topic}/partition={tp.partition}/reassignment"
    return Reassignment(
        metadata=links.metadata(*path, "reassignment", name=name),
        cluster_id=links.cluster_id,
        topic_name=tp.topic,
        partition_id=tp.partition,
        adding_replicas=list(found.adding_replicas),
        removing_replicas=list(found.removing_replicas),
        replicas=links.related(*path, "replicas"),
    )


_PARTITIONS = f"{TOPIC}/partitions"
ROUTES = (
    Route("GET", TOPICS, _list_topics, "List topics", _TAG, None, Page[Topic]),
    Route("POST", TOPICS, _create_topic, "Create a topic", _TAG, CreateTopic, Topic, 201),
    Route("GET", TOPIC, _get_topic, "Get a topic", _TAG, None, Topic),
    Route("PATCH", TOPIC, _add_partitions, "Add partitions to a topic", _TAG, PartitionCount, Topic),
    Route("DELETE", TOPIC, _delete_topic, "Delete a topic", _TAG, status=204),
    Route("GET", _PARTITIONS, _list_partitions, "List partitions", _TAG, None, Page[Partition]),
    Route("GET", PARTITION, _get_partition, "Get a partition", _TAG, None, Partition),
    Route("GET", f"{PARTITION}/replicas", _list_replicas, "List replicas", _TAG, None, Page[Replica]),
    Route("GET", f"{PARTITION}/replicas/{{broker_id}}", _get_replica, "Get a replica", _TAG, None, Replica),
    Route(
        "GET",
        f"{CLUSTER}/brokers/{{broker_id}}/partition-replicas",
        _replicas_of_broker,
        "List the replicas on a broker",
        "v3 Brokers",
        None,
        Page[Replica],
    ),
    Route(
        "GET",
        f"{TOPICS}/-/partitions/-/reassignment",
        _all_reassignments,
        "List all reassignments",
        _TAG,
        None,
        Page[Reassignment],
    ),
    Route(
        "GET",
        f"{_PARTITIONS}/-/reassignment",
        _topic_reassignments,
        "List the reassignments of a topic",
        _TAG,
        None,
        Page[Reassignment],
    ),
    Route(
        "GET",
        f"{PARTITION}/reassignment",
        _get_reassignment,
        "Get the reassignment of a partition",
        _TAG,
        None,
        Reassignment,
    ),
)
