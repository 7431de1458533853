"""The laws of the cluster's metadata, to be asserted after every step. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.image import TOPIC_RESOURCE
from ...protocol.model import NO_NODE
from .partition_changes import check_partition

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage, PartitionRegistration


def check_image(image: MetadataImage) -> None:
    """Assert what holds in every image that this controller made."""
    assert len(image.topics) == len(image.topic_names)
    for topic in image.topics.values():
        assert image.topic_names[topic.topic_id] == topic.name
        assert topic.partitions, "a topic has at least one partition"
        for partition in topic.partitions:
            check_partition(partition)
            _check_nodes(image, partition)
    assert all(name in image.topics for kind, name in image.configs if kind == TOPIC_RESOURCE)


def _check_nodes(image: MetadataImage, partition: PartitionRegistration) -> None:
    """Only nodes that are registered hold replicas; only nodes that are not fenced lead or are in sync with
    others; one that shuts down does so only where it is alone."""
    assert all(node_id in image.brokers for node_id in partition.replicas), "replicas lie on known nodes"
    if partition.leader != NO_NODE:
        assert not image.brokers[partition.leader].is_fenced, "only active nodes lead"
    if len(partition.isr) > 1:
        for node_id in partition.isr:
            broker = image.brokers[node_id]
            assert not broker.is_fenced, "a fenced node is in no ISR with others"
            assert not broker.in_controlled_shutdown, "a node that leaves is in no ISR with others"
