"""send_arrow on a fake cluster: partitions, order and outcome of rows."""

import asyncio
from typing import Any

import headrace
import pyarrow as pa
import pytest
from fake_cluster import FakeCluster
from headrace.clients.producer.partitioner import positive_hash
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import (
    BufferExhaustedError,
    ClosedError,
    FlushTimeoutError,
    InvalidPartitionsError,
    MessageTooLargeError,
    SerializationError,
    UnknownTopicOrPartitionError,
)

pytestmark = pytest.mark.usefixtures("codec")


def records(fake: FakeCluster, partition: int) -> list[Any]:
    return fake.topics["t"].partitions[partition].records()


def check_places(fake: FakeCluster, result: Any, values: list[bytes | None]) -> None:
    """Each future has the place of its row, and rows of a partition are in order."""
    last: dict[int, int] = {}
    for future, value in zip(result, values, strict=True):
        metadata = future.result(0)
        found = records(fake, metadata.partition)[metadata.offset]
        assert (found.offset, found.value) == (metadata.offset, value)
        assert metadata.offset > last.get(metadata.partition, -1)
        last[metadata.partition] = metadata.offset


def test_rows_are_partitioned_by_key_by_column_and_sticky(fake: FakeCluster, cluster: Cluster) -> None:
    """As by `send`; in order although rows are appended partition by partition."""
    count = 3000
    keys = [None if number % 3 == 0 else b"k%d" % (number % 50) for number in range(count)]
    given = [number % 3 if number % 7 == 0 else None for number in range(count)]
    values = [None if number % 11 == 0 else b"%d" % number for number in range(count)]
    table = pa.table({"key": keys, "value": values, "partition": pa.array(given, pa.int64())})
    result = cluster.producer(batch_size=1000).send_arrow("t", table)
    assert result.errors(60) == {}
    assert len(result) == count
    check_places(fake, result, values)
    for number, future in enumerate(result):
        partition = future.result().partition
        if given[number] is not None:
            assert partition == given[number]
        elif (key := keys[number]) is not None:
            assert partition == positive_hash(key) % 3
    free = [result[number].result().partition for number in range(count) if keys[number] is given[number]]
    assert set(free) == {0, 1, 2}, "the sticky choice moves on"
    assert result[-1].result() == result[count - 1].result()
    with pytest.raises(IndexError):
        result[count]


def test_rows_without_keys_use_the_sticky_partition(fake: FakeCluster, cluster: Cluster) -> None:
    """Slices of chunked columns, over many batches."""
    chunks = pa.chunked_array(
        [[b"%d" % number for number in range(start, start + 700)] for start in (0, 700)]
    )
    result = cluster.producer(batch_size=500).send_arrow("t", pa.table({"value": chunks}).slice(5, 1300))
    result.raise_for_errors(10)
    check_places(fake, result, [b"%d" % number for number in range(5, 1305)])
    assert all(records(fake, partition) for partition in range(3))


def test_all_columns_of_a_row_are_stored(fake: FakeCluster, cluster: Cluster) -> None:
    """Headers, timestamps, null and empty; the metadata has time and sizes."""
    table = {
        "k": ["ä", None],
        "v": ["", None],
        "h": [{"a": "1", "b": None}, None],
        "p": [2, 2],
        "when": pa.array([1_000_001, None], pa.timestamp("us", tz="UTC")),
    }
    columns = {"key": "k", "value": "v", "headers": "h", "partition": "p", "timestamp": "when"}
    result = cluster.producer().send_arrow("t", table, **columns)
    first, second = result.results(10)
    assert (first.timestamp, first.serialized_key_size, first.serialized_value_size) == (1000, 2, 0)
    assert (second.serialized_key_size, second.serialized_value_size) == (-1, -1)
    one, two = records(fake, 2)
    assert (one.key, one.value, one.timestamp) == ("ä".encode(), b"", 1000)
    assert one.headers == (("a", b"1"), ("b", None))
    assert (two.key, two.value, two.headers) == (None, None, ())
    assert two.timestamp == second.timestamp > 10**12


