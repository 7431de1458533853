"""Connections of Kafka clients: order and pipelining of requests, memory, and what closes a connection."""

import asyncio
import logging
import os
import socket
import struct
from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import (
    FetchPartitionResponse,
    FetchResponse,
    MetadataResponse,
    PartitionMetadata,
    ProducePartitionResponse,
    ProduceResponse,
    TopicMetadata,
)
from headrace.services.kafka_listener import connection_io
from headrace.services.kafka_listener.connection_io import TURN_CALLS
from headrace.storage_node.edge.gateway import OwnRequest
from kafka_listener_rig import TOPIC, TOPIC_ID, ListenerRig, WireClient, listening
from kafka_wire import example_request, framed, request_frame, request_head
from node_rig import until

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


def answer_produce(request: OwnRequest, offset: int = 0) -> None:
    """Without an error."""
    request.answered(ProduceResponse((ProducePartitionResponse(0, offset),)), ())


def answer_fetch(request: OwnRequest, *batches: bytes) -> None:
    """With these batches."""
    partition = FetchPartitionResponse(0, 9, 9, 0, len(batches))
    request.answered(FetchResponse((partition,)), [memoryview(batch) for batch in batches])


def ask_produce(client: WireClient, correlation_id: int, **values: Any) -> None:
    """One batch for the topic."""
    client.send(PRODUCE, 9, correlation_id, name=TOPIC, index=0, acks=1, transactional_id=None, **values)


def ask_fetch(client: WireClient, correlation_id: int) -> None:
    """Of the topic."""
    client.send(FETCH, 11, correlation_id, topic=TOPIC, partition=0, session_epoch=-1, isolation_level=0)


async def test_produce_requests_are_pipelined_and_answered_in_order(rig: ListenerRig) -> None:
    """The node answers in another order."""
    client = await rig.client()
    for number in range(3):
        ask_produce(client, number)
    requests = [await rig.host.request(number) for number in range(3)]
    for number in (2, 0, 1):
        answer_produce(requests[number], number)
    for number in range(3):
        correlation_id, body = await client.answer(PRODUCE, 9)
        assert correlation_id == number
        assert body.responses[0].partition_responses[0].base_offset == number
    await until(lambda: rig.listener.status()["held_request_bytes"] == 0)


async def test_other_requests_wait_for_the_responses_before_them(rig: ListenerRig) -> None:
    """A Fetch behind a Produce, and a Produce behind a Fetch, as in Kafka."""
    client = await rig.client()
    ask_produce(client, 0)
    ask_fetch(client, 1)
    ask_produce(client, 2)
    answer_produce(await rig.host.request(0))
    await client.answer(PRODUCE, 9)
    fetch = await rig.host.request(1)
    assert fetch.api is registry.FETCH
    assert len(rig.host.requests) == 2
    answer_fetch(fetch, b"batch one", b"two")
    _, body = await client.answer(FETCH, 11)
    assert body.responses[0].partitions[0].records == b"batch onetwo"
    answer_produce(await rig.host.request(2))
    assert (await client.answer(PRODUCE, 9))[0] == 2


async def test_pipelined_requests_are_limited() -> None:
    """max.in.flight.requests.per.connection; more are started as responses are sent."""
    async with listening(max_in_flight_requests_per_connection=8) as rig:
        client = await rig.client()
        for number in range(20):
            ask_produce(client, number)
        await rig.host.request(7)
        other = await rig.client()
        other.send(API_VERSIONS, 3, client_software_name="x")
        await other.answer(API_VERSIONS, 3)
        assert len(rig.host.requests) == 8
        for number in range(20):
            answer_produce(await rig.host.request(number), number)
            assert (await client.answer(PRODUCE, 9))[0] == number


async def test_acks_0_has_no_response(rig: ListenerRig) -> None:
    """The next response belongs to the next request."""
    client = await rig.client()
    client.send(PRODUCE, 9, 1, name=TOPIC, index=0, acks=0, transactional_id=None)
    client.send(API_VERSIONS, 3, 2, client_software_name="x")
    answer_produce(await rig.host.request(0))
    assert (await client.answer(API_VERSIONS, 3))[0] == 2


