"""The server's end over real sockets: each ZeroMQ trap, each limit, and life after all of them."""

import asyncio
import logging
import pickle
import time

import pytest
from headrace.protocol import errors
from headrace.protocol.messages.data import ProduceRequest
from headrace.protocol.messages.envelope import ApiVersionsRequest
from headrace.protocol.messages.registry import API_VERSIONS, FETCH, METADATA, PRODUCE
from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import DRAIN_S, Request, Router, RouterLimits, ServerIdentity
from transport_kit import (
    ASK,
    FETCH_ONE,
    METADATA_BODY,
    PATIENCE_S,
    PRODUCE_ONE,
    Served,
    raw_peer,
    serving,
    until,
)

HELLO = wire.encode(ApiVersionsRequest("raw", "0", "raw"))


class Tripwire:
    """Unpickling this ends the test."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.exit, ("bytes from the network were unpickled",)


async def test_a_request_and_its_answer_with_frames(served: Served) -> None:
    """Small and large frames both ways arrive as sent, in order, and leave no account open."""
    client = await served.connect("the client")
    sent = [b"", b"a" * 100, b"b" * 9000, bytearray(b"c" * 300_000)]
    produced = await client.request(PRODUCE, PRODUCE_ONE, sent, timeout_s=PATIENCE_S)
    assert produced.body.partitions[0].base_offset == 42
    request = served.requests[0]
    assert [bytes(frame) for frame in request.frames] == [bytes(frame) for frame in sent]
    assert request.body == PRODUCE_ONE
    assert wire.encode(PRODUCE_ONE) == request.raw_body
    assert (request.peer.client_id, request.peer.in_flight) == ("the client", 0)
    served.frame = b"d" * 300_000
    fetched = await client.request(FETCH, FETCH_ONE, timeout_s=PATIENCE_S)
    assert [bytes(frame) for frame in fetched.frames] == [served.frame]
    await until(lambda: served.router.pending_response_bytes == 0)
    client.close()


async def test_a_thousand_requests_in_one_burst_are_all_answered() -> None:
    """More than one drain takes at once, and answers from outside any drain: no edge is lost."""
    async with serving(RouterLimits(max_in_flight=1000)) as served:
        client = await served.connect()
        served.is_holding = True
        futures = [client.send(METADATA, ASK) for _ in range(1000)]
        await until(lambda: len(served.held) == 1000)
        later = [client.send(METADATA, ASK) for _ in range(1000)]
        served.answer_held()
        await until(lambda: len(served.held) == 1000)
        served.answer_held()
        for future in futures + later:
            assert (await future).body == METADATA_BODY
        client.close()


async def test_a_full_window_of_unread_answers_is_within_the_limits() -> None:
    """A peer with every allowed request under way, again and again, never runs into a high-water mark."""
    async with serving(RouterLimits(max_in_flight=8)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            for turn in range(20):
                for number in range(8):
                    peer.ask(METADATA.key, wire.encode(ASK), number=turn * 8 + number)
                for number in range(8):
                    header, _ = await peer.answer()
                    assert (header.correlation_id, header.error_code) == (turn * 8 + number, 0)
        assert served.router.stats.answers_dropped == 0


@pytest.mark.parametrize("session", [0, 1, 2**62])
async def test_request_without_a_session_is_an_error(served: Served, session: int) -> None:
    """Before the handshake, or with another router's session: NetworkError, and no handler runs."""
    with raw_peer(served.router.port) as peer:
        peer.session = session
        peer.ask(METADATA.key, wire.encode(ASK), number=5)
        header, rest = await peer.answer()
        assert (header.correlation_id, header.error_code) == (5, errors.NetworkError.code)
        assert "repeat the handshake" in header.error_detail
        assert rest == [b""]
        await peer.shake_hands()
        peer.ask(METADATA.key, wire.encode(ASK))
        assert (await peer.answer())[0].error_code == 0
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("api_key", "version", "body", "error"),
    [
        (API_VERSIONS.key, 9, HELLO, errors.UnsupportedVersionError),
        (API_VERSIONS.key, 0, b"\x80", errors.InvalidRequestError),
        (
            API_VERSIONS.key,
            0,
            wire.encode(ApiVersionsRequest("s", "1", "c", 99)),
            errors.UnsupportedVersionError,
        ),
        (-1, 0, b"", errors.UnsupportedVersionError),
        (9999, 0, b"", errors.UnsupportedVersionError),
        (METADATA.key, 7, wire.encode(ASK), errors.UnsupportedVersionError),
        (METADATA.key, 0, b"", errors.InvalidRequestError),
        (METADATA.key, 0, b"\xdd\xff\xff\xff\xff", errors.InvalidRequestError),
        (METADATA.key, 0, pickle.dumps(Tripwire()), errors.InvalidRequestError),
        (PRODUCE.key, 0, wire.encode(["x", 1, []]), errors.InvalidRequestError),
        (METADATA.key, 0, b"\x90" + bytes(5000), errors.InvalidRequestError),
    ],
)
async def test_bad_requests_are_answered_and_the_connection_lives(
    api_key: int, version: int, body: bytes, error: type[errors.KafkaError]
) -> None:
    """Unknown apis and versions, bodies that cannot be decoded or too large: an error, then all is well."""
    async with serving(RouterLimits(max_body_bytes=4000)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            peer.ask(api_key, body, version=version, number=7)
            header, rest = await peer.answer()
            assert (header.correlation_id, header.error_code) == (7, error.code)
            assert rest == [b""]
            peer.ask(METADATA.key, wire.encode(ASK), number=8)
            assert (await peer.answer())[0].error_code == 0
        assert len(served.requests) == 1


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"only a header"],
        [b"\x93\x03\x00\x01"],
        [b"\xc1", b"body"],
        [b"", b""],
        [b"x" * 1000, b"body"],
        [pickle.dumps(Tripwire()), pickle.dumps(Tripwire())],
    ],
)
async def test_invalid_message_closes_its_connection_only(
    served: Served, parts: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """No body, or an invalid header: the peer is disconnected with one log line; other peers are not
    affected."""
    caplog.set_level(logging.WARNING)
    bystander = await served.connect()
    with raw_peer(served.router.port) as unknown, raw_peer(served.router.port) as known:
        await known.shake_hands("known")
        for peer in (unknown, known):
            peer.send(*parts)
            await peer.disconnected()
    await until(lambda: served.gone == ["known"])
    assert served.router.stats.peers_dropped == 2
    assert len(caplog.records) == 2
    assert "only a header" not in caplog.text
    assert (await bystander.request(METADATA, ASK, timeout_s=PATIENCE_S)).body == METADATA_BODY
    bystander.close()


async def test_a_frame_above_the_limit_disconnects_its_sender() -> None:
    """One megabyte where 100 kB are allowed: the connection is ended before memory is taken."""
    async with serving(RouterLimits(max_request_bytes=100_000)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands("large")
            peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), bytes(1_000_000))
            await peer.disconnected()
        await until(lambda: served.gone == ["large"])
        assert served.requests == []
        await served.is_well()


