"""Fuzzers of listeners with users: what comes before, within and after an authentication, on both planes.

The laws are those of fuzzing.py, and: nothing that a client sends before it is authenticated has an effect or
another response than those of authentication. Clients without a user would be super users, so that a request
which gets past the listener does what it says; alice, who authenticates, has no rights.
"""

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import wild
import zmq
from certificates import Authority
from headrace import LocalCluster, Security, local
from headrace.clients.cluster.security_io import connection_security
from headrace.clients.config import ConnectionConfig
from headrace.protocol.messages import data, registry
from headrace.protocol.messages.envelope import ApiVersionsRequest
from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from headrace.protocol.transport import wire
from headrace.protocol.transport.dealer_options_io import new_curve_keys
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from hostile_rig import TIMEOUT_S, Probe
from kafka_listener_rig import WireClient
from kafka_wire import example_request, framed, request_frame
from node_rig import until
from tls_bytes import client_hello
from transport_kit import RawPeer
from zmtp_bytes import COMMAND, MORE, connected, frame, greeting, message, ready

PASSWORD = "right-password"
VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
OF_AUTHENTICATION = {VERSIONS, HANDSHAKE, AUTHENTICATE}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NONCE = "rOprNGfwEbeRWgbN"
# What clients of the mechanisms send; none of them is authenticated by it.
TOKENS = (
    b"\0alice\0wrong",
    b"alice\0alice\0" + PASSWORD.encode() + b"x",
    b"bob\0alice\0" + PASSWORD.encode(),
    b"\0" * 9,
    f"n,,n=alice,r={NONCE}".encode(),
    f"n,a=admin,n=alice,r={NONCE}".encode(),
    f"y,,n=alice,r={NONCE},tokenauth=true".encode(),
    f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode(),
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
    b"",
    b"\xff" * 1_000,
    b"x" * 400_000,
)
LOGIN_KINDS = ("sasl", "tls", "zmtp", "login")
LOT, TOGETHER = 160, 16
PATIENCE_S = 0.25


@contextlib.contextmanager
def secured_cluster() -> Iterator[LocalCluster]:
    """A node with users on both planes; its third listener is for the probe."""
    node = Authority().issue("node")
    users = f'm required user_alice="{PASSWORD}";'
    config: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.key": node.key_pem(),
        "ssl.keystore.certificate.chain": node.chain_pem,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": 0,
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": users
            for name in ("sasl_plaintext", "sasl_ssl", "native")
        },
    }
    with local(nodes=1, security=Security(users={"alice": PASSWORD}), **config) as made:
        yield made


def probe_of(cluster: LocalCluster) -> Probe:
    """A client that is the user admin natively, and has a listener of its own for Kafka's protocol."""
    security, _ = connection_security(ConnectionConfig.of(cluster.client_config()))
    return Probe(cluster, security)


