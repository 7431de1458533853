"""How the nodes stand at one moment, and what their coming and going does to the partitions. Pure.

Each reason for which partitions change is an entry of a table: which partitions it concerns, and what it
wishes for each. What all keep: nobody is in an ISR who is fenced or shutting down, except as the last one of
a partition that it still leads; who leaves an ISR below min ISR stays eligible unless it may have lost
records.
Source: Kafka ReplicationControlManager.java generateLeaderAndIsrUpdates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import StaleBrokerEpochError
from ...protocol.metadata.image import configured
from ...protocol.model import NO_NODE, effective_min_isr
from .elections import controlled_shutdown, drain, offline, unclean
from .partition_changes import Rules, Wish, change_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from ...protocol.metadata.image import MetadataImage, PartitionRegistration, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from ..config import ControllerConfig

ReplicaKey = tuple[bytes, int]  # topic id, partition


@dataclass(frozen=True, slots=True)
class Standing:
    """The cluster as decisions about partitions see it.

    `active` are the nodes that may get leadership; `leaving` is a node that the image still shows, but that
    the very decision takes away.
    """

    image: MetadataImage
    config: ControllerConfig
    active: frozenset[int]
    # By node: what it holds on disks that failed, and on disks that are full.
    offline_replicas: Mapping[int, frozenset[ReplicaKey]] = field(default_factory=dict)
    full_replicas: Mapping[int, frozenset[ReplicaKey]] = field(default_factory=dict)
    leaving: int = NO_NODE
    cordoned: Set[int] = frozenset()  # nodes that get no new replicas

    def without(self, node_id: int) -> Standing:
        """As it will be once the node is gone."""
        return replace(self, active=self.active - {node_id}, leaving=node_id)

    def including(self, node_id: int) -> Standing:
        """As it will be once the node is active."""
        return replace(self, active=self.active | {node_id})

    def rules(self, topic: TopicImage, number: int) -> Rules:
        """What holds for a change of one partition."""
        key = (topic.topic_id, number)
        return Rules(
            candidates=self._candidates(key, topic.partitions[number].leader),
            avoided=self.full_nodes(key),
            min_isr=self.min_isr(topic.name),
            is_last_leader_allowed=self.config.unclean_recovery_strategy == "Balanced",
        )

    def full_nodes(self, key: ReplicaKey) -> Set[int]:
        """Who holds the partition on a disk without room."""
        return {node for node, keys in self.full_replicas.items() if key in keys}

    def min_isr(self, topic: str) -> int:
        """The topic's min.insync.replicas, not yet bounded by its replicas."""
        return int(configured(self.image, topic, "min.insync.replicas") or 1)

    def is_unclean_allowed(self, topic: str) -> bool:
        """The topic's unclean.leader.election.enable."""
        text = configured(self.image, topic, "unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if text is None else text == "true"

    def change(self, topic: TopicImage, number: int, wish: Wish) -> PartitionChangeRecord | None:
        """The record that brings what is wished for one partition; None if nothing changes."""
        rules = self.rules(topic, number)
        return change_partition(topic.topic_id, number, topic.partitions[number], wish, rules)

    def _candidates(self, key: ReplicaKey, leader: int) -> Set[int]:
        # A drained node keeps what nobody else may lead, so who leads may go on leading unless it is fenced.
        active: Set[int] = self.active
        if leader not in active and leader not in (NO_NODE, self.leaving):
            broker = self.image.brokers[leader]
            active = active if broker.is_fenced else active | {leader}
        broken = {node for node, keys in self.offline_replicas.items() if key in keys}
        return active - broken if broken else active


class Reason(NamedTuple):
    """Why partitions change because of one node. `wish` gets the partition, the node, and whether unclean
    elections are allowed."""

    concerns: Callable[[PartitionRegistration, int], bool]
    wish: Callable[[PartitionRegistration, int, bool], Wish]


def _in_isr(partition: PartitionRegistration, node_id: int) -> bool:
    return node_id in partition.isr


def _in_isr_or_elr(partition: PartitionRegistration, node_id: int) -> bool:
    return node_id in partition.isr or node_id in partition.elr


def _has_no_leader(partition: PartitionRegistration, _node_id: int) -> bool:
    return partition.leader == NO_NODE


def _leaves(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Wish:
    return Wish(isr=_without(partition.isr, node_id), elect=unclean if is_unclean_allowed else offline)


def _comes(_partition: PartitionRegistration, _node_id: int, is_unclean_allowed: bool) -> Wish:
    return Wish(elect=unclean if is_unclean_allowed else offline)


def _lost_records(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Wish:
    return Wish(
        isr=_without(partition.isr, node_id),
        lossy=frozenset((node_id,)),
        elect=unclean if is_unclean_allowed else offline,
    )


def _shuts_down(partition: PartitionRegistration, node_id: int, is_unclean_allowed: bool) -> Wish:
    strategy = unclean if is_unclean_allowed else controlled_shutdown
    return Wish(isr=_without(partition.isr, node_id), elect=strategy)


def _drains(partition: PartitionRegistration, node_id: int, _is_unclean_allowed: bool) -> Wish:
    return Wish(isr=_without(partition.isr, node_id) or partition.isr, elect=drain)


def _without(nodes: tuple[int, ...], node_id: int) -> tuple[int, ...]:
    return tuple(node for node in nodes if node != node_id)


FENCED = Reason(_in_isr, _leaves)
UNFENCED = Reason(_has_no_leader, _comes)
LOST_RECORDS = Reason(_in_isr_or_elr, _lost_records)
SHUTTING_DOWN = Reason(_in_isr, _shuts_down)
DRAINED = Reason(_in_isr, _drains)
DISK_FAILED = Reason(_in_isr, _leaves)


def changes(
    standing: Standing, reason: Reason, node_id: int, lost: Set[ReplicaKey] = frozenset()
) -> Iterator[PartitionChangeRecord]:
    """What `reason` changes of all partitions of the cluster, because of one node; of those in `lost`, what
    LOST_RECORDS changes instead."""
    for topic in standing.image.topics.values():
        for number, partition in enumerate(topic.partitions):
            why = LOST_RECORDS if (topic.topic_id, number) in lost else reason
            if why.concerns(partition, node_id):
                record = _change(standing, topic, number, why, node_id)
                if record is not None:
                    yield record


def changes_of(
    standing: Standing, reason: Reason, node_id: int, keys: Set[ReplicaKey]
) -> Iterator[PartitionChangeRecord]:
    """As `changes`, for some partitions only; those that do not exist are passed over. Sorted."""
    for topic_id, number in sorted(keys):
        name = standing.image.topic_names.get(topic_id)
        if name is None:
            continue
        topic = standing.image.topics[name]
        if 0 <= number < len(topic.partitions) and reason.concerns(topic.partitions[number], node_id):
            record = _change(standing, topic, number, reason, node_id)
            if record is not None:
                yield record


def relieved(standing: Standing, node_id: int, keys: Set[ReplicaKey]) -> Iterator[PartitionChangeRecord]:
    """A node cannot append to these for want of room. It hands over what it leads, and leaves the ISR, where
    that lets producers go on: where enough others in sync have room. Elsewhere it stays, and readers have it.
    Sorted."""
    for topic_id, number in sorted(keys):
        name = standing.image.topic_names.get(topic_id)
        topic = standing.image.topics[name] if name is not None else None
        if topic is None or not 0 <= number < len(topic.partitions):
            continue
        partition = topic.partitions[number]
        rules = standing.rules(topic, number)
        fit = rules.candidates - rules.avoided - {node_id}
        enough = effective_min_isr(rules.min_isr, len(partition.replicas))
        if node_id in partition.isr and sum(node in fit for node in partition.isr) >= enough:
            wish = Wish(isr=_without(partition.isr, node_id), elect=drain)
            record = change_partition(topic_id, number, partition, wish, rules)
            if record is not None:
                yield record


def check_broker_epoch(image: MetadataImage, node_id: int, broker_epoch: int) -> None:
    """The node asks as it is registered. Errors: StaleBrokerEpochError for a process that was replaced."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        known = "is not registered" if broker is None else f"has broker epoch {broker.broker_epoch}"
        raise StaleBrokerEpochError(f"node {node_id} {known}, not {broker_epoch}")


def leads_any(image: MetadataImage, node_id: int) -> bool:
    """Whether the node leads at least one partition."""
    return led_by(image, node_id) > 0


def led_by(image: MetadataImage, node_id: int) -> int:
    """How many partitions the node leads."""
    return sum(
        partition.leader == node_id for topic in image.topics.values() for partition in topic.partitions
    )


def active_nodes(image: MetadataImage) -> frozenset[int]:
    """The nodes that may get leadership and replicas: registered, not fenced, not shutting down."""
    return frozenset(
        node_id
        for node_id, broker in image.brokers.items()
        if not broker.is_fenced and not broker.in_controlled_shutdown
    )


def _change(
    standing: Standing, topic: TopicImage, number: int, reason: Reason, node_id: int
) -> PartitionChangeRecord | None:
    partition = topic.partitions[number]
    wish = reason.wish(partition, node_id, standing.is_unclean_allowed(topic.name))
    rules = standing.rules(topic, number)
    return change_partition(topic.topic_id, number, partition, wish, rules)
