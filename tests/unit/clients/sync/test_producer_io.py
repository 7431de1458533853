"""The synchronous producer alone: waits in the user's thread, and many threads."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.producer.appending import NO_MEMORY
from headrace.clients.records import ProducerRecord
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors


def test_many_threads_share_one_producer(fake: FakeCluster, cluster: Cluster) -> None:
    """Four threads, each with its own partition or a shared one: the order of each thread stays."""
    producer = cluster.producer(batch_size=500)

    def work(number: int) -> None:
        for index in range(500):
            producer.send("t", b"%d %04d" % (number, index), partition=number % 3)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(60)
    for number in range(4):
        mine = [value for value in fake.values("t", number % 3) if value.startswith(b"%d " % number)]
        assert mine == [b"%d %04d" % (number, index) for index in range(500)]


@pytest.mark.parametrize("max_block_ms", [60_000, 2**63 - 1])
def test_full_buffer_blocks_until_memory_is_free(
    fake: FakeCluster, cluster: Cluster, max_block_ms: int
) -> None:
    """1 MB through 32 KiB: with any max.block.ms every record is stored."""
    producer = cluster.producer(
        buffer_memory=32_768, batch_size=4096, linger_ms=1000, max_block_ms=max_block_ms
    )
    for number in range(1000):
        producer.send("t", b"%04d" % number * 250, partition=0)
        assert producer.metrics()["buffer-available-bytes"] >= 0
    producer.flush(60)
    assert fake.values("t", 0) == [b"%04d" % number * 250 for number in range(1000)]


def test_memory_that_was_freed_before_the_wait_is_seen(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer was full at `append` and is empty when the wait begins: no wake-up would come."""
    producer = cluster.producer()
    producer.send("t", b"x").result(60)
    engine: Any = producer._engine
    monkeypatch.setattr(engine._memory_wait, "wait", lambda _timeout_s: pytest.fail("nothing would wake it"))
    assert engine.wait_for_memory(60)
    assert engine.metrics()["waiting-threads"] == 0


