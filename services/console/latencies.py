"""Times of requests at a node, from the text that Prometheus reads there. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from ...runtime.telemetry.node_table import TOTAL_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE = re.compile(
    re.escape(f"{TOTAL_TIME.prometheus}_bucket")
    + r'\{request="([^"\\]{1,60})",le="([^"]{1,30})"\} (\d{1,18})\s*'
)
MOST_REQUESTS = 100  # Bound: kinds of requests


class Latency(NamedTuple):
    """Requests of one kind since the start of the node, and the times within which half and 99 % of them were
    answered: upper bounds of buckets, at most twice too high. Infinite beyond the last bucket."""

    request: str
    number: int
    p50_ms: float
    p99_ms: float


def latencies_of(lines: Iterable[str]) -> list[Latency]:
    """The kinds of requests that were served, the most frequent first."""
    buckets: dict[str, list[tuple[float, int]]] = {}
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is not None and (found[1] in buckets or len(buckets) < MOST_REQUESTS):
            bound = math.inf if found[2] == "+Inf" else float(found[2])
            buckets.setdefault(found[1], []).append((bound, int(found[3])))
    rows = [
        Latency(name, count, _within(some, 0.5, count), _within(some, 0.99, count))
        for name, some in buckets.items()
        if (count := max(seen for _, seen in some))
    ]
    return sorted(rows, key=lambda row: (-row.number, row.request))


def _within(buckets: list[tuple[float, int]], ratio: float, count: int) -> float:
    return next(bound for bound, seen in sorted(buckets) if seen >= ratio * count)
