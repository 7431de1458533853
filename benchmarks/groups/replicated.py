"""The groups of three nodes: three replicas of every partition, min.insync.replicas 2, acks=all. Pure.

The servers of a system share the same cores: the comparison is what a record costs, not how nodes scale.
"""

from __future__ import annotations

from typing import Any

from ..cells.cell import both
from ..cells.failover import FailoverCell
from ..cells.latency import OpenLoopCell, PingCell
from ..cells.throughput import ProduceCell
from ..constants import ACK_P99, CPU_PER_GB, E2E_P50, E2E_P99, GAP, HEADRACE, KAFKA, NODES, PARTITIONS, RATE
from ..group import Comparison, Group

ALL = "all"
HALF = "50 % of the slower system's most"
# Kafka's default session timeout is 9 s, headrace's 1.5 s: load goes on for at least as long after it.
LOAD_AFTER_S = {KAFKA: 18.0, HEADRACE: 6.0}
PREFIX = "three nodes, three replicas, acks=all"


def _latency(metric: str, title: str, *, is_beside: bool) -> Comparison:
    title = f"three replicas: {title}"
    return Comparison(HEADRACE, KAFKA, metric, 1.0, at_least=False, title=title, is_beside=is_beside)


def _produce_fast(
    identity: str, title: str, size: int, kafka_count: int, headrace_count: int, *, in_quick: bool
) -> Group:
    def cell(api: str, system: str, count: int) -> ProduceCell:
        return ProduceCell(api, system, {"api": api, "size": size, "count": count, "acks": ALL})

    apis = ("send", "send_many")
    return Group(
        identity,
        f"{PREFIX}: produce as fast as possible, {title}",
        (cell("produce", KAFKA, kafka_count), *(cell(api, HEADRACE, headrace_count) for api in apis)),
        (
            *(Comparison(api, "produce", RATE, 1.0, title=f"three replicas: `{api}`, {title}: records/s")
              for api in apis),
            *(Comparison(api, "produce", CPU_PER_GB, at_least=False) for api in apis),
        ),
        in_quick=in_quick,
        nodes=NODES,
    )  # fmt: skip


def _half_load() -> Group:
    spec: dict[str, Any] = {"size": 1000, "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL,
                            "share": 0.5, "seconds": 5.0, "warm_s": 1.0}  # fmt: skip
    return Group(
        "r3-50",
        f"{PREFIX}: open loop, {HALF}",
        both(OpenLoopCell, spec),
        (
            _latency(E2E_P50, f"latency p50, {HALF}", is_beside=True),
            _latency(E2E_P99, f"latency p99, {HALF}", is_beside=False),
            Comparison(HEADRACE, KAFKA, ACK_P99, at_least=False),
            Comparison(HEADRACE, KAFKA, CPU_PER_GB, at_least=False),
        ),
        in_quick=False,
        nodes=NODES,
    )


def _ping() -> Group:
    spec = {"size": 100, "count": 2_000, "warm": 500, "linger_ms": 0, "partition_count": 1, "acks": ALL}
    return Group(
        "r3-ping",
        f"{PREFIX}: one record of 100 B in flight, linger 0",
        both(PingCell, spec),
        (
            _latency(E2E_P50, "one record in flight, round trip p50", is_beside=True),
            _latency(E2E_P99, "one record in flight, round trip p99", is_beside=True),
        ),
        in_quick=False,
        nodes=NODES,
        pairs=(3, 1),
    )


def _fail_over() -> Group:
    def cell(system: str) -> FailoverCell:
        spec = {"size": 1000, "rate": 2_000, "partition_count": PARTITIONS, "linger_ms": 5, "acks": ALL,
                "warm_s": 2.0, "after_s": LOAD_AFTER_S[system]}  # fmt: skip
        return FailoverCell(system, system, spec)

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
    _produce_fast("r3-100", "100 B", 100, 1_500_000, 4_000_000, in_quick=False),
    _produce_fast("r3-1k", "1 KB", 1000, 300_000, 600_000, in_quick=True),
    _half_load(),
    _ping(),
    _fail_over(),
)
