"""Changes of leaders and ISRs because one node is fenced, unfenced, shut down, drained or loses a disk. Pure.

Each reason says which partitions it affects and the target of each. Every change keeps two rules: a node that
is fenced or shutting down stays in an ISR only as its last member and leader; a node that leaves an ISR below
min.insync.replicas stays eligible (ELR) unless it may have lost records.
Source: Kafka ReplicationControlManager.java generateLeaderAndIsrUpdates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_NODE, effective_min_isr
from .elections import controlled_shutdown, drain, offline, unclean
from .partition_changes import Target, change_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from ...protocol.metadata.image import PartitionRegistration, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from .cluster_state import ClusterState, ReplicaKey


class Reason(NamedTuple):
    """Why partitions change because of a node. Arguments: the partition, the node id, and for `target`
    whether the topic allows unclean elections."""

    affects: Callable[[PartitionRegistration, int], bool]
    target: Callable[[PartitionRegistration, int, bool], Target]


def _in_isr(partition: PartitionRegistration, node_id: int) -> bool:
    return node_id in partition.isr


def _in_isr_or_elr(partition: PartitionRegistration, node_id: int) -> bool:
    return node_id in partition.isr or node_id in partition.elr


def _has_no_leader(partition: PartitionRegistration, _node_id: int) -> bool:
    return partition.leader == NO_NODE


def _removed(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Target:
    return Target(isr=_without(partition.isr, node_id), elect=unclean if is_unclean_allowed else offline)


def _added(_partition: PartitionRegistration, _node_id: int, is_unclean_allowed: bool) -> Target:
    return Target(elect=unclean if is_unclean_allowed else offline)


def _lost_records(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Target:
    return Target(
        isr=_without(partition.isr, node_id),
        lossy=frozenset((node_id,)),
        elect=unclean if is_unclean_allowed else offline,
    )


def _shut_down(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Target:
    strategy = unclean if is_unclean_allowed else controlled_shutdown
    return Target(isr=_without(partition.isr, node_id), elect=strategy)


def _drained(partition: PartitionRegistration, node_id: int, _is_unclean_allowed: bool) -> Target:
    return Target(isr=_without(partition.isr, node_id) or partition.isr, elect=drain)


def _without(nodes: tuple[int, ...], node_id: int) -> tuple[int, ...]:
    return tuple(node for node in nodes if node != node_id)


FENCED = Reason(_in_isr, _removed)
UNFENCED = Reason(_has_no_leader, _added)
LOST_RECORDS = Reason(_in_isr_or_elr, _lost_records)
SHUTTING_DOWN = Reason(_in_isr, _shut_down)
DRAINED = Reason(_in_isr, _drained)
DISK_FAILED = Reason(_in_isr, _removed)


def changes(
    cluster: ClusterState, reason: Reason, node_id: int, lost: Set[ReplicaKey] = frozenset()
) -> Iterator[PartitionChangeRecord]:
    """The changes of all partitions that `reason` affects; for those in `lost` the reason is LOST_RECORDS."""
    for topic in cluster.image.topics.values():
        for number, partition in enumerate(topic.partitions):
            why = LOST_RECORDS if (topic.topic_id, number) in lost else reason
            if why.affects(partition, node_id):
                record = _change(cluster, topic, number, why, node_id)
                if record is not None:
                    yield record


def changes_of(
    cluster: ClusterState, reason: Reason, node_id: int, keys: Set[ReplicaKey]
) -> Iterator[PartitionChangeRecord]:
    """As `changes`, for the partitions in `keys` that exist, sorted."""
    for topic, number in _existing(cluster, keys):
        if reason.affects(topic.partitions[number], node_id):
            record = _change(cluster, topic, number, reason, node_id)
            if record is not None:
                yield record


def moves_off_full_disks(
    cluster: ClusterState, node_id: int, keys: Set[ReplicaKey]
) -> Iterator[PartitionChangeRecord]:
    """The node leaves the ISRs of partitions that it cannot append to because a disk is full. Where too few
    other members of the ISR have free space for min.insync.replicas, it stays and serves reads. Sorted."""
    for topic, number in _existing(cluster, keys):
        partition = topic.partitions[number]
        rules = cluster.rules(topic, number)
        usable = rules.candidates - rules.avoided - {node_id}
        needed = effective_min_isr(rules.min_isr, len(partition.replicas))
        if node_id in partition.isr and sum(node in usable for node in partition.isr) >= needed:
            target = Target(isr=_without(partition.isr, node_id), elect=drain)
            record = change_partition(topic.topic_id, number, partition, target, rules)
            if record is not None:
                yield record


def _existing(cluster: ClusterState, keys: Set[ReplicaKey]) -> Iterator[tuple[TopicImage, int]]:
    image = cluster.image
    for topic_id, number in sorted(keys):
        name = image.topic_names.get(topic_id)
        if name is not None and 0 <= number < len(image.topics[name].partitions):
            yield image.topics[name], number


def _change(
    cluster: ClusterState, topic: TopicImage, number: int, reason: Reason, node_id: int
) -> PartitionChangeRecord | None:
    target = reason.target(topic.partitions[number], node_id, cluster.is_unclean_allowed(topic.name))
    return cluster.change(topic, number, target)
