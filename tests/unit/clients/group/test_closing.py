"""`close` in a group and in a transaction ends within its timeout, and the coordinator removes the member."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from fake_cluster import Fault
from group_members import KINDS, each_kind, member
from headrace.protocol.errors import HeadraceError


async def closed(client: Any, *timeout: float) -> float:
    """How many seconds it takes."""
    now = asyncio.get_running_loop().time
    began = now()
    await client.close(*timeout)
    return now() - began


@each_kind
async def test_close_at_any_moment_leaves_the_group(fake: Any, cluster: Any, kind: str) -> None:
    """Also while JoinGroup is in flight: otherwise the partitions would wait for a session timeout."""
    fake.create("t")
    for step in range(60):
        consumer = member(cluster, kind)
        polling = asyncio.ensure_future(consumer.poll(60))
        await asyncio.sleep(step / 5000)
        await closed(consumer)
        with suppress(Exception):
            await polling
        await asyncio.sleep(0.1)
        assert fake.group_members("g") == [], step


@each_kind
async def test_close_does_not_wait_for_other_members(fake: Any, cluster: Any, kind: str) -> None:
    """One member processes records while all others wait for its JoinGroup; finished records are
    committed."""
    fake.create("t", 4)
    options = {"auto_commit_interval_ms": 3_600_000, "max_poll_records": 1}
    busy, idle = member(cluster, kind, **options), member(cluster, kind, **options)
    while not (busy._engine.assignment() and idle._engine.assignment()):
        await busy.poll(0.1)
        await idle.poll(0.1)
    third = member(cluster, kind)
    await third.poll(1)
    await idle.poll(1)  # the member learns of the rebalance, and waits
    for number in range(4):
        fake.put("t", number, b"x", b"y")
    for consumer in (third, idle, third, idle):
        await consumer.poll(3)
    finished = sum(each.offset for each in idle.handed_out().values()) - 1
    assert await closed(third) < 1
    assert await closed(idle) < 1
    assert len(fake.group_members("g")) == 1
    assert sum(offset for offset in fake.committed("g").values()) == max(finished, 0)


@each_kind
@pytest.mark.parametrize("lost", ["OffsetCommit", "FindCoordinator", "everything"])
async def test_close_ends_without_a_coordinator(fake: Any, cluster: Any, kind: str, lost: str) -> None:
    """Within the timeout of the call, or 30 s."""
    fake.create("t")
    for timeout in ((3.0,), ()):
        fake.put("t", 0, b"x")
        consumer = member(cluster, kind)
        assert await consumer.poll(60)
        await consumer.poll(0)
        fake.rules.append(lambda ask: Fault(lost_reply=True) if lost in (ask.api, "everything") else None)
        if lost == "FindCoordinator":
            consumer._engine.group._link.forget()
        assert await closed(consumer, *timeout) <= (timeout[0] if timeout else 30) + 0.1
        fake.rules.clear()


def lose_everything(fake: Any) -> None:
    fake.rules.append(lambda _ask: Fault(lost_reply=True))


async def test_close_aborts_and_flushes_within_one_timeout(fake: Any, cluster: Any) -> None:
    """The coordinator aborts a transaction that the producer could not abort in time."""
    fake.create("t")
    producer = cluster.producer(transactional_id="me")
    await producer.begin_transaction()
    await producer.send("t", b"a")
    lose_everything(fake)
    futures = [producer.send("t", b"b") for _ in range(5)]
    assert await closed(producer, 5.0) <= 5.1
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert {isinstance(outcome, HeadraceError) for outcome in outcomes} == {True}
    assert fake.read_committed("t") == []


async def test_clients_of_one_cluster_share_the_close_timeout(fake: Any, cluster: Any) -> None:
    """Any number of clients."""
    fake.create("t")
    fake.put("t", 0, b"x")
    for kind in sorted(KINDS):
        consumer = cluster.consumer("t", group=kind, auto_offset_reset="earliest", **KINDS[kind])
        assert await consumer.poll(60)
        await consumer.poll(0)
    for name in ("one", "other"):
        producer = cluster.producer(transactional_id=name)
        await producer.begin_transaction()
        await producer.send("t", b"a")
    lose_everything(fake)
    assert await closed(cluster, 6.0) <= 6.2


@each_kind
async def test_a_callback_may_close_its_consumer(fake: Any, cluster: Any, kind: str) -> None:
    """`on_revoked`, called by `close`, closes again: nothing happens, and it is called once."""
    fake.create("t")
    revoked = []

    class Closing:
        async def on_revoked(self, consumer: Any, tps: Any) -> None:
            revoked.append(tps)
            await consumer.close()

    consumer = member(cluster, kind, listener=Closing())
    while not consumer._engine.assignment():
        await consumer.poll(0.1)
    await consumer.close()
    assert len(revoked) == 1
    assert fake.group_members("g") == []


@each_kind
async def test_a_second_close_waits_for_the_first(fake: Any, cluster: Any, kind: str) -> None:
    """After it the offsets are committed and the member has left. It waits no longer than its own timeout."""
    fake.create("t")
    fake.put("t", 0, b"x")
    may_end = asyncio.Event()

    class Slow:
        async def on_revoked(self, _consumer: Any, _tps: Any) -> None:
            await may_end.wait()

    consumer = member(cluster, kind, listener=Slow())
    assert await consumer.poll(60)
    first = asyncio.ensure_future(consumer.close(60))
    await asyncio.sleep(0.1)
    assert 1 <= await closed(consumer, 1.0) < 1.1
    second = asyncio.ensure_future(consumer.close())
    await asyncio.sleep(1)
    assert not second.done()
    may_end.set()
    await second
    assert first.done()
    assert fake.group_members("g") == []
    assert await closed(consumer) == 0
