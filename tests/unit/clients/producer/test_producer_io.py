"""The producer's engine on a fake cluster: faults must not lose, reorder or block records."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.protocol import errors


async def test_records_arrive_in_order_in_few_requests(fake: Any, cluster: Any) -> None:
    """A thousand pipelined sends to one partition: a handful of batches, in order, with the right offsets."""
    fake.create("t")
    producer = cluster.producer()
    futures = [producer.send("t", b"%d" % number) for number in range(1000)]
    offsets = [metadata.offset for metadata in await asyncio.gather(*futures)]
    assert offsets == list(range(1000))
    assert fake.values("t") == [b"%d" % number for number in range(1000)]
    assert len(fake.requests("Produce")) <= 3


async def test_lost_response_without_idempotence_may_duplicate(fake: Any, cluster: Any) -> None:
    """The first request was executed: the batch is stored twice, later ones follow."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, enable_idempotence=False)
    fake.fail_next("Produce", Fault(lost_reply=True))
    first = producer.send("t", b"1")
    await asyncio.sleep(0.002)
    second = producer.send("t", b"2")
    assert (await first).offset == 1
    assert (await second).offset == 2
    assert fake.values("t") == [b"1", b"1", b"2"]


async def test_lost_response_with_idempotence_is_stored_once(fake: Any, cluster: Any) -> None:
    """The default: the retry gets the offset of the first attempt."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    fake.fail_next("Produce", Fault(lost_reply=True))
    first = producer.send("t", b"1")
    await asyncio.sleep(0.002)
    second = producer.send("t", b"2")
    assert (await first).offset == 0
    assert (await second).offset == 1
    assert fake.values("t") == [b"1", b"2"]


async def test_lost_request_is_retried(fake: Any, cluster: Any) -> None:
    """It was never executed: exactly one copy."""
    fake.create("t")
    fake.fail_next("Produce", Fault(lost_request=True), times=3)
    await cluster.producer().send("t", b"x")
    assert fake.values("t") == [b"x"]


async def test_a_silent_node_costs_the_request_timeout(fake: Any, cluster: Any) -> None:
    """Without a response the batch is retried after request.timeout.ms."""
    fake.create("t")
    producer = cluster.producer(request_timeout_ms=500, delivery_timeout_ms=5000)
    fake.fail_next("Produce", Fault(silent=True))
    before = asyncio.get_running_loop().time()
    await producer.send("t", b"x")
    assert 0.5 <= asyncio.get_running_loop().time() - before < 0.9


@pytest.mark.fake_cluster(nodes=2)
async def test_leader_change_fails_no_record(fake: Any, cluster: Any) -> None:
    """The partition moves between two sends; the hint names the new leader without a refresh."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    await producer.send("t", b"1")
    fake.move_leader("t", 0, 1)
    metadata = await producer.send("t", b"2")
    assert metadata.offset == 1
    assert fake.values("t") == [b"1", b"2"]


@pytest.mark.fake_cluster(nodes=2)
async def test_record_waits_for_a_restarted_node(fake: Any, cluster: Any) -> None:
    """The leader is down for 5 s; then the record is delivered."""
    fake.create("t", 2)
    producer = cluster.producer(linger_ms=0)
    await producer.send("t", b"1", partition=1)
    fake.stop_node(1)
    waiting = producer.send("t", b"2", partition=1)
    other = producer.send("t", b"3", partition=0)
    assert (await other).offset == 0, "the other node must not wait for it"
    await asyncio.sleep(5)
    assert not waiting.done()
    fake.start_node(1)
    assert (await waiting).offset == 1
    assert producer.metrics()["record-error-total"] == 0


async def test_undeliverable_record_fails_at_the_delivery_timeout(fake: Any, cluster: Any) -> None:
    """The only node is gone: DeliveryTimeoutError after delivery.timeout.ms, not before."""
    fake.create("t")
    producer = cluster.producer(delivery_timeout_ms=2000, request_timeout_ms=500)
    await producer.send("t", b"1")
    fake.stop_node(0)
    before = asyncio.get_running_loop().time()
    with pytest.raises(errors.DeliveryTimeoutError, match=r"connection refused|connection broke"):
        await producer.send("t", b"2")
    assert 1.9 < asyncio.get_running_loop().time() - before < 2.3
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]