def test_invalid_rows_fail_alone(fake: FakeCluster, cluster: Cluster) -> None:
    """Too large (by value, by headers), an unknown partition, a time before 1970."""
    producer = cluster.producer(max_request_size=1000, batch_size=500, max_block_ms=2000)
    table = {
        "value": [b"0", b"x" * 1000, b"2", b"3", b"4", b"5", b"6"],
        "key": [b"a", b"a", None, b"a", None, b"a", b"a"],
        "headers": [None, None, {"h": b"x" * 900}, None, None, None, None],
        "partition": [None, None, None, 3, None, -1, None],
        "timestamp": [1, 1, 1, 1, -1, 1, 1],
    }
    result = producer.send_arrow("t", table)
    errors = result.errors(60)
    assert {row: type(error) for row, error in errors.items()} == {
        1: MessageTooLargeError,
        2: MessageTooLargeError,
        3: UnknownTopicOrPartitionError,
        4: ValueError,
        5: UnknownTopicOrPartitionError,
    }
    assert sorted(fake.values("t")) == [b"0", b"6"]
    assert "are 0 to 2" in str(errors[3])


@pytest.mark.parametrize("partition", [[0, None, 0, None], None])
def test_key_and_value_sizes_add_up(
    fake: FakeCluster, cluster: Cluster, partition: list[int | None] | None
) -> None:
    """One of them may be long, both may not."""
    producer = cluster.producer(max_request_size=1000, batch_size=500)
    keys = [b"k" * 600, b"", b"k" * 600, None]
    table = {"key": keys, "value": [b"", b"x" * 600, b"y" * 600, None]}
    if partition is not None:
        table["partition"] = pa.array(partition, pa.int32())
    errors = producer.send_arrow("t", table).errors(10)
    assert {row: type(error) for row, error in errors.items()} == {2: MessageTooLargeError}
    assert sorted(value or b"-" for value in fake.values("t")) == [b"-", b"-", b"x" * 600]


def test_row_may_name_a_new_partition(fake: FakeCluster, cluster: Cluster) -> None:
    """One that is not in the client's metadata yet."""
    producer = cluster.producer()
    producer.send("t", b"x").result(60)
    fake.grow("t", 5)
    assert producer.send_arrow("t", {"value": [b"new"], "partition": [4]}).errors(60) == {}
    assert fake.values("t", 4) == [b"new"]


def test_rows_of_an_unknown_topic_fail(cluster: Cluster) -> None:
    """As with `send_many`."""
    result = cluster.producer(max_block_ms=2000).send_arrow("u", {"value": [b"1", b"2"]})
    assert {row: type(error) for row, error in result.errors(60).items()} == dict.fromkeys(
        (0, 1), UnknownTopicOrPartitionError
    )


def test_rows_wait_for_buffer_memory(fake: FakeCluster, cluster: Cluster) -> None:
    """1 MB through 32 KiB: all rows are stored in order."""
    producer = cluster.producer(buffer_memory=32_768, batch_size=4096, linger_ms=1000)
    values: list[bytes | None] = [b"%04d" % number * 250 for number in range(1000)]
    result = producer.send_arrow("t", {"value": values, "key": [b"%d" % (n % 9) for n in range(1000)]})
    result.raise_for_errors(10)
    check_places(fake, result, values)


def test_full_buffer_fails_the_remaining_rows(fake: FakeCluster, cluster: Cluster) -> None:
    """The node is down: buffered rows stay in flight, all others fail after one wait."""
    producer = cluster.producer(
        buffer_memory=4096, batch_size=1024, max_block_ms=2000, delivery_timeout_ms=600_000
    )
    producer.send("t", b"x").result(60)
    fake.stop_node(0)
    result = producer.send_arrow("t", {"value": [b"x" * 900] * 50, "partition": [n % 3 for n in range(50)]})
    failed = [future for future in result if future.done()]
    assert 0 < len(failed) < 50
    assert all(isinstance(future.exception(0), BufferExhaustedError) for future in failed)
    fake.start_node(0)
    assert result.wait(60)
    assert len(result.errors()) == len(failed)


