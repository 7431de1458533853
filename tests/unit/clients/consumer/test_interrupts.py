"""Ctrl-C and cancelled tasks: every record is returned once."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import headrace.clients
import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.clients.sync.consumer_io import Consumer
from headrace.protocol.model import TopicPartition
from interrupts import InterruptAt

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = (1, 3, 2)
COUNT = sum(BATCHES)

FOLDER = os.path.dirname(headrace.clients.__file__)

Seen = list[tuple[int, int]]
Way = Callable[[Consumer[Any, Any], Seen], None]


def poll(consumer: Consumer[Any, Any], seen: Seen) -> None:
    while records := consumer.poll(0, max_records=4):
        seen += [(record.partition, record.offset) for record in records]


def iterate(consumer: Consumer[Any, Any], seen: Seen) -> None:
    for record in consumer:
        seen += [(record.partition, record.offset)]


def batches(consumer: Consumer[Any, Any], seen: Seen) -> None:
    for batch in consumer.batches(5, timeout=0.001):
        seen += [(record.partition, record.offset) for record in batch]


def arrow_batches(consumer: Consumer[Any, Any], seen: Seen) -> None:
    for batch in consumer.arrow_batches(5, timeout=0.001):
        columns = [batch.column(name).to_pylist() for name in ("partition", "offset")]
        seen += zip(*columns, strict=True)


def fetched(consumer: Consumer[Any, Any], count: int) -> None:
    """Wait until so many batches are buffered."""
    engine = consumer._engine
    while sum(len(state.batches) for state in engine.buffer.fetcher.states.values()) < count:
        engine.buffer.wait_for_change(0.001)


@pytest.mark.parametrize("way", [poll, iterate, batches, arrow_batches])
def test_interrupt_at_any_place_loses_no_record(way: Way) -> None:
    """One run for each place where Python may raise KeyboardInterrupt; then reading continues."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t", 2)
    for partition in (0, 1):
        for count in BATCHES:
            fake.put("t", partition, *[b"x"] * count)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer(
            "t", auto_offset_reset="earliest", iter_timeout=0, fetch_max_wait_ms=1, value=bytes.upper
        )
        consumer.assignment()
        place, is_over = 0, False
        while not is_over:
            fetched(consumer, 2 * len(BATCHES))
            seen: Seen = []
            interrupt = InterruptAt(place, FOLDER)
            with interrupt:
                way(consumer, seen)
            place, is_over = place + 1, interrupt.is_over
            for tp in (T0, T1):
                handed_out = sum(partition == tp.partition for partition, _ in seen)
                assert consumer.position(tp) == handed_out, f"place {place}"
            while len(seen) < 2 * COUNT:
                consumer._engine.buffer.wait(0.01)
                way(consumer, seen)
            assert sorted(seen) == [(part, offset) for part in (0, 1) for offset in range(COUNT)], place
            consumer._engine.buffer.fetcher.check()
            consumer.seek_to_beginning()
    assert place > 100, "the places were found"


@pytest.mark.parametrize("kind", ["batches", "arrow_batches"])
def test_interrupt_while_a_list_fills_up_loses_no_record(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record was taken, and nine are waited for."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    fake.put("t", 0, b"x")

    def interrupted(_timeout_s: float) -> bool:
        raise KeyboardInterrupt

    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer("t", auto_offset_reset="earliest")
        consumer.assignment()
        fetched(consumer, 1)
        with monkeypatch.context() as patch:
            patch.setattr(consumer._engine.buffer, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(getattr(consumer, kind)(10, 60))
        assert consumer.position(T0) == 0
        assert [record.value for record in consumer.poll(10)] == [b"x"]


@pytest.mark.parametrize("kind", ["batches", "arrow_batches"])
async def test_cancelled_task_loses_no_record(fake: Any, cluster: Any, kind: str) -> None:
    """It waits for more records; those that it took are returned again, those that it returned are not."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    reading = getattr(consumer, kind)(2, 60)
    assert len(await anext(reading)) == 2
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await anext(reading)
    assert await consumer.position(T0) == 2
    assert [record.value for record in await consumer.poll(10)] == [b"3"]