@pytest.mark.parametrize("fails_here", [True, False])
async def test_a_failed_produce_with_acks_0_closes_the_connection(rig: ListenerRig, fails_here: bool) -> None:
    """The client then looks for the leader again, as with Kafka."""
    client = await rig.client()
    name = "unknown" if fails_here else TOPIC
    client.send(PRODUCE, 9, 1, name=name, index=0, acks=0, transactional_id=None)
    request = await rig.host.request(0)
    answers = () if fails_here else (ProducePartitionResponse(errors.NotLeaderOrFollowerError.code),)
    request.answered(ProduceResponse(answers), ())
    assert await client.ended() == b""
    assert rig.listener.status()["broken"] == 0


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(rig: ListenerRig) -> None:
    """A newer client finds a common version; its header and body are not read."""
    client = await rig.client()
    client.write(framed(struct.pack(">hhih", API_VERSIONS, 99, 5, -1) + b"\xff\xff"))
    correlation_id, body = await client.answer(API_VERSIONS, 0)
    assert (correlation_id, int(body.error_code)) == (5, 35)
    assert [(k.api_key, k.min_version, k.max_version) for k in body.api_keys] == [(18, 0, 4)]
    client.send(API_VERSIONS, 4, 6, client_software_name="x")
    assert (await client.answer(API_VERSIONS, 4))[0] == 6


@pytest.mark.parametrize(
    "data",
    [
        framed(request_head(PRODUCE, 9)[:4] + b"\0\0\0\1\x7f\xff"),  # a client id beyond the frame
        framed(struct.pack(">hhih", 999, 0, 1, 0)),  # no such api
        framed(struct.pack(">hhih", FETCH, 99, 1, 0)),  # no such version
        framed(struct.pack(">hhih", PRODUCE, 0, 1, 0)),  # advertised, never served
        framed(request_head(METADATA, 9) + b"\xff\xff\xff\xff\x0f"),  # an array of 4 billion
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -1) + bytes(20),
        struct.pack(">i", 2**31 - 1) + bytes(20),
    ],
)
async def test_invalid_bytes_close_their_connection_alone(rig: ListenerRig, data: bytes) -> None:
    """Responses to earlier requests are sent; other connections are served."""
    client, other = await rig.client(), await rig.client()
    client.send(API_VERSIONS, 3, 1, client_software_name="x")
    client.write(data)
    assert (await client.answer(API_VERSIONS, 3))[0] == 1
    assert await client.ended() == b""
    other.send(API_VERSIONS, 3, 2, client_software_name="x")
    assert (await other.answer(API_VERSIONS, 3))[0] == 2
    await until(lambda: rig.listener.status()["connections"] == 1)
    assert rig.listener.status()["held_request_bytes"] == 0


async def test_no_request_is_started_while_responses_are_not_read(rig: ListenerRig) -> None:
    """Up to a limit of response bytes; all responses are sent once the client reads."""
    client = await rig.client()
    batch = bytes(1_000_000)
    count = 30
    for number in range(count):
        ask_fetch(client, number)
    served = 0
    while rig.listener.pending_response_bytes == 0:
        answer_fetch(await rig.host.request(served), batch)
        served += 1
        await asyncio.sleep(0)
    assert served < count
    other = await rig.client()
    other.send(API_VERSIONS, 3, 2, client_software_name="x")
    await other.answer(API_VERSIONS, 3)
    assert len(rig.host.requests) == served
    assert rig.listener.pending_response_bytes < 3_000_000
    for number in range(count):
        if number >= served:
            answer_fetch(await rig.host.request(number), batch)
        assert (await client.answer(FETCH, 11))[0] == number
    await until(lambda: rig.listener.pending_response_bytes == 0)


async def test_request_memory_of_all_connections_is_bounded() -> None:
    """queued.max.request.bytes: partial large frames wait for each other and are all served in the end; small
    requests are served once there is memory."""
    async with listening(queued_max_request_bytes=1 << 20) as rig:
        clients = [await rig.client() for _ in range(8)]
        records = bytes(900_000)
        for client in clients:
            ask_produce(client, 1, records=records)
        highest = 0
        for number in range(8):
            request = await rig.host.request(number)
            highest = max(highest, rig.listener.status()["held_request_bytes"])
            answer_produce(request)
        for client in clients:
            assert (await client.answer(PRODUCE, 9))[0] == 1
        assert highest < 4 << 20
        await until(lambda: rig.listener.status()["held_request_bytes"] == 0)


