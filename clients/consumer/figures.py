"""The figures of a consumer, by Kafka's metric names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .fetcher import Fetcher
    from .handout import Handout


def figures(fetcher: Fetcher, handout: Handout) -> dict[str, float]:
    """Totals and gauges; those of a partition begin with its name."""
    found: dict[str, float] = {}
    for tp, state in sorted(fetcher.states.items()):
        position, lag = state.next_position(), state.lag()
        if lag is not None:
            found[f"{tp}.records-lag"] = lag
        if position is not None and state.log_start_offset is not None:
            found[f"{tp}.records-lead"] = max(position - state.log_start_offset, 0)
    return {
        "records-consumed-total": handout.records_total,
        "bytes-fetched-total": fetcher.records_fetch_bytes,
        "fetch-total": fetcher.fetches_sent,
        "bytes-buffered": fetcher.buffered_bytes,
        "assigned-partitions": len(fetcher.states),
        "records-lag-max": _of_all(max, found, "records-lag"),
        "records-lead-min": _of_all(min, found, "records-lead"),
        **found,
    }


def _of_all(pick: Callable[[Iterable[float]], float], found: Mapping[str, float], name: str) -> float:
    known = [value for key, value in found.items() if key.endswith(f".{name}")]
    return pick(known) if known else 0
