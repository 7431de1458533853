"""Auto-commit of finished records: a record is finished at the user's next request for records. Before
that it is not committed, and the next owner of the partition reads it again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from group_members import KINDS, each_kind
from headrace.protocol.model import TopicPartition

Values = list[bytes]
T0 = TopicPartition("t", 0)
EVERYTHING = [b"%d" % number for number in range(9)]


async def poll(consumer: Any) -> AsyncIterator[Values]:
    while True:
        if batch := await consumer.poll(1.0, 4):
            yield [record.value for record in batch]


async def iterate(consumer: Any) -> AsyncIterator[Values]:
    async for record in consumer:
        yield [record.value]


async def batches(consumer: Any) -> AsyncIterator[Values]:
    async for batch in consumer.batches(4, 0.1):
        yield [record.value for record in batch]


async def tables(consumer: Any) -> AsyncIterator[Values]:
    async for table in consumer.arrow_batches(4, 0.1):
        yield table.column("value").to_pylist()


Way = Callable[[Any], AsyncIterator[Values]]
each_way = pytest.mark.parametrize("way", [poll, iterate, batches, tables])


def member(cluster: Any, kind: str, **options: Any) -> Any:
    options = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 100, **KINDS[kind], **options}
    return cluster.consumer("t", group="g", **options)


def committed(fake: Any) -> int:
    found: int = fake.committed("g").get(("t", 0), 0)
    return found


def filled(fake: Any) -> None:
    fake.create("t")
    fake.put("t", 0, *EVERYTHING[:5])
    fake.put("t", 0, *EVERYTHING[5:])


async def rest(consumer: Any) -> Values:
    """Everything until nothing comes for a while."""
    found: Values = []
    while batch := await consumer.poll(11.0):  # two heartbeat intervals
        found += [record.value for record in batch]
    return found


@each_kind
@each_way
@pytest.mark.parametrize("end", ["close", "unsubscribe"])
async def test_close_does_not_commit_unfinished_records(
    fake: Any, cluster: Any, kind: str, way: Way, end: str
) -> None:
    """The next consumer begins with them."""
    filled(fake)
    consumer = member(cluster, kind)
    finished: Values = []
    async with aclosing(way(consumer)) as reading:  # type: ignore[type-var]
        async for values in reading:
            await asyncio.sleep(1)
            assert committed(fake) == len(finished)
            if len(finished) >= 4:
                break
            finished += values
    await getattr(consumer, end)()
    assert committed(fake) == len(finished)
    assert await rest(member(cluster, kind)) == EVERYTHING[len(finished) :]


@each_kind
@each_way
async def test_rebalance_waits_for_unfinished_records(fake: Any, cluster: Any, kind: str, way: Way) -> None:
    """The application processes records while another member joins. Its next poll commits them, and only then
    partitions are revoked. No record is read twice."""
    fake.create("t", 2)
    values = {number: [b"%d %d" % (number, offset) for offset in range(6)] for number in (0, 1)}
    for number, each in values.items():
        for start in (0, 2, 4):
            fake.put("t", number, *each[start : start + 2])
    mine: Values = []
    revoked: list[int] = []

    def on_revoked(_consumer: Any, tps: Any) -> None:
        for _, number in tps:
            handed = len({*values[number]} & {*mine})
            assert fake.committed("g").get(("t", number), 0) == handed, "delivered records count as finished"
            revoked.append(handed)

    first = cluster.consumer(
        group="g", auto_offset_reset="earliest", auto_commit_interval_ms=3_600_000, **KINDS[kind]
    )
    await first.subscribe("t", on_revoked=on_revoked)
    while len(await first.assignment()) < 2:
        await first._serve(first._engine, None)
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)  # records of both partitions are there
    reading = way(first)
    while len(mine) < 4:
        mine += await anext(reading)
    second = member(cluster, kind)
    await second.poll(0)
    await asyncio.sleep(10)  # the user is at work, and the group waits for it
    assert first._engine.buffer.has_group_work
    assert (fake.committed("g"), second._engine.assignment()) == ({}, ())

    async def read_on() -> None:
        async for each in reading:
            mine.extend(each)

    going_on = asyncio.ensure_future(read_on())
    theirs = await rest(second)
    going_on.cancel()
    with suppress(asyncio.CancelledError):
        await going_on
    assert revoked
    assert sorted(mine + theirs) == sorted(values[0] + values[1])


@each_kind
@each_way
async def test_records_of_an_overdue_member_are_not_committed(
    fake: Any, cluster: Any, kind: str, way: Way
) -> None:
    """Their partition is assigned to another member, which reads them again."""
    filled(fake)
    slow = member(cluster, kind, max_poll_interval_ms=10_000, session_timeout_ms=8_000)
    reading = way(slow)
    done = await anext(reading)
    in_hand = await anext(reading)
    await asyncio.sleep(1)
    assert committed(fake) == len(done)
    other = member(cluster, kind)
    theirs = await rest(other)
    while not theirs:
        theirs = await rest(other)
    assert theirs == EVERYTHING[len(done) :]
    assert theirs[: len(in_hand)] == in_hand
    behind = committed(fake)
    assert behind == len(EVERYTHING)
    going_on = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(3)
    assert committed(fake) == behind, "a later commit fails"
    going_on.cancel()
    await asyncio.wait([going_on])
    await slow.close()
    assert committed(fake) == behind
