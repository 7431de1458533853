"""The laws of the cluster's metadata, to be asserted after every step. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.image import RECOVERING, TOPIC_RESOURCE
from ...protocol.model import NO_NODE, effective_min_isr
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


def check_change(
    before: PartitionRegistration,
    after: PartitionRegistration,
    min_isr: int,
    lossy: frozenset[int] = frozenset(),
) -> None:
    """Assert what holds between a partition and what one record made of it.

    `min_isr` is the topic's min.insync.replicas, `lossy` are nodes that were started anew and may have lost
    records. The leader epoch rises exactly when the leader changes or a replica goes.
    """
    assert after.partition_epoch == before.partition_epoch + 1, "each record raises the partition epoch"
    is_bumped = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    assert after.leader_epoch == before.leader_epoch + is_bumped, "the leader epoch tells leaderships apart"
    states = partition_state(before), partition_state(after)
    assert states[0] is states[1] or states[1] in PARTITION_TRANSITIONS[states[0]], states
    for node_id in sorted({*before.replicas, *after.replicas}):
        was, now = replica_state(before, node_id), replica_state(after, node_id)
        assert was is now or now in REPLICA_TRANSITIONS[was], (node_id, was, now)
    gone = set(before.replicas).difference(after.replicas)
    if not gone <= set(before.adding_replicas):
        assert set(after.replicas) <= set(after.isr), "a reassignment completes with its whole target in sync"
    _check_eligible(before, after, effective_min_isr(min_isr, len(after.replicas)), lossy)


def _check_eligible(
    before: PartitionRegistration, after: PartitionRegistration, min_isr: int, lossy: frozenset[int]
) -> None:
    """KIP-966. Who is in ISR or ELR has every acknowledged record, so: a clean leader comes from there, the
    ELR only while the ISR is empty; below min ISR nobody is dropped from both but those that may have lost
    records, or by an unclean election; from min ISR on there is no ELR, because records go on without it."""
    assert not (after.elr and len(after.isr) >= min_isr), "an ELR beside an ISR that is enough"
    safe, candidates = {*before.isr, *before.elr}, before.isr or before.elr
    if after.leader_recovery_state == RECOVERING and after.leader not in {*candidates, NO_NODE}:
        return  # an unclean election, marked as one
    if after.leader not in (NO_NODE, before.leader):
        is_in_sync = after.leader in candidates
        # a leader that is drained lets others into the ISR, or hands over to the ELR, in the same step
        is_let_in = before.leader != NO_NODE and not set(after.isr) <= set(before.isr)
        assert is_in_sync or is_let_in, "an unclean leader"
    if len(after.isr) < min_isr:
        dropped = safe.intersection(after.replicas).difference(after.isr, after.elr, lossy)
        assert not dropped, "who has every acknowledged record stays known"
