"""What a node tells people of itself, JSON-able, under Kafka's names where Kafka has the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .replica.partition import PartitionState

if TYPE_CHECKING:
    from .counters import NodeCounters
    from .replica.replica_manager import ReplicaManager


def status_of(replicas: ReplicaManager, counters: NodeCounters, *, parked: int) -> dict[str, Any]:
    """The node as a whole. `parked` are the requests that wait."""
    partitions = replicas.partitions.values()
    leading = [p for p in partitions if p.is_leader]
    return {
        "metadata_offset": replicas.image.offset,
        "partitions": len(partitions),
        "leaders": len(leading),
        "metrics": {  # Kafka's names; a meter shows its total
            "UnderReplicatedPartitions": sum(len(p.isr) < len(p.replicas) for p in leading),
            "UnderMinIsrPartitionCount": sum(p.is_under_min_isr for p in leading),
            "AtMinIsrPartitionCount": sum(len(p.isr) == p.min_isr for p in leading),
            "MaxLag": max((followed.lag for followed in replicas.fetchers.followed), default=0),
            "IsrShrinksPerSec": {"count": counters.isr_shrinks},
            "IsrExpandsPerSec": {"count": counters.isr_expands},
        },
        "isr_changes_under_way": len(replicas.isr_changes),
        "offline_partitions": sum(partition.state is PartitionState.OFFLINE for partition in partitions),
        "parked_requests": parked,
        "counters": counters.to_mapping(),
    }
