"""The client's end over real sockets: what is promised to callers when the other end misbehaves."""

import asyncio
import contextlib
import gc
import select
import socket
from collections.abc import Iterator

import pytest
import zmq
from headrace.protocol import errors
from headrace.protocol.messages.data import ProduceRequest
from headrace.protocol.messages.envelope import ApiVersionRange, ApiVersionsResponse
from headrace.protocol.messages.registry import API_VERSIONS, CREATE_TOPICS, FETCH, METADATA, PRODUCE
from headrace.protocol.transport import wire
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.router_io import RouterLimits
from headrace.runtime.ports_io import reserve_ports
from transport_kit import ASK, FETCH_ONE, METADATA_BODY, PATIENCE_S, RawServer, Served, serving, until

ANSWER = wire.encode(METADATA_BODY)


@contextlib.contextmanager
def raw_server(max_in_flight: int = 10, min_version: int = 0, max_version: int = 0) -> Iterator[RawServer]:
    server = RawServer()
    apis = (ApiVersionRange(METADATA.key, min_version, max_version),)
    server.hello = ApiVersionsResponse(0, "", 5, 1, "c", 1, apis, max_in_flight, 1000, 1000)
    try:
        yield server
    finally:
        server.close()


async def test_handshake_has_the_identity_and_limits_of_the_server() -> None:
    """Cluster, node, incarnation and limits are known once the connection is open."""
    async with serving(RouterLimits(max_in_flight=17)) as served:
        client = await served.connect()
        hello = client.hello
        assert (hello.cluster_id, hello.node_id, hello.incarnation) == ("cluster", 3, 99)
        assert hello.max_in_flight == 17
        client.close()
        assert client.is_closed


async def test_refused_connection_fails_at_once() -> None:
    """NetworkError with the address, long before the timeout."""
    (port,) = reserve_ports(1)
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    with pytest.raises(errors.NetworkError, match=f"127.0.0.1:{port}"):
        await Connection.open("127.0.0.1", port, client_id="c", timeout_s=PATIENCE_S)
    assert loop.time() - start_s < PATIENCE_S / 2


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
async def test_a_name_that_does_not_resolve(host: str) -> None:
    """A wrong name is a NetworkError too, also one that no resolver takes."""
    with pytest.raises(errors.NetworkError):
        await Connection.open(host, 9, client_id="c", timeout_s=PATIENCE_S)


async def test_every_address_of_a_name_is_tried(served: Served) -> None:
    """localhost may resolve to ::1 first, where no server listens: 127.0.0.1 is tried next."""
    client = await Connection.open("localhost", served.router.port, client_id="c", timeout_s=PATIENCE_S)
    client.close()


async def test_silent_port_times_out() -> None:
    """TCP connects, nothing speaks: NetworkError at the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(errors.NetworkError, match=f"127.0.0.1:{port}"):
            await Connection.open("127.0.0.1", port, client_id="c", timeout_s=0.1)


async def test_a_port_that_speaks_something_else_fails() -> None:
    """An SSH or HTTP server sends its own greeting: NetworkError, at once."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2 this is not what you are looking for\r\n")
        await reader.read(1000)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(errors.NetworkError):
        await Connection.open("127.0.0.1", port, client_id="c", timeout_s=1)
    server.close()


async def test_rejected_handshake_has_the_reason() -> None:
    """An error in the header of the handshake's answer is raised as that error."""
    with raw_server() as server:
        opening = asyncio.ensure_future(
            Connection.open("127.0.0.1", server.port, client_id="c", timeout_s=PATIENCE_S)
        )
        key, header, _ = await server.receive()
        refusal = wire.encode_response_header(header.correlation_id, 35, "only version 7")
        server.send(key, refusal, b"")
        with pytest.raises(errors.UnsupportedVersionError, match="only version 7"):
            await opening


async def test_an_api_that_the_server_does_not_have() -> None:
    """Not offered in the handshake, or only in versions from the future: refused here, nothing is sent."""
    with raw_server(min_version=3, max_version=4) as server:
        client, _ = await server.accept()
        for api, body in ((CREATE_TOPICS, b""), (METADATA, ASK)):
            with pytest.raises(errors.UnsupportedVersionError):
                await client.send(api, body)
        assert client.in_flight == 0
        client.close()


