"""The memory that clients can make a node hold: by many small elements, and by partial requests."""

import asyncio
import struct
from dataclasses import replace

from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartitionResponse, FetchResponse
from headrace.services.kafka_listener.memory import ELEMENT_BYTES
from headrace.storage_node.edge.gateway import OwnRequest
from kafka_listener_rig import TOPIC, WireClient, listening
from kafka_wire import example_request, framed, request_frame
from node_rig import until

FETCH, API_VERSIONS = 1, 18
MIB = 1 << 20
HALF = struct.pack(">i", 3 * MIB) + bytes(60_000)


def fetch_of(partitions: int) -> bytes:
    """A Fetch of so many partitions, without a session."""
    body = example_request(FETCH, 11, topic=TOPIC, session_epoch=-1, isolation_level=0)
    (topic,) = body.topics
    (one,) = topic.partitions
    named = tuple(replace(one, partition=number) for number in range(partitions))
    whole = replace(body, topics=(replace(topic, partitions=named),), forgotten_topics_data=())
    return framed(request_frame(FETCH, 11, whole))


def answer_fetch(request: OwnRequest) -> None:
    """A response with all partitions of the request."""
    partitions = tuple(FetchPartitionResponse(0, 9, 9, 0, 0) for _ in request.body.partitions)
    request.answered(FetchResponse(partitions), ())


async def test_decoded_requests_of_all_connections_are_bounded() -> None:
    """50 connections with 1,500 elements each, at a limit of 8 MiB: ten requests are decoded and one more;
    all others wait undecoded until those are answered."""
    async with listening(queued_max_request_bytes=8 * MIB) as rig:
        question = fetch_of(1_500)
        size = len(question) - 4 + 1_503 * ELEMENT_BYTES
        clients = [await rig.client() for _ in range(50)]
        for client in clients:
            client.write(question)
        await rig.host.request(0)
        await until(lambda: rig.listener.memory.held_bytes >= 8 * MIB - size)
        highest = 0
        for number in range(50):
            request = await rig.host.request(number)
            highest = max(highest, rig.listener.memory.held_bytes)
            assert len(rig.host.requests) - number <= 8 * MIB // size + 1
            answer_fetch(request)
        assert highest <= 8 * MIB + size
        for client in clients:
            await client.answer(FETCH, 11)
        await until(lambda: rig.listener.memory.held_bytes == 0)


async def test_a_request_above_half_of_the_memory_closes_its_connection() -> None:
    """It is logged; a smaller one is served."""
    async with listening(queued_max_request_bytes=MIB) as rig:
        most = rig.listener.memory.max_elements
        client = await rig.client()
        client.write(fetch_of(most - 10))
        answer_fetch(await rig.host.request(0))
        await client.answer(FETCH, 11)
        client.write(fetch_of(most))
        assert await client.ended() == b""
        assert rig.listener.status()["refused"] == 1
        assert len(rig.host.requests) == 1


async def trickle(client: WireClient) -> None:
    """Send a byte at a time until the connection is closed."""
    while not client.writer.transport.is_closing():
        client.write(b"\0")
        await asyncio.sleep(0.005)


async def test_slow_partial_requests_are_closed_while_others_wait_for_memory() -> None:
    """15 clients hold all the memory of partial frames and send a byte now and then. Requests that arrive
    whole are served beside them; other partial ones once the first have timed out."""
    limits = {"queued_max_request_bytes": 2 * MIB, "socket_request_receive_timeout_ms": 300}
    async with listening(**limits) as rig:
        slow = [await rig.client() for _ in range(15)]
        for client in slow:
            client.write(HALF)
        await until(lambda: bool(rig.listener.memory.waiting))
        trickling = [asyncio.ensure_future(trickle(client)) for client in slow]
        quick, large = await rig.client(), await rig.client()
        quick.send(API_VERSIONS, 3, 1, client_software_name="x")
        assert (await quick.answer(API_VERSIONS, 3))[0] == 1
        large.send(0, 9, 3, name=TOPIC, index=0, acks=0, transactional_id=None, records=bytes(MIB))
        assert (await rig.host.request(0)).api is registry.PRODUCE
        assert rig.listener.status()["refused"] > 0
        for each in trickling:
            each.cancel()
        await asyncio.wait(trickling)


async def test_a_slow_request_is_read_while_no_other_waits() -> None:
    """socket.request.receive.timeout.ms counts only while others wait for memory."""
    async with listening(socket_request_receive_timeout_ms=100) as rig:
        client = await rig.client()
        whole = fetch_of(2_000)
        for start in range(0, len(whole), len(whole) // 8):
            client.write(whole[start : start + len(whole) // 8])
            await asyncio.sleep(0.05)
        answer_fetch(await rig.host.request(0))
        await client.answer(FETCH, 11)