async def test_a_request_is_retried_while_the_node_has_no_room(rig: ListenerRig) -> None:
    """A Kafka broker would not have read the request yet."""
    client = await rig.client()
    ask_fetch(client, 1)
    request = await rig.host.request(0)
    request.answered(errors.ThrottlingQuotaExceededError("full"), ())
    again = await rig.host.request(1)
    assert again.body is request.body
    answer_fetch(again)
    assert (await client.answer(FETCH, 11))[0] == 1


async def test_a_refused_produce_is_not_retried(rig: ListenerRig) -> None:
    """It may have been appended, and requests behind it are in flight: the client decides."""
    client = await rig.client()
    ask_produce(client, 1)
    ask_produce(client, 2)
    second = await rig.host.request(1)
    rig.host.requests[0].answered(errors.ThrottlingQuotaExceededError("full"), ())
    answer_produce(second, 5)
    codes = []
    for number in (1, 2):
        correlation_id, body = await client.answer(PRODUCE, 9)
        assert correlation_id == number
        codes.append(int(body.responses[0].partition_responses[0].error_code))
    assert codes == [7, 0]
    assert len(rig.host.requests) == 2


async def test_the_node_is_notified_of_a_closed_connection(rig: ListenerRig) -> None:
    """Its responses are dropped."""
    client = await rig.client()
    ask_fetch(client, 1)
    request = await rig.host.request(0)
    assert request.peer.is_connected
    client.close()
    await until(lambda: bool(rig.host.gone))
    assert rig.host.gone == [request.peer.session]
    assert not request.peer.is_connected
    answer_fetch(request, b"never read")
    assert rig.listener.status()["held_request_bytes"] == 0


async def test_idle_connections_are_closed() -> None:
    """connections.max.idle.ms; a connection that waits for a response is not idle."""
    async with listening(connections_max_idle_ms=100) as rig:
        idle, waiting = await rig.client(), await rig.client()
        ask_fetch(waiting, 1)
        request = await rig.host.request(0)
        assert await idle.ended() == b""
        answer_fetch(request)
        assert (await waiting.answer(FETCH, 11))[0] == 1


async def test_a_client_that_reads_a_long_response_is_not_idle(rig: ListenerRig) -> None:
    """Reading takes longer than connections.max.idle.ms."""
    client = await rig.client()
    ask_fetch(client, 1)
    answer_fetch(await rig.host.request(0), bytes(32 << 20))
    (connection,) = rig.listener._connections
    assert connection.unsent_bytes > 0
    connection.last_active_ms = 0
    await client.frame()
    await until(lambda: connection.last_active_ms > 0)


async def test_connections_beyond_the_limit_are_refused() -> None:
    """max.connections; a closed connection makes room."""
    async with listening(max_connections=2) as rig:
        first, _second = await rig.client(), await rig.client()
        await until(lambda: rig.listener.status()["connections"] == 2)
        third = await rig.client()
        assert await third.ended() == b""
        first.close()
        await until(lambda: rig.listener.status()["connections"] == 1)
        fourth = await rig.client()
        fourth.send(API_VERSIONS, 3, 1, client_software_name="x")
        assert (await fourth.answer(API_VERSIONS, 3))[0] == 1


