"""A frozen leader keeps its connections open: clients continue with the new leader."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Ask, Fault
from headrace import TopicPartition
from headrace.protocol import errors
from headrace.protocol.messages import data

HOUR_MS = 3_600_000
SESSION_S = 1.5
SLOW = {"request_timeout_ms": HOUR_MS, "delivery_timeout_ms": 2 * HOUR_MS}


def fail_over(fake: Any, old: int = 0, new: int = 1) -> None:
    """The controller has elected another leader."""
    fake.fenced.add(old)
    fake.move_leader("t", 0, new)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("is_known", [True, False], ids=["open", "connecting"])
@pytest.mark.fake_cluster(nodes=3)
async def test_produce_request_is_abandoned_for_a_newer_leader(
    fake: Any, cluster: Any, is_known: bool
) -> None:
    """In order and once each, within a session and two seconds, although the request may take an hour;
    the connection to the old leader is closed."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, batch_size=1, acks="all", **SLOW)
    if is_known:
        await producer.send("t", b"before")
    else:
        await producer.partitions_for("t")
    began = now()
    fake.freeze_node(0)
    asyncio.get_running_loop().call_later(SESSION_S, fail_over, fake)
    sent = [producer.send("t", b"%d" % number) for number in range(5)]
    await producer.flush()
    assert now() - began < SESSION_S + 2
    assert [(await future).offset for future in sent] == list(range(is_known, is_known + 5))
    assert fake.values("t") == [b"before"] * is_known + [b"%d" % number for number in range(5)]
    await asyncio.sleep(0)
    assert fake.dropped == [fake.addresses[0]]


@pytest.mark.fake_cluster(nodes=3)
async def test_metadata_refreshes_avoid_the_silent_leader(fake: Any, cluster: Any) -> None:
    """Without a leader for half a minute: about two requests a second, to the other nodes."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, **SLOW)
    await producer.send("t", b"before")
    asked: list[int] = []
    fake.rules.append(lambda ask: asked.append(ask.node_id) if ask.api == "Metadata" else None)
    fake.freeze_node(0)
    fake.rules.reverse()  # what the frozen node is asked counts too
    future = producer.send("t", b"after")
    await asyncio.sleep(30)
    assert 20 <= len(asked) <= 70
    assert set(asked) == {1, 2}
    fail_over(fake)
    assert (await future).offset == 1


@pytest.mark.fake_cluster(nodes=3)
async def test_slow_leader_causes_no_retry(fake: Any, cluster: Any) -> None:
    """Nothing is sent twice, however long the response takes and however often the metadata is refreshed."""
    fake.create("t", 2)
    producer = cluster.producer(linger_ms=0, **SLOW)
    fake.fail_next("Produce", Fault(delay_ms=60_000))
    await producer.send("t", b"x", partition=0)
    assert fake.values("t") == [b"x"]
    assert fake.dropped == []


@pytest.mark.fake_cluster(nodes=2)
async def test_leader_change_does_not_duplicate_an_acknowledged_batch(fake: Any, cluster: Any) -> None:
    """The leadership moves while a request is in flight; its late response is valid."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, **SLOW)

    def rule(ask: Ask) -> Fault | None:
        if ask.api != "Produce":
            return None
        loop = asyncio.get_running_loop()
        loop.call_later(0.4, fake.move_leader, "t", 0, 1)
        loop.call_later(0.5, cluster.io.hub.metadata.refresh_soon)
        return None

    appended = fake._answer

    async def late(*arguments: Any) -> Any:
        reply = await appended(*arguments)
        if isinstance(reply.body, data.ProduceResponse):
            await asyncio.sleep(0.9)
        return reply

    fake._answer = late
    fake.rules.append(rule)
    await producer.send("t", b"x")
    assert cluster.io.hub.metadata.view.leader_of("t", 0)[1:] == (1, 1)
    assert fake.values("t") == [b"x"]


