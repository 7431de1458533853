"""The groups of Kafka's own clients (W18): the same client and settings against both systems. Pure.

Only the server differs: headrace's listener for Kafka clients, or Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from ..cells.cell import Cell, both
from ..cells.connections import ConnectionMemoryCell
from ..cells.kafka_tools import ToolConsumeCell, ToolProduceCell
from ..cells.latency import OpenLoopCell
from ..cells.preload import ToolPreload
from ..cells.throughput import ConsumeCell, ProduceCell
from ..constants import (
    ACK_P99,
    CONNECTION_KB,
    CONNECTIONS,
    CPU_PER_GB,
    E2E_P50,
    E2E_P99,
    HEADRACE,
    KAFKA,
    NODES,
    PARTITIONS,
    RATE,
    VISIT_CPU,
)
from ..group import Comparison, Group
from .replicated import ALL, HALF

GOAL = 1.0
SIZES = {1000: ("1k", "1 KB"), 100: ("100", "100 B")}  # (in ids, in titles)
# Records of one run of a tool, by nodes and size: some seconds, and less than 2 GB written.
TOOL_COUNTS = {1: {100: 6_000_000, 1000: 1_500_000}, NODES: {100: 2_000_000, 1000: 500_000}}
LIBRDKAFKA_COUNTS = {1: {100: 1_500_000, 1000: 800_000}, NODES: {100: 800_000, 1000: 300_000}}
# records/s of the open loop; above that, client and reader need more than their two cores
METER_MOST = {100: 250_000, 1000: 100_000}
TIMES = 3  # a consume cell reads its topic this often: once takes only a second
IDLE, VISITORS, PACE = 2_000, 500, 1_000


class _Case:
    """Groups of one record size and number of nodes: their ids, titles and common settings."""

    def __init__(self, size: int, nodes: int) -> None:
        self.size, self.nodes = size, nodes
        self._short, self._long = SIZES[size]
        self.is_single = nodes == 1
        self.preload = ToolPreload(size, TOOL_COUNTS[nodes][size], TOOL_COUNTS[nodes][size], acks=ALL)

    def id(self, what: str) -> str:
        return f"w18-{what}-{self._short}" if self.is_single else f"w18-r3-{what}-{self._short}"

    def title(self, what: str) -> str:
        return f"{what}, {'' if self.is_single else 'three replicas, '}{self._long}"

    def tool(self, kind: str, tool: str, cells: tuple[Cell, ...], suffix: str = "", **more: Any) -> Group:
        """A group of one of Kafka's tools."""
        title = self.title(tool)
        return Group(
            self.id(kind),
            f"Kafka's own {title}{suffix}",
            cells,
            (
                Comparison(HEADRACE, KAFKA, RATE, GOAL, title=f"{title}: records/s"),
                Comparison(HEADRACE, KAFKA, CPU_PER_GB, GOAL, at_least=False,
                           title=f"{title}: server CPU s per GB"),
            ),
            nodes=self.nodes,
            warm_rounds=2,
            pairs=(4 if self.is_single else 3, 1),
            **more,
        )  # fmt: skip


def _tool_produce(case: _Case) -> Group:
    spec = {"size": case.size, "count": TOOL_COUNTS[case.nodes][case.size], "acks": ALL}
    in_quick = case.is_single and case.size == 1000
    return case.tool("produce", "ProducerPerformance", both(ToolProduceCell, spec), in_quick=in_quick)


def _tool_consume(case: _Case) -> Group:
    cells = both(ToolConsumeCell, {"size": case.size, "acks": ALL, "times": TIMES})
    return case.tool("consume", "ConsumerPerformance", cells, ", from the page cache",
                     preload=case.preload, in_quick=False)  # fmt: skip


