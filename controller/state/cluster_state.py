"""The state of the cluster that decisions read: the image, and what heartbeats report of the nodes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...protocol.errors import StaleBrokerEpochError
from ...protocol.metadata.image import configured
from ...protocol.model import NO_NODE
from .partition_changes import Rules, Target, change_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from ...protocol.metadata.image import MetadataImage, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from ..config import ControllerConfig

ReplicaKey = tuple[bytes, int]  # topic id, partition


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What decisions about partitions read.

    `active` are the nodes that may lead. `leaving` is a node that is active in the image and that the
    decision under way fences or shuts down.
    """

    image: MetadataImage
    config: ControllerConfig
    active: frozenset[int]
    # By node: its replicas in log dirs that failed, and in log dirs without free space.
    offline_replicas: Mapping[int, frozenset[ReplicaKey]] = field(default_factory=dict)
    full_replicas: Mapping[int, frozenset[ReplicaKey]] = field(default_factory=dict)
    leaving: int = NO_NODE
    cordoned: Set[int] = frozenset()  # nodes that get no new replicas

    def without(self, node_id: int) -> ClusterState:
        """The state after the node was fenced or shut down."""
        return replace(self, active=self.active - {node_id}, leaving=node_id)

    def including(self, node_id: int) -> ClusterState:
        """The state after the node became active."""
        return replace(self, active=self.active | {node_id})

    def rules(self, topic: TopicImage, number: int) -> Rules:
        """The rules for a change of one partition."""
        key = (topic.topic_id, number)
        return Rules(
            candidates=self._candidates(key, topic.partitions[number].leader),
            avoided=self.full_nodes(key),
            min_isr=self.min_isr(topic.name),
            is_last_leader_allowed=self.config.unclean_recovery_strategy == "Balanced",
        )

    def full_nodes(self, key: ReplicaKey) -> Set[int]:
        """The nodes whose replica of the partition is in a log dir without free space."""
        return {node for node, keys in self.full_replicas.items() if key in keys}

    def min_isr(self, topic: str) -> int:
        """The topic's min.insync.replicas, not yet bounded by its number of replicas."""
        return int(configured(self.image, topic, "min.insync.replicas") or 1)

    def is_unclean_allowed(self, topic: str) -> bool:
        """The topic's unclean.leader.election.enable."""
        text = configured(self.image, topic, "unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if text is None else text == "true"

    def change(self, topic: TopicImage, number: int, target: Target) -> PartitionChangeRecord | None:
        """The record that brings one partition to `target`; None if nothing changes."""
        rules = self.rules(topic, number)
        return change_partition(topic.topic_id, number, topic.partitions[number], target, rules)

    def _candidates(self, key: ReplicaKey, leader: int) -> Set[int]:
        # A drained node goes on leading partitions for which there is no other candidate.
        active: Set[int] = self.active
        if leader not in active and leader not in (NO_NODE, self.leaving):
            broker = self.image.brokers[leader]
            active = active if broker.is_fenced else active | {leader}
        offline = {node for node, keys in self.offline_replicas.items() if key in keys}
        return active - offline if offline else active


def check_broker_epoch(image: MetadataImage, node_id: int, broker_epoch: int) -> None:
    """Errors: StaleBrokerEpochError for a process whose node id is registered by a newer one, or by none."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        known = "is not registered" if broker is None else f"has broker epoch {broker.broker_epoch}"
        raise StaleBrokerEpochError(f"node {node_id} {known}, not {broker_epoch}")


def led_by(image: MetadataImage, node_id: int) -> int:
    """The number of partitions that the node leads."""
    return sum(
        partition.leader == node_id for topic in image.topics.values() for partition in topic.partitions
    )


def active_nodes(image: MetadataImage) -> frozenset[int]:
    """The nodes that may lead and get replicas: registered, not fenced, not shutting down."""
    return frozenset(
        node_id
        for node_id, broker in image.brokers.items()
        if not broker.is_fenced and not broker.in_controlled_shutdown
    )