def test_serdes_apply_to_other_types_than_bytes(fake: FakeCluster, cluster: Cluster) -> None:
    """Structs through json, numbers through int64; text is bytes already; one invalid row fails alone."""
    producer = cluster.producer(key=headrace.int64, value=headrace.json)
    result = producer.send_arrow(
        "t", {"key": [1, None, 2**62, 3], "value": [{"a": 1}, None, {"a": 2}, {"a": 3}], "partition": [0] * 4}
    )
    assert result.errors(60) == {}
    assert [record.value for record in records(fake, 0)] == [b'{"a":1}', None, b'{"a":2}', b'{"a":3}']
    assert records(fake, 0)[0].key == (1).to_bytes(8, "big")
    assert producer.send_arrow("t", {"value": ["text"], "partition": [1]}).errors(60) == {}
    assert fake.values("t", 1) == [b"text"]
    picky = cluster.producer(value=lambda number: b"%d" % (10 // number))
    errors = picky.send_arrow("t", {"value": [1, 0, 2], "partition": [2] * 3}).errors(60)
    assert {row: type(error) for row, error in errors.items()} == {1: SerializationError}
    assert fake.values("t", 2) == [b"10", b"5"]


def test_custom_partitioners_are_called_for_each_row(fake: FakeCluster, cluster: Cluster) -> None:
    """None means the sticky choice; an unknown partition fails the row."""

    def choose(_topic: str, key: bytes | None, count: int) -> int | None:
        return None if key is None else int(key)

    result = cluster.producer(partitioner=choose).send_arrow(
        "t",
        {"value": [b"a", b"b", b"c", b"d"], "key": [b"2", None, b"9", b"9"], "partition": [None] * 3 + [1]},
    )
    assert {row: type(error) for row, error in result.errors(60).items()} == {2: InvalidPartitionsError}
    assert result[0].result().partition == 2
    assert result[3].result().partition == 1


def test_interceptors_are_called_for_each_row(fake: FakeCluster, cluster: Cluster) -> None:
    """With a record."""
    seen: list[Any] = []

    class Upper:
        def on_send(self, record: Any) -> Any:
            seen.append(record)
            return headrace.ProducerRecord(record.value.upper(), record.key, record.headers, record.partition)

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            seen.append(error)

    producer = cluster.producer(interceptors=[Upper()])
    table = {"value": ["a", "b"], "headers": [{"h": "x"}, None], "partition": [0, 0], "key": [b"k", None]}
    producer.send_arrow("t", table).raise_for_errors(10)
    assert [record.value for record in records(fake, 0)] == [b"A", b"B"]
    assert records(fake, 0)[0].headers == (("h", b"x"),)
    assert len(seen) == 4


def test_ignored_keys_use_the_sticky_partition(fake: FakeCluster, cluster: Cluster) -> None:
    """partitioner.ignore.keys: keys are written and do not select the partition."""
    producer = cluster.producer(partitioner_ignore_keys=True)
    producer.send_arrow("t", {"value": [b"v"] * 9, "key": [b"%d" % n for n in range(9)]}).raise_for_errors(10)
    assert sorted(len(records(fake, partition)) for partition in range(3)) == [0, 0, 9]


def test_empty_tables_and_closed_producers(cluster: Cluster) -> None:
    """An empty table has an empty result; invalid arguments are still errors."""
    producer = cluster.producer()
    result = producer.send_arrow("t", pa.table({"value": pa.array([], pa.binary())}))
    assert (len(result), result.done(), result.results(0), list(result)) == (0, True, [], [])
    with pytest.raises(ValueError, match="value"):
        producer.send_arrow("t", {})
    producer.close()
    with pytest.raises(ClosedError):
        producer.send_arrow("t", {"value": [b"x"]})


@pytest.mark.fake_cluster(max_block_ms=500)
async def test_asyncio_send_arrow_waits_for_earlier_records_and_all_rows(fake: Any, cluster: Any) -> None:
    """The awaited result is complete."""
    fake.create("t")
    producer = cluster.producer(buffer_memory=32_768, batch_size=4096)
    first = producer.send("t", b"first")
    result = await producer.send_arrow("t", {"value": [b"%d" % number * 100 for number in range(500)]})
    assert result.done()
    assert first.done()
    assert result.errors() == {}
    assert fake.values("t") == [b"first"] + [b"%d" % number * 100 for number in range(500)]
    failed = await producer.send_arrow("u", {"value": [b"x"]})
    assert isinstance(failed[0].exception(), UnknownTopicOrPartitionError)
    fake.stop_node(0)
    waiting = asyncio.create_task(producer.send_arrow("t", {"value": [b"x" * 30_000] * 5}))
    await asyncio.sleep(1)
    with pytest.raises(FlushTimeoutError, match="1 for 't'"):
        await producer.close(timeout=0)
    errors = (await waiting).errors()
    assert len(errors) == 5
    assert isinstance(errors[0], ClosedError)
    with pytest.raises(ClosedError):
        await producer.send_arrow("t", {"value": [b"x"]})
