"""The groups of security (W20): TLS beside Kafka's, CURVE beside no encryption, and the authorizer. Pure."""

from __future__ import annotations

from typing import Any

from ..cells.authorizer import AuthorizerCell
from ..cells.cell import both
from ..cells.kafka_tools import ToolConsumeCell, ToolProduceCell
from ..cells.latency import OpenLoopCell
from ..cells.preload import ToolPreload
from ..cells.throughput import ProduceCell
from ..constants import (
    ACK_P99,
    AUTHORIZED_US,
    CONNECTIONS,
    CPU_PER_GB,
    CURVE,
    HEADRACE,
    KAFKA,
    LOAD_S,
    LOOK_UP_US,
    PARTITIONS,
    RATE,
    VISIT_CPU,
)
from ..group import Comparison, Group, Limit
from .replicated import ALL

TOOL_COUNT, TIMES = 500_000, 3
CURVE_COUNT = 1_000_000
TLS_VISITORS, TLS_PACE = 200, 1_000
RULES, CHECKS = 100_000, 100_000
_TOOL = {"size": 1000, "count": TOOL_COUNT, "acks": ALL, "has_tls": True}


def _against_kafka(what: str) -> tuple[Comparison, ...]:
    return (
        Comparison(HEADRACE, KAFKA, RATE, 1.0, title=f"{what}, SASL_SSL, 1 KB: records/s"),
        Comparison(HEADRACE, KAFKA, CPU_PER_GB, at_least=False),
    )


def _connections() -> Group:
    """A client on a listener without TLS, beside others that come and go by TLS."""
    spec: dict[str, Any] = {"client": KAFKA, "size": 1000, "rate": 10_000, "seconds": 3.0, "warm_s": 1.0,
                            "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL}  # fmt: skip
    churn = {"loop": "churn", "count": TLS_VISITORS, "pace": TLS_PACE, "has_tls": True}
    cells = (*both(OpenLoopCell, spec, "quiet"), *both(OpenLoopCell, {**spec, "connections": churn}, "TLS"))
    what = f"{TLS_PACE:,} TLS connections a second that come and go"
    return Group(
        "w20-tls-connections",
        f"{what}, at most {TLS_VISITORS} at a time, beside 10,000 records/s of 1 KB",
        cells,
        (
            Comparison(f"{HEADRACE} TLS", f"{HEADRACE} quiet", ACK_P99, 2.0, at_least=False,
                       title=f"ack p99 beside {what}"),
            Comparison(f"{KAFKA} TLS", f"{KAFKA} quiet", ACK_P99, at_least=False),
            Comparison(f"{HEADRACE} TLS", f"{KAFKA} TLS", ACK_P99, at_least=False),
            Comparison(f"{HEADRACE} TLS", f"{KAFKA} TLS", CONNECTIONS),
            Comparison(f"{HEADRACE} TLS", f"{KAFKA} TLS", VISIT_CPU, at_least=False),
        ),
        has_tls=True,
        warm_rounds=1,
        pairs=(3, 1),
    )  # fmt: skip


SECURITY: tuple[Group, ...] = (
    Group(
        "w20-tls-produce",
        "Kafka's own ProducerPerformance by SASL_SSL, 1 KB",
        both(ToolProduceCell, _TOOL),
        _against_kafka("ProducerPerformance"),
        has_tls=True,
        warm_rounds=2,
        pairs=(4, 1),
    ),
    Group(
        "w20-tls-consume",
        "Kafka's own ConsumerPerformance by SASL_SSL, 1 KB, from the page cache",
        both(ToolConsumeCell, {**_TOOL, "times": TIMES}),
        _against_kafka("ConsumerPerformance"),
        preload=ToolPreload(1000, TOOL_COUNT, TOOL_COUNT, acks=ALL),
        has_tls=True,
        warm_rounds=2,
        pairs=(4, 1),
    ),
    _connections(),
    Group(
        "w20-curve",
        "`send_many` by CURVE and without encryption, 1 KB",
        tuple(
            ProduceCell(name, system, {"api": "send_many", "size": 1000, "count": CURVE_COUNT})
            for name, system in (("plain", HEADRACE), ("CURVE", CURVE))
        ),
        (
            Comparison("CURVE", "plain", RATE, 0.5, title="`send_many` by CURVE, 1 KB: records/s"),
            Comparison("CURVE", "plain", CPU_PER_GB, at_least=False),
        ),
        has_curve=True,
    ),
    Group(
        "w20-authorizer",
        f"the authorizer of a node with {RULES:,} rules",
        (AuthorizerCell("rules", HEADRACE, {"count": RULES, "rounds": CHECKS}),),
        limits=(
            Limit(
                "rules", AUTHORIZED_US, 2.0, "us", "an authorized request of six partitions, warm: more us"
            ),
            Limit("rules", LOAD_S, 2.0, "s", f"{RULES:,} rules: seconds to load"),
            Limit("rules", LOOK_UP_US, 5.0, "us", f"{RULES:,} rules: us to look one up, cold"),
        ),
    ),
)