async def test_a_message_of_50000_parts_is_dropped_unassembled() -> None:
    """Far more parts than allowed: dropped across several wakes, the sender is cut off, others are served."""
    async with serving(RouterLimits(max_frames=10)) as served:
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands("parts")
            peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), *[b"p"] * 50_000)
            peer.ask(METADATA.key, wire.encode(ASK))
            await peer.disconnected()
        await until(lambda: served.gone == ["parts"])
        assert served.requests == []
        await served.is_well()
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), *[b"p"] * 8)
            assert (await peer.answer())[0].error_code == 0


async def test_requests_beyond_the_window_are_throttled() -> None:
    """With a limit of four and ten requests at once, six are refused, four answered; later ones are
    served."""
    async with serving(RouterLimits(max_in_flight=4)) as served:
        served.is_holding = True
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            for number in range(10):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)
            for number in range(4, 10):
                header, _ = await peer.answer()
                code = errors.ThrottlingQuotaExceededError.code
                assert (header.correlation_id, header.error_code) == (number, code)
            served.answer_held()
            for number in range(4):
                header, _ = await peer.answer()
                assert (header.correlation_id, header.error_code) == (number, 0)


async def test_peer_that_reads_no_responses_is_disconnected() -> None:
    """20,000 requests pipelined without reading: refusals fill the peer's queue, it is disconnected and
    counted, and meanwhile another client is served."""
    async with serving(RouterLimits(max_in_flight=4)) as served:
        bystander = await served.connect("bystander")
        with raw_peer(served.router.port, RCVHWM=1, RCVBUF=4096, SNDHWM=100_000) as peer:
            await peer.shake_hands("flood")
            for number in range(20_000):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)
                if number % 1000 == 0:
                    await bystander.request(METADATA, ASK, timeout_s=PATIENCE_S)
            await until(lambda: served.gone == ["flood"])
        assert served.router.stats.answers_dropped >= 1
        assert served.router.connections == 1
        bystander.close()


