"""Connections that pretend to be a server of the cluster: by its recorded bytes, its public key, its name."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zmq
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.messages.registry import API_VERSIONS, METADATA
from headrace.protocol.security.server_keys import CurveKeys
from headrace.protocol.transport import wire
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.dealer_options_io import new_curve_keys
from headrace.protocol.transport.peers import RouterLimits
from headrace.protocol.transport.security import ConnectionSecurity
from security_kit import secured
from transport_kit import ASK, PATIENCE_S, raw_peer, run, until
from zmtp_bytes import connected, dealer, greeting, message, ready


class Recorder:
    """A proxy that records what a client sends, in the pieces between which the server sent something."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.turns: list[bytes] = []
        self._is_new_turn = True
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Its port."""
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += (writer, far_writer)

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65_536):
                    if source is reader:
                        self._record(data)
                    else:
                        self._is_new_turn = True
                    target.write(data)
            target.close()

        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    def _record(self, data: bytes) -> None:
        if self._is_new_turn:
            self.turns.append(b"")
        self.turns[-1] += data
        self._is_new_turn = False

    async def replay(self) -> bool:
        """Send it all again, each piece after an answer to the one before: whether all were answered."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            for turn in self.turns:
                writer.write(turn)
                if not await reader.read(65_536):
                    return False
        except ConnectionError:
            return False
        finally:
            writer.transport.abort()
        return True


@pytest.mark.parametrize("is_plain", [False, True])
def test_recorded_bytes_of_a_server_are_worth_nothing_again(is_plain: bool) -> None:
    """The keys of a connection of CURVE are made for it alone: the server ends it, and no handler gets the
    request a second time. Without encryption the same bytes are a handshake, so the test would notice."""

    async def test() -> None:
        async with secured(is_plain=is_plain, **({"sasl": None} if is_plain else {})) as served:
            recorder = Recorder(served.router.port)
            keys: dict[str, Any] = {
                "own_keys": served.node_keys,
                "server_keys": lambda _server: (served.keys.public,),
            }
            async with recorder.running() as port:
                node = await Connection.open(
                    "127.0.0.1",
                    port,
                    client_id="node",
                    timeout_s=PATIENCE_S,
                    security=ConnectionSecurity(**({} if is_plain else keys)),
                )
                await node.request(METADATA, ASK, timeout_s=PATIENCE_S)
                node.close()
                await until(lambda: served.router.connections == 0)
            before = served.router.stats.handshakes
            assert await recorder.replay() == is_plain
            assert served.router.stats.handshakes == before + is_plain
            assert len(served.requests) == 1

    run(test())


async def ended(peer: Any) -> None:
    """Wait until the server has closed the connection."""
    with contextlib.suppress(ConnectionError):
        while True:
            with contextlib.suppress(BlockingIOError):
                if not peer.recv(65_536):
                    return
            await asyncio.sleep(0.001)


def test_the_public_key_of_a_server_is_no_proof() -> None:
    """It is in the list that every client may have; the handshake needs the secret key."""

    async def test() -> None:
        async with secured(RouterLimits(handshake_timeout_ms=1_000)) as served:
            pretended = CurveKeys(served.node_keys.public, new_curve_keys().secret)
            with raw_peer(served.router.port, SNDTIMEO=0, **served.curve_options(pretended)) as bad:
                with contextlib.suppress(zmq.Again):  # the handshake has failed already
                    bad.ask(API_VERSIONS.key, wire.encode(ApiVersionsRequest("raw", "0", "node-1")))
                await until(
                    lambda: (
                        served.router.stats.handshakes_failed
                        + served.router.stats.handshakes_broken_off
                        + served.router.stats.connections_refused
                    )
                )
            with raw_peer(served.router.port, **served.curve_options(served.node_keys)) as good:
                await good.shake_hands()
            assert served.router.stats.handshakes == 1

    run(test())


def test_a_client_cannot_name_its_own_key() -> None:
    """ZeroMQ gives properties that a client sends the same names as those of authentication."""

    async def test() -> None:
        async with secured(is_plain=True) as served:
            user_id = served.node_keys.public.hex().encode()
            header = wire.encode(RequestHeader(API_VERSIONS.key, 0, 1, 0))
            hello = message(header, wire.encode(ApiVersionsRequest("raw", "0", "raw")))
            bad = dealer(served.router.port, hello, User_Id=user_id)
            with contextlib.closing(bad):
                await until(lambda: served.router.connections == 1)
                (peer,) = served.router._peers
                assert not peer.identity.is_server
                assert peer.is_unauthenticated

    run(test())


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN", "GSSAPI", "", "curve"])
def test_other_mechanisms_of_zeromq_do_not_get_past_curve(mechanism: str) -> None:
    """With a whole handshake and a request behind the greeting."""

    async def test() -> None:
        async with secured(RouterLimits(handshake_timeout_ms=1_000)) as served:
            header = wire.encode(RequestHeader(API_VERSIONS.key, 0, 1, 0))
            hello = message(header, wire.encode(ApiVersionsRequest("raw", "0", "raw")))
            with contextlib.closing(
                connected(served.router.port, greeting(mechanism), ready(), hello)
            ) as bad:
                await ended(bad)
            assert served.router.stats.handshakes == 0

    run(test())
