"""KeyboardInterrupt in a poll of a group member: no record is lost, no unreturned one is committed."""

import os
from collections.abc import Callable
from typing import Any

import headrace.clients
import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from interrupts import InterruptAt
from waiting import wait_for

FOLDER = os.path.dirname(headrace.clients.__file__)
EACH = 4


def poll(consumer: Any, seen: list[int], _total: int) -> None:
    seen += [record.offset for record in consumer.poll(5, 3)]


def iterate(consumer: Any, seen: list[int], total: int) -> None:
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == total:
            return


def batches(consumer: Any, seen: list[int], _total: int) -> None:
    for batch in consumer.batches(3, 0.001):
        seen += [record.offset for record in batch]
        return


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", [poll, iterate, batches])
def test_interrupt_in_a_rebalance_loses_no_record(way: Callable[[Any, list[int], int], None]) -> None:
    """One run for each place where Python may raise KeyboardInterrupt, with a rebalance at each: the member
    revokes its partitions, commits finished records, and continues."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer(
            *("t",),
            group="g",
            auto_offset_reset="earliest",
            assignors=["range"],
            iter_timeout=5,
            fetch_max_wait_ms=1,
            heartbeat_interval_ms=5,
            auto_commit_interval_ms=1,
        )
        engine, seen, place, is_over, total = consumer._engine, list[int](), 0, False, 0
        wait_for(lambda: consumer.poll(0.01) is None or consumer.assignment(), "it is a member")
        while not is_over:
            fake.put("t", 0, *[b"x"] * EACH)
            total += EACH
            consumer.enforce_rebalance()
            wait_for(lambda: engine.buffer.has_group_work, "the member must revoke its partitions")
            interrupt = InterruptAt(place, FOLDER)
            with interrupt:
                way(consumer, seen, total)
            place, is_over = place + 1, interrupt.is_over
            assert fake.committed("g").get(("t", 0), 0) <= len(seen), "only what was handed out"
            while len(seen) < total:
                way(consumer, seen, total)
            assert seen == list(range(total)), place
        assert place > 15, "the places were found"
        in_hand = 3 if way is not iterate else 1
    assert len(seen) - in_hand <= fake.committed("g")["t", 0] < len(seen)
    assert fake.group_members("g") == []
