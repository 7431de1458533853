"""The groups of three nodes: every partition has three replicas, two of them must have a record (acks=all).

Pure. Both clusters share the servers' cores: what is compared is what a record costs, not how it scales.
"""

from __future__ import annotations

from typing import Any

from .group import (
    CPU_PER_GB,
    E2E_P50,
    E2E_P99,
    GAP,
    HEADRACE,
    KAFKA,
    PARTITIONS,
    RATE,
    Cell,
    Comparison,
    Group,
)

NODES = 3
ALL = "all"
HALF = "50 % of the slower system's most"
# Kafka's default session is 9 s, headrace's 1.5 s: each goes on for as long again, to be seen to go on.
LOAD_AFTER_S = {KAFKA: 18.0, HEADRACE: 6.0}


def _producing(size: int, count: int, more: int, title: str, *, in_quick: bool) -> Group:
    def cell(face: str, system: str) -> Cell:
        spec = {"face": face, "size": size, "count": count if system == KAFKA else more, "acks": ALL}
        return Cell(face, system, "produce", spec)

    def rate(face: str) -> Comparison:
        return Comparison(face, "produce", RATE, 1.0, title=f"three replicas: `{face}`, {title}: records/s")

    def cpu(face: str) -> Comparison:
        return Comparison(face, "produce", CPU_PER_GB, at_least=False)

    return Group(
        f"r3-{title.replace(' ', '').lower().removesuffix('b')}",
        f"three nodes, three replicas, acks=all: produce as fast as it goes, {title}",
        (cell("produce", KAFKA), cell("send", HEADRACE), cell("send_many", HEADRACE)),
        (rate("send"), rate("send_many"), cpu("send"), cpu("send_many")),
        in_quick=in_quick,
        nodes=NODES,
    )


def _half_load() -> Group:
    spec: dict[str, Any] = {"size": 1000, "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL,
                            "share": 0.5, "seconds": 5.0, "warm_s": 1.0}  # fmt: skip

    def latency(metric: str, name: str) -> Comparison:
        title = f"three replicas: latency {name}, {HALF}"
        return Comparison(
            HEADRACE, KAFKA, metric, 1.0, at_least=False, title=title, is_beside=metric != E2E_P99
        )

    return Group(
        "r3-50",
        f"three nodes, three replicas, acks=all: open loop, {HALF}",
        (Cell(KAFKA, KAFKA, "openloop", spec), Cell(HEADRACE, HEADRACE, "openloop", spec)),
        (latency(E2E_P50, "p50"), latency(E2E_P99, "p99"),
         Comparison(HEADRACE, KAFKA, "ack_p99_ms", at_least=False),
         Comparison(HEADRACE, KAFKA, CPU_PER_GB, at_least=False)),
        in_quick=False,
        nodes=NODES,
    )  # fmt: skip


def _ping() -> Group:
    spec = {"size": 100, "count": 2_000, "warm": 500, "linger_ms": 0, "partition_count": 1, "acks": ALL}

    def latency(metric: str, name: str) -> Comparison:
        title = f"three replicas: one record under way, there and back {name}"
        return Comparison(HEADRACE, KAFKA, metric, 1.0, at_least=False, title=title, is_beside=True)

    return Group(
        "r3-ping",
        "three nodes, three replicas, acks=all: one record of 100 B under way, linger 0",
        (Cell(KAFKA, KAFKA, "ping", spec), Cell(HEADRACE, HEADRACE, "ping", spec)),
        (latency(E2E_P50, "p50"), latency(E2E_P99, "p99")),
        in_quick=False,
        nodes=NODES,
        pairs=(3, 1),
    )


def _fail_over() -> Group:
    def cell(system: str) -> Cell:
        spec = {"size": 1000, "rate": 2_000, "partition_count": PARTITIONS, "linger_ms": 5, "acks": ALL,
                "warm_s": 2.0, "after_s": LOAD_AFTER_S[system]}  # fmt: skip
        return Cell(system, system, "failover", spec)

    title = "SIGKILL of a leader's node at 2,000 records/s: longest time without acknowledgements"
    return Group(
        "failover",
        "SIGKILL of a leader's node, acks=all, all settings of servers defaults",
        (cell(KAFKA), cell(HEADRACE)),
        (Comparison(HEADRACE, KAFKA, GAP, 0.25, at_least=False, title=title),),
        nodes=NODES,
        pairs=(5, 1),  # Kafka's round takes half a minute
    )


REPLICATED: tuple[Group, ...] = (
    _producing(100, 1_500_000, 4_000_000, "100 B", in_quick=False),
    _producing(1000, 300_000, 600_000, "1 KB", in_quick=True),
    _half_load(),
    _ping(),
    _fail_over(),
)