def _librdkafka(case: _Case) -> Group:
    """Its rates also determine the load of `_half_load`."""
    spec = {"client": KAFKA, "size": case.size, "acks": ALL}
    count = LIBRDKAFKA_COUNTS[case.nodes][case.size]
    cells = (
        *both(ProduceCell, {**spec, "api": "produce+callback", "count": count}, "produce"),
        *both(ConsumeCell, {**spec, "api": "consume"}, "consume"),
    )
    return Group(
        case.id("librdkafka"),
        case.title("confluent-kafka for both"),
        cells,
        tuple(
            Comparison(f"{HEADRACE} {kind}", f"{KAFKA} {kind}", metric, GOAL, at_least=metric == RATE,
                       title=f"{case.title(f'confluent-kafka, {kind}')}: {what}", is_beside=True)
            for kind in ("produce", "consume")
            for metric, what in ((RATE, "records/s"), (CPU_PER_GB, "server CPU s per GB"))
        ),
        preload=case.preload,
        in_quick=False,
        nodes=case.nodes,
        pairs=(2, 1),
    )  # fmt: skip


def _half_load(case: _Case) -> Group:
    spec = {"client": KAFKA, "size": case.size, "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL,
            "share": 0.5, "most": METER_MOST[case.size], "seconds": 4.0, "warm_s": 1.0}  # fmt: skip
    title = case.title(f"confluent-kafka for both, {HALF}")
    return Group(
        case.id("50"),
        f"open loop, {title}",
        both(OpenLoopCell, spec),
        (
            Comparison(HEADRACE, KAFKA, E2E_P99, GOAL, at_least=False, title=f"{title}: latency p99"),
            Comparison(HEADRACE, KAFKA, E2E_P50, at_least=False),
            Comparison(HEADRACE, KAFKA, ACK_P99, at_least=False),
            Comparison(HEADRACE, KAFKA, CPU_PER_GB, GOAL, at_least=False, is_beside=True,
                       title=f"{title}: server CPU s per GB"),
        ),
        in_quick=False,
        nodes=case.nodes,
        pairs=(4 if case.is_single else 3, 1),
    )  # fmt: skip


def _connections() -> Group:
    """One group, so that all kinds of connections are compared with the same undisturbed cells."""
    spec: dict[str, Any] = {"client": KAFKA, "size": 1000, "rate": 10_000, "seconds": 3.0, "warm_s": 1.0,
                            "linger_ms": 5, "partition_count": PARTITIONS, "acks": ALL}  # fmt: skip
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

    visitors = f"{VISITORS} clients that connect and disconnect"
    busy = f"{visitors}, as often as they can"
    return Group(
        "w18-connections",
        f"connections beside 10,000 records/s of 1 KB: {IDLE:,} idle ones; {visitors}",
        tuple(cell for kind, more in kinds.items() for cell in both(OpenLoopCell, {**spec, **more}, kind)),
        (
            p99("quiet", "nothing", is_beside=True),
            p99("idle", f"{IDLE:,} idle connections"),
            p99("paced", f"{visitors}, {PACE:,} times a second"),
            p99("churn", busy, is_beside=True),
            Comparison(f"{HEADRACE} churn", f"{KAFKA} churn", CONNECTIONS, GOAL,
                       title=f"{busy}: connections/s"),
            Comparison(f"{HEADRACE} churn", f"{KAFKA} churn", VISIT_CPU, GOAL, at_least=False,
                       title=f"{busy}: server CPU per connection"),
        ),
        in_quick=False,
        pairs=(3, 1),
    )  # fmt: skip


def _connection_memory() -> Group:
    return Group(
        "w18-memory",
        f"memory of a fresh server for each of {IDLE:,} idle connections",
        both(ConnectionMemoryCell, {"connections": IDLE}),
        (Comparison(HEADRACE, KAFKA, CONNECTION_KB, GOAL, at_least=False,
                    title="an idle connection of a Kafka client: KB of memory"),),
        in_quick=False,
        nodes=0,
        pairs=(2, 1),
    )  # fmt: skip


def _cases(nodes: int) -> tuple[Group, ...]:
    """Groups with the same preload follow each other."""
    makers = (_tool_produce, _tool_consume, _librdkafka, _half_load)
    return tuple(maker(_Case(size, nodes)) for size in SIZES for maker in makers)


KAFKA_CLIENTS: tuple[Group, ...] = (*_cases(1), _connections(), _connection_memory())
KAFKA_CLIENTS_OF_THREE: tuple[Group, ...] = _cases(NODES)
