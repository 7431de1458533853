"""The laws of the cluster's metadata, to be asserted after every step. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.image import RECOVERING, TOPIC_RESOURCE
from ...protocol.model import NO_NODE
from .partition_changes import check_partition
from .partition_states import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS, partition_state, replica_state

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


def check_change(before: PartitionRegistration, after: PartitionRegistration) -> None:
    """Assert what holds between a partition and what one record made of it.

    Epochs rise; the leader epoch does exactly when the leader changes or a replica goes. Who is dropped from
    ISR and ELR is dropped because others carry on: the ISR is not empty, or it lost records.
    """
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch - before.leader_epoch in (0, 1)
    is_bumped = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    assert (after.leader_epoch > before.leader_epoch) == is_bumped
    states = partition_state(before), partition_state(after)
    assert states[0] is states[1] or states[1] in PARTITION_TRANSITIONS[states[0]], states
    for node_id in sorted({*before.replicas, *after.replicas}):
        was, now = replica_state(before, node_id), replica_state(after, node_id)
        assert was is now or now in REPLICA_TRANSITIONS[was], (node_id, was, now)
    _check_nobody_is_lost(before, after)


def _check_nobody_is_lost(before: PartitionRegistration, after: PartitionRegistration) -> None:
    """KIP-966: a clean leader comes from the ISR, or from the ELR while the ISR is empty."""
    if after.leader in (NO_NODE, before.leader) or after.leader_recovery_state == RECOVERING:
        return
    assert after.leader in after.isr
    safe = {*before.isr, *before.elr}
    joined = set(after.isr) - safe
    # Who joins in the same step was put there by the leader before.
    assert after.leader in safe or (joined and before.leader != NO_NODE)
