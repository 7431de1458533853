"""The client's view of the cluster: immutable, with the rules by which Metadata responses change it.

Invariant: within one topic id, a partition's leader epoch never decreases, whichever node responded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...protocol.errors import UnknownTopicOrPartitionError
from .network import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.data import MetadataResponse, PartitionMetadata, TopicMetadata


UNKNOWN_TOPIC = UnknownTopicOrPartitionError.code


@dataclass(frozen=True, slots=True)
class NodeView:
    """One storage node."""

    node_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition; `leader` is -1 while it has none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic that exists; partitions by number, without gaps."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Nodes and topics. `missing` are watched topics that do not exist, with the error code."""

    cluster_id: str = ""
    controller_id: int = -1
    metadata_offset: int = -1
    nodes: Mapping[int, NodeView] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def leader_of(self, topic: str, partition: int) -> tuple[bytes, int, int] | None:
        """(topic id, leader's node id, leader epoch), or None when unknown or unreachable."""
        found = self.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            return None
        view = found.partitions[partition]
        if view.leader not in self.nodes:
            return None
        return found.topic_id, view.leader, view.leader_epoch

    def partitions_of(self, topic: str) -> tuple[PartitionView, ...]:
        """By number; empty for a topic that is not in the view."""
        found = self.topics.get(topic)
        return () if found is None else found.partitions

    def has_moved_from(
        self, node_id: int, topic: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> bool:
        """Whether a partition that `node_id` led in `leader_epoch` has another leader, or none, in a newer
        epoch, or is of a topic that was deleted and created again."""
        found = self.topics.get(topic)
        if found is None or (found.topic_id == topic_id and partition >= len(found.partitions)):
            return False
        if found.topic_id != topic_id:
            return True
        now = found.partitions[partition]
        return now.leader_epoch > leader_epoch and now.leader != node_id

    def merged(self, response: MetadataResponse, watched: Iterable[str] | None = None) -> ClusterView:
        """This view updated by a response. A response of another cluster replaces it.

        A response that is older than this view (of a node whose metadata lags) adds only unknown topics and
        partitions with a higher leader epoch. With `watched` the request was for all topics: topics that are
        not in the response do not exist, and watched ones of these become `missing`.
        """
        same = response.cluster_id == self.cluster_id
        base = self if same else ClusterView(cluster_id=response.cluster_id)
        is_older = response.metadata_offset < base.metadata_offset
        topics, missing = dict(base.topics), dict(base.missing)
        for topic in response.topics:
            if topic.error_code:
                if not (is_older and topic.name in topics):
                    topics.pop(topic.name, None)
                    missing[topic.name] = topic.error_code
            else:
                topics[topic.name] = _merged_topic(topics.get(topic.name), topic, is_older)
                missing.pop(topic.name, None)
        if watched is not None and not is_older:
            named = {topic.name for topic in response.topics}
            topics = {name: topic for name, topic in topics.items() if name in named}
            missing = {name: UNKNOWN_TOPIC for name in watched if name not in named}
        nodes = {
            node.node_id: NodeView(node.node_id, Address(node.host, node.port), node.rack)
            for node in response.nodes
        }
        return replace(
            base,
            controller_id=base.controller_id if is_older else response.controller_id,
            metadata_offset=max(base.metadata_offset, response.metadata_offset),
            # A node that starts has no image and so no nodes; keep those that are known.
            nodes={**nodes, **base.nodes} if is_older or not nodes else nodes,
            topics=topics,
            missing=missing,
        )

    def with_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> ClusterView:
        """This view with a newer leader that a response has named (KIP-951); self when it is not newer."""
        found = self.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            return self
        old = found.partitions[partition]
        if leader < 0 or leader_epoch <= old.leader_epoch:
            return self
        partitions = list(found.partitions)
        partitions[partition] = replace(old, leader=leader, leader_epoch=leader_epoch)
        changed = replace(found, partitions=tuple(partitions))
        return replace(self, topics={**self.topics, topic: changed})

    def without_topics(self, names: tuple[str, ...]) -> ClusterView:
        """This view without topics that are no longer watched."""
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name not in names},
            missing={name: code for name, code in self.missing.items() if name not in names},
        )


def _merged_topic(old: TopicView | None, new: TopicMetadata, is_older: bool) -> TopicView:
    fresh = TopicView(
        new.name, new.topic_id, new.is_internal, tuple(_partition(partition) for partition in _ordered(new))
    )
    if old is None:
        return fresh
    if old.topic_id != fresh.topic_id:  # deleted and created again
        return old if is_older else fresh
    kept = [
        have if have.leader_epoch > came.leader_epoch else came
        for have, came in zip(old.partitions, fresh.partitions, strict=False)
    ]
    longer = old if len(old.partitions) > len(fresh.partitions) else fresh  # partitions only grow
    return replace(fresh, partitions=(*kept, *longer.partitions[len(kept) :]))


def _ordered(topic: TopicMetadata) -> list[PartitionMetadata]:
    """The partitions by number, up to the first gap."""
    ordered = sorted(topic.partitions, key=lambda partition: partition.partition)
    return [partition for number, partition in enumerate(ordered) if partition.partition == number]


def _partition(partition: PartitionMetadata) -> PartitionView:
    return PartitionView(partition.leader, partition.leader_epoch, partition.replicas, partition.isr)
