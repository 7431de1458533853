"""The end of a router: responses arrive, no peer delays it, the port is free, the process lives."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import closing_stress
import pytest
import zmq
from headrace.protocol.errors import NetworkError
from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import Router, RouterLimits, ServerIdentity
from transport_kit import (
    ASK,
    FETCH,
    FETCH_ONE,
    METADATA,
    PATIENCE_S,
    RawPeer,
    Served,
    raw_peer,
    serving,
    until,
)

COUNT = 40
LIMITS = RouterLimits(max_in_flight=64)
LONG_MS = int(PATIENCE_S * 1000)
BLIND = {"RCVHWM": 1, "RCVBUF": 4096}  # takes little unless it is read


async def ask_all(served: Served, peer: RawPeer) -> None:
    """The peer sends COUNT requests; the server holds them."""
    before = len(served.held)
    await peer.shake_hands()
    for number in range(COUNT):
        peer.ask(FETCH.key, wire.encode(FETCH_ONE), number=number)
    await until(lambda: len(served.held) == before + COUNT)


async def read_and_leave(peer: RawPeer) -> list[int]:
    """The correlation ids of the responses before the closing message, after which the peer closes."""
    numbers: list[int] = []
    while True:
        header, _ = await peer.answer()
        if header.correlation_id == wire.NO_REQUEST:
            assert header.error_code == NetworkError.code
            peer.close()
            return numbers
        numbers.append(header.correlation_id)


async def is_over(peer: RawPeer) -> None:
    """Wait for the end of the peer's connection, which a full queue hides until the peer reads."""

    def has_ended() -> bool:
        while peer.socket.poll(0):
            peer.socket.recv_multipart()
        return bool(peer.events.poll(0))

    await until(has_ended)


@pytest.mark.parametrize("frames", [(b"s" * 100,), (b"m" * 8000,) * 50, (b"l" * 400_000,)])
@pytest.mark.parametrize("is_asking", [False, True])
async def test_responses_before_the_stop_reach_a_reading_peer(
    twin: str, frames: tuple[bytes, ...], is_asking: bool
) -> None:
    """Forty responses, small, of many parts and large, to a slow reader, which may send more requests:
    all arrive before the router ends, and later requests are not handled."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        with raw_peer(served.router.port, **BLIND) as peer:
            await ask_all(served, peer)
            for request in served.held:
                served.router.reply(request, b"", frames)
            stopping = asyncio.create_task(served.router.stop(LONG_MS))
            reading = asyncio.create_task(read_and_leave(peer))
            number = COUNT
            while not reading.done():
                await asyncio.sleep(0)
                if is_asking and not peer.socket.closed and peer.socket.poll(0, zmq.POLLOUT):
                    peer.ask(FETCH.key, wire.encode(FETCH_ONE), b"x" * 10_000, number=number)
                    number += 1
            assert await reading == list(range(COUNT))
            await stopping
        assert len(served.requests) == COUNT
        served.held.clear()


async def test_client_reads_its_responses_and_closes(twin: str) -> None:
    """Forty large responses and one request without any, on a busy loop: each response is delivered, the
    last request fails with the reason, and the stop needs no linger."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        served.frame = bytes(400_000)
        client = await served.connect()
        asked = [client.send(FETCH, FETCH_ONE) for _ in range(COUNT)]
        unanswered = client.send(METADATA, ASK)
        await until(lambda: len(served.held) == COUNT + 1)
        left_over = served.held.pop()
        served.answer_held()
        await served.router.stop(LONG_MS)
        for future in asked:
            assert len((await future).frames[0]) == 400_000
        with pytest.raises(NetworkError, match="the server is stopping"):
            await unanswered
        assert client.is_closed
        served.router.reply(left_over, b"")


async def test_peer_that_reads_nothing_does_not_delay_the_stop(twin: str) -> None:
    """The stop ends with the linger; a reading peer has all responses, the other sees its end."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        with raw_peer(served.router.port, **BLIND) as blind, raw_peer(served.router.port) as reader:
            await ask_all(served, blind)
            await ask_all(served, reader)
            for request in served.held:
                served.router.reply(request, b"", (bytes(100_000),))
            stopping = asyncio.create_task(served.router.stop(500))
            assert await read_and_leave(reader) == list(range(COUNT))
            await stopping
            await is_over(blind)
        served.held.clear()


async def test_closing_message_waits_for_room_in_a_full_queue(twin: str) -> None:
    """Responses fill a peer's queue: the closing message follows when it has read some of them."""
    async with serving(RouterLimits(max_in_flight=COUNT)) as served:
        served.is_holding = True
        with raw_peer(served.router.port, **BLIND) as peer:
            await ask_all(served, peer)
            mark = served.router._socket.getsockopt(zmq.SNDHWM)
            for request in served.held:
                served.router.reply(request, b"", (bytes(400_000),))
            numbers = list(range(COUNT))
            while len(numbers) < mark and served.router._socket.poll(0, zmq.POLLOUT):
                header = wire.encode_response_header(len(numbers))
                try:
                    served.router._messages.send((request.peer.key, header, b"", bytes(400_000)))
                except zmq.Again:
                    break
                numbers.append(len(numbers))
            stopping = asyncio.create_task(served.router.stop(LONG_MS))
            await asyncio.sleep(0)
            assert await read_and_leave(peer) == numbers
            await stopping
        served.held.clear()


