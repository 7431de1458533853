"""For any frames of a peer the server responds or closes that connection, and keeps serving other peers."""

from typing import Any

import pytest
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.messages.registry import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import RouterLimits
from hypothesis import given, settings
from hypothesis import strategies as st
from multipart_twins import TWINS, sockets_use
from security_kit import SCRAM, credentials, secured
from transport_kit import APIS, ASK, FETCH_ONE, PATIENCE_S, PRODUCE_ONE, raw_peer, run, serving, until

BODIES = [wire.encode(body) for body in (ASK, FETCH_ONE, PRODUCE_ONE, ApiVersionsRequest("s", "1"))]
integers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.sampled_from([0, 1, 2, 3, 18, 19]))


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A valid header, one with invalid numbers, a truncated one, one with a flipped bit, or noise."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return wire.encode(RequestHeader(draw(st.sampled_from(APIS)).key, 0, draw(st.integers(0, 99)), 1))
    if kind == 1:
        return wire.encode([draw(integers) for _ in range(draw(st.integers(0, 6)))])
    if kind == 2:
        return bent(draw, wire.encode(RequestHeader(18, 0, 5, 0)))
    return draw(st.binary(max_size=40))


def bent(draw: st.DrawFn, data: bytes) -> bytes:
    place = draw(st.integers(0, len(data) - 1))
    if draw(st.booleans()):
        return data[:place]
    return data[:place] + bytes([data[place] ^ (1 << draw(st.integers(0, 7)))]) + data[place + 1 :]


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """Header, body and some frames; sometimes without a body."""
    header = draw(headers())
    body = draw(st.sampled_from(BODIES))
    if draw(st.booleans()):
        body = bent(draw, body)
    return [header, body, *draw(st.lists(st.binary(max_size=20), max_size=6))][: draw(st.integers(1, 8))]


@pytest.mark.parametrize("twin", TWINS)
@settings(max_examples=60)
@given(conversation=st.lists(messages(), min_size=1, max_size=12), is_known=st.booleans())
def test_any_frames_leave_the_server_well(twin: str, conversation: list[list[bytes]], is_known: bool) -> None:
    """A peer, with or without a session, sends up to twelve messages; then a new client is served."""

    async def main() -> None:
        async with serving(RouterLimits(max_frames=5, max_in_flight=4)) as served:
            with raw_peer(served.router.port) as peer:
                if is_known:
                    await peer.shake_hands()
                for parts in conversation:
                    peer.send(*parts)
                await served.is_well()
            await until(lambda: served.router.connections <= 1)

    with sockets_use(twin):
        run(main())


@st.composite
def unauthenticated_messages(draw: st.DrawFn) -> list[bytes]:
    """A message of an authentication, right or damaged, or any other one."""
    if draw(st.booleans()):
        return draw(messages())
    api = draw(st.sampled_from([SASL_HANDSHAKE, SASL_AUTHENTICATE]))
    body: Any = SaslAuthenticateRequest(draw(st.sampled_from([b"\0alice\0wrong", b"n,,n=alice,r=x", b""])))
    if api is SASL_HANDSHAKE:
        body = SaslHandshakeRequest(draw(st.sampled_from(["PLAIN", SCRAM, "none"])))
    data = wire.encode(body)
    return [wire.encode(RequestHeader(api.key, 0, 5, 0)), bent(draw, data) if draw(st.booleans()) else data]


@pytest.mark.parametrize("twin", TWINS)
@settings(max_examples=60)
@given(conversation=st.lists(unauthenticated_messages(), min_size=1, max_size=12), is_known=st.booleans())
def test_no_frames_of_an_unauthenticated_peer_reach_a_handler(
    twin: str, conversation: list[list[bytes]], is_known: bool
) -> None:
    """On a listener with users. Sessions are put into the headers, so that they are the peer's own."""

    async def main() -> None:
        async with secured(RouterLimits(max_frames=5, max_in_flight=4), is_plain=True) as served:
            with raw_peer(served.router.port) as peer:
                if is_known:
                    await peer.shake_hands()
                for header, *rest in conversation:
                    peer.send(with_session(header, peer.session), *rest)
                user = await served.open(credentials(mechanism="PLAIN"))
                await user.request(METADATA, ASK, timeout_s=PATIENCE_S)
                user.close()
            await until(lambda: served.router.connections == 0)
            assert [request.peer.client_id for request in served.requests] == ["client"]

    with sockets_use(twin):
        run(main())


def with_session(header: bytes, session: int) -> bytes:
    """A header that can be read, with this session."""
    try:
        read = wire.decode_request_header(header)
    except wire.WireError:
        return header
    return wire.encode(RequestHeader(read.api_key, read.api_version, read.correlation_id, session))