@pytest.mark.fake_cluster(nodes=2)
async def test_lost_request_without_retries_is_a_timeout(fake: Any, cluster: Any) -> None:
    """The error does not claim that nothing was written."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, retries=0, **SLOW)
    await producer.send("t", b"before")
    fake.freeze_node(0)
    future = producer.send("t", b"after")
    await asyncio.sleep(SESSION_S)
    fail_over(fake)
    with pytest.raises(errors.NetworkError, match="did not respond"):
        await future


@pytest.mark.fake_cluster(nodes=3)
async def test_consumer_continues_with_the_newer_leader(fake: Any, cluster: Any) -> None:
    """Each record once and in order; a long poll of some seconds is no silence."""
    fake.create("t")
    fake.put("t", 0, b"0", b"1")
    consumer = cluster.consumer(
        "t", auto_offset_reset="earliest", request_timeout_ms=HOUR_MS, fetch_max_wait_ms=3_000
    )
    found = [record.value for record in await consumer.poll(1)]
    idle = len(fake.requests("Metadata"))
    await asyncio.sleep(8)
    assert len(fake.requests("Metadata")) == idle, "an idle partition causes no metadata request"
    began = now()
    fake.freeze_node(0)
    asyncio.get_running_loop().call_later(SESSION_S, fail_over, fake)
    fake.put("t", 0, b"2")  # the long poll arrived before the freeze, and is answered
    while len(found) < 3:
        found += [record.value for record in await consumer.poll(60)]
    fake.put("t", 0, b"3")
    while len(found) < 4:
        found += [record.value for record in await consumer.poll(60)]
    assert now() - began < 3 + 2, "a long poll, and two seconds"
    assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.fake_cluster(nodes=2)
async def test_consumer_leaves_a_frozen_follower(fake: Any, cluster: Any) -> None:
    """The leader has not changed; the follower is no longer in the metadata."""
    topic = fake.create("t")
    fake.racks = {1: "b"}
    topic.partitions[0].followers = {1: 2}
    fake.put("t", 0, b"0", b"1")
    consumer = cluster.consumer(
        "t", auto_offset_reset="earliest", client_rack="b", request_timeout_ms=HOUR_MS
    )
    found: list[bytes] = []
    while len(found) < 2:
        found += [record.value for record in await consumer.poll(60)]
    assert ("Fetch", 1) in {(api, node) for api, node, _ in fake.asked}
    began = now()
    fake.freeze_node(1)
    asyncio.get_running_loop().call_later(SESSION_S, fake.fenced.add, 1)
    fake.put("t", 0, b"2")
    found += [record.value for record in await consumer.poll(1)]  # the long poll under way is over
    topic.partitions[0].followers[1] = 4
    fake.put("t", 0, b"3")
    while len(found) < 4:
        found += [record.value for record in await consumer.poll(60)]
    assert now() - began < SESSION_S + 2
    assert found == [b"0", b"1", b"2", b"3"]
    assert await consumer.position(TopicPartition("t", 0)) == 4


@pytest.mark.fake_cluster(nodes=3)
async def test_connections_to_nodes_that_left_or_moved_are_closed(fake: Any, cluster: Any) -> None:
    """Once no request is in flight there."""
    fake.create("t", 3)
    producer = cluster.producer(linger_ms=0, **SLOW)
    await producer.partitions_for("t")
    old = dict(fake.addresses)
    fake.fail_next("Produce", Fault(delay_ms=700))
    slow = producer.send("t", b"x", partition=2)
    await asyncio.sleep(0.1)
    fake.fenced.add(2)
    fake.addresses[1] = type(old[1])("elsewhere", 1)
    fake.metadata_offset += 1
    await cluster.io.hub.metadata.refresh(round(now() * 1000) + 1000)
    await asyncio.sleep(0.01)
    assert fake.dropped == [old[1]]
    await slow
    await asyncio.sleep(0.01)
    assert fake.dropped == [old[1], old[2]]
