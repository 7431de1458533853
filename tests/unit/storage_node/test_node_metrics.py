"""The values of a node's metrics, and the bounds of their reading."""

import pytest
from core_rig import CoreRig, batch
from headrace.protocol.metadata.records import PartitionChangeRecord
from headrace.runtime.telemetry import node_table as table
from headrace.runtime.telemetry.samples import Samples
from headrace.storage_node import node_metrics
from headrace.storage_node.node_metrics import Limits

WALL_MS = 1_700_000_000_000
SOME = Limits(100, 100)


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()


def read(rig: CoreRig, limits: Limits = SOME, wall_ms: int = WALL_MS) -> Samples:
    """All pieces."""
    samples = Samples()
    for _ in rig.core.metrics.pieces(samples, rig.now_ms, wall_ms, limits):
        pass
    samples.check()
    return samples


def test_traffic_is_counted_per_topic_and_in_total(rig: CoreRig) -> None:
    """Appended, fetched and refused; a topic's totals go with it, those of the node stay."""
    a, b = rig.topic("a"), rig.topic("b")
    rig.produce(a, batch(b"x", b"y"))
    rig.produce(b, batch(b"z"))
    rig.fetch(a)
    samples = read(rig)
    size_a, size_b = len(batch(b"x", b"y")), len(batch(b"z"))
    assert [samples.get(table.MESSAGES_IN, *labels) for labels in [(), ("a",), ("b",)]] == [3, 2, 1]
    assert [samples.get(table.BYTES_IN, *labels) for labels in [(), ("a",), ("b",)]] == [
        size_a + size_b,
        size_a,
        size_b,
    ]
    assert [samples.get(table.BYTES_OUT, *labels) for labels in [(), ("a",), ("b",)]] == [size_a, size_a, 0]
    rig.remove(a)
    samples = read(rig)
    assert samples.get(table.MESSAGES_IN, "a") is None
    assert samples.get(table.MESSAGES_IN) == 3
    assert "a" not in rig.core.counters.topics


def test_too_large_batches_are_rejected_bytes() -> None:
    rig = CoreRig(message_max_bytes=100)
    topic = rig.topic("a")
    large = batch(b"x" * 500)
    assert rig.produce(topic, large).first.error_code
    samples = read(rig)
    assert samples.get(table.BYTES_REJECTED) == samples.get(table.BYTES_REJECTED, "a") == len(large)
    assert samples.get(table.FAILED_PRODUCE) == samples.get(table.FAILED_PRODUCE, "a") == 1


def test_series_are_bounded_and_sums_are_not(rig: CoreRig) -> None:
    """The first partitions of the table have series; what is left out is counted."""
    for name in ("a", "b", "c"):
        rig.produce(rig.topic(name, partitions=2), batch(b"x"))
    samples = read(rig, Limits(partitions=3, topics=2))
    assert len(samples.series(table.LOG_SIZE)) == 3
    assert (samples.get(table.PARTITION_COUNT), samples.get(table.PARTITIONS_OMITTED)) == (6, 3)
    assert len(samples.series(table.MESSAGES_IN)) == 1 + 2
    assert (samples.get(table.MESSAGES_IN), samples.get(table.TOPICS_OMITTED)) == (3, 1)
    assert len(samples.series(table.TOPIC_BYTES)) == 2
    assert len(read(rig, Limits()).series(table.LOG_SIZE)) == 0


def test_partitions_are_read_in_pieces(rig: CoreRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other events happen in between: a topic that is removed meanwhile breaks nothing."""
    monkeypatch.setattr(node_metrics, "PIECE", 2)
    topics = [rig.topic(name, partitions=2) for name in "abc"]
    samples = Samples()
    pieces = 0
    for _ in rig.core.metrics.pieces(samples, rig.now_ms, WALL_MS, Limits(100, 100)):
        pieces += 1
        if pieces == 3:
            rig.remove(topics[2])
    assert pieces > 5
    samples.check()


def test_replicas_are_counted_by_state(rig: CoreRig) -> None:
    """As Kafka counts them: on the leader."""
    rig.topic("full", replicas=(1, 2))
    short = rig.topic("short", replicas=(1, 2, 3))
    rig.metadata(PartitionChangeRecord(short, 0, isr=(1,)))
    rig.topic("single", replicas=(1,))
    rig.topic("far", leader=2, replicas=(2, 1))
    samples = read(rig)
    assert samples.get(table.PARTITION_COUNT) == 4
    assert samples.get(table.LEADER_COUNT) == 3
    assert samples.get(table.UNDER_REPLICATED) == 1
    assert samples.get(table.AT_MIN_ISR) == 2
    assert samples.get(table.LOST_TO_MIN_ISR) == 1
    assert samples.get(table.MAX_LAG) == 0
    assert samples.get(table.FETCHER_LAG, "far", "0") == 0
