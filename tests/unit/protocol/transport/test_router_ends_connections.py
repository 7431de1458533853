"""Connections that the server ends: a lost response, silence, another protocol, too many."""

import asyncio

import pytest
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.protocol.messages.registry import METADATA, PRODUCE
from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import RouterLimits
from transport_kit import ASK, METADATA_BODY, PATIENCE_S, PRODUCE_ONE, Served, raw_peer, serving, until


async def test_connection_with_a_full_queue_is_closed() -> None:
    """The peer reads none of thousands of refusals; its full queue hides the end until it reads."""
    async with serving(RouterLimits(max_in_flight=4)) as served:
        with raw_peer(served.router.port, RCVHWM=1, RCVBUF=4096, SNDHWM=100_000) as peer:
            await peer.shake_hands("flood")
            for number in range(20_000):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)
            await until(lambda: served.router.connections == 0)

            def is_over() -> bool:
                while peer.socket.poll(0):
                    peer.socket.recv_multipart()
                return bool(peer.events.poll(0))

            await until(is_over)
        assert served.router.stats.peers_dropped >= 1


async def test_a_message_of_exactly_the_most_parts_is_taken() -> None:
    """Four parts are allowed, header and body included: two frames pass, three end the connection."""
    async with serving(RouterLimits(max_frames=4)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), b"1", b"2")
            assert (await peer.answer())[0].error_code == 0
            assert [bytes(frame) for frame in served.requests[0].frames] == [b"1", b"2"]
            peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), b"1", b"2", b"3")
            await peer.disconnected()
        assert len(served.requests) == 1


async def test_a_silent_peer_is_forgotten_and_its_connection_ended() -> None:
    """Idle for longer than allowed: disconnected, counted, and a new connection is welcome."""
    async with serving(RouterLimits(idle_timeout_ms=40)) as served:
        client = await served.connect("idle")
        await until(lambda: client.is_closed)
        assert served.router.stats.peers_idled == 1
        await until(lambda: served.gone == ["idle"])
        await served.is_well()


async def test_a_peer_that_waits_for_its_answer_is_not_idle() -> None:
    """A long fetch is under way for many idle times: the connection stays."""
    async with serving(RouterLimits(idle_timeout_ms=1_000)) as served:
        served.is_holding = True
        client, bystander = await served.connect("waiting"), await served.connect("idle")
        future = client.send(METADATA, ASK)
        await until(lambda: served.held)
        await until(lambda: bystander.is_closed)
        assert not client.is_closed
        served.answer_held()
        assert (await future).body == METADATA_BODY
        client.close()


@pytest.mark.parametrize(
    "talk",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f",
        b"\xff" + bytes(8) + b"\x7f\x00\x00",
        b"\x01\x00",
        b"\x7f\xff\xff\xff" * 100,
        b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48) + b"\x06\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=["silence", "http", "tls", "half a greeting", "old version", "zmtp 1", "noise", "huge command"],
)
async def test_connections_that_speak_something_else_are_ended(talk: bytes) -> None:
    """Raw TCP that is silent, HTTP, TLS, ZMTP greetings cut or of old versions: closed in time."""
    async with serving(RouterLimits(handshake_timeout_ms=50, idle_timeout_ms=10_000)) as served:
        served.router._sweep_interval_s = 0.02
        served.router._sweep()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.router.port)
        writer.write(talk)
        try:
            while await asyncio.wait_for(reader.read(1000), PATIENCE_S):
                pass
        except ConnectionError:
            pass
        writer.close()
        await served.is_well()
        assert served.requests[:-1] == []


async def test_a_zeromq_peer_that_never_shakes_hands_with_us_is_ended() -> None:
    """ZeroMQ's own handshake is done, ours never comes: ended after the handshake timeout."""
    async with serving(RouterLimits(handshake_timeout_ms=50, idle_timeout_ms=100)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.disconnected()
        assert served.router.stats.connections_refused == 1
        await served.is_well()


WRONG_MECHANISM = b"\xff" + bytes(8) + b"\x7f\x03\x00PLAIN" + bytes(47)


async def test_a_disconnect_before_the_greeting_is_counted_and_another_protocol_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A port check is not logged as an error; another security mechanism is."""
    async with serving(RouterLimits()) as served:
        _, looker = await asyncio.open_connection("127.0.0.1", served.router.port)
        looker.close()
        await until(lambda: served.router.stats.handshakes_broken_off == 1)
        assert caplog.messages == []
        _, other = await asyncio.open_connection("127.0.0.1", served.router.port)
        other.write(WRONG_MECHANISM)
        await until(lambda: served.router.stats.handshakes_failed == 1)
        other.close()
        assert len(caplog.messages) == 1
        assert "uses another protocol" in caplog.messages[0]
        await served.is_well()


async def test_the_number_of_peers_is_bounded() -> None:
    """Two allowed: the third handshake is refused with the reason; when one leaves, there is room."""
    async with serving(RouterLimits(max_peers=2)) as served:
        first, second = await served.connect("first"), await served.connect("second")
        with pytest.raises(ThrottlingQuotaExceededError):
            await served.connect("third")
        first.close(0)
        await until(lambda: served.router.connections == 1)
        third = await served.connect("third")
        second.close()
        third.close()


async def test_connections_beyond_twice_the_limit_are_ended_at_once() -> None:
    """Connections that say nothing cannot use up the descriptors: the fifth of four is closed."""
    async with serving(RouterLimits(max_peers=2)) as served:
        pairs = [await asyncio.open_connection("127.0.0.1", served.router.port) for _ in range(5)]
        await until(lambda: served.router.stats.connections_refused == 1)
        for _, writer in pairs:
            writer.close()
        await until(lambda: len(served.router._handshakes) == 0)
        await served.is_well()


async def test_connection_churn_leaves_nothing_behind(served: Served) -> None:
    """A hundred clients come, ask and go: no peer, no handshake and no byte stays accounted."""
    for _ in range(100):
        client = await served.connect()
        await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
        client.close()
    await until(lambda: len(served.gone) == 100)
    assert served.router.connections == 0
    assert len(served.router._handshakes) == 0


async def test_other_limits_hold_from_the_next_request_on(served: Served) -> None:
    """Present connections stay; a smaller limit refuses new ones, a larger one admits them."""
    first = await served.connect("first")
    served.router.limit(RouterLimits(max_peers=1))
    with pytest.raises(ThrottlingQuotaExceededError, match="limit of 1"):
        await served.connect("second")
    assert (await first.request(METADATA, ASK, timeout_s=PATIENCE_S)).body == METADATA_BODY
    served.router.limit(RouterLimits(max_peers=2))
    second = await served.connect("second")
    served.is_holding = True
    served.router.limit(RouterLimits(max_queued_bytes=1))
    waiting = asyncio.create_task(first.request(PRODUCE, PRODUCE_ONE, timeout_s=PATIENCE_S))
    await until(lambda: served.held)
    with pytest.raises(ThrottlingQuotaExceededError, match=r"queued\.max\.request\.bytes"):
        await second.request(METADATA, ASK, timeout_s=PATIENCE_S)
    served.answer_held()
    await waiting
    served.router.limit(RouterLimits(idle_timeout_ms=1))
    await until(lambda: served.router.stats.peers_idled == 2)
    for connection in (first, second):
        connection.close(0)