class LoginFuzzer:
    """One cluster with users under attack."""

    def __init__(self, cluster: LocalCluster, probe: Probe) -> None:
        self._cluster, self._probe = cluster, probe
        (status,) = cluster.status()["nodes"]
        self._ports = {
            name: int(address.rpartition(":")[2]) for name, address in status["kafka"]["listeners"].items()
        }
        self._port = probe.node[1]
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._topics: set[str] = set()
        cases: tuple[Callable[[random.Random], Awaitable[None]], ...]
        cases = (self._sasl, self._hello, self._zmtp, self._login)
        self.kinds = dict(zip(LOGIN_KINDS, cases, strict=True))

    async def prepare(self) -> None:
        """Remember what must not change."""
        await self._probe.check()
        self._topics = await self._names()

    async def _names(self) -> set[str]:
        answer = await self._probe.ask(registry.METADATA, data.MetadataRequest())
        # without those of the servers: what is denied is audited
        return {topic.name for topic in answer.body.topics if not topic.name.startswith("__")}

    async def lot(self, kind: str, seed: int, first: int, count: int = LOT) -> None:
        """Cases `first` and those behind it, then a look at everything."""
        for start in range(first, first + count, TOGETHER):
            cases = range(start, min(start + TOGETHER, first + count))
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(
                    *(self.kinds[kind](random.Random(f"{kind}/{seed}/{number}")) for number in cases)
                )
        await self._probe.check()
        (status,) = self._cluster.status()["nodes"]
        assert not status["kafka"]["broken"], "a translation broke: see the log"
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not self._left())
        assert await self._names() == self._topics, "a request without a user had an effect"

    def _left(self) -> int:
        """Connections of the attack that are still open, and bytes of their requests."""
        (status,) = self._cluster.status()["nodes"]
        return int(status["kafka"]["connections"] + status["kafka"]["held_request_bytes"])

    # --- Kafka's plane -----------------------------------------------------------------------------------

    async def _sasl(self, dice: random.Random) -> None:
        """Requests before, within and after an authentication, over TLS or not."""
        name = dice.choice(("SASL_PLAINTEXT", "SASL_SSL"))
        tls = self._tls if name == "SASL_SSL" else None
        client = WireClient(*await asyncio.open_connection("127.0.0.1", self._ports[name], ssl=tls))
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._converse(client, dice)
        finally:
            client.close()

    async def _converse(self, client: WireClient, dice: random.Random) -> None:
        stage = dice.choice(("before", "within", "tokens", "after"))
        if stage == "after":
            await self._exchange(client, "PLAIN", 1)
            client.send(AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
            assert (await client.answer(AUTHENTICATE, 2))[1].error_code == 0
        elif stage != "before":
            await self._exchange(client, dice.choice(MECHANISMS), 0 if stage == "tokens" else 1)
        frames = [self._next(dice, stage) for _ in range(dice.choice((1, 2, 5)))]
        is_honest = dice.random() < 0.5
        for piece in [framed(each) for each in frames] if is_honest else wild.stream(dice, frames):
            client.write(piece)
            await client.writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            for each in frames:
                answer = await client.frame()
                if is_honest and stage in ("before", "within"):
                    assert int.from_bytes(each[:2], "big", signed=True) in OF_AUTHENTICATION, (each, answer)

    async def _exchange(self, client: WireClient, mechanism: str, version: int) -> None:
        client.send(HANDSHAKE, version, mechanism=mechanism)
        assert (await client.answer(HANDSHAKE, version))[1].error_code == 0

    def _next(self, dice: random.Random, stage: str) -> bytes:
        token = dice.choice(TOKENS)
        token = token if dice.random() < 0.5 else wild.damaged(dice, token[:2_000])
        if stage == "tokens":
            return token
        if stage == "within" and dice.random() < 0.7:
            return request_frame(
                AUTHENTICATE, 2, example_request(AUTHENTICATE, 2, auth_bytes=token), dice.getrandbits(31)
            )
        return wild.request(dice, b"t" * 16)

    async def _hello(self, dice: random.Random) -> None:
        """Damaged handshakes of TLS, and what is none."""
        version = dice.choice((0x0300, 0x0302, 0x0303, 0x0304, dice.getrandbits(16)))
        hello = client_hello(version, *(dice.getrandbits(16) for _ in range(dice.choice((0, 1, 300)))))
        data = hello if dice.random() < 0.2 else wild.damaged(dice, hello)
        client = WireClient(*await asyncio.open_connection("127.0.0.1", self._ports["SASL_SSL"]))
        try:
            client.write(data + dice.randbytes(dice.choice((0, 5, 70_000))))
            if dice.random() < 0.5:
                client.writer.write_eof()
            with contextlib.suppress(OSError):
                async with asyncio.timeout(PATIENCE_S):
                    await client.reader.read()
        finally:
            client.close()

    # --- the native plane --------------------------------------------------------------------------------

    async def _zmtp(self, dice: random.Random) -> None:
        """Bytes on the native port: other mechanisms, and wrong commands of CURVE."""
        mechanism = dice.choice(("CURVE", "CURVE", "NULL", "PLAIN", "GSSAPI", "X" * 20))
        commands = [
            frame(b"\x05HELLO\x01\0" + dice.randbytes(dice.choice((192, 191, 0))), COMMAND),
            frame(b"\x08INITIATE" + dice.randbytes(dice.choice((96 + 137, 9, 40_000))), COMMAND),
            frame(b"\x07MESSAGE" + dice.randbytes(60), dice.choice((0, COMMAND))),
            ready(User_Id=b"0" * 64),
            message(wire.encode(ApiVersionsRequest("x", "1")), b"body"),
            frame(dice.randbytes(300), MORE),
        ]
        dice.shuffle(commands)
        data = greeting(mechanism) + b"".join(commands[: dice.randrange(len(commands) + 1)])
        data = data if dice.random() < 0.5 else wild.damaged(dice, data)
        with contextlib.suppress(OSError), contextlib.closing(connected(self._port, data)) as peer:
            if dice.random() < 0.5:
                peer.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0)

    async def _login(self, dice: random.Random) -> None:
        """Messages of an unauthenticated peer, encrypted as they should be."""
        own = new_curve_keys()
        options: dict[str, int | bytes] = {
            "SNDTIMEO": 0,  # the server may have closed the connection
            "CURVE_SERVERKEY": bytes.fromhex(self._cluster.server_public_key),
            "CURVE_PUBLICKEY": own.public,
            "CURVE_SECRETKEY": own.secret,
        }
        peer = RawPeer(self._port, **options)
        asked: dict[int, int] = {}
        try:
            if dice.random() < 0.9:
                await peer.shake_hands()
            for number in range(1, dice.choice((2, 3, 6))):
                key, body = self._message(dice)
                asked[number] = key
                frames = [dice.randbytes(9)] * dice.choice((0, 0, 1))
                with contextlib.suppress(zmq.Again):
                    peer.ask(key, body, *frames, number=number)
            ends_s = asyncio.get_running_loop().time() + PATIENCE_S
            while asyncio.get_running_loop().time() < ends_s and not peer.events.poll(0):
                await asyncio.sleep(0.001)
                while peer.socket.poll(0):
                    header, *_ = peer.socket.recv_multipart()
                    answer = wire.decode_response_header(header)
                    key = asked.get(answer.correlation_id, VERSIONS)
                    assert key in OF_AUTHENTICATION or answer.error_code, (key, answer)
        finally:
            peer.close()

    def _message(self, dice: random.Random) -> tuple[int, bytes]:
        kind = dice.random()
        if kind < 0.25:
            api, body = wild.own_request(dice, b"t" * 16)
            return api.key, body
        if kind < 0.35:
            return VERSIONS, wire.encode(ApiVersionsRequest("raw", "0", "again"))
        if kind < 0.6:
            key, body = HANDSHAKE, wire.encode(SaslHandshakeRequest(dice.choice((*MECHANISMS, "GSSAPI", ""))))
        else:
            key, body = AUTHENTICATE, wire.encode(SaslAuthenticateRequest(dice.choice(TOKENS)))
        return key, body if dice.random() < 0.7 else wild.damaged(dice, body)
