"""The figures of a consumer, by Kafka's metric names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fetcher import Fetcher
    from .handout import Handout


def figures(fetcher: Fetcher, handout: Handout) -> dict[str, float]:
    """Totals and gauges."""
    lags = [lag for state in fetcher.states.values() if (lag := state.lag()) is not None]
    return {
        "records-consumed-total": handout.records_total,
        "bytes-fetched-total": fetcher.records_fetch_bytes,
        "fetch-total": fetcher.fetches_sent,
        "bytes-buffered": fetcher.buffered_bytes,
        "assigned-partitions": len(fetcher.states),
        "records-lag-max": max(lags, default=0),
    }
