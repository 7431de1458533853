"""What a node tells people of itself, JSON-able, under Kafka's names where Kafka has the metric."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from .replica.partition import PartitionState

if TYPE_CHECKING:
    from .counters import NodeCounters
    from .replica.log_cleaner import LogCleaner
    from .replica.replica_manager import ReplicaManager

# Bound: a node may have tens of thousands.
_LOGS_SHOWN = 100


def status_of(
    replicas: ReplicaManager, counters: NodeCounters, cleaner: LogCleaner, *, parked: int, offline_dirs: int
) -> dict[str, Any]:
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
            "OfflineLogDirectoryCount": offline_dirs,
            "MaxLag": max((followed.lag for followed in replicas.fetchers.followed), default=0),
            "IsrShrinksPerSec": {"count": counters.isr_shrinks},
            "IsrExpandsPerSec": {"count": counters.isr_expands},
            **cleaner.metrics(replicas.surroundings.now_ms),
        },
        "isr_changes_under_way": len(replicas.isr_changes),
        "offline_partitions": sum(partition.state is PartitionState.OFFLINE for partition in partitions),
        "uncleanable_partitions": cleaner.set_aside,
        "parked_requests": parked,
        "logs": _largest_logs(replicas),
        "counters": counters.to_mapping(),
    }


def _largest_logs(replicas: ReplicaManager) -> dict[str, dict[str, int]]:
    """What fills the disks, the largest first: by partition the gauges of its log."""
    logs = [partition.log for partition in replicas.partitions.values() if partition.log is not None]
    largest = heapq.nlargest(_LOGS_SHOWN, logs, key=lambda log: log.size_bytes)
    return {
        str(log.topic_partition): {
            "LogStartOffset": log.log_start_offset,
            "LogEndOffset": log.log_end_offset,
            "Size": log.size_bytes,
            "NumLogSegments": log.segment_count,
        }
        for log in largest
    }
