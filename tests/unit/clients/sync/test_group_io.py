"""The synchronous consumer in a group: callbacks in the caller's thread, commits, interrupts, close."""

import threading
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition
from waiting import wait_for

T0 = TopicPartition("t", 0)


def member(cluster: Cluster, **options: Any) -> Any:
    options = {"heartbeat_interval_ms": 50, "auto_offset_reset": "earliest", **options}
    return cluster.consumer("t", group="g", **options)


def polled(consumer: Any, condition: Any) -> None:
    wait_for(lambda: consumer.poll(0.01) is None or condition(), "the condition holds while polling")


def test_callbacks_run_in_the_caller_thread(fake: FakeCluster, cluster: Cluster) -> None:
    """Inside poll, an iteration and close; they may commit and seek."""
    fake.put("t", 0, b"1", b"2", b"3")
    received: list[tuple[str, int]] = []

    class Listener:
        def on_assigned(self, consumer: Any, tps: Any) -> None:
            received.append(("assigned", threading.get_ident()))
            if T0 in tps and len(received) == 1:
                consumer.seek(T0, 2)

        def on_revoked(self, consumer: Any, tps: Any) -> None:
            received.append(("revoked", threading.get_ident()))
            consumer.commit()

    consumer = member(cluster, listener=Listener(), iter_timeout=60)
    assert [record.value for record in consumer.poll(60)] == [b"3"]
    consumer.enforce_rebalance()
    fake.put("t", 1, b"4")
    assert next(iter(consumer)).value == b"4"
    consumer.close()
    me = threading.get_ident()
    assert received[:3] == [("assigned", me), ("revoked", me), ("assigned", me)]
    assert received[-1] == ("revoked", me)
    assert fake.committed("g")["t", 0] == 3


def test_async_commits_resolve_future_and_callback(fake: FakeCluster, cluster: Cluster) -> None:
    """After success, for a partition that is not assigned, and after close."""
    fake.put("t", 0, b"1", b"2")
    consumer = member(cluster, enable_auto_commit=False)
    records: list[Any] = []
    polled(consumer, lambda: len(consumer.assignment()) == 3)
    consumer.seek(T0, 0)
    while not records:
        records = consumer.poll(60)
    received: list[Any] = []
    reported = threading.Event()

    def callback(offsets: Any, error: Any) -> None:
        received.append((offsets, error))
        reported.set()

    offsets = consumer.commit_async(records[0], callback=callback).result(60)
    assert reported.wait(60)
    assert received == [(offsets, None)]
    with pytest.raises(errors.CommitFailedError):
        consumer.commit_async({TopicPartition("t", 77): 1}).result(60)
    consumer.close()
    for _ in range(2):  # its own error; then the IO thread has ended
        with pytest.raises(errors.ClosedError):
            consumer.commit_async({T0: 1})
        cluster.close()


def test_interrupt_in_a_callback_keeps_the_membership(fake: FakeCluster, cluster: Cluster) -> None:
    """The callback counts as done; reading continues."""
    fake.put("t", 0, b"1")
    calls = 0

    class Listener:
        def on_assigned(self, _consumer: Any, _tps: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise KeyboardInterrupt

    consumer = member(cluster, listener=Listener())
    with pytest.raises(KeyboardInterrupt):
        polled(consumer, lambda: False)
    assert [record.value for record in consumer.poll(60)] == [b"1"]
    assert calls == 1
    consumer.close()


def test_wakeup_from_another_thread(fake: FakeCluster, cluster: Cluster) -> None:
    """A waiting poll ends with an error, an iteration ends."""
    consumer = member(cluster)
    polled(consumer, lambda: len(consumer.assignment()) == 3)
    timer = threading.Timer(0.05, consumer.wakeup)
    timer.start()
    with pytest.raises(errors.WakeupError):
        consumer.poll(60)
    timer = threading.Timer(0.05, consumer.wakeup)
    timer.start()
    assert list(consumer) == []
    consumer.close(leave=False)
    assert len(fake.group_members("g")) == 1, "the member did not leave the group"