def test_wait_for_memory_does_not_poll(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait for the whole time."""
    producer = cluster.producer(buffer_memory=4096, batch_size=1024, delivery_timeout_ms=600_000)
    producer.send("t", b"x").result(60)
    engine: Any = producer._engine
    waits: list[float] = []
    monkeypatch.setattr(engine._memory_wait, "wait", waits.append)
    fake.stop_node(0)
    with contextlib.suppress(errors.BufferExhaustedError):
        while engine.append("t", None, b"x" * 900, (), 0, 0) != NO_MEMORY:
            pass
    assert engine.wait_for_memory(60)
    assert waits == [60]
    fake.start_node(0)


def test_wait_for_memory_ends_with_little_free_memory() -> None:
    """A silent node holds three quarters of the buffer; records for the other one are still sent."""
    fake = FakeCluster(2, latency_ms=0)
    fake.create("t", 2)
    stuck = fake.topics["t"].partitions[0].leader

    def rule(ask: Ask) -> Fault | None:
        return Fault(delay_ms=600_000) if ask.api == "Produce" and ask.node_id == stuck else None

    fake.rules.append(rule)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(
            buffer_memory=100_000, batch_size=10_000, max_block_ms=30_000, delivery_timeout_ms=600_000
        )
        producer.send("t", b"x", partition=1).result(60)
        for _ in range(85):
            producer.send("t", b"x" * 1000, partition=0)
        sent = [producer.send("t", b"y" * 1000, partition=1) for _ in range(100)]
        assert [future.result(60).offset for future in sent] == list(range(1, 101))
        with pytest.raises(errors.FlushTimeoutError) as lost:
            producer.close(0)
        assert lost.value.remaining == 85


def test_full_buffer_raises_after_max_block_ms(fake: FakeCluster, cluster: Cluster) -> None:
    """The node is gone: `send` raises; `send_many` fails the rest without a wait for each."""
    producer = cluster.producer(
        buffer_memory=4096, batch_size=1024, max_block_ms=500, delivery_timeout_ms=600_000
    )
    producer.send("t", b"x").result(60)
    fake.stop_node(0)
    with pytest.raises(errors.BufferExhaustedError):
        fill(producer)
    before = time.monotonic()
    result = producer.send_many("t", [ProducerRecord(b"x" * 900, key=b"k") for _ in range(50)])
    assert time.monotonic() - before < 15
    assert all(isinstance(future.exception(0), errors.BufferExhaustedError) for future in result)
    values = producer.send_many("t", [b"x" * 900] * 50)
    assert time.monotonic() - before < 15
    assert all(isinstance(future.exception(0), errors.BufferExhaustedError) for future in values)
    fake.start_node(0)


def fill(producer: Any) -> None:
    """Send until the buffer is full, and once more."""
    for _ in range(100):
        producer.send("t", b"x" * 900)


def test_errors_before_the_buffer_are_raised_by_send(cluster: Cluster) -> None:
    """Not hidden in a future."""
    producer = cluster.producer(max_request_size=1000, batch_size=500)
    with pytest.raises(errors.SerializationError):
        producer.send("t", "text")
    with pytest.raises(errors.MessageTooLargeError):
        producer.send("t", b"x" * 1000)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        producer.send("t", b"x", partition=5)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        producer.send("t", b"x", partition=-1)


def test_send_many_takes_values_records_and_nulls(fake: FakeCluster, cluster: Cluster) -> None:
    """In order per partition, each with its own outcome; also from a generator."""
    producer = cluster.producer()

    def items() -> Iterator[object]:
        for number in range(600):
            yield b"%03d" % number
        yield ProducerRecord(b"keyed", key=b"k", partition=2, headers={"h": "x"}, timestamp=5)
        yield 12
        yield None

    result = producer.send_many("t", items())
    producer.flush(60)
    assert len(result) == 603
    assert list(result.errors()) == [601]
    keyed = result[600].result()
    assert (keyed.partition, keyed.timestamp, keyed.serialized_key_size) == (2, 5, 1)
    for index in (0, 1, 299, 599):
        metadata = result[index].result()
        records = fake.topics["t"].partitions[metadata.partition].records()
        assert records[metadata.offset].value == b"%03d" % index
        assert metadata.serialized_value_size == 3


def test_flush_times_out_with_the_number_left(fake: FakeCluster, cluster: Cluster) -> None:
    """The node is down; after its restart the same records are delivered."""
    producer = cluster.producer(linger_ms=0)
    producer.send("t", b"x").result(60)
    fake.stop_node(0)
    for _ in range(3):
        producer.send("t", b"y", partition=0)
    with pytest.raises(errors.FlushTimeoutError) as caught:
        producer.flush(0.05)
    assert caught.value.remaining == 3
    fake.start_node(0)
    producer.flush(60)
    assert fake.values("t").count(b"y") == 3


@pytest.mark.parametrize(
    ("partition", "said"), [("1", "str '1'"), (1.5, "float 1.5"), (b"1", "bytes b'1'"), ([1], r"list \[1\]")]
)
def test_partition_of_another_type_is_an_error(cluster: Cluster, partition: Any, said: str) -> None:
    """The error names type and value; from `send`, and as the outcome of one record of `send_many`."""
    producer = cluster.producer()
    text = f"partition= is a whole number or None, not {said}"
    with pytest.raises(TypeError, match=text):
        producer.send("t", b"x", partition=partition)
    bad, good = producer.send_many("t", [ProducerRecord(b"x", partition=partition), b"y"])
    with pytest.raises(TypeError, match=text):
        bad.result(60)
    assert bad.outcome(0)[0].partition == -1
    assert good.result(60).offset == 0


def test_whole_numbers_of_other_libraries_are_partitions(cluster: Cluster) -> None:
    """Objects with `__index__`, NumPy's for instance."""
    number = numpy.int64(2)
    assert cluster.producer().send("t", b"x", partition=number).result(60).partition == 2


@pytest.mark.parametrize("records", [b"value", "text", None, 5, ProducerRecord(b"x")])
def test_send_many_needs_an_iterable_of_records(cluster: Cluster, records: Any) -> None:
    """Bytes are a value, not a list of numbers."""
    producer = cluster.producer()
    with pytest.raises(TypeError, match=f"records= is a list.* not {type(records).__name__}"):
        producer.send_many("t", records)
