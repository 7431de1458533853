"""The consumer's engine over a fake cluster, in virtual time."""

import asyncio
import logging
import threading
from typing import Any

import pytest
from fake_cluster import FakeCluster, Fault
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def drain(consumer: Any, quiet_s: float = 2.0) -> list[Any]:
    """The values of all records until none comes for `quiet_s`."""
    found: list[Any] = []
    while batch := await consumer.poll(quiet_s):
        found += [record.value for record in batch]
    return found


async def test_auto_offset_reset(fake: Any, cluster: Any) -> None:
    """`earliest` reads all records, `latest` only those written later."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    early = cluster.consumer("t", auto_offset_reset="earliest")
    late = cluster.consumer("t")
    assert await drain(early) == [b"1", b"2", b"3"]
    assert await late.poll(1) == []
    fake.put("t", 0, b"4")
    assert await drain(late) == [b"4"]


async def test_waiting_poll_returns_a_new_record_at_once(fake: Any, cluster: Any) -> None:
    """Not at the end of its timeout, nor of fetch.max.wait.ms."""
    fake.create("t")
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    await consumer.poll(0.5)
    waiting = asyncio.create_task(consumer.poll(60))
    await asyncio.sleep(0.1)
    fake.put("t", 0, b"x")
    before = asyncio.get_running_loop().time()
    assert [record.value for record in await waiting] == [b"x"]
    assert asyncio.get_running_loop().time() - before < 0.05


async def test_max_records_and_max_poll_records(fake: Any, cluster: Any) -> None:
    """A poll returns at most so many records."""
    fake.create("t")
    fake.put("t", 0, *[b"x"] * 30)
    consumer = cluster.consumer("t", auto_offset_reset="earliest", max_poll_records=10)
    assert len(await consumer.poll(1)) == 10
    assert len(await consumer.poll(1, max_records=3)) == 3
    with pytest.raises(ValueError, match="max_records"):
        await consumer.poll(0, max_records=0)


@pytest.mark.fake_cluster(nodes=2)
async def test_reading_continues_through_faults(fake: Any, cluster: Any) -> None:
    """Every retriable fetch error, a leader change, a restart: each record is read once, in order."""
    fake.create("t", 2)
    consumer = cluster.consumer("t", auto_offset_reset="earliest", request_timeout_ms=1000)
    seen: list[bytes] = []
    for round_number in range(12):
        for number in range(5):
            fake.put("t", 0, b"%02d-%d" % (round_number, number))
        kind = round_number % 6
        if kind == 0:
            fake.move_leader("t", 0, (round_number // 6 + 1) % 2)
        elif kind == 1:
            fake.fail_next("Fetch", Fault(lost_reply=True), times=2)
        elif kind == 2:
            fake.fail_next("Fetch", Fault(partition_error=errors.UnknownLeaderEpochError.code), times=3)
        elif kind == 3:
            fake.fail_next("Fetch", Fault(silent=True))
        elif kind == 4:
            fake.stop_node(1)
            asyncio.get_running_loop().call_later(0.7, fake.start_node, 1)
        seen += await drain(consumer, 3)
    assert seen == [b"%02d-%d" % (number // 5, number % 5) for number in range(60)]


async def test_iteration_ends_by_timeout_wakeup_or_break(fake: Any, cluster: Any) -> None:
    """The next one continues there."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    consumer = cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=2.0)
    async for record in consumer:
        assert record.value == b"1"
        break
    assert await consumer.position(T0) == 1
    assert [record.value async for record in consumer] == [b"2", b"3"]
    asyncio.get_running_loop().call_later(0.5, consumer.wakeup)
    before = asyncio.get_running_loop().time()
    assert [record async for record in consumer] == []
    assert asyncio.get_running_loop().time() - before < 1
    consumer.wakeup()
    with pytest.raises(errors.WakeupError):  # a wakeup before the wait ends it
        await consumer.poll(60)
    assert await consumer.poll(1) == []


def test_wakeup_takes_no_lock() -> None:
    """A signal handler calls it in the thread that it interrupted, which may hold the consumer's lock."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer("t")
        handler = threading.Thread(target=consumer.wakeup, daemon=True)
        with consumer._engine.buffer.lock:
            handler.start()
            handler.join(60)
            assert not handler.is_alive()
        with pytest.raises(errors.WakeupError):
            consumer.poll(60)
        assert consumer.poll(0) == []


def test_wakeup_of_a_closed_consumer_does_nothing() -> None:
    """A thread that ends the application may be later than the consumer's own."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer("t")
    consumer.wakeup()


