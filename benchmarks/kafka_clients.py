"""The groups of Kafka's own clients (W18): one client, the same settings, against both systems. Pure.

What differs is the server alone, headrace's listener for Kafka's clients or Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from .group import (
    ACK_P99,
    CONNECTION_KB,
    CONNECTIONS,
    CPU_PER_GB,
    E2E_P50,
    E2E_P99,
    HEADRACE,
    KAFKA,
    PARTITIONS,
    RATE,
    VISIT_CPU,
    Cell,
    Comparison,
    Group,
)
from .replicated import ALL, HALF, NODES

GOAL = 1.0
NAMES = {100: "100 B", 1000: "1 KB"}
# Records of a tool's run, by nodes and size: seconds, and below 2 GB written.
COUNTS = {1: {100: 6_000_000, 1000: 1_500_000}, NODES: {100: 2_000_000, 1000: 500_000}}
# records/s; beyond, client and reader want more than their two cores and are what is measured
METER_MOST = {100: 250_000, 1000: 100_000}
TIMES = 3  # that a topic is read in one cell: once takes a second
# The same of librdkafka from Python.
LIBRDKAFKA_COUNTS = {1: {100: 1_500_000, 1000: 800_000}, NODES: {100: 800_000, 1000: 300_000}}


def _identity(what: str, nodes: int) -> str:
    return f"w18-r3-{what}" if nodes == NODES else f"w18-{what}"


def _short(size: int) -> str:
    return "1k" if size == 1000 else str(size)


def _title(what: str, size: int, nodes: int) -> str:
    return f"{what}, {'three replicas, ' if nodes == NODES else ''}{NAMES[size]}"


def _both(kind: str, spec: dict[str, Any], name: str = "") -> tuple[Cell, Cell]:
    suffix = f" {name}" if name else ""
    return Cell(f"{KAFKA}{suffix}", KAFKA, kind, spec), Cell(f"{HEADRACE}{suffix}", HEADRACE, kind, spec)


def _judged(title: str) -> tuple[Comparison, Comparison]:
    return (
        Comparison(HEADRACE, KAFKA, RATE, GOAL, title=f"{title}: records/s"),
        Comparison(HEADRACE, KAFKA, CPU_PER_GB, GOAL, at_least=False, title=f"{title}: server CPU s per GB"),
    )


def _more(nodes: int) -> dict[str, Any]:
    """Of every group of a tool: Kafka runs it twice before it counts, headrace once."""
    return {"nodes": nodes, "warm_rounds": 2, "pairs": (4 if nodes == 1 else 3, 1)}


def _producing(size: int, nodes: int) -> Group:
    spec = {"size": size, "count": COUNTS[nodes][size], "acks": ALL}
    title = _title("ProducerPerformance", size, nodes)
    return Group(
        _identity(f"produce-{_short(size)}", nodes),
        f"Kafka's own {title}",
        _both("tool_produce", spec),
        _judged(title),
        in_quick=(size, nodes) == (1000, 1),
        **_more(nodes),
    )


def _preload(size: int, nodes: int) -> dict[str, Any]:
    return {"size": size, "count": COUNTS[nodes][size], "acks": ALL}


def _reading(size: int, nodes: int) -> Group:
    title = _title("ConsumerPerformance", size, nodes)
    return Group(
        _identity(f"consume-{_short(size)}", nodes),
        f"Kafka's own {title}, from the page cache",
        _both("tool_consume", {"size": size, "acks": ALL, "times": TIMES}),
        _judged(title),
        preload=_preload(size, nodes),
        in_quick=False,
        **_more(nodes),
    )


def _librdkafka(size: int, nodes: int) -> Group:
    """Also what the half load is the half of."""
    spec = {"client": KAFKA, "size": size, "acks": ALL}
    producing = {**spec, "face": "produce+callback", "count": LIBRDKAFKA_COUNTS[nodes][size]}
    kinds = (("produce", producing), ("consume", {**spec, "face": "consume"}))
    return Group(
        _identity(f"librdkafka-{_short(size)}", nodes),
        _title("confluent-kafka for both", size, nodes),
        tuple(cell for kind, spec in kinds for cell in _both(kind, spec, kind)),
        tuple(
            Comparison(f"{HEADRACE} {kind}", f"{KAFKA} {kind}", metric, GOAL, at_least=metric == RATE,
                       title=f"{_title(f'confluent-kafka, {kind}', size, nodes)}: {what}", is_beside=True)
            for kind, _ in kinds
            for metric, what in ((RATE, "records/s"), (CPU_PER_GB, "server CPU s per GB"))
        ),
        preload=_preload(size, nodes),
        in_quick=False,
        nodes=nodes,
        pairs=(2, 1),
    )  # fmt: skip


def _half_load(size: int, nodes: int) -> Group:
    spec = {"client": KAFKA, "size": size, "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL,
            "share": 0.5, "most": METER_MOST[size], "seconds": 4.0, "warm_s": 1.0}  # fmt: skip
    title = _title(f"confluent-kafka for both, {HALF}", size, nodes)
    return Group(
        _identity(f"50-{_short(size)}", nodes),
        f"open loop, {title}",
        _both("openloop", spec),
        (
            Comparison(HEADRACE, KAFKA, E2E_P99, GOAL, at_least=False, title=f"{title}: latency p99"),
            Comparison(HEADRACE, KAFKA, E2E_P50, at_least=False),
            Comparison(HEADRACE, KAFKA, "ack_p99_ms", at_least=False),
            Comparison(HEADRACE, KAFKA, CPU_PER_GB, GOAL, at_least=False, is_beside=True,
                       title=f"{title}: server CPU s per GB"),
        ),
        in_quick=False,
        nodes=nodes,
        pairs=(4 if nodes == 1 else 3, 1),
    )  # fmt: skip


# A producer that all of them disturb alike.
_STEADY: dict[str, Any] = {"client": KAFKA, "size": 1000, "rate": 10_000, "seconds": 3.0, "warm_s": 1.0,
                           "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL}  # fmt: skip
IDLE, VISITORS, PACE = 2_000, 500, 1_000


def _beside_connections() -> Group:
    """One group, so that all of it has the same quiet cells."""
    kinds = {
        "quiet": {},
        "idle": {"connections": {"loop": "idle", "count": IDLE}},
        "paced": {"connections": {"loop": "churn", "count": VISITORS, "pace": PACE}},
        "churn": {"connections": {"loop": "churn", "count": VISITORS}},
    }

    def p99(kind: str, what: str, *, is_beside: bool = False) -> Comparison:
        title = f"ack p99 of a producer at 10,000 records/s beside {what}"
        return Comparison(f"{HEADRACE} {kind}", f"{KAFKA} {kind}", ACK_P99, GOAL, at_least=False, title=title,
                          is_beside=is_beside)  # fmt: skip

    visitors = f"{VISITORS} clients that come, ask and go"
    return Group(
        "w18-connections",
        f"connections beside 10,000 records/s of 1 KB: {IDLE:,} idle ones; {visitors}",
        tuple(cell for kind, more in kinds.items() for cell in _both("openloop", {**_STEADY, **more}, kind)),
        (
            p99("quiet", "nothing", is_beside=True),
            p99("idle", f"{IDLE:,} idle connections"),
            p99("paced", f"{visitors}, {PACE:,} times a second"),
            p99("churn", f"{visitors}, as often as they can", is_beside=True),
            Comparison(f"{HEADRACE} churn", f"{KAFKA} churn", CONNECTIONS, GOAL,
                       title=f"{visitors}, as often as they can: connections/s"),
            Comparison(f"{HEADRACE} churn", f"{KAFKA} churn", VISIT_CPU, GOAL, at_least=False,
                       title=f"{visitors}, as often as they can: server CPU a connection"),
        ),
        in_quick=False,
        pairs=(3, 1),
    )  # fmt: skip


def _memory() -> Group:
    return Group(
        "w18-memory",
        f"memory of a fresh server for each of {IDLE:,} idle connections",
        _both("memory", {"connections": IDLE}),
        (Comparison(HEADRACE, KAFKA, CONNECTION_KB, GOAL, at_least=False,
                    title="an idle connection of a Kafka client: KB of memory"),),
        in_quick=False,
        nodes=0,
        pairs=(2, 1),
    )  # fmt: skip


def _all_of(nodes: int) -> tuple[Group, ...]:
    """Those that read the same stand together."""
    makes = (_producing, _reading, _librdkafka, _half_load)
    return tuple(make(size, nodes) for size in (1000, 100) for make in makes)


KAFKA_CLIENTS: tuple[Group, ...] = (*_all_of(1), _beside_connections(), _memory())
KAFKA_CLIENTS_OF_THREE: tuple[Group, ...] = _all_of(NODES)