async def test_fatal_error_fails_only_its_batch(fake: Any, cluster: Any) -> None:
    """INVALID_RECORD is not retried, and the next record is sent."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    fake.fail_next("Produce", Fault(partition_error=errors.InvalidRecordError.code))
    with pytest.raises(errors.InvalidRecordError):
        await producer.send("t", b"bad")
    assert (await producer.send("t", b"good")).offset == 0
    assert len(fake.requests("Produce")) == 2


async def test_batches_above_max_message_bytes_are_split(fake: Any, cluster: Any) -> None:
    """max.message.bytes of 1000 with batches of 16 KiB: all are stored, in order, once."""
    fake.create("t", max_message_bytes=1000)
    producer = cluster.producer(batch_size=16_384)
    values = [b"%03d" % number * 30 for number in range(300)]
    result = await producer.send_many("t", values)
    assert [metadata.offset for metadata in result.results()] == list(range(300))
    assert fake.values("t") == values


async def test_unknown_topic_fails_after_the_grace_time(fake: Any, cluster: Any) -> None:
    """Long before max.block.ms; a topic that is being created is found."""
    producer = cluster.producer()
    with pytest.raises(errors.UnknownTopicOrPartitionError, match="no topic 'typo'"):
        await producer.send("typo", b"x")
    assert asyncio.get_running_loop().time() < 1004
    late = producer.send("late", b"x")
    await asyncio.sleep(1)
    fake.create("late")
    assert (await late).offset == 0


async def test_records_behind_an_unknown_topic_keep_their_order(fake: Any, cluster: Any) -> None:
    """Ten sends before any metadata: they wait in line, and other topics do not wait for them."""
    fake.create("known")
    producer = cluster.producer()
    waiting = [producer.send("late", b"%d" % number) for number in range(10)]
    assert (await producer.send("known", b"x")).offset == 0
    assert not any(future.done() for future in waiting)
    fake.create("late")
    assert [(await future).offset for future in waiting] == list(range(10))
    assert fake.values("late") == [b"%d" % number for number in range(10)]


async def test_unknown_partition_is_an_error(fake: Any, cluster: Any) -> None:
    """By number; one that was just added is found."""
    fake.create("t", 2)
    producer = cluster.producer()
    for partition in (2, -1):
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            await producer.send("t", b"x", partition=partition)
    fake.grow("t", 3)
    assert (await producer.send("t", b"x", partition=2)).partition == 2


@pytest.mark.fake_cluster(metadata_max_age_ms=5000)
async def test_added_partitions_are_used_after_metadata_max_age(fake: Any, cluster: Any) -> None:
    """Keys are distributed over the new partitions after the refresh."""
    fake.create("t", 1)
    producer = cluster.producer()
    await producer.send("t", b"x")
    fake.grow("t", 8)
    await asyncio.sleep(6)
    seen = {(await producer.send("t", b"x", key=b"%d" % key)).partition for key in range(50)}
    assert len(seen) > 4


async def test_keys_and_partitioners_choose_partitions(fake: Any, cluster: Any) -> None:
    """murmur2 by default; a custom callable decides, may return None, and is checked."""
    fake.create("t", 3)
    by_key = cluster.producer()
    assert (await by_key.send("t", b"x", key=b"foobar")).partition == (-790332482 & 0x7FFFFFFF) % 3
    assert (await by_key.send("t", b"x", key=b"foobar", partition=1)).partition == 1
    custom = cluster.producer(partitioner=lambda topic, key, count: None if key is None else len(key))
    assert (await custom.send("t", b"x", key=b"12")).partition == 2
    assert (await custom.send("t", b"x")).partition in (0, 1, 2)
    with pytest.raises(errors.InvalidPartitionsError):
        await custom.send("t", b"x", key=b"123")
    ignoring = cluster.producer(partitioner_ignore_keys=True, linger_ms=0, batch_size=1)
    seen = {(await ignoring.send("t", b"x", key=b"same")).partition for _ in range(30)}
    assert seen == {0, 1, 2}


async def test_records_wait_in_line_while_the_buffer_is_full(fake: Any, cluster: Any) -> None:
    """100 KB through a buffer of 8 KiB: every record is stored, in order; `drain` waits."""
    fake.create("t")
    producer = cluster.producer(buffer_memory=8192, batch_size=2048, linger_ms=100)
    futures = []
    for number in range(100):
        futures.append(producer.send("t", b"%03d" % number * 333))
        await producer.drain()
        assert producer.metrics()["buffer-available-bytes"] > 0
    await asyncio.gather(*futures)
    assert fake.values("t") == [b"%03d" % number * 333 for number in range(100)]


async def test_send_without_drain_raises_at_twice_the_buffer(fake: Any, cluster: Any) -> None:
    """With advice to await `drain`."""
    fake.create("t")
    producer = cluster.producer(buffer_memory=8192, batch_size=2048)
    await producer.send("t", b"x")
    futures = [producer.send("t", b"x" * 1000) for _ in range(13)]
    with pytest.raises(errors.BufferExhaustedError, match="drain"):
        futures += [producer.send("t", b"x" * 1000) for _ in range(5)]
    await asyncio.gather(*futures)


async def test_wait_for_memory_ends_after_max_block_ms(fake: Any, cluster: Any) -> None:
    """The node is gone and the buffer full: records in line fail after 1 s, and so does `drain`."""
    fake.create("t")
    producer = cluster.producer(buffer_memory=4096, batch_size=2048, max_block_ms=1000)
    await producer.send("t", b"x")
    fake.stop_node(0)
    buffered = [producer.send("t", b"x" * 1000) for _ in range(3)]
    before = asyncio.get_running_loop().time()
    with pytest.raises(errors.BufferExhaustedError):
        await buffered[-1]
    assert 0.9 < asyncio.get_running_loop().time() - before < 1.3
    fake.start_node(0)
    await buffered[0]


async def test_flush_waits_for_all_records(fake: Any, cluster: Any) -> None:
    """linger.ms of 1 h: flush sends now. With the node gone it times out with the number of records left."""
    fake.create("t")
    producer = cluster.producer(linger_ms=3_600_000, delivery_timeout_ms=4_000_000)
    futures = [producer.send("t", b"x") for _ in range(10)]
    await producer.flush(1)
    assert all(future.done() for future in futures)
    fake.stop_node(0)
    left = [producer.send("t", b"x") for _ in range(3)]
    with pytest.raises(errors.FlushTimeoutError) as caught:
        await producer.flush(1)
    assert caught.value.remaining == 3
    fake.start_node(0)
    await producer.flush()
    assert all(future.done() for future in left)


async def test_close_flushes_and_fails_the_rest(fake: Any, cluster: Any) -> None:
    """Without linger; after the timeout records without acknowledgement fail with ClosedError."""
    fake.create("t")
    producer = cluster.producer(linger_ms=60_000)
    delivered = producer.send("t", b"1")
    await producer.close()
    assert delivered.result().offset == 0
    with pytest.raises(errors.ClosedError):
        producer.send("t", b"2")
    stuck = cluster.producer(linger_ms=0)
    await stuck.send("t", b"3")
    fake.stop_node(0)
    lost = stuck.send("t", b"4")
    in_line = stuck.send("other", b"5")
    with pytest.raises(errors.FlushTimeoutError) as closed:
        await stuck.close(1)
    assert closed.value.remaining == 2
    await stuck.close(1)
    for future in (lost, in_line):
        with pytest.raises(errors.ClosedError):
            await future


async def test_cancelled_future_does_not_cancel_the_record(fake: Any, cluster: Any) -> None:
    """A send under `wait_for` times out; its record and all others are sent."""
    fake.create("t")
    producer = cluster.producer()
    first = producer.send("t", b"1")
    second = producer.send("t", b"2")
    first.cancel()
    assert (await second).offset == 1
    assert fake.values("t") == [b"1", b"2"]


async def test_acks_0_waits_for_no_response(fake: Any, cluster: Any) -> None:
    """The future is done once the request was sent, without an offset."""
    fake.create("t")
    metadata = await cluster.producer(acks=0).send("t", b"x")
    assert metadata.offset == -1
    assert fake.requests("Produce")[0].acks == 0


async def test_send_many_has_one_outcome_per_record(fake: Any, cluster: Any) -> None:
    """An invalid value and an unknown topic among valid ones."""
    from headrace.clients.records import ProducerRecord

    fake.create("t")
    producer = cluster.producer()
    items = [b"1", "text", ProducerRecord(b"2", key=b"k"), ProducerRecord(b"3", topic="typo"), None]
    result = await producer.send_many("t", items)
    assert [type(future.exception()).__name__ for future in result] == [
        "NoneType", "SerializationError", "NoneType", "UnknownTopicOrPartitionError", "NoneType",
    ]  # fmt: skip
    assert fake.values("t") == [b"1", b"2", None]


async def test_no_more_than_max_in_flight_requests_per_node(fake: Any, cluster: Any) -> None:
    """Ten partitions on one slow node, two requests at a time."""
    fake.create("t", 10)
    producer = cluster.producer(linger_ms=0, max_in_flight=2)
    await producer.send("t", b"x", partition=0)
    fake.most_in_flight, fake.latency_ms = 0, 50
    futures = []
    for partition in range(10):
        futures.append(producer.send("t", b"x", partition=partition))
        await asyncio.sleep(0.005)
    await asyncio.gather(*futures)
    assert fake.most_in_flight == 2


@pytest.mark.fake_cluster(nodes=2)
async def test_partitions_for_has_leaders(fake: Any, cluster: Any) -> None:
    """From new or cached metadata; an unknown topic raises."""
    fake.create("t", 2)
    producer = cluster.producer()
    assert [info.leader for info in await producer.partitions_for("t")] == [0, 1]
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        await producer.partitions_for("typo")


async def test_compressed_batches_arrive(fake: Any, cluster: Any) -> None:
    """Every codec."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        fake.create(codec)
        async with cluster.producer(compression_type=codec) as producer:
            await producer.send_many(codec, [b"x" * 1000] * 50)
            assert producer.metrics()["byte-total"] < 10_000
        assert fake.values(codec) == [b"x" * 1000] * 50