async def test_answers_in_any_order_find_their_callers() -> None:
    """Three requests answered last first: each future gets its own."""
    with raw_server() as server:
        client, key = await server.accept()
        futures = [client.send(METADATA, ASK, (b"%d" % number,)) for number in range(3)]
        asked = [await server.receive() for _ in futures]
        for _, header, rest in reversed(asked):
            server.send(key, wire.encode_response_header(header.correlation_id), ANSWER, b"to " + rest[1])
        for number, future in enumerate(futures):
            assert bytes((await future).frames[0]) == b"to %d" % number
        client.close()


async def test_a_timed_out_request_leaves_the_connection_usable() -> None:
    """The first answer is too late and dropped; the second request gets its own."""
    with raw_server() as server:
        client, key = await server.accept()
        with pytest.raises(errors.RequestTimedOutError, match="Metadata"):
            await client.request(METADATA, ASK, timeout_s=0.01)
        _, late, _ = await server.receive()
        assert client.in_flight == 1
        second = client.send(METADATA, ASK)
        _, header, _ = await server.receive()
        server.send(key, wire.encode_response_header(late.correlation_id), ANSWER, b"late")
        server.send(key, wire.encode_response_header(header.correlation_id), ANSWER, b"mine")
        assert bytes((await second).frames[0]) == b"mine"
        assert client.in_flight == 0
        client.close()


async def test_unexpected_responses_are_ignored() -> None:
    """Unknown correlation ids, and a second response: the caller gets the first, the connection stays."""
    with raw_server() as server:
        client, key = await server.accept()
        future = client.send(METADATA, ASK)
        _, header, _ = await server.receive()
        for number in (-1, 0, 10**9):
            server.send(key, wire.encode_response_header(number), b"\xc1 never decoded")
        for text in (b"first", b"second"):
            server.send(key, wire.encode_response_header(header.correlation_id), ANSWER, text)
        assert bytes((await future).frames[0]) == b"first"
        assert not client.is_closed
        client.close()


async def test_no_more_than_the_window_is_under_way() -> None:
    """The server allows two: of five requests it sees two, and each answer lets the next one out."""
    with raw_server(max_in_flight=2) as server:
        client, key = await server.accept()
        futures = [client.send(METADATA, ASK, (b"%d" % number,)) for number in range(5)]
        waiting = [await server.receive(), await server.receive()]
        for number in range(5):
            assert server.socket.poll(0) == 0
            assert client.in_flight == min(2, 5 - number)
            _, header, rest = waiting.pop(0)
            assert rest[1] == b"%d" % number
            server.send(key, wire.encode_response_header(header.correlation_id), ANSWER)
            await futures[number]
            if number < 3:
                waiting.append(await server.receive())
        client.close()


async def test_a_full_backlog_refuses_and_request_waits() -> None:
    """Window 1, backlog 2: a fourth send fails, a fourth request waits for room and is served."""
    async with serving(RouterLimits(max_in_flight=1)) as served:
        client = await served.connect(max_backlog_requests=2)
        served.is_holding = True
        futures = [client.send(METADATA, ASK) for _ in range(3)]
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            await client.send(METADATA, ASK)
        fourth = asyncio.ensure_future(client.request(METADATA, ASK, timeout_s=PATIENCE_S))
        await until(lambda: served.held)
        assert not fourth.done()
        served.is_holding = False
        served.answer_held()
        for future in [*futures, fourth]:
            assert (await future).body == METADATA_BODY
        client.close()


async def test_a_request_that_timed_out_in_the_backlog_is_never_sent() -> None:
    """It waited behind a full window and its caller gave up: the server does not see it."""
    async with serving(RouterLimits(max_in_flight=1)) as served:
        client = await served.connect()
        served.is_holding = True
        first = client.send(METADATA, ASK)
        await until(lambda: served.held)
        with pytest.raises(errors.RequestTimedOutError):
            await client.request(FETCH, FETCH_ONE, timeout_s=0.01)
        served.is_holding = False
        served.answer_held()
        await first
        await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
        assert [request.api for request in served.requests] == [METADATA, METADATA]
        client.close()