async def test_unread_responses_of_a_slow_reader_are_bounded() -> None:
    """It asks for large answers and reads none: its unread bytes stop at its share, they are freed when it is
    gone, and a reader beside it gets everything."""
    limits = RouterLimits(max_peer_response_bytes_pending=8_000_000)
    async with serving(limits) as served:
        served.frame = bytes(2_000_000)
        with raw_peer(served.router.port, RCVHWM=1, RCVBUF=4096) as slow:
            await slow.shake_hands("slow")
            for number in range(60):
                slow.ask(FETCH.key, wire.encode(FETCH_ONE), number=number)
            await until(lambda: served.router.stats.requests_refused > 0)
            unread = served.router.pending_response_bytes
            assert 0 < unread <= 8_000_000 + len(served.frame)
            fast = await served.connect("fast")
            for _ in range(10):
                fetched = await fast.request(FETCH, FETCH_ONE, timeout_s=PATIENCE_S)
                assert len(fetched.frames[0]) == 2_000_000
                await until(lambda: served.router.pending_response_bytes <= unread)
            fast.close()
        await until(lambda: served.router.pending_response_bytes == 0)


async def test_responses_to_closed_peers_are_counted(served: Served) -> None:
    """It disconnects while its requests are in flight: the owner is notified, late responses are counted."""
    served.is_holding = True
    client = await served.connect("leaver")
    for _ in range(3):
        client.send(METADATA, ASK)
    await until(lambda: len(served.held) == 3)
    client.close(0)
    await until(lambda: served.gone == ["leaver"])
    served.router.reply_error(served.held.pop(), errors.InvalidTopicError())
    served.answer_held()
    assert served.router.stats.answers_dropped == 3
    assert served.router.queued_bytes == 0


async def test_a_closed_peer_is_detected_without_its_monitor_event(served: Served) -> None:
    """Before the monitor's event, ROUTER_MANDATORY refuses the response, which drops the peer."""

    def is_reachable(served: Served) -> bool:
        served.router._refuse(served.held[0].peer.key, 99, errors.InvalidTopicError())
        return served.held[0].peer.is_connected

    served.is_holding = True
    client = await served.connect("leaver")
    client.send(METADATA, ASK)
    await until(lambda: served.held)
    served.router._monitor._on_event = lambda event, value: None  # the news is lost
    client.close(0)
    await until(lambda: not is_reachable(served))
    assert served.router.stats.answers_dropped >= 1
    await until(lambda: served.gone == ["leaver"])
    assert served.router.connections == 0


async def test_acks_0_gets_no_answer() -> None:
    """A flood of produces without an answer: all handled in order, none answered, none left under way."""
    async with serving(RouterLimits(max_in_flight=4)) as served:
        client = await served.connect()
        body = ProduceRequest(0, 1000, ())
        for number in range(500):
            await client.send(PRODUCE, body, (b"%d" % number,), expect_reply=False)
        await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
        assert [bytes(request.frames[0]) for request in served.requests[:-1]] == [
            b"%d" % number for number in range(500)
        ]
        assert served.router.stats.answers_sent == 2
        client.close()


