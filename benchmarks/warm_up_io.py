"""Load before the measurement: a JVM compiles what runs often, and a cold one would look too slow.

A window produces and consumes records of both sizes. Before the first one, records are sent one by one for
some seconds: the JIT counts calls, and small batches make many.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from .cells.figures import BYTES_PER_MB
from .constants import KAFKA, PARTITIONS

if TYPE_CHECKING:
    from .harness import Harness

MOST_QUICK_S = 40.0
LEAST_FULL_S, MOST_FULL_S = 60.0, 90.0
AGREE = 0.05
LAST = 3  # windows that must agree
SMALL_S = 3.0
COUNTS = {100: 1_000_000, 1000: 700_000}  # takes Kafka about five seconds with processes and topics


def warm_kafka(harness: Harness, *, is_quick: bool) -> dict[str, Any]:
    """Windows until the last three agree within 5 % (a full run: for at least a minute), or a time limit."""
    least_s, most_s = (0.0, MOST_QUICK_S / harness.nodes) if is_quick else (LEAST_FULL_S, MOST_FULL_S)
    began = time.monotonic()
    rates: list[float] = []
    _small_batches(harness)
    # at least three windows on a slow machine, too: the JIT counts calls, not seconds
    while (spent_s := time.monotonic() - began) < most_s or len(rates) < LAST:
        if agreed(rates) and spent_s >= least_s:
            break
        rates.append(window(harness, KAFKA))
    found = {
        "seconds": round(time.monotonic() - began, 1),
        "windows": [round(rate) for rate in rates],
        "agreed": agreed(rates),
        "spread": round(spread(rates), 3),
    }
    harness.say(
        f"JVM warm-up: {len(rates)} windows in {found['seconds']:.0f} s, MB/s {found['windows']}; the last"
        f" {LAST} lie within {found['spread']:.1%}"
    )
    return found


def agreed(rates: list[float]) -> bool:
    """Whether the last three lie within 5 % of their median."""
    return len(rates) >= LAST and spread(rates) <= AGREE


def spread(rates: list[float]) -> float:
    """The range of the last three as a share of their median."""
    last = rates[-LAST:]
    return (max(last) - min(last)) / statistics.median(last)


def window(harness: Harness, name: str) -> float:
    """Produce and consume both sizes; MB/s of the clients' time."""
    system, size_mb, seconds = harness.system(name), 0.0, 0.0
    produce, consume = ("produce", "consume") if name == KAFKA else ("send_many", "poll")
    for size, count in COUNTS.items():
        order = {"loop": "produce", "api": produce, "size": size,
                 "count": count // harness.nodes}  # fmt: skip # each node writes all of it
        order |= {"acks": "all"} if harness.nodes > 1 else {}
        with harness.topic(name, PARTITIONS) as topic:
            (sent,) = harness.run_clients([order], system, topic)
            order |= {"loop": "consume", "api": consume, "count": sent["expected"]["count"]}
            (read,) = harness.run_clients([{**order, "partitions": list(range(PARTITIONS))}], system, topic)
        size_mb += (sent["bytes"] + read["bytes"]) / BYTES_PER_MB
        seconds += sent["seconds"] + read["seconds"]
    return size_mb / seconds


def _small_batches(harness: Harness) -> None:
    """Two processes with at most five records in flight each."""
    order = {"loop": "window", "size": 100, "seconds": SMALL_S, "linger_ms": 0}
    with harness.topic(KAFKA, PARTITIONS) as topic:
        harness.run_clients([order] * 2, harness.system(KAFKA), topic)