async def test_the_end_of_the_server_fails_everything_under_way_at_once() -> None:
    """Two in flight, two behind the window: all four fail, on_close is called once, later sends fail."""
    async with serving(RouterLimits(max_in_flight=2)) as served:
        served.is_holding = True
        client = await served.connect()
        response: list[bool] = []
        client.on_close = lambda: response.append(client.is_closed)
        futures = [client.send(METADATA, ASK) for _ in range(4)]
        await until(lambda: len(served.held) == 2)
        served.router.close()
        for future in futures:
            with pytest.raises(errors.NetworkError, match="closed the connection"):
                await future
        assert response == [True]
        with pytest.raises(errors.NetworkError):
            await client.send(METADATA, ASK)
        with pytest.raises(errors.NetworkError):
            await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
        client.close()
        assert response == [True]


async def test_a_lost_connection_is_not_reopened(served: Served) -> None:
    """The server restarts on the same port: no earlier request is sent again, and the old connection stays
    closed; a new connection reaches the new process."""
    served.is_holding = True
    client = await served.connect()
    futures = [client.send(METADATA, ASK) for _ in range(5)]
    await until(lambda: len(served.held) == 5)
    served.router.close()
    served.identity.incarnation = 100
    served.requests.clear()
    served.router.start()
    for future in futures:
        with pytest.raises(errors.NetworkError):
            await future
    fresh = await served.connect()
    assert fresh.hello.incarnation == 100
    served.is_holding = False
    await fresh.request(METADATA, ASK, timeout_s=PATIENCE_S)
    assert len(served.requests) == 1
    assert client.is_closed
    fresh.close()


async def test_closing_fails_pending_requests() -> None:
    """After our own close callers get NetworkError, and senders that wait for room continue."""
    async with serving(RouterLimits(max_in_flight=1)) as served:
        served.is_holding = True
        client = await served.connect(max_backlog_requests=1)
        futures = [client.send(METADATA, ASK), client.send(METADATA, ASK)]
        waiting = asyncio.ensure_future(client.request(METADATA, ASK, timeout_s=PATIENCE_S))
        await until(lambda: served.held)
        client.close()
        for future in [*futures, waiting]:
            with pytest.raises(errors.NetworkError):
                await future


async def test_requests_without_an_answer_still_go_out_after_close(served: Served) -> None:
    """acks=0, then close at once: what was handed over arrives."""
    client = await served.connect()
    for _ in range(100):
        client.send(METADATA, ASK, expect_reply=False)
    client.close()
    await until(lambda: len(served.requests) == 100)


async def test_closing_does_not_hang_on_a_peer_that_reads_nothing() -> None:
    """Megabytes are queued for a server that never reads: close returns at once."""
    with raw_server(max_in_flight=1000) as server:
        client, _ = await server.accept()
        futures = [client.send(METADATA, ASK, (bytes(1_000_000),)) for _ in range(50)]
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        client.close()
        assert loop.time() - start_s < PATIENCE_S / 4
        assert all(isinstance(future.exception(), errors.NetworkError) for future in futures)


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"\xc1", b""],
        [b"x" * 5000, b""],
        [b"HEADER"],
        [b"HEADER", b""],
        [b"HEADER", b"\xc1"],
        [b"HEADER", b"\xdd\xff\xff\xff\xff"],
        [b"HEADER", ANSWER, *[b""] * 20],
        [b"HEADER", b"x" * 3000],
        [b"HEADER", ANSWER, b"x" * 5000],
    ],
    ids=[
        "empty",
        "no header",
        "large header",
        "no body",
        "empty body",
        "not msgpack",
        "huge count",
        "many frames",
        "large body",
        "large frame",
    ],
)
async def test_a_hostile_answer_closes_the_connection(parts: list[bytes]) -> None:
    """The server sends nonsense: the caller gets NetworkError, the connection is closed."""
    with raw_server() as server:
        client, key = await server.accept(max_frames=10, max_body_bytes=2000, max_frame_bytes=4096)
        future = client.send(METADATA, ASK)
        _, header, _ = await server.receive()
        ours = wire.encode_response_header(header.correlation_id)
        server.send(key, *[ours if part == b"HEADER" else part for part in parts])
        with pytest.raises(errors.NetworkError):
            await future
        assert client.is_closed


async def test_a_server_that_forgot_us_closes_the_connection(served: Served) -> None:
    """'Shake hands again' in an answer: this connection is of no use any more, a new one is."""
    client = await served.connect()
    client._session += 1
    with pytest.raises(errors.NetworkError, match="repeat the handshake"):
        await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
    assert client.is_closed
    await served.is_well()