async def test_an_error_of_the_handler_is_the_answer(served: Served) -> None:
    """A KafkaError that the handler raises goes to the client, with its text."""

    def refuse(request: object) -> None:
        raise errors.InvalidTopicError("no such name")

    served.handler = refuse
    client = await served.connect()
    with pytest.raises(errors.InvalidTopicError, match="no such name"):
        await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
    client.close()


@pytest.mark.parametrize("place", ["handler", "on_peer_gone"])
async def test_unexpected_exception_ends_the_router(
    served: Served, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the handler or in on_peer_gone: run() raises it, clients see the end."""

    def broken(_: object) -> None:
        raise ZeroDivisionError("a bug")

    client = await served.connect()
    running = asyncio.ensure_future(served.router.run())
    if place == "handler":
        served.handler = broken
        with pytest.raises(errors.NetworkError):
            await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
    else:
        served.router.on_peer_gone = broken
        client.close(0)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await running
    served.requests.clear()
    client.close()
    served.router._admission.queued_bytes = 0


async def test_closing_frees_the_port_at_once_and_ends_run() -> None:
    """The same port is bound again by a successor in the next line, ten times over."""
    port = 0
    for _ in range(10):
        router = Router("127.0.0.1", port, lambda request: None, [METADATA], ServerIdentity())
        port = router.start()
        running = asyncio.ensure_future(router.run())
        router.close()
        router.close()
        await running


async def test_port_in_use_is_an_os_error(served: Served) -> None:
    """The second server on a port leaves nothing open."""
    second = Router("127.0.0.1", served.router.port, lambda request: None, [], ServerIdentity())
    with pytest.raises(OSError, match="cannot listen"):
        second.start()


async def test_a_handshake_can_be_repeated(served: Served) -> None:
    """The same connection shakes hands twice: the old session is void, the new one works."""
    gone: list[int] = []
    served.router.on_peer_gone = lambda peer: gone.append(peer.session)
    with raw_peer(served.router.port) as peer:
        await peer.shake_hands("one")
        old = peer.session
        await peer.shake_hands("two")
        assert served.router.connections == 1
        assert gone == [old], "the old session is reported as gone"
        fresh, peer.session = peer.session, old
        peer.ask(METADATA.key, wire.encode(ASK))
        assert (await peer.answer())[0].error_code == errors.NetworkError.code
        peer.session = fresh
        peer.ask(METADATA.key, wire.encode(ASK))
        assert (await peer.answer())[0].error_code == 0


async def test_timers_run_while_a_flood_is_drained() -> None:
    """Thousands of requests wait on the socket: a timer of the loop still fires between two drains."""
    async with serving(RouterLimits(max_in_flight=4000)) as served:
        with raw_peer(served.router.port, SNDHWM=10_000) as peer:
            await peer.shake_hands()
            for number in range(4000):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)
            await until(lambda: served.requests)
            fired_at: list[int] = []
            asyncio.get_running_loop().call_later(0, lambda: fired_at.append(len(served.requests)))
            await until(lambda: len(served.requests) == 4000)
            assert fired_at
            assert fired_at[0] < 4000


async def test_a_drain_of_slow_requests_ends_in_time() -> None:
    """Each request keeps the handler as long as a whole drain may take: the loop has its turn after each."""
    async with serving(RouterLimits(max_in_flight=20)) as served:
        turns = 0
        turns_at: list[int] = []

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        def handle(request: Request) -> None:
            turns_at.append(turns)
            end_s = time.monotonic() + DRAIN_S
            while time.monotonic() < end_s:
                pass
            served.answer(request)

        served.handler = handle
        with raw_peer(served.router.port) as peer:
            await peer.shake_hands()
            turn()
            for number in range(20):
                peer.ask(METADATA.key, wire.encode(ASK), number=number)
            await until(lambda: len(turns_at) == 20)
            assert len(set(turns_at)) == 20
