"""Random tables through send_arrow and back through arrow_batches: equal rows, also when read by poll.

The oracle: each row is at the offset of its future; a partition has its rows in the order of the table.
"""

import asyncio
from random import Random
from typing import Any

import headrace
import pyarrow as pa
import pytest
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.protocol.records.codec import pick_codec

BINARY = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view())
USERS = ("arrow.sending_io", "consumer.consumer_io", "producer.producer_io")


def text(random: Random, longest: int) -> str | None:
    return None if random.random() < 0.2 else random.choice("abcé") * random.randrange(longest)


def binary_chunks(random: Random, words: list[str | None], cuts: list[int]) -> Any:
    """The words in a random layout, split at random places; each chunk is a slice of a longer array."""
    kind = random.choice(BINARY)
    chunks = []
    for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True):
        before = random.randrange(3)
        padded = ["pad"] * before + words[start:end] + ["pad"]
        made = pa.array(padded, pa.string())
        made = made.dictionary_encode() if random.random() < 0.2 else made.cast(kind)
        chunks.append(made.slice(before, end - start))
    if len({chunk.type for chunk in chunks}) > 1:
        chunks = [chunk.cast(pa.binary()) for chunk in chunks]
    return pa.chunked_array(chunks)


def cuts_of(random: Random, count: int) -> list[int]:
    return sorted(random.randrange(count + 1) for _ in range(random.randrange(4)))


def random_headers(random: Random) -> list[tuple[str, bytes]] | None:
    if random.random() < 0.6:
        return None
    return [(text(random, 4) or "h", b"x" * random.randrange(3)) for _ in range(random.randrange(3))]


def random_table(random: Random) -> tuple[Any, list[tuple[Any, ...]]]:
    """A table, and its rows as (key, value, headers, partition, timestamp)."""
    count = random.choice([0, 1, 7, 60, 900])
    keys = [text(random, 5) for _ in range(count)]
    values = [text(random, random.choice([3, 200])) for _ in range(count)]
    headers = [random_headers(random) for _ in range(count)]
    partitions = [random.choice([None, None, 0, 1, 2]) for _ in range(count)]
    times = [random.choice([None, random.randrange(10**12)]) for _ in range(count)]
    columns: dict[str, Any] = {"value": binary_chunks(random, values, cuts_of(random, count))}
    if random.random() < 0.7:
        columns["key"] = binary_chunks(random, keys, cuts_of(random, count))
    else:
        keys = [None] * count
    if random.random() < 0.5:
        columns["headers"] = headers
    else:
        headers = [None] * count
    if random.random() < 0.5:
        columns["partition"] = pa.array(partitions, random.choice([pa.int32(), pa.int64(), pa.uint64()]))
    else:
        partitions = [None] * count
    if random.random() < 0.5:
        columns["timestamp"] = pa.array(times, pa.timestamp("ms", tz="UTC")).cast(
            pa.timestamp("us", tz="UTC")
        )
    else:
        times = [None] * count
    rows = [
        (
            None if key is None else key.encode(),
            None if value is None else value.encode(),
            tuple(pairs or ()),
            partition,
            time,
        )
        for key, value, pairs, partition, time in zip(keys, values, headers, partitions, times, strict=True)
    ]
    return columns, rows


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    pairs = tuple((pair["key"], pair["value"]) for pair in row["headers"])
    return row["key"], row["value"], pairs, row["timestamp"]


async def check(random: Random, fake: FakeCluster, cluster: Any) -> None:
    fake.create("t", 3)
    columns, rows = random_table(random)
    producer = cluster.producer(
        batch_size=random.choice([200, 16_384]),
        compression_type=random.choice(["none", "lz4"]),
        buffer_memory=random.choice([40_000, 1 << 25]),
    )
    result = await producer.send_arrow("t", columns)
    assert result.errors() == {}
    places = [(found.partition, found.offset) for found in result.results()]

    consumer = cluster.consumer("t", auto_offset_reset="earliest", iter_timeout=1.0)
    batches = [batch async for batch in consumer.arrow_batches(random.choice([1, 50, 10_000]), 0.1)]
    assert all(batch.schema == headrace.ARROW_SCHEMA and batch.num_rows for batch in batches)
    shown: dict[tuple[int, int], Any] = {}
    for batch in batches:
        batch.validate(full=True)
        for row in batch.to_pylist():
            place = row["partition"], row["offset"]
            assert place not in shown
            shown[place] = facts({**row, "timestamp": round(row["timestamp"].timestamp() * 1000)})
    seen = {}
    objects = cluster.consumer("t", auto_offset_reset="earliest")
    while records := await objects.poll(1, 100):
        for record in records:
            seen[record.partition, record.offset] = (
                record.key,
                record.value,
                record.headers,
                record.timestamp,
            )
    assert shown == seen
    assert len(seen) == len(rows)
    last: dict[int, int] = {}
    for (partition, offset), (key, value, headers, wanted, time) in zip(places, rows, strict=True):
        found = seen[partition, offset]
        assert found[:3] == (key, value, headers)
        assert time is None or found[3] == time
        assert wanted in (None, partition)
        assert offset > last.get(partition, -1)
        last[partition] = offset


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("codec", ["compiled", "python"])
def test_tables_round_trip(seed: int, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random layouts, chunks, nulls, batch sizes and bounds."""
    for module in USERS:
        monkeypatch.setattr(f"headrace.clients.{module}.active_codec", lambda: pick_codec(codec))
    fake = FakeCluster()

    async def everything() -> None:
        async with AsyncCluster("node0:9000", make_hub=fake.make_hub) as cluster:
            async with asyncio.timeout(600):
                await check(Random(seed), fake, cluster)

    virtual_loop.run(everything())