async def test_position_inside_an_iteration(fake: Any, cluster: Any) -> None:
    """It is the offset after the record that the application has."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    consumer = cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=0.5)
    async for record in consumer:
        assert await consumer.position(T0) == record.offset + 1


async def test_seek_inside_an_iteration_takes_effect_at_once(fake: Any, cluster: Any) -> None:
    """The rest of the batch is not returned."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    consumer = cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=1.0)
    seen = []
    async for record in consumer:
        seen.append(record.value)
        if len(seen) == 2:
            await consumer.seek(T0, 0)
    assert seen == [b"1", b"2", b"1", b"2", b"3"]


async def test_seeks(fake: Any, cluster: Any) -> None:
    """To an offset, the beginning, the end, a time; invalid offsets and partitions are rejected."""
    fake.create("t")
    for number in range(5):
        fake.put("t", 0, b"%d" % number, timestamp=1000 * number)
    consumer = cluster.consumer("t")
    await consumer.seek(T0, 3)
    assert await drain(consumer) == [b"3", b"4"]
    await consumer.seek_to_beginning()
    assert len(await drain(consumer)) == 5
    await consumer.seek_to_time(1500)
    assert await drain(consumer) == [b"2", b"3", b"4"]
    await consumer.seek_to_time(99_000)
    assert await consumer.position(T0) == 5
    await consumer.seek_to_beginning(T0)
    await consumer.seek_to_end(T0)
    assert await drain(consumer) == []
    with pytest.raises(ValueError, match="negative"):
        await consumer.seek(T0, -1)
    with pytest.raises(errors.ConfigError, match="t-9 is not assigned"):
        await consumer.seek(TopicPartition("t", 9), 0)


async def test_batches_are_full_or_time_out(fake: Any, cluster: Any) -> None:
    """25 records in lists of 10, and the last one after the timeout."""
    fake.create("t")
    for _ in range(25):
        fake.put("t", 0, b"x")
    consumer = cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=3.0)
    assert [len(batch) async for batch in consumer.batches(10, 0.5)] == [10, 10, 5]


async def test_pause_waits_for_the_topics_partitions(fake: Any, cluster: Any) -> None:
    """A new consumer does not know them yet."""
    fake.create("t", 2)
    fake.put("t", 0, b"0")
    fake.put("t", 1, b"1")
    await cluster.consumer("t").resume(T0)
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    await consumer.pause(T0)
    assert await drain(consumer) == [b"1"]


async def test_pause_and_resume(fake: Any, cluster: Any) -> None:
    """Of one of two partitions; its buffered records are kept."""
    fake.create("t", 2)
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    fake.put("t", 0, b"a")
    fake.put("t", 1, b"b")
    await asyncio.sleep(0.5)
    await consumer.assignment()
    await asyncio.sleep(0.5)
    await consumer.pause(T0)
    assert consumer.paused() == (T0,)
    assert await drain(consumer) == [b"b"]
    await consumer.resume(T0)
    assert await drain(consumer) == [b"a"]
    fetches = len(fake.requests("Fetch"))
    await consumer.pause()
    await asyncio.sleep(5)
    assert len(fake.requests("Fetch")) <= fetches + 2
    with pytest.raises(errors.ConfigError):
        await consumer.pause(TopicPartition("u", 0))


@pytest.mark.fake_cluster(metadata_max_age_ms=3000)
async def test_added_partitions_are_read_from_their_start(fake: Any, cluster: Any) -> None:
    """Even with `latest`: they may have records from before the metadata refresh."""
    fake.create("t")
    consumer = cluster.consumer("t")
    await consumer.poll(0.5)
    fake.grow("t", 2)
    fake.put("t", 1, b"new")
    assert [record.value for record in await consumer.poll(10)] == [b"new"]
    assert await consumer.assignment() == (T0, T1)


