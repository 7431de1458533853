"""For any frames of a peer the server responds or closes that connection, and keeps serving other peers."""

import pytest
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import RouterLimits
from hypothesis import given, settings
from hypothesis import strategies as st
from multipart_twins import TWINS, sockets_use
from transport_kit import APIS, ASK, FETCH_ONE, PRODUCE_ONE, raw_peer, run, serving, until

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
