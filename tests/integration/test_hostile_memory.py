"""The memory of all requests of Kafka clients together is bounded; other clients are served meanwhile."""

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest
from headrace import LocalCluster
from headrace.protocol.messages import control, registry
from headrace.services.kafka_listener.entities import MS
from hostile_rig import MIB, Probe, attacked_cluster, rss_bytes
from kafka_listener_rig import WireClient
from kafka_wire import example_request, framed, request_frame
from node_rig import until

FETCH, DESCRIBE_GROUPS = 1, 15
LIMIT_BYTES = 8 * MIB
PARTITIONS = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    limits = {"queued_max_request_bytes": LIMIT_BYTES, "socket_request_receive_timeout_ms": 500}
    with attacked_cluster(**limits) as made:
        yield made


async def test_requests_with_many_small_elements_are_bounded(probe: Probe, cluster: LocalCluster) -> None:
    """100 fetches of 500 partitions, of which a third fits, and 50 requests of 200 MB each."""
    spec = control.NewTopicSpec("wide", PARTITIONS, 1)
    await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
    clients = [await WireClient.to(probe.kafka[1]) for _ in range(150)]
    before = rss_bytes()
    for client in clients[:100]:
        client.write(fetch())
    await until(lambda: held(cluster) > LIMIT_BYTES - 2 * MIB)
    question = example_request(DESCRIBE_GROUPS, 5)
    question = framed(request_frame(DESCRIBE_GROUPS, 5, replace(question, groups=("",) * 90_000)))
    for client in clients[100:]:
        client.write(question)
    assert held(cluster) < LIMIT_BYTES + 6 * MIB
    assert rss_bytes() - before < 24 * MIB
    for client in clients[:100]:
        client.close()
    for client in clients[100:]:
        assert await client.ended() == b"", "too many elements for one request"
        client.close()
    await until(lambda: held(cluster) == 0)


def fetch() -> bytes:
    """A fetch of many partitions, for more bytes than ever arrive."""
    body = example_request(
        FETCH, 11, topic="wide", session_epoch=-1, isolation_level=0, current_leader_epoch=-1,
        fetch_offset=0, max_wait=100_000 * MS, min_bytes=MIB, max_bytes=MIB, partition_max_bytes=MIB,
    )  # fmt: skip
    (topic,) = body.topics
    (one,) = topic.partitions
    named = tuple(replace(one, partition=number) for number in range(PARTITIONS))
    whole = replace(body, topics=(replace(topic, partitions=named),), forgotten_topics_data=())
    return framed(request_frame(FETCH, 11, whole))


def held(cluster: LocalCluster) -> int:
    """The listener's own count of held bytes."""
    return int(cluster.status()["nodes"][0]["kafka"]["held_request_bytes"])


async def test_incomplete_requests_time_out(probe: Probe, cluster: LocalCluster) -> None:
    """Row 7: 150 connections trickle requests that hold all memory; they are closed after their time limit,
    and the well-behaved client is served meanwhile."""

    async def trickle(probe: Probe) -> None:
        client = await WireClient.to(probe.kafka[1])
        client.write(struct.pack(">i", MIB) + bytes(50_000))
        try:
            while not client.writer.transport.is_closing():
                await asyncio.sleep(0.01)
                client.write(b"\0")
        finally:
            client.close()

    async def attacker(probe: Probe) -> None:
        while True:
            with contextlib.suppress(ConnectionError, RuntimeError):  # the server closed the connection
                await trickle(probe)

    def refused() -> int:
        return int(cluster.status()["nodes"][0]["kafka"]["refused"])

    before = refused()
    attackers = [asyncio.ensure_future(attacker(probe)) for _ in range(150)]
    await until(lambda: held(cluster) > LIMIT_BYTES // 2)
    while refused() < before + 300:
        await probe.check()
    for each in attackers:
        each.cancel()
    await asyncio.wait(attackers)
    await until(lambda: held(cluster) == 0)