@pytest.mark.fake_cluster(metadata_max_age_ms=1000)
async def test_consumer_waits_for_a_missing_topic(
    fake: Any, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With one warning; calls that need its partitions raise."""
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    with caplog.at_level(logging.WARNING):
        assert await consumer.poll(5) == []
    assert [record.getMessage() for record in caplog.records] == ["there is no topic 't'; waiting for it"]
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        await consumer.assignment()
    fake.create("t")
    fake.put("t", 0, b"x")
    assert [record.value for record in await consumer.poll(10)] == [b"x"]


async def test_recreated_topic_is_read_from_its_start(fake: Any, cluster: Any) -> None:
    """It was deleted and created again under the consumer."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    assert len(await drain(consumer)) == 3
    fake.topics.clear()
    fake.create("t")
    fake.put("t", 0, b"new")
    assert await drain(consumer, 5) == [b"new"]


async def test_retention_deletes_the_position(fake: Any, cluster: Any) -> None:
    """`earliest` continues at the new log start, `none` raises until a seek."""
    fake.create("t")
    for number in range(4):
        fake.put("t", 0, b"%d" % number)
    fake.truncate_start("t", 0, 2)
    lenient = cluster.consumer("t", auto_offset_reset="earliest")
    await lenient.seek(T0, 0)
    assert await drain(lenient) == [b"2", b"3"]
    strict = cluster.consumer("t", auto_offset_reset="none")
    with pytest.raises(errors.NoOffsetError):
        await strict.poll(1)
    await strict.seek(T0, 0)
    with pytest.raises(errors.OffsetOutOfRangeError, match="t-0 at offset 0"):
        await strict.poll(1)
    await strict.seek(T0, 3)
    assert await drain(strict) == [b"3"]


async def test_reset_by_duration(fake: Any, cluster: Any) -> None:
    """The wall clock is at 1,700,000,000,000 ms: the second record is less than an hour old."""
    fake.create("t")
    fake.put("t", 0, b"old", timestamp=1_700_000_000_000 - 7_200_000)
    fake.put("t", 0, b"new", timestamp=1_700_000_000_000 - 60_000)
    assert await drain(cluster.consumer("t", auto_offset_reset="by_duration:PT1H")) == [b"new"]


async def test_assign_replaces_the_assignment(fake: Any, cluster: Any) -> None:
    """Partitions that stay assigned keep their position; a consumer with topics cannot assign."""
    fake.create("t", 2)
    fake.put("t", 0, b"a")
    fake.put("t", 1, b"b")
    consumer = cluster.consumer(auto_offset_reset="earliest")
    with pytest.raises(errors.ConfigError, match="nothing to read"):
        await consumer.poll(0)
    await consumer.assign([T0])
    assert await drain(consumer) == [b"a"]
    await consumer.assign([T0, T1])
    assert await drain(consumer) == [b"b"]
    await consumer.assign([T1])
    assert await consumer.assignment() == (T1,)
    with pytest.raises(errors.ConfigError, match="without topics"):
        await cluster.consumer("t").assign([T0])
    with pytest.raises(errors.ConfigError, match="by name"):
        cluster.consumer(["t"])


async def test_first_fetch_waits_for_no_backoff(fake: Any, cluster: Any) -> None:
    """It follows the metadata at once, though the partition was assigned before."""
    fake.create("t")
    fake.put("t", 0, b"a")
    consumer = cluster.consumer(auto_offset_reset="earliest", iter_timeout=0.1, retry_backoff_ms=1000)
    await consumer.assign([T0])
    assert [record.value async for record in consumer] == [b"a"]


async def test_offsets_and_lag(fake: Any, cluster: Any) -> None:
    """Beginning, end, offset by time, lag."""
    fake.create("t", 2)
    fake.put("t", 0, b"1", b"2", timestamp=50)
    fake.truncate_start("t", 0, 1)
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    assert await consumer.beginning_offsets() == {T0: 1, T1: 0}
    assert await consumer.end_offsets(T0) == {T0: 2}
    found = await consumer.offsets_for_times({T0: 50, T1: 50})
    assert found[T0].offset == 1
    assert found[T1] is None
    assert consumer.lag() == {T0: None, T1: None} or consumer.lag()[T0] in (None, 1)
    await drain(consumer)
    assert consumer.lag() == {T0: 0, T1: 0}
    assert consumer.metrics()["records-consumed-total"] == 1
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        await consumer.end_offsets(TopicPartition("t", 7))


async def test_position_times_out_without_a_leader(fake: Any, cluster: Any) -> None:
    """The only node is stopped."""
    fake.create("t")
    consumer = cluster.consumer("t")
    await consumer.assignment()
    fake.stop_node(0)
    await consumer.seek_to_beginning(T0)
    with pytest.raises(errors.ApiTimeoutError):
        await consumer.position(T0, timeout=2)
    fake.start_node(0)
    assert await consumer.position(T0) == 0


async def test_closed_consumer_raises_closed_error(fake: Any, cluster: Any) -> None:
    """In waiting and later calls; closing twice is allowed."""
    fake.create("t")
    consumer = cluster.consumer("t")
    waiting = asyncio.create_task(consumer.poll(60))
    await asyncio.sleep(1)
    await consumer.close()
    with pytest.raises(errors.ClosedError):
        await waiting
    with pytest.raises(errors.ClosedError):
        await consumer.poll(0)
    await consumer.close()


async def test_buffered_bytes_stay_within_fetch_max_bytes(fake: Any, cluster: Any) -> None:
    """The log has 1 MB, and the application reads nothing."""
    fake.create("t", 4)
    for number in range(1000):
        fake.put("t", number % 4, b"x" * 1000)
    consumer = cluster.consumer(
        "t", auto_offset_reset="earliest", fetch_max_bytes=20_000, max_partition_fetch_bytes=10_000
    )
    await consumer.assignment()
    for _ in range(20):
        await asyncio.sleep(0.5)
        assert consumer.metrics()["bytes-buffered"] <= 21_500
    assert len(await drain(consumer)) == 1000