async def test_bug_in_a_task_fails_every_future(fake: Any, cluster: Any) -> None:
    """A network that raises an unexpected error: no future hangs."""
    fake.create("t")
    producer = cluster.producer()
    await producer.send("t", b"1")
    fake.rules.append(lambda ask: 1 / 0 if ask.api == "Produce" else None)
    with pytest.raises(errors.ClosedError, match=r"internal error.*ZeroDivisionError"):
        await producer.send("t", b"2")
    with pytest.raises(errors.ClosedError):
        producer.send("t", b"3")
    assert isinstance(errors.NetworkError("x"), errors.KafkaError)


async def test_linger_is_an_upper_bound(fake: Any, cluster: Any) -> None:
    """A record is sent when linger.ms is over, not a millisecond later."""
    fake.create("t")
    fake.latency_ms = 0
    producer = cluster.producer(linger_ms=5)
    await producer.send("t", b"x")
    loop = asyncio.get_running_loop()
    before_ms = loop.now_ms()  # type: ignore[attr-defined]
    await producer.send("t", b"y")
    assert loop.now_ms() - before_ms == 5  # type: ignore[attr-defined]


async def test_timer_that_fires_early_sends_the_batch(fake: Any, cluster: Any) -> None:
    """The loop's clock is ahead of the producer's, which does not advance."""
    fake.create("t")
    producer = cluster.producer(linger_ms=5)
    await producer.send("t", b"x")
    producer._engine._now_ms = lambda: 1_000_000
    await producer.send("t", b"y")
    assert fake.values("t") == [b"x", b"y"]


