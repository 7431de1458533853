"""The status of a node, JSON-able; metrics that Kafka has are under its names."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from .replica.partition import PartitionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .counters import NodeCounters
    from .log.log import Log
    from .replica.log_cleaner import LogCleaner
    from .replica.replica_manager import ReplicaManager

# Bound: logs in the status; a node may have tens of thousands.
_LOGS_SHOWN = 100


def status_of(
    replicas: ReplicaManager,
    counters: NodeCounters,
    cleaner: LogCleaner,
    now_ms: int,
    *,
    parked: int,
    offline_dirs: int,
) -> dict[str, Any]:
    """`parked`: the number of waiting requests."""
    partitions = replicas.table.partitions.values()
    leading = [p for p in partitions if p.is_leader]
    logs = [p.log for p in partitions if p.log is not None]
    return {
        "metadata_offset": replicas.table.image.offset,
        "partitions": len(partitions),
        "leaders": len(leading),
        "metrics": {  # a meter has its total
            "UnderReplicatedPartitions": sum(len(p.isr) < len(p.replicas) for p in leading),
            "UnderMinIsrPartitionCount": sum(p.is_under_min_isr for p in leading),
            "AtMinIsrPartitionCount": sum(len(p.isr) == p.min_isr for p in leading),
            "OfflineLogDirectoryCount": offline_dirs,
            "MaxLag": max((followed.lag for followed in replicas.fetchers.followed), default=0),
            "IsrShrinksPerSec": {"count": counters.isr_shrinks},
            "IsrExpandsPerSec": {"count": counters.isr_expands},
            "VerificationFailureRate": {"count": counters.failed_verifications},
            "ProducerIdCount": sum(len(log.producers.states) for log in logs),
            "PartitionsWithOpenTransactionsCount": sum(
                log.producers.states.oldest_transaction is not None for log in logs
            ),
            **cleaner.metrics(now_ms),
        },
        "isr_changes_under_way": len(replicas.isr_manager.isr_changes),
        "offline_partitions": sum(partition.state is PartitionState.OFFLINE for partition in partitions),
        "uncleanable_partitions": cleaner.uncleanable,
        "parked_requests": parked,
        "logs": _largest_logs(logs),
        "oldest_transactions": _oldest_transactions(logs),
        "counters": counters.to_mapping(),
    }


def _oldest_transactions(logs: Sequence[Log]) -> dict[str, dict[str, int]]:
    """By partition the open transaction that limits the last stable offset, the oldest first: one that stays
    there may be hanging."""
    found = [(log, oldest) for log in logs if (oldest := log.producers.states.oldest_transaction) is not None]
    return {
        str(log.topic_partition): oldest._asdict()
        for log, oldest in heapq.nsmallest(_LOGS_SHOWN, found, key=lambda pair: pair[1].timestamp_ms)
    }


def _largest_logs(logs: Sequence[Log]) -> dict[str, dict[str, int]]:
    """The gauges of the largest logs, by partition."""
    largest = heapq.nlargest(_LOGS_SHOWN, logs, key=lambda log: log.size_bytes)
    return {
        str(log.topic_partition): {
            "LogStartOffset": log.log_start_offset,
            "LogEndOffset": log.log_end_offset,
            "Size": log.size_bytes,
            "NumLogSegments": len(log.segments),
            "LastStableOffsetLag": log.high_watermark - log.last_stable_offset,
        }
        for log in largest
    }
