"""The groups of Kafka's own clients (W18): one client, the same settings, against both systems. Pure.

What differs is the server alone, headrace's listener for Kafka's clients or Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from .group import CPU_PER_GB, HEADRACE, KAFKA, RATE, Cell, Comparison, Group
from .replicated import NODES

GOAL = 1.0
NAMES = {100: "100 B", 1000: "1 KB"}


def _short(size: int) -> str:
    return "1k" if size == 1000 else str(size)


def _where(nodes: int) -> str:
    return "three replicas, " if nodes == NODES else ""


def _identity(what: str, nodes: int) -> str:
    return f"w18-r3-{what}" if nodes == NODES else f"w18-{what}"


def _both(kind: str, spec: dict[str, Any], name: str = "") -> tuple[Cell, Cell]:
    suffix = f" {name}" if name else ""
    return Cell(f"{KAFKA}{suffix}", KAFKA, kind, spec), Cell(f"{HEADRACE}{suffix}", HEADRACE, kind, spec)


def _producing(size: int, count: int, nodes: int, *, in_quick: bool = False) -> Group:
    spec = {"tool": "produce", "size": size, "count": count, "acks": "all"}
    title = f"ProducerPerformance, {_where(nodes)}{NAMES[size]}"
    return Group(
        _identity(f"produce-{_short(size)}", nodes),
        f"Kafka's own {title}",
        _both("tool", spec),
        (
            Comparison(HEADRACE, KAFKA, RATE, GOAL, title=f"{title}: records/s"),
            Comparison(HEADRACE, KAFKA, CPU_PER_GB, GOAL, at_least=False,
                       title=f"{title}: server CPU s per GB"),
        ),
        in_quick=in_quick,
        nodes=nodes,
        warm_rounds=1,
        pairs=(4, 1),
    )  # fmt: skip


KAFKA_CLIENTS: tuple[Group, ...] = (_producing(1000, 1_000_000, 1, in_quick=True),)
