"""`arrow_batches` over a fake cluster: positions move with the rows that were returned."""

import asyncio
from typing import Any

import pytest
from headrace import ARROW_SCHEMA
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.header import Compression, TimestampType

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

pytestmark = pytest.mark.usefixtures("codec")


def reader(cluster: Any, *topics: str, **options: Any) -> Any:
    return cluster.consumer(
        *(topics or ("t",)), auto_offset_reset="earliest", **{"iter_timeout": 2.0, **options}
    )


async def values(batches: Any) -> list[list[bytes]]:
    return [batch.column("value").to_pylist() async for batch in batches]


async def sizes(batches: Any, into: list[int]) -> None:
    async for batch in batches:
        into.append(len(batch))


def joined(parts: list[list[bytes]]) -> list[bytes]:
    return [value for part in parts for value in part]


def numbered(fake: Any, *counts: int, partition: int = 0) -> list[bytes]:
    """Batches with these numbers of records; their values."""
    made = []
    for count in counts:
        batch = [b"%d" % (len(made) + number) for number in range(count)]
        fake.put("t", partition, *batch)
        made += batch
    return made


async def test_arrow_batches_have_max_rows(fake: Any, cluster: Any) -> None:
    """Record batches are split; the last rows are returned after the timeout, and then the iteration ends."""
    fake.create("t")
    made = numbered(fake, 7, 1, 12, 5)
    found = await values(reader(cluster).arrow_batches(6, 0.5))
    assert [len(part) for part in found] == [6, 6, 6, 6, 1]
    assert joined(found) == made


async def test_position_follows_each_arrow_batch(fake: Any, cluster: Any) -> None:
    """Polls, tables and iterations continue where the previous one stopped."""
    fake.create("t")
    made = numbered(fake, 10, 10)
    consumer = reader(cluster)
    found: list[bytes] = []
    async for batch in consumer.arrow_batches(3):
        found += batch.column("value").to_pylist()
        assert await consumer.position(T0) == len(found)
        break
    found += [record.value for record in await consumer.poll(1, 2)]
    assert await consumer.position(T0) == 5
    async for batch in consumer.arrow_batches(4):
        found += batch.column("value").to_pylist()
        assert batch.column("offset").to_pylist() == [5, 6, 7, 8]
        break
    async for record in consumer:
        found.append(record.value)
        if len(found) == 12:
            async for batch in consumer.arrow_batches(2):
                found += batch.column("value").to_pylist()
                break
    assert found == made
    assert consumer.metrics()["records-consumed-total"] == 20


async def test_seek_and_pause_between_arrow_batches(fake: Any, cluster: Any) -> None:
    """They take effect with the next one."""
    fake.create("t", 2)
    numbered(fake, 4)
    consumer = reader(cluster)
    found = []
    async for batch in consumer.arrow_batches(2, 0.1):
        found.append(batch.column("value").to_pylist())
        if len(found) == 1:
            await consumer.seek(T0, 1)
        elif len(found) == 2:
            await consumer.pause(T0)
            fake.put("t", 1, b"other")
        elif len(found) == 3:
            await consumer.resume(T0)
    assert found == [[b"0", b"1"], [b"1", b"2"], [b"other"], [b"3"]]


async def test_layout_and_projection(fake: Any, cluster: Any) -> None:
    """Several topics and partitions in one table; a projection in its own order."""
    fake.create("t", 2)
    fake.create("u")
    fake.put("t", 0, b"a", b"b", timestamp=-1)
    fake.put("t", 1, b"c", timestamp=2**62, compression=Compression.ZSTD)
    fake.put("u", 0, b"d", timestamp=77, timestamp_type=TimestampType.LOG_APPEND_TIME)
    consumer = reader(cluster, "t", "u")
    (batch,) = [batch async for batch in consumer.arrow_batches(timeout=0.5)]
    rows = {(row["topic"], row["partition"], row["offset"]): row for row in _plain(batch)}
    assert [rows[key]["value"] for key in sorted(rows)] == [b"a", b"b", b"c", b"d"]
    assert rows["t", 0, 0]["us"] is None
    assert rows["t", 1, 0]["us"] == (2**63 - 1) // 1000 * 1000
    assert (rows["u", 0, 0]["us"], rows["u", 0, 0]["timestampType"]) == (77_000, 1)
    assert rows["t", 0, 1]["headers"] == []
    again = reader(cluster, "u")
    async for batch in again.arrow_batches(columns=["offset", "topic", "value"]):
        assert batch.schema.names == ["offset", "topic", "value"]
        assert batch.to_pylist() == [{"offset": 0, "topic": "u", "value": b"d"}]
        break


def _plain(batch: Any) -> list[dict[str, Any]]:
    """Rows with the timestamp as a number: Python's dates end in the year 9999."""
    import pyarrow as pa

    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    rows = batch.drop_columns(["timestamp"]).to_pylist()
    return [{**row, "us": time} for row, time in zip(rows, times, strict=True)]


async def test_control_batches_are_skipped(fake: Any, cluster: Any) -> None:
    """The position moves past them even if no record follows."""
    fake.create("t")
    fake.put("t", 0, b"a")
    fake.put("t", 0, b"\0" * 6, is_control=True, producer_id=1, producer_epoch=0, is_transactional=True)
    consumer = reader(cluster)
    assert await values(consumer.arrow_batches()) == [[b"a"]]
    assert await consumer.position(T0) == 2


