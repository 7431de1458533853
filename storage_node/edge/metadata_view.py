"""Metadata and DescribeCluster responses from the node's image. Pure.

`metadata_offset` in a response is the offset of the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidTopicError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ...protocol.messages.data import (
    ClusterNode,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FeatureLevel,
    MetadataRequest,
    MetadataResponse,
    NodeEndpoint,
    PartitionMetadata,
    TopicMetadata,
)
from ...protocol.metadata.features import SUPPORTED, level_of
from ...protocol.model import INTERNAL_TOPICS, topic_name_fault

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage, TopicImage


class MetadataView:
    """Responses of one image; make a new view for the next image. Topics are converted once each."""

    def __init__(self, image: MetadataImage, controller_id: int) -> None:
        self._image = image
        self._controller_id = controller_id
        self._topics: dict[str, TopicMetadata] = {}
        self._alive = frozenset(b.node_id for b in image.brokers.values() if not b.is_fenced)
        self._broken: dict[
            tuple[bytes, int], set[int]
        ] = {}  # nodes whose replica is in a log dir that failed
        for broker in image.brokers.values():
            for key in broker.offline_replicas:
                self._broken.setdefault(key, set()).add(broker.node_id)
        self._nodes = tuple(
            NodeEndpoint(node.node_id, node.host, node.port, node.rack)
            for _, node in sorted(image.brokers.items())
            if not node.is_fenced
        )

    def answer(self, request: MetadataRequest) -> MetadataResponse:
        """The unfenced nodes and the requested topics, each name or id once, with errors per topic."""
        if request.topics is None and not request.topic_ids:
            topics = [self._described(image) for _, image in sorted(self._image.topics.items())]
        else:
            topics = [self._by_name(name) for name in dict.fromkeys(request.topics or ())]
            topics += [self._by_id(topic_id) for topic_id in dict.fromkeys(request.topic_ids)]
        return MetadataResponse(
            self._image.cluster_id, self._controller_id, self._image.offset, self._nodes, tuple(topics)
        )

    def cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """The nodes and their states, ordered by id; fenced ones on request."""
        nodes = tuple(
            ClusterNode(
                node.node_id,
                node.host,
                node.port,
                node.rack,
                node.broker_epoch,
                is_fenced=node.is_fenced,
                in_controlled_shutdown=node.in_controlled_shutdown,
            )
            for _, node in sorted(self._image.brokers.items())
            if request.include_fenced_brokers or not node.is_fenced
        )
        features = tuple(
            FeatureLevel(name, level_of(self._image, name), *span) for name, span in SUPPORTED.items()
        )
        return DescribeClusterResponse(
            self._image.cluster_id, self._controller_id, self._image.offset, nodes, features
        )

    def _by_name(self, name: str) -> TopicMetadata:
        image = self._image.topics.get(name)
        if image is not None:
            return self._described(image)
        if topic_name_fault(name):
            return TopicMetadata(InvalidTopicError.code, name, b"", False, ())
        return TopicMetadata(UnknownTopicOrPartitionError.code, name, b"", False, ())

    def _by_id(self, topic_id: bytes) -> TopicMetadata:
        name = self._image.topic_names.get(topic_id)
        if name is None:
            return TopicMetadata(UnknownTopicIdError.code, "", topic_id, False, ())
        return self._described(self._image.topics[name])

    def _described(self, image: TopicImage) -> TopicMetadata:
        known = self._topics.get(image.name)
        if known is None:
            partitions = tuple(
                PartitionMetadata(
                    index,
                    partition.leader,
                    partition.leader_epoch,
                    partition.replicas,
                    partition.isr,
                    self._offline(image.topic_id, index, partition.replicas),
                    partition.partition_epoch,
                    partition.elr,
                    partition.last_known_elr,
                    partition.adding_replicas,
                    partition.removing_replicas,
                )
                for index, partition in enumerate(image.partitions)
            )
            known = TopicMetadata(0, image.name, image.topic_id, image.name in INTERNAL_TOPICS, partitions)
            self._topics[image.name] = known
        return known

    def _offline(self, topic_id: bytes, number: int, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Replicas on fenced nodes, or in log dirs that failed."""
        broken = self._broken.get((topic_id, number), ())
        return tuple(node for node in replicas if node not in self._alive or node in broken)
