"""The metrics of a consumer, by Kafka's names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .fetch_collector import FetchCollector
    from .fetcher import Fetcher


def consumer_metrics(fetcher: Fetcher, collector: FetchCollector) -> dict[str, float]:
    """Totals and gauges; the name of a partition's metric begins with the partition."""
    by_partition: dict[str, float] = {}
    for tp, state in sorted(fetcher.states.items()):
        position, lag = state.next_position(), state.lag()
        if lag is not None:
            by_partition[f"{tp}.records-lag"] = lag
        if position is not None and state.log_start_offset is not None:
            by_partition[f"{tp}.records-lead"] = max(position - state.log_start_offset, 0)
    return {
        "records-consumed-total": collector.records_total,
        "bytes-fetched-total": fetcher.records_fetch_bytes,
        "fetch-total": fetcher.fetches_sent,
        "bytes-buffered": fetcher.buffered_bytes,
        "assigned-partitions": len(fetcher.states),
        "records-lag-max": _over_partitions(max, by_partition, "records-lag"),
        "records-lead-min": _over_partitions(min, by_partition, "records-lead"),
        **by_partition,
    }


def _over_partitions(
    pick: Callable[[Iterable[float]], float], metrics: Mapping[str, float], name: str
) -> float:
    values = [value for key, value in metrics.items() if key.endswith(f".{name}")]
    return pick(values) if values else 0
