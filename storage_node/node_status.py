"""The status of a node, JSON-able; metrics that Kafka has are under its names."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from ..runtime.telemetry import node_table as table
from ..runtime.telemetry.node_table import NODE_METRICS
from ..runtime.telemetry.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .log.log import Log
    from .node_metrics import NodeMetrics

# Bound: logs in the status; a node may have tens of thousands.
_LOGS_SHOWN = 100


def status_of(metrics: NodeMetrics, now_ms: int) -> dict[str, Any]:
    """The values of the metrics without series of partitions, and what has no metric."""
    samples = Samples()
    for _ in metrics.pieces(samples, now_ms):
        pass
    replicas, counters = metrics.replicas, metrics.replicas.counters
    logs = [p.log for p in replicas.table.partitions.values() if p.log is not None]
    return {
        "metadata_offset": replicas.table.image.offset,
        "partitions": samples.get(table.PARTITION_COUNT),
        "leaders": samples.get(table.LEADER_COUNT),
        "metrics": samples.by_kafka_name(NODE_METRICS),
        "isr_changes_under_way": len(replicas.isr_manager.isr_changes),
        "offline_partitions": samples.get(table.OFFLINE_REPLICAS),
        "uncleanable_partitions": metrics.cleaner.uncleanable,
        "parked_requests": len(metrics.produces) + len(metrics.fetches),
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