async def test_corrupt_batch_is_raised_after_the_rows_before_it(fake: Any, cluster: Any) -> None:
    """At every call until a seek past it."""
    fake.create("t")
    numbered(fake, 3, 2, 2)
    batches = fake.topics["t"].partitions[0].batches
    base, following, stored = batches[1]
    batches[1] = (base, following, stored[:-1] + bytes([stored[-1] ^ 1]))
    for kind in ("arrow_batches", "batches"):
        consumer = reader(cluster)
        found: list[int] = []
        with pytest.raises(errors.CorruptMessageError, match="t-0 at offset 3"):
            await sizes(getattr(consumer, kind)(100, 5.0), found)
        assert found == [3]
        assert await consumer.position(T0) == 3
        with pytest.raises(errors.CorruptMessageError):
            await anext(getattr(consumer, kind)(100, 0.1))
        await consumer.seek(T0, 5)
        assert len(await anext(getattr(consumer, kind)(100, 0.1))) == 2


async def test_partition_error_is_raised_after_the_rows(fake: Any, cluster: Any) -> None:
    """By the next call; it is not lost while a table fills up."""
    fake.create("t", 2)
    fake.put("t", 0, b"x")
    fake.put("t", 1, b"gone")
    fake.truncate_start("t", 1, 1)
    for kind in ("arrow_batches", "batches"):
        consumer = cluster.consumer(auto_offset_reset="none")
        await consumer.assign([T0, T1])
        with pytest.raises(errors.NoOffsetError):
            await anext(getattr(consumer, kind)())
        await consumer.seek(T0, 0)
        await consumer.seek(T1, 0)
        found: list[int] = []
        with pytest.raises(errors.OffsetOutOfRangeError, match="t-1 at offset 0"):
            await sizes(getattr(consumer, kind)(10, 60.0), found)
        assert found == [1]


async def test_wakeup_returns_the_rows_and_ends_the_iteration(fake: Any, cluster: Any) -> None:
    """At once, with and without rows, also while records keep arriving."""
    fake.create("t")
    numbered(fake, 3)
    consumer = reader(cluster, iter_timeout=None)
    loop = asyncio.get_running_loop()
    for kind in ("arrow_batches", "batches"):
        await consumer.seek(T0, 0)
        loop.call_later(1, consumer.wakeup)
        before = loop.time()
        assert [len(batch) async for batch in getattr(consumer, kind)(10, 60.0)] == [3]
        assert loop.time() - before < 2
        loop.call_later(1, consumer.wakeup)
        assert [batch async for batch in getattr(consumer, kind)(10, 60.0)] == []
        await consumer.seek(T0, 0)
        sizes = []
        async for batch in getattr(consumer, kind)(1, 60.0):
            sizes.append(len(batch))
            consumer.wakeup()
        assert sizes == [1]


async def test_rows_of_a_cancelled_task_are_read_again(fake: Any, cluster: Any) -> None:
    """Closing the consumer ends the wait with ClosedError."""
    fake.create("t", 2)
    fake.put("t", 0, b"0", b"1")
    fake.put("t", 1, b"2")
    consumer = reader(cluster)
    first = await anext(consumer.arrow_batches(1))
    waiting = asyncio.create_task(anext(consumer.arrow_batches(10, 60.0)))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert sorted([*first.column("value").to_pylist(), *joined(await values(consumer.arrow_batches()))]) == [
        b"0",
        b"1",
        b"2",
    ]
    fake.put("t", 0, b"3")
    waiting = asyncio.create_task(values(consumer.arrow_batches(10, 60.0)))
    await asyncio.sleep(1)
    await consumer.close()
    with pytest.raises(errors.ClosedError):
        await waiting


async def test_full_column_ends_an_arrow_batch(fake: Any, cluster: Any) -> None:
    """Below max_rows, when one column reaches its limit in bytes."""
    fake.create("t")
    made = [b"%d" % number * 300 for number in range(9)]
    fake.put("t", 0, *made, b"x" * 5000, b"y")
    consumer = reader(cluster)
    consumer._engine.reader.max_column_bytes = 1000
    found = await values(consumer.arrow_batches(timeout=0.5))
    assert [len(part) for part in found] == [3, 3, 3, 1, 1]
    assert joined(found)[:9] == made


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_rows": 0}, ValueError, "at least 1"),
        ({"max_rows": 1.5}, TypeError, "must be an integer"),
        ({"columns": ["valeu"]}, ValueError, "unknown column 'valeu'; the columns are key, value"),
        ({"columns": "value"}, TypeError, "list of names"),
        ({"columns": []}, ValueError, "is empty"),
        ({"columns": ["key", "key"]}, ValueError, "duplicates"),
    ],
)
async def test_bad_arguments_are_rejected_by_the_call(
    fake: Any, cluster: Any, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    """Not by the first batch."""
    fake.create("t")
    with pytest.raises(error, match=text):
        reader(cluster).arrow_batches(**arguments)
    with pytest.raises(errors.ConfigError, match="nothing to read"):
        cluster.consumer().arrow_batches()


async def test_poll_arrow_returns_available_rows(fake: Any, cluster: Any) -> None:
    """At most `max_rows`; None after the timeout or a wakeup; it and `poll` continue each other."""
    fake.create("t")
    numbered(fake, 5)
    consumer = reader(cluster)
    batch = await consumer.poll_arrow(5, 2, ["value", "offset"])
    assert batch is not None
    assert batch.to_pydict() == {"value": [b"0", b"1"], "offset": [0, 1]}
    assert [record.offset for record in await consumer.poll(5, 1)] == [2]
    batch = await consumer.poll_arrow(5)
    assert batch is not None
    assert batch.column("offset").to_pylist() == [3, 4]
    assert batch.schema == ARROW_SCHEMA
    assert await consumer.position(T0) == 5
    assert await consumer.poll_arrow(0.01) is None
    consumer.wakeup()
    assert await consumer.poll_arrow(60) is None
