"""Scenario 49 of RELIABILITY 1.8: consume, transform, produce while nodes and copiers are killed. The target
ends equal to the source, also for a read_committed consumer that ran all the time. The long tests have the
sizes of Kafka's TransactionsTest."""

import time
from typing import Any

import pytest
from copying import Copying

FIGURES = "faults"  # as in conftest

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"], "session_timeout_ms": 6_000, "heartbeat_interval_ms": 500},
    "cooperative": {
        "assignors": ["cooperative-sticky"], "session_timeout_ms": 6_000, "heartbeat_interval_ms": 500,
    },
    "new": {"group_protocol": "consumer"},
}  # fmt: skip
NODE = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.heartbeat.interval.ms": 500,
}
SHORT, LONG = (6_000, 20), (100_000, 750)


def noted(record_property: Any, copying: Copying, begun_s: float) -> None:
    """Add figures to the summary."""
    took_s = time.monotonic() - begun_s
    text = f"{copying.copied} copied, {copying.bounces} bounces, {copying.aborted} aborts in {took_s:.1f} s"
    record_property(FIGURES, text)


@pytest.mark.parametrize("kind", ["cooperative", pytest.param("new", marks=pytest.mark.faults)])
def test_s49_nodes_are_killed_while_records_are_copied(
    make_cluster: Any, record_property: Any, kind: str
) -> None:
    """Each node is killed once, leaders and both kinds of coordinators among them."""
    records, size = SHORT
    options = {"records": records, "size": size, "bounces": 3, **KINDS[kind]}
    with Copying(make_cluster(config=NODE), **options) as copying:
        begun_s = time.monotonic()
        copying.bounce_nodes(hard=True)
        copying.finish()
        noted(record_property, copying, begun_s)


@pytest.mark.faults
def test_s49_copiers_are_killed(make_cluster: Any, record_property: Any) -> None:
    """Each copier is killed twice during transactions: its next process aborts the open transaction."""
    records, size = SHORT
    options = {"records": records, "size": size, "bounces": 4, **KINDS["new"]}
    with Copying(make_cluster(config=NODE), **options) as copying:
        begun_s = time.monotonic()
        for _ in range(2):
            copying.bounce_copiers(hard=True)
        copying.finish()
        noted(record_property, copying, begun_s)


@pytest.mark.faults
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("hard", [True, False], ids=["hard", "clean"])
@pytest.mark.parametrize("victims", ["nodes", "copiers"])
def test_s49_as_kafka_does(
    make_cluster: Any, record_property: Any, kind: str, hard: bool, victims: str
) -> None:
    """100,000 records in transactions of 750; each node and copier is restarted three times."""
    records, size = LONG
    options = {"records": records, "size": size, "bounces": 9 if victims == "nodes" else 6, **KINDS[kind]}
    with Copying(make_cluster(config=NODE), **options) as copying:
        begun_s = time.monotonic()
        for _ in range(3):
            if victims == "nodes":
                copying.bounce_nodes(hard=hard)
            else:
                copying.bounce_copiers(hard=hard)
        copying.finish()
        noted(record_property, copying, begun_s)
