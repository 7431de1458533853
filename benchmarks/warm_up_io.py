"""Load before anything is timed: the JVM compiles what it runs often, and a cold one would be understated.

A window produces and reads back both sizes. Before the first one records go one by one for some seconds:
the compiler counts calls, and small batches make many.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from .group import KAFKA, PARTITIONS

if TYPE_CHECKING:
    from .session_io import Session

MOST_QUICK_S = 40.0
LEAST_FULL_S, MOST_FULL_S = 60.0, 90.0
AGREE = 0.05
LAST = 3  # windows that must agree
SMALL_S = 3.0
COUNTS = {100: 1_000_000, 1000: 700_000}  # about five seconds of Kafka with processes and topics


def warm_kafka(session: Session, *, is_quick: bool, nodes: int = 1) -> dict[str, Any]:
    """Windows until the last three agree within 5 % (a full run: for a minute at least), or time is over."""
    least_s, most_s = (0.0, MOST_QUICK_S / nodes) if is_quick else (LEAST_FULL_S, MOST_FULL_S)
    began, rates = time.monotonic(), []
    _small_batches(session)
    # a slow machine gets its windows too: the compiler counts calls, not seconds
    while (spent_s := time.monotonic() - began) < most_s or len(rates) < LAST:
        if agreed(rates) and spent_s >= least_s:
            break
        rates.append(window(session, KAFKA, nodes=nodes))
    found = {
        "seconds": round(time.monotonic() - began, 1),
        "windows": [round(rate) for rate in rates],
        "agreed": agreed(rates),
        "spread": round(spread(rates), 3),
    }
    session.say(
        f"JVM warm-up: {len(rates)} windows in {found['seconds']:.0f} s, MB/s {found['windows']}; the last"
        f" {LAST} lie within {found['spread']:.1%}"
    )
    return found


def agreed(rates: list[float]) -> bool:
    """Whether the last three lie within 5 % of their median."""
    return len(rates) >= LAST and spread(rates) <= AGREE


def spread(rates: list[float]) -> float:
    """Largest less smallest of the last three, as a share of their median."""
    last = rates[-LAST:]
    return (max(last) - min(last)) / statistics.median(last)


def window(session: Session, name: str, *, nodes: int = 1) -> float:
    """Produce and read back both sizes; MB a second of the time that this took the clients."""
    system, size_mb, seconds = session.systems[name], 0.0, 0.0
    faces = ("produce", "consume") if name == KAFKA else ("send_many", "poll")
    for size, count in COUNTS.items():
        count //= nodes  # each writes all of it
        topic = session.new_topic(name, PARTITIONS)
        order = {"loop": "produce", "face": faces[0], "size": size, "count": count}
        order |= {"acks": "all"} if nodes > 1 else {}
        (made,) = session.work([order], system, topic)
        order |= {"loop": "consume", "face": faces[1], "count": made["expected"]["count"]}
        (read,) = session.work([{**order, "partitions": list(range(PARTITIONS))}], system, topic)
        system.delete_topic(topic)
        size_mb += (made["bytes"] + read["bytes"]) / 1e6
        seconds += made["seconds"] + read["seconds"]
    return size_mb / seconds


def _small_batches(session: Session) -> None:
    """One record at a time from two processes, five under way in each."""
    topic = session.new_topic(KAFKA, PARTITIONS)
    order = {"loop": "window", "size": 100, "seconds": SMALL_S, "linger_ms": 0}
    session.work([order] * 2, session.systems[KAFKA], topic)
    session.systems[KAFKA].delete_topic(topic)
