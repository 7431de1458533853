"""Invariants of the cluster's metadata, asserted after every step of tests and simulations. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.image import RECOVERING, TOPIC_RESOURCE
from ...protocol.model import NO_NODE, effective_min_isr
from .partition_changes import check_partition
from .partition_states import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS, partition_state, replica_state

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage, PartitionRegistration


def check_image(image: MetadataImage) -> None:
    """Assert the invariants of every image of this controller."""
    assert len(image.topics) == len(image.topic_names)
    for topic in image.topics.values():
        assert image.topic_names[topic.topic_id] == topic.name
        assert topic.partitions, "a topic has at least one partition"
        for partition in topic.partitions:
            check_partition(partition)
            _check_nodes(image, partition)
    assert all(name in image.topics for kind, name in image.configs if kind == TOPIC_RESOURCE)
    assert all(name in image.roles for name, _ in image.role_members), "members are of roles that exist"
    owners = {each.owner for each in image.namespaces.values() if each.owner}
    assert owners <= image.roles.keys(), "owners of namespaces are roles that exist"


def _check_nodes(image: MetadataImage, partition: PartitionRegistration) -> None:
    """Replicas are on registered nodes; a leader is not fenced; an ISR with several members has no node that
    is fenced or shutting down."""
    assert all(node_id in image.brokers for node_id in partition.replicas), "replicas are on registered nodes"
    if partition.leader != NO_NODE:
        assert not image.brokers[partition.leader].is_fenced, "a leader is not fenced"
    if len(partition.isr) > 1:
        for node_id in partition.isr:
            broker = image.brokers[node_id]
            assert not broker.is_fenced, "a fenced node is in no ISR with others"
            assert not broker.in_controlled_shutdown, "a node that shuts down is in no ISR with others"


def check_change(
    before: PartitionRegistration,
    after: PartitionRegistration,
    min_isr: int,
    lossy: frozenset[int] = frozenset(),
) -> None:
    """Assert the invariants between a partition before and after one record.

    `min_isr` is the topic's min.insync.replicas, `lossy` are restarted nodes that may have lost records. The
    leader epoch rises exactly when the leader changes or a replica is removed.
    """
    assert after.partition_epoch == before.partition_epoch + 1, "each record raises the partition epoch"
    is_bumped = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    assert after.leader_epoch == before.leader_epoch + is_bumped, (
        "the leader epoch rises with each leadership"
    )
    states = partition_state(before), partition_state(after)
    assert states[0] is states[1] or states[1] in PARTITION_TRANSITIONS[states[0]], states
    for node_id in sorted({*before.replicas, *after.replicas}):
        was, now = replica_state(before, node_id), replica_state(after, node_id)
        assert was is now or now in REPLICA_TRANSITIONS[was], (node_id, was, now)
    removed = set(before.replicas).difference(after.replicas)
    if not removed <= set(before.adding_replicas):
        assert set(after.replicas) <= set(after.isr), (
            "a reassignment completes only with its whole target in sync"
        )
    _check_eligible(before, after, effective_min_isr(min_isr, len(after.replicas)), lossy)


def _check_eligible(
    before: PartitionRegistration, after: PartitionRegistration, min_isr: int, lossy: frozenset[int]
) -> None:
    """KIP-966. Members of ISR and ELR have every acknowledged record, so: a clean leader comes from there,
    from the ELR only while the ISR is empty; below min ISR no member leaves both, except those that may have
    lost records, or by an unclean election; from min ISR on there is no ELR, because commits go on without
    it."""
    assert not (after.elr and len(after.isr) >= min_isr), "an ELR although the ISR has min ISR"
    safe, candidates = {*before.isr, *before.elr}, before.isr or before.elr
    if after.leader_recovery_state == RECOVERING and after.leader not in {*candidates, NO_NODE}:
        return  # an unclean election, recorded as such
    if after.leader not in (NO_NODE, before.leader):
        is_in_sync = after.leader in candidates
        # A drained leader adds others to the ISR, or the ELR takes over, in the same record.
        is_let_in = before.leader != NO_NODE and not set(after.isr) <= set(before.isr)
        assert is_in_sync or is_let_in, "an unclean leader"
    if len(after.isr) < min_isr:
        dropped = safe.intersection(after.replicas).difference(after.isr, after.elr, lossy)
        assert not dropped, "a replica with every acknowledged record left ISR and ELR"
