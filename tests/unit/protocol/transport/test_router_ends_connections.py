"""A peer that loses an answer must learn of it: its connection is ended, not only forgotten."""

from __future__ import annotations

from headrace.protocol.transport import wire
from headrace.protocol.transport.router_io import RouterLimits
from transport_kit import ASK, METADATA, PRODUCE, PRODUCE_ONE, raw_peer, run, serving, until


def test_a_peer_whose_queue_is_full_sees_its_connection_end() -> None:
    """Thousands of refusals that it does not read: one does not fit any more, and the connection is over.

    It sees that as soon as it reads; until then its own full queue hides it.
    """

    async def main() -> None:
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

    run(main())


def test_a_message_of_exactly_the_most_parts_is_taken() -> None:
    """Four parts are allowed, header and body included: two frames pass, three end the connection."""

    async def main() -> None:
        async with serving(RouterLimits(max_frames=4)) as served:
            with raw_peer(served.router.port) as peer:
                await peer.shake_hands()
                peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), b"1", b"2")
                assert (await peer.answer())[0].error_code == 0
                assert [bytes(frame) for frame in served.requests[0].frames] == [b"1", b"2"]
                peer.ask(PRODUCE.key, wire.encode(PRODUCE_ONE), b"1", b"2", b"3")
                await peer.disconnected()
            assert len(served.requests) == 1

    run(main())
