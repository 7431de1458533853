"""Elections on request and by time: ElectLeaders, preferred leader balance, unclean elections. Pure.

Source: Kafka ReplicationControlManager.java electLeaders, KIP-460; the threshold of the balance is that of
KafkaController.scala, which counts per preferred leader.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import ElectLeadersRequest, ElectLeadersResponse, PartitionError
from ...protocol.model import MAX_TOPIC_NAME_LENGTH, NO_NODE
from .decision import Decision
from .elections import preferred, unclean, unclean_chosen
from .partition_changes import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import MetadataImage, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from .cluster_state import ClusterState
    from .node_notes import NodeNotes

MAX_ELECTIONS = 1000  # Bound: elections of one step of time, as in Kafka; the next step does more


class ElectionType(IntEnum):
    """Kafka's ElectionType."""

    PREFERRED = 0
    UNCLEAN = 1


def decide_elect_leaders(
    cluster: ClusterState, request: ElectLeadersRequest, max_partitions: int, notes: NodeNotes
) -> Decision:
    """Each partition succeeds or fails on its own. Errors of the whole request: InvalidRequestError."""
    if request.election_type not in tuple(ElectionType):
        raise InvalidRequestError(f"election type {request.election_type}")
    if request.node_id != NO_NODE and (
        request.election_type != ElectionType.UNCLEAN or request.topics is None
    ):
        raise InvalidRequestError("a node is chosen only for unclean elections of given partitions")
    asked = _asked(cluster.image, request, max_partitions)
    records: list[PartitionChangeRecord] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for name, number in asked:
        try:
            if (name, number) in seen:
                raise InvalidRequestError("the partition is named twice in one request")
            seen.add((name, number))
            record = _elect(cluster, name, number, request)
            records.append(record)
            if request.election_type == ElectionType.UNCLEAN:
                notes.add(_unclean_note(cluster.image, name, record, request.node_id), is_warning=True)
        except ElectionNotNeededError as error:
            if request.topics is not None:
                results.append(PartitionError(name, number, error.code, str(error)))
        except KafkaError as error:
            results.append(PartitionError(name[:MAX_TOPIC_NAME_LENGTH], number, error.code, str(error)))
        else:
            results.append(PartitionError(name, number))
    offset = cluster.image.offset + len(records)
    return Decision(tuple(records), ElectLeadersResponse(0, "", tuple(results), offset))


def decide_balance(cluster: ClusterState, percentage: int) -> Iterator[PartitionChangeRecord]:
    """Elect preferred leaders of nodes that lead too few of the partitions preferring them."""
    due = _imbalanced_nodes(cluster, percentage)
    if not due:
        return
    for topic in cluster.image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if partition.replicas[0] in due and partition.leader != partition.replicas[0]:
                record = _preferred(cluster, topic, number)
                if record is not None:
                    yield record


def decide_unclean(cluster: ClusterState) -> Iterator[PartitionChangeRecord]:
    """Unclean elections for partitions without a leader, where the topic allows them."""
    for topic in cluster.image.topics.values():
        if not cluster.is_unclean_allowed(topic.name):
            continue
        for number, partition in enumerate(topic.partitions):
            if partition.leader == NO_NODE:
                record = cluster.change(topic, number, Target(elect=unclean))
                if record is not None and record.leader is not None:
                    yield record


def _asked(image: MetadataImage, request: ElectLeadersRequest, max_partitions: int) -> list[tuple[str, int]]:
    if request.topics is None:
        return [(name, n) for name in sorted(image.topics) for n in range(len(image.topics[name].partitions))]
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > max_partitions:
        raise InvalidRequestError(f"{count} partitions in one request, at most {max_partitions}")
    return [(topic.topic, number) for topic in request.topics for number in topic.partitions]


def _elect(
    cluster: ClusterState, name: str, number: int, request: ElectLeadersRequest
) -> PartitionChangeRecord:
    topic = cluster.image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"there is no partition {number} of topic {name[:249]!r}")
    partition = topic.partitions[number]
    if request.election_type == ElectionType.PREFERRED:
        if partition.leader == partition.replicas[0]:
            raise ElectionNotNeededError(f"node {partition.leader} leads already")
        record = _preferred(cluster, topic, number)
        if record is None:
            raise PreferredLeaderNotAvailableError(
                f"node {partition.replicas[0]} is not in sync or not active"
            )
        return record
    if partition.leader != NO_NODE:
        raise ElectionNotNeededError(f"node {partition.leader} leads")
    target, why = Target(elect=unclean), f"none of {partition.replicas} is active"
    if request.node_id != NO_NODE:
        if request.node_id not in partition.replicas:
            raise InvalidRequestError(f"node {request.node_id} has no replica: {partition.replicas}")
        target = Target(elect=unclean_chosen, chosen=request.node_id)
        why = f"node {request.node_id} is not active, or its log dir is offline"
    record = cluster.change(topic, number, target)
    if record is None or record.leader is None:
        raise EligibleLeadersNotAvailableError(why)
    return record


def _unclean_note(image: MetadataImage, name: str, record: PartitionChangeRecord, chosen: int) -> str:
    """The line about an unclean election on request: it may lose acknowledged records."""
    before = image.topics[name].partitions[record.partition]
    how = "the first live replica" if chosen == NO_NODE else "chosen in the request"
    return (
        f"unclean election of {name}-{record.partition}: node {record.leader} leads ({how}); ISR "
        f"{before.isr}, ELR {before.elr}, last known leader {before.last_known_elr}, leader epoch "
        f"{before.leader_epoch} before"
    )


def _preferred(cluster: ClusterState, topic: TopicImage, number: int) -> PartitionChangeRecord | None:
    record = cluster.change(topic, number, Target(elect=preferred))
    first = topic.partitions[number].replicas[0]
    return record if record is not None and record.leader == first else None


def _imbalanced_nodes(cluster: ClusterState, percentage: int) -> frozenset[int]:
    preferring: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for topic in cluster.image.topics.values():
        for partition in topic.partitions:
            preferring[partition.replicas[0]] += 1
            elsewhere[partition.replicas[0]] += partition.leader != partition.replicas[0]
    return frozenset(
        node_id
        for node_id, count in elsewhere.items()
        if node_id in cluster.active and count * 100 > percentage * preferring[node_id]
    )