async def test_handshake_with_a_stopping_server_fails_at_once(served: Served, twin: str) -> None:
    """With the reason, before its timeout."""
    with raw_peer(served.router.port) as staying:
        await staying.shake_hands()
        stopping = asyncio.create_task(served.router.stop(LONG_MS))
        await asyncio.sleep(0)
        with pytest.raises(NetworkError, match="the server is stopping"):
            await served.connect()
        staying.close()
        await stopping


@pytest.mark.parametrize("way", ["close", "stop"])
async def test_the_port_can_be_bound_at_once(twin: str, way: str) -> None:
    """With open connections, some without a handshake, and responses under way: the next line binds it."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        port = served.router.port
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        with raw_peer(port, **BLIND) as peer:
            await ask_all(served, peer)
            for request in served.held:
                served.router.reply(request, b"", (bytes(100_000),))
            if way == "close":
                served.router.close()
            else:
                await served.router.stop(20)
            again = Router("127.0.0.1", port, lambda request: None, [METADATA], ServerIdentity())
            assert again.start() == port
            again.close()
            await is_over(peer)
        silent.close()
        served.held.clear()


async def test_connections_with_stopped_input_are_closed(twin: str, caplog: pytest.LogCaptureFixture) -> None:
    """A peer sends more than the queue takes in a busy loop: ZeroMQ no longer polls the connection."""
    async with serving(RouterLimits(max_in_flight=1)) as served:
        with raw_peer(served.router.port, SNDHWM=1) as peer:
            await peer.shake_hands()
            for number in range(100):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)  # blocks: this loop is busy
            served.router.close()
            await is_over(peer)
        assert not served.requests
        assert not caplog.records


async def test_concurrent_stops_wait_for_the_same_end(twin: str) -> None:
    """A second stop returns with the first one; a close ends both at once; later ones do nothing."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        with raw_peer(served.router.port, **BLIND) as peer:
            await ask_all(served, peer)
            for request in served.held:
                served.router.reply(request, b"", (bytes(100_000),))
            stops = [asyncio.create_task(served.router.stop(LONG_MS)) for _ in range(2)]
            await asyncio.sleep(0)
            assert not any(stop.done() for stop in stops)
            served.router.close()
            await asyncio.gather(*stops)
            await served.router.run()
            await served.router.stop()
        served.held.clear()


async def test_cancelled_stop_closes_the_router(twin: str) -> None:
    """The port is free."""
    async with serving(LIMITS) as served:
        served.is_holding = True
        with raw_peer(served.router.port, **BLIND) as peer:
            await ask_all(served, peer)
            for request in served.held:
                served.router.reply(request, b"", (bytes(100_000),))
            stop = asyncio.create_task(served.router.stop(LONG_MS))
            await asyncio.sleep(0)
            stop.cancel()
            await asyncio.wait([stop])
            assert stop.cancelled()
            await served.router.run()
        served.held.clear()


async def test_idle_client_is_notified_of_the_stop(served: Served, twin: str) -> None:
    """Without a request in flight."""
    client = await served.connect()
    assert (await client.request(METADATA, ASK, timeout_s=PATIENCE_S)).body
    await served.router.stop(LONG_MS)
    await until(lambda: client.is_closed)


@pytest.mark.parametrize(("way", "rounds"), [("close", 10), ("stop", 5), ("client", 10)])
def test_connections_lost_during_a_close_never_abort_the_process(twin: str, way: str, rounds: int) -> None:
    """In a process of its own, repeatedly: connections break in the middle of large messages while the
    router or the client at this end closes."""
    script = Path(closing_stress.__file__)
    paths = os.pathsep.join([str(script.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(script), way, str(rounds)],
        env={**os.environ, "PYTHONPATH": paths, "HEADRACE_CODEC": twin},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr[-2000:]