async def test_bug_in_building_a_request_fails_every_future(
    fake: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No future hangs."""
    fake.create("t")
    producer = cluster.producer()
    await producer.send("t", b"1")
    monkeypatch.setattr("headrace.clients.producer.producer_io.frames_of", lambda _: 1 / 0)
    with pytest.raises(errors.ClosedError, match=r"internal error.*ZeroDivisionError"):
        await producer.send("t", b"2")


class _Name(str):
    """As NumPy's text and enums are."""


async def test_topic_name_of_a_subclass_of_str(fake: Any, cluster: Any) -> None:
    """Messages carry plain text only: the name is converted."""
    fake.create("t")
    producer = cluster.producer()
    assert (await producer.send(_Name("t"), b"1")).offset == 0
    assert [one.offset for one in await asyncio.gather(*[producer.send(_Name("t"), b"2")])] == [1]
    assert (await producer.send("t", b"3")).offset == 2
    async with cluster.consumer(_Name("t"), auto_offset_reset="earliest") as consumer:
        values: list[bytes] = []
        while len(values) < 3:
            values += [record.value for record in await consumer.poll(5)]
    assert values == [b"1", b"2", b"3"]


async def test_topic_name_that_is_no_valid_text_is_an_error(fake: Any, cluster: Any) -> None:
    """The caller gets the error, and the client continues."""
    fake.create("t")
    producer = cluster.producer()
    with pytest.raises(errors.InvalidTopicError):
        await producer.send("\ud800", b"1")
    assert (await producer.send("t", b"2")).offset == 0