async def test_an_exception_in_a_handler_closes_the_connection_alone(
    rig: ListenerRig, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged and counted; the node keeps serving."""
    client = await rig.client()
    ask_produce(client, 1)
    (await rig.host.request(0)).answered("no answer of ours", ())
    assert await client.ended() == b""
    assert rig.listener.status()["broken"] == 1
    assert "Produce version 9" in caplog.text


async def test_unserved_requests_are_logged_once(rig: ListenerRig, caplog: pytest.LogCaptureFixture) -> None:
    """Each connection is counted, however often a client sends the request."""
    caplog.set_level(logging.WARNING)
    for _ in range(15):
        client = await rig.client()
        client.write(framed(struct.pack(">hhih", 999, 0, 1, 1) + b"c"))
        assert await client.ended() == b""
    assert rig.listener.status()["refused"] == 15
    lines = [text for text in caplog.messages if "api 999 is not served" in text]
    assert len(lines) == 1


async def test_a_stop_waits_for_produce_requests_in_flight(rig: ListenerRig) -> None:
    """New connections are refused, and the response is sent before the end."""
    client = await rig.client()
    ask_produce(client, 1)
    request = await rig.host.request(0)
    stopping = asyncio.create_task(rig.listener.stop())
    await asyncio.sleep(0)
    answer_produce(request)
    assert (await client.answer(PRODUCE, 9))[0] == 1
    await stopping
    assert await client.ended() == b""
    with pytest.raises(ConnectionRefusedError):
        await rig.client()


async def test_pipelined_requests_are_started_in_turns(rig: ListenerRig) -> None:
    """Other connections are served between the turns."""
    client = await rig.client()
    for number in range(200):
        ask_produce(client, number)
    await rig.host.request(0)
    assert len(rig.host.requests) <= 4 * TURN_CALLS
    for number in range(200):
        answer_produce(await rig.host.request(number), number)
    for number in range(200):
        assert (await client.answer(PRODUCE, 9))[0] == number


async def test_a_stalled_connection_is_closed_while_others_wait_for_memory() -> None:
    """Each has sent half a frame, and one may finish: when it sends nothing more, the next one may."""
    async with listening(queued_max_request_bytes=1 << 20, connections_max_idle_ms=120_000) as rig:
        rig.listener.stall_ms = 100
        body = framed(bytes(3_000_000))
        stalled = [await rig.client() for _ in range(2)]
        for client in stalled:
            client.write(body[:1_500_000])
        await until(lambda: rig.listener.status()["held_request_bytes"] > 1 << 20)
        honest = await rig.client()
        ask_produce(honest, 1, records=bytes(900_000))
        answer_produce(await rig.host.request(0))
        assert (await honest.answer(PRODUCE, 9))[0] == 1
        assert rig.listener.status()["connections"] < 3


async def test_equal_responses_are_encoded_once(rig: ListenerRig) -> None:
    """Until the metadata changes; each response has its own header."""
    clients = [await rig.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(METADATA, 9, number, client=f"c{number}", name=TOPIC)
        offset = 5 if number < 2 else 6
        partitions = () if number < 2 else (PartitionMetadata(0, 1, 3, (1,), (1,)),)
        topic = TopicMetadata(0, TOPIC, TOPIC_ID, False, partitions)
        request = await rig.host.request(number)
        request.answered(MetadataResponse("c", 1, offset, (), (topic,)), ())
        correlation_id, body = await client.answer(METADATA, 9)
        assert correlation_id == number
        assert len(body.topics[0].partitions) == len(partitions)


async def test_connections_have_tcp_keepalive(rig: ListenerRig) -> None:
    """Inherited from the listening socket."""
    await rig.client()
    await until(lambda: rig.listener.status()["connections"] == 1)
    (connection,) = rig.listener._connections
    with socket.socket(fileno=os.dup(connection._socket.descriptor)) as near:
        assert near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_a_half_closed_connection_gets_its_responses(rig: ListenerRig) -> None:
    """However much of them had to wait; then the connection is closed."""
    client = await rig.client()
    ask_fetch(client, 3)
    batches = [bytes([number]) * 5_000_000 for number in range(4)]
    answer_fetch(await rig.host.request(0), *batches)
    assert rig.listener.pending_response_bytes > 1_000_000
    client.writer.write_eof()
    correlation_id, body = await client.answer(FETCH, 11)
    assert correlation_id == 3
    assert body.responses[0].partitions[0].records == b"".join(batches)
    assert await client.ended() == b""
    assert rig.listener.pending_response_bytes == 0
    await until(lambda: rig.listener.status()["connections"] == 0)


async def test_responses_of_a_turn_are_written_together(rig: ListenerRig) -> None:
    """One packet wakes the client, not several."""
    client = await rig.client()
    body = example_request(API_VERSIONS, 3, client_software_name="x")
    client.write(b"".join(framed(request_frame(API_VERSIONS, 3, body, number)) for number in range(5)))
    writes: list[int] = []
    real = os.writev

    def counted(descriptor: int, buffers: list[bytes]) -> int:
        writes.append(len(buffers))
        return real(descriptor, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "writev", counted)
        patch.setattr(connection_io, "TURN_S", 60)  # on a busy machine a turn would be over before
        for number in range(5):
            assert (await client.answer(API_VERSIONS, 3))[0] == number
    assert len(writes) == 1
