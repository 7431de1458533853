"""Clients that use TLS to get less security, or to keep a listener busy."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from certificates import Authority
from kafka_listener_rig import ListenerRig, listening
from tls_bytes import (
    ALERT,
    ECDHE_GCM,
    FALLBACK_SCSV,
    FATAL,
    HANDSHAKE,
    INAPPROPRIATE_FALLBACK,
    OpenSsl,
    client_hello,
)

NODE = Authority().issue("node")
TLS = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.key": NODE.key_pem(),
    "ssl.keystore.certificate.chain": NODE.chain_pem,
}
SASL_SSL = TLS | {
    "listeners": "S://127.0.0.1:0",
    "listener.security.protocol.map": "S:SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.s.plain.sasl.jaas.config": 'm required user_a="b";',
}


@contextlib.asynccontextmanager
async def served(config: dict[str, Any] = TLS) -> Any:
    async with asyncio.timeout(300), listening(**config) as rig:
        yield rig


async def first_record(rig: ListenerRig, hello: bytes) -> tuple[int, bytes]:
    """The type and the content of the server's first record."""
    client = await rig.client()
    client.write(hello)
    head = await client.reader.readexactly(5)
    return head[0], await client.reader.readexactly(int.from_bytes(head[3:], "big"))


@pytest.mark.parametrize("version", [0x0300, 0x0301, 0x0302])
async def test_old_versions_are_refused(version: int) -> None:
    """SSL 3, TLS 1.0 and TLS 1.1: with an alert. The same message with the version of TLS 1.2 is accepted."""
    async with served() as rig:
        kind, alert = await first_record(rig, client_hello(version))
        assert (kind, alert[0]) == (ALERT, FATAL)
        assert await rig.clients[0].ended() == b""
        assert rig.listener.tallies.failed_handshakes == 1


async def test_a_downgrade_to_tls_12_is_noticed() -> None:
    """By the server if the client says that it fell back, and otherwise by a client that speaks TLS 1.3: the
    server's random number has the mark of RFC 8446, 4.1.3."""
    async with served() as rig:
        kind, hello = await first_record(rig, client_hello(0x0303))
        assert kind == HANDSHAKE
        assert hello[30:38] == b"DOWNGRD\x01"
        fallback = client_hello(0x0303, ECDHE_GCM, FALLBACK_SCSV)
        assert await first_record(rig, fallback) == (ALERT, bytes((FATAL, INAPPROPRIATE_FALLBACK)))


async def test_renegotiation_is_refused() -> None:
    """A client would make the server compute one handshake after the other."""
    async with served() as rig:

        def renegotiate() -> bool:
            client = OpenSsl(rig.port, is_tls12=True)
            try:
                return client.renegotiate()
            finally:
                client.close()

        assert not await asyncio.to_thread(renegotiate)


@pytest.fixture
def flood() -> Iterator[list[threading.Thread]]:
    """Threads of clients, joined at the end."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("of_both", [False, True])
async def test_key_updates_without_end_end_their_connection(
    flood: list[threading.Thread], of_both: bool
) -> None:
    """Of a client that is not authenticated and does not read: they cost time, have no data, and each of both
    directions makes an answer."""
    async with served(SASL_SSL) as rig:
        over, sent = asyncio.Event(), 0
        loop = asyncio.get_running_loop()

        def update() -> None:
            nonlocal sent
            client = OpenSsl(rig.port)
            while sent < 100_000 and client.update_keys(of_both=of_both):
                sent += 1
            client.close()
            loop.call_soon_threadsafe(over.set)

        flood.append(threading.Thread(target=update))
        flood[0].start()
        await over.wait()
        assert 0 < sent < 100_000
        assert rig.listener._connections == set()


async def test_a_client_that_is_silent_after_tls_is_closed_in_time() -> None:
    """The handshake of TLS and that of SASL have one limit together."""
    async with served(SASL_SSL | {"connection.handshake.timeout.ms": 1_000}) as rig:

        def connect() -> bytes:
            client = OpenSsl(rig.port)
            try:
                while client._socket.recv(65_536):
                    pass
                return b""
            except ConnectionError:
                return b""
            finally:
                client.close()

        assert await asyncio.to_thread(connect) == b""
        assert len(rig.listener.unready) == 0
        assert rig.listener.tallies.failed_handshakes == 1
