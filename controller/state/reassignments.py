"""Partition reassignments: start, replace, cancel and list. Pure.

During one, the partition's replicas are the target followed by those to remove; `adding` and `removing` name
the parts. It completes in AlterPartition when every replica of the target is in sync, or here if they are
already. A cancel removes the added replicas. Invariant: the replicas that remain hold every acknowledged
record, also after a cancel, unless the topic allows unclean elections. Source: KIP-455, KIP-860, Kafka
ReplicationControlManager.java, PartitionReassignmentRevert.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    PartitionError,
)
from ...protocol.model import MAX_TOPIC_NAME_LENGTH
from .decision import Decision
from .elections import reassignment, unclean
from .partition_changes import Target
from .placement import check_not_cordoned

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage, PartitionRegistration, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from .cluster_state import ClusterState

MAX_REPLICATION_FACTOR = 32_767  # Kafka's: a signed short

Nodes = tuple[int, ...]


def decide_reassign(
    cluster: ClusterState, request: AlterPartitionReassignmentsRequest, max_partitions: int
) -> Decision:
    """Each partition succeeds or fails on its own. Errors of the whole request: InvalidRequestError."""
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > max_partitions:
        raise InvalidRequestError(f"{count} partitions in one request, at most {max_partitions}")
    records: list[PartitionChangeRecord] = []
    results = []
    seen: set[tuple[str, int]] = set()
    for named in request.topics:
        for item in named.partitions:
            name, number = named.name, item.partition
            try:
                if (name, number) in seen:
                    raise InvalidRequestError("the partition is named twice in one request")
                seen.add((name, number))
                topic = _topic(cluster.image, name, number)
                if item.replicas is None:
                    record = _cancelled(cluster, topic, number)
                else:
                    allow = request.allow_replication_factor_change
                    record = _started(cluster, topic, number, item.replicas, allow_factor_change=allow)
            except KafkaError as error:
                results.append(PartitionError(name[:MAX_TOPIC_NAME_LENGTH], number, error.code, str(error)))
            else:
                results.append(PartitionError(name, number))
                records.extend(() if record is None else (record,))
    offset = cluster.image.offset + len(records)
    reply = AlterPartitionReassignmentsResponse(0, "", tuple(results), offset)
    return Decision(tuple(records), reply)


def list_reassignments(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> Decision:
    """The reassignments in progress; unknown topics and partitions are left out, as in Kafka."""
    requested = None
    if request.topics is not None:
        requested = {(asked.topic, number) for asked in request.topics for number in asked.partitions}
    ongoing = tuple(
        OngoingReassignment(
            topic=name,
            partition=number,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
            isr=partition.isr,
        )
        for name in sorted(image.topics)
        for number, partition in enumerate(image.topics[name].partitions)
        if is_reassigning(partition) and (requested is None or (name, number) in requested)
    )
    return Decision((), ListPartitionReassignmentsResponse(0, "", ongoing))


def is_reassigning(partition: PartitionRegistration) -> bool:
    """Whether a reassignment of the partition is in progress."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _topic(image: MetadataImage, name: str, number: int) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"there is no partition {number} of topic {name[:249]!r}")
    return topic


def _started(
    cluster: ClusterState, topic: TopicImage, number: int, target: Nodes, *, allow_factor_change: bool
) -> PartitionChangeRecord | None:
    partition = topic.partitions[number]
    _check_target(cluster.image, target)
    # Counted from what the partition had before a reassignment that this one replaces.
    factor = len(partition.replicas) - len(partition.removing_replicas)
    if not allow_factor_change and len(target) != factor:
        raise InvalidReplicationFactorError(
            f"the replication factor would change from {factor} to {len(target)}"
        )
    check_not_cordoned(cluster.cordoned, _without(target, partition.replicas))
    original = _without(partition.replicas, partition.adding_replicas)
    removing = _without(partition.replicas, target)
    change = Target(
        replicas=target + removing,
        adding=tuple(sorted(_without(target, original))),
        removing=removing,
        elect=reassignment,
    )
    return cluster.change(topic, number, change)


def _check_target(image: MetadataImage, target: Nodes) -> None:
    if not 1 <= len(target) <= MAX_REPLICATION_FACTOR:
        raise InvalidReplicaAssignmentError(f"{len(target)} replicas")
    if len(set(target)) != len(target):
        raise InvalidReplicaAssignmentError("a node is named twice")
    unknown = [node_id for node_id in target if node_id not in image.brokers]
    if unknown:
        raise InvalidReplicaAssignmentError(f"node {unknown[0]} is not registered")


def _cancelled(cluster: ClusterState, topic: TopicImage, number: int) -> PartitionChangeRecord | None:
    partition = topic.partitions[number]
    if not is_reassigning(partition):
        raise NoReassignmentInProgressError(
            f"partition {number} of topic {topic.name} is not being reassigned"
        )
    added = partition.adding_replicas
    replicas = _without(partition.replicas, added)
    isr = _without(partition.isr, added)
    # A remaining replica must have every acknowledged record: one of the ISR, else of the ELR. A partition
    # without a leader may go on waiting for the last known one.
    known = isr + _without(partition.elr, added)
    if known or (not partition.isr and _without(partition.last_known_elr, added)):
        strategy = reassignment
    elif cluster.is_unclean_allowed(topic.name) and cluster.rules(topic, number).candidates & set(replicas):
        strategy = unclean
    else:
        raise InvalidReplicaAssignmentError(
            f"only the added replicas {added} are in sync: cancelling would need an unclean election"
        )
    target = Target(isr=isr, replicas=replicas, adding=(), removing=(), elect=strategy)
    return cluster.change(topic, number, target)


def _without(nodes: Nodes, others: Nodes) -> Nodes:
    return tuple(node for node in nodes if node not in others)