async def test_a_body_that_is_bytes_is_sent_as_it_is(served: Served) -> None:
    """A forwarder passes bodies on unread, both ways."""
    client = await served.connect()
    raw = wire.encode(ASK)
    answered = await client.request(METADATA, raw, timeout_s=PATIENCE_S)
    assert served.requests[0].raw_body == raw
    assert answered.raw_body == ANSWER
    assert answered.body == METADATA_BODY
    client.close()


async def test_a_frame_in_pieces_is_refused_before_anything_is_sent(served: Served) -> None:
    """A strided view is the caller's error: it is raised here, and the connection stays open."""
    client = await served.connect()
    with pytest.raises(BufferError):
        client.send(METADATA, ASK, (memoryview(bytes(100_000))[::2],))
    await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
    assert len(served.requests) == 1
    client.close()


async def test_received_frames_stay_valid_after_the_connection() -> None:
    """The caller keeps a frame while the connection, and everything else, goes away."""
    async with serving() as served:
        served.frame = b"k" * 500_000
        client = await served.connect()
        frame = (await client.request(FETCH, FETCH_ONE, timeout_s=PATIENCE_S)).frames[0]
        client.close()
        served.frame = b""
    gc.collect()
    assert bytes(frame) == b"k" * 500_000


async def test_handshake_is_not_repeated() -> None:
    """A connection sends one ApiVersions, and then only requests of its callers."""
    with raw_server() as server:
        client, _ = await server.accept()
        client.send(METADATA, ASK)
        _, header, _ = await server.receive()
        assert header.api_key == METADATA.key != API_VERSIONS.key
        assert header.session == 5
        client.close()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 0), ("::1", 0), ("localhost", 0)])
async def test_a_port_that_cannot_be_is_a_network_error(served: Served, host: str, port: int) -> None:
    """Not a bare error of ZeroMQ, and nothing of it stays in the loop."""
    for _ in range(3):
        with pytest.raises(errors.NetworkError):
            await Connection.open(host, port, client_id="c", timeout_s=PATIENCE_S)
    await served.is_well()


async def test_an_answer_is_not_missed_when_a_send_finds_the_socket_full(served: Served) -> None:
    """1. A request is under way; 2. the server reads no more, and the socket fills up; 3. the answer comes;
    4. the next send fails, having used up the edge of ZeroMQ's descriptor. The answer is delivered."""
    client = await served.connect()
    served.is_holding = True
    asked = client.send(METADATA, ASK)
    await until(lambda: served.held)
    router, unread = served.router, ProduceRequest(0, 1000, ())
    asyncio.get_running_loop().remove_reader(router._fd)
    router._is_scheduled = True  # so that nothing schedules a drain either
    full_times = 0
    while full_times < 20:  # what the kernel takes meanwhile makes room again
        if client._socket.getsockopt(zmq.EVENTS) & zmq.POLLOUT:
            client.send(PRODUCE, unread, (b"x" * 10_000,), expect_reply=False)
            full_times = 0
        else:
            full_times += 1
            await asyncio.sleep(0.001)
    assert len(client._backlog) == 0
    served.answer_held()
    assert select.select([client._fd], [], [], PATIENCE_S)[0], "the edge is there"
    select.select([], [], [], 0.01)  # ZeroMQ looks for news at a send once per ms at most
    client.send(PRODUCE, unread, expect_reply=False)
    assert (await asyncio.wait_for(asked, 60)).body == METADATA_BODY
    client.close(0)


async def test_throttled_client_sends_no_request(served: Served) -> None:
    """Its requests wait, in order, and are sent when the throttle time is over; closing loses none."""
    client = await served.connect()
    served.is_holding = True
    first = client.send(METADATA, ASK)
    await until(lambda: served.held)
    served.held[0].throttle_ms = 150
    served.answer_held()
    served.is_holding = False
    await first
    late = [client.send(METADATA, ASK) for _ in range(3)]
    assert client.in_flight == 0
    assert len(served.requests) == 1
    assert all(answer.body == METADATA_BODY for answer in await asyncio.gather(*late))
    served.is_holding = True
    first = client.send(METADATA, ASK)
    await until(lambda: served.held)
    served.held[0].throttle_ms = 1 << 31
    served.answer_held()
    await first
    waits = client.send(METADATA, ASK)
    client.close(0)
    with pytest.raises(errors.NetworkError):
        await waits
