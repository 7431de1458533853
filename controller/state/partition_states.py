"""States of partitions and replicas, with all their transitions. Pure.

The states are derived from the registration and not stored. The property tests assert that every decision
follows the tables.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.metadata.image import RECOVERING
from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from ...protocol.metadata.image import PartitionRegistration


class PartitionState(Enum):
    """Whether a partition has a leader, and the replicas that may lead it next."""

    NEW = "new"
    ONLINE = "online"  # the leader has every acknowledged record
    RECOVERING = "recovering"  # the leader may lack some, and has not reported its recovery yet
    OFFLINE = "offline"  # without a leader; the ISR or ELR has every acknowledged record
    LOST = "lost"  # without a leader; ISR and ELR are empty, only the last known leader is kept


class ReplicaState(Enum):
    """The role of a replica."""

    NONE = "none"  # no replica
    OUT_OF_SYNC = "out_of_sync"
    IN_SYNC = "in_sync"
    LEADER = "leader"
    ELIGIBLE = "eligible"  # in the ELR


_P, _R = PartitionState, ReplicaState

PARTITION_TRANSITIONS: dict[PartitionState, dict[PartitionState, str]] = {
    _P.NEW: {_P.ONLINE: "created"},
    _P.ONLINE: {
        _P.OFFLINE: "last member of the ISR fenced, shut down, or without its disk",
        _P.LOST: "last member of the ISR restarted after losing records",
        _P.RECOVERING: "unclean election",
    },
    _P.RECOVERING: {
        _P.ONLINE: "the leader has recovered",
        _P.OFFLINE: "last member of the ISR fenced",
        _P.LOST: "last member of the ISR restarted after losing records",
    },
    _P.OFFLINE: {
        _P.ONLINE: "clean election from the ISR or ELR",
        _P.RECOVERING: "unclean election, or a clean one before the recovery was over",
        _P.LOST: "last member of the ELR restarted after losing records",
    },
    _P.LOST: {_P.RECOVERING: "last known leader unfenced, or unclean election"},
}

REPLICA_TRANSITIONS: dict[ReplicaState, dict[ReplicaState, str]] = {
    _R.NONE: {
        _R.OUT_OF_SYNC: "reassigned to it, or created while it is fenced",
        _R.IN_SYNC: "created",
        _R.LEADER: "created",
    },
    _R.OUT_OF_SYNC: {
        _R.IN_SYNC: "caught up",
        _R.LEADER: "unclean election, or caught up and elected at once",
        _R.NONE: "removed by a reassignment",
    },
    _R.IN_SYNC: {
        _R.LEADER: "elected",
        _R.OUT_OF_SYNC: "lagging or fenced, with min ISR kept",
        _R.ELIGIBLE: "lagging or fenced, with the ISR below min ISR",
        _R.NONE: "removed by a reassignment",
    },
    _R.LEADER: {
        _R.IN_SYNC: "another replica elected",
        _R.OUT_OF_SYNC: "fenced, replaced by another leader, or records lost",
        _R.ELIGIBLE: "fenced with the ISR below min ISR",
        _R.NONE: "removed by a reassignment",
    },
    _R.ELIGIBLE: {
        _R.IN_SYNC: "caught up",
        _R.LEADER: "elected while the ISR is empty",
        _R.OUT_OF_SYNC: "min ISR reached without it, records lost, or unclean election",
        _R.NONE: "removed by a reassignment",
    },
}


def partition_state(partition: PartitionRegistration | None) -> PartitionState:
    """The state of a partition; NEW if it does not exist."""
    if partition is None:
        return PartitionState.NEW
    if partition.leader == NO_NODE:
        return PartitionState.OFFLINE if partition.isr or partition.elr else PartitionState.LOST
    is_recovering = partition.leader_recovery_state == RECOVERING
    return PartitionState.RECOVERING if is_recovering else PartitionState.ONLINE


def replica_state(partition: PartitionRegistration | None, node_id: int) -> ReplicaState:
    """The role of `node_id` in the partition."""
    if partition is None or node_id not in partition.replicas:
        return ReplicaState.NONE
    if partition.leader == node_id:
        return ReplicaState.LEADER
    if node_id in partition.isr:
        return ReplicaState.IN_SYNC
    return ReplicaState.ELIGIBLE if node_id in partition.elr else ReplicaState.OUT_OF_SYNC
