"""Secured listeners over real sockets: attacks, timeouts, and what reaches a handler."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from fake_files import FakeFiles
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.services.kafka_listener.assembly import new_kafka_listener
from headrace.storage_node.log.lending import LentRun
from kafka_listener_rig import FakeHost, ListenerRig, WireClient

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
JAAS = 'x.PlainLoginModule required user_alice="secret" user_bob="secret";'
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
AUTHORITY = Authority()
NODE = AUTHORITY.issue("node")
SASL = {
    "listeners": "S://127.0.0.1:0",
    "listener.security.protocol.map": "S:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.s.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": 0,
}
TLS = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.key": NODE.key_pem(),
    "ssl.keystore.certificate.chain": NODE.chain_pem,
}


@asynccontextmanager
async def secured(**config: Any) -> AsyncIterator[ListenerRig]:
    """A listener with this configuration."""
    host = FakeHost(**config)
    listener = new_kafka_listener(host)
    ((_, _, port),) = listener.bind()
    await listener.start()
    rig = ListenerRig(host, listener, port)
    try:
        yield rig
    finally:
        for client in rig.clients:
            client.close()
        listener.close()
    assert host.failures == []


def run(scenario: Any, **config: Any) -> None:
    async def body() -> None:
        async with asyncio.timeout(60), secured(**config) as rig:
            await scenario(rig)

    asyncio.run(body())


async def handshake(client: WireClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    client.send(HANDSHAKE, version, mechanism=mechanism)
    return (await client.answer(HANDSHAKE, version))[1]


async def authenticate(client: WireClient, data: bytes, version: int = 2) -> Any:
    client.send(AUTHENTICATE, version, auth_bytes=data)
    return (await client.answer(AUTHENTICATE, version))[1]


# --- SASL ----------------------------------------------------------------------------------------------


def test_authenticated_client_is_served_under_its_name() -> None:
    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        client.send(VERSIONS, 3)
        await client.answer(VERSIONS, 3)
        made = await handshake(client)
        assert (made.error_code, made.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256"))
        assert (await authenticate(client, RIGHT)).error_code == 0
        assert (await handshake(client)).error_code == 34
        assert (await authenticate(client, WRONG)).error_code == 34
        client.send(METADATA, 9)
        request = await rig.host.request(0)
        assert request.peer.identity == Identity(user("alice"), "127.0.0.1", "PLAIN")
        assert len(rig.listener.unready) == 0

    run(scenario, **SASL)


@pytest.mark.parametrize("before", [[], [HANDSHAKE], [VERSIONS]])
def test_requests_before_authentication_reach_no_handler(before: list[int]) -> None:
    """Also those that are sent together with the ones of authentication."""

    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        for api in before:
            client.send(api, 1, **({"mechanism": "PLAIN"} if api == HANDSHAKE else {}))
        client.send(METADATA, 9)
        client.send(METADATA, 9)
        for api in before:
            await client.answer(api, 1)
        assert await client.ended() == b""
        assert rig.host.requests == []

    run(scenario, **SASL)


def test_only_failed_authentication_is_delayed() -> None:
    """The node's other clients are served meanwhile; nothing behind the failure is."""

    async def scenario(rig: ListenerRig) -> None:
        held: list[Any] = []
        rig.listener.later = lambda delay_ms, action: held.append((delay_ms, action))  # type: ignore[method-assign]
        client, other = await rig.client(), await rig.client()
        await handshake(client)
        client.send(AUTHENTICATE, 2, auth_bytes=WRONG)
        client.send(AUTHENTICATE, 2, auth_bytes=RIGHT)
        client.send(METADATA, 9)
        await handshake(other)
        assert (await authenticate(other, RIGHT)).error_code == 0
        (action,) = (action for delay_ms, action in held if delay_ms == 50_000)
        action()
        answer = (await client.answer(AUTHENTICATE, 2))[1]
        assert answer.error_code == 58
        assert "Invalid username or password" in answer.error_message
        assert await client.ended() == b""
        assert rig.host.requests == []
        assert rig.listener.tallies.failed_authentications == 1

    run(scenario, **{**SASL, "connection.failed.authentication.delay.ms": 50_000})


def test_mechanism_that_is_not_enabled() -> None:
    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        made = await handshake(client, "GSSAPI")
        assert (made.error_code, made.mechanisms) == (33, ("PLAIN", "SCRAM-SHA-256"))
        assert await client.ended() == b""

    run(scenario, **SASL)


@pytest.mark.parametrize("is_right", [True, False])
def test_tokens_without_requests(is_right: bool) -> None:
    """SaslHandshake version 0; a token may be shorter than any request."""

    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        await handshake(client, version=0)
        token = b"\0a\0b" if is_right else b"\0a\0c"
        client.write(len(token).to_bytes(4, "big") + token)
        if not is_right:
            assert await client.ended() == b""
            return
        assert await client.frame() == b""
        client.send(METADATA, 9)
        assert (await rig.host.request(0)).peer.identity.principal == user("a")

    run(scenario, **{**SASL, "listener.name.s.plain.sasl.jaas.config": 'm required user_a="b";'})


def test_unauthenticated_clients_get_little_memory() -> None:
    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        client.write((2_000).to_bytes(4, "big"))
        assert await client.ended() == b""
        client = await rig.client()
        await handshake(client)
        await authenticate(client, RIGHT)
        client.send(METADATA, 9, client="c" * 3_000)
        await rig.host.request(0)

    run(scenario, **{**SASL, "sasl.server.max.receive.size": 1_024})


def test_wrong_passwords_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """One line, and a count; no line has a password."""

    async def scenario(rig: ListenerRig) -> None:
        for _ in range(30):
            client = await rig.client()
            await handshake(client)
            await authenticate(client, WRONG)
            client.close()
        assert rig.listener.status()["failed_authentications"] == 30

    with caplog.at_level(logging.WARNING):
        run(scenario, **SASL)
    assert caplog.text.count("authentication of") == 1
    assert "wrong" not in caplog.text.replace("wrong password", "")


def test_wrong_passwords_of_many_connections_leave_turns_to_others() -> None:
    """The authenticated client sends last, and is served before all passwords are checked."""
    count = 400

    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        await handshake(client)
        await authenticate(client, RIGHT)
        clients = [await rig.client() for _ in range(count)]
        for other in clients:
            other.send(HANDSHAKE, 1, mechanism="PLAIN")
            other.send(AUTHENTICATE, 2, auth_bytes=WRONG)
        client.send(METADATA, 9)
        await rig.host.request(0)
        assert rig.listener.tallies.failed_authentications < count
        for other in clients:
            await other.answer(HANDSHAKE, 1)
            assert (await other.answer(AUTHENTICATE, 2))[1].error_code == 58
        assert rig.listener.tallies.failed_authentications == count

    run(scenario, **SASL)


def test_unauthenticated_connections_have_a_separate_limit() -> None:
    """They take no place of a user. Above the limit the listener waits until one of them has ended."""

    async def scenario(rig: ListenerRig) -> None:
        users = [await rig.client() for _ in range(2)]
        for client in users:
            await handshake(client)
            await authenticate(client, RIGHT)
        clients = [await rig.client() for _ in range(17)]  # 16 are the limit
        assert await clients[-1].ended() == b""
        assert (len(rig.listener.unready), rig.listener.tallies.refused) == (16, 1)
        waiting = await rig.client()
        clients[0].close()
        await handshake(waiting)
        assert (await authenticate(waiting, RIGHT)).error_code == 0
        for client in users:
            client.send(VERSIONS, 3)
            await client.answer(VERSIONS, 3)
        last = await rig.client()
        assert await last.ended() == b""  # three users are the limit
        assert rig.listener.tallies.refused == 2

    run(scenario, **SASL, **{"max.connections": 3})


def test_session_ends_with_the_next_request() -> None:
    """A client that is silent is not disconnected; after the end of its session it has to authenticate."""

    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        await handshake(client)
        assert (await authenticate(client, RIGHT)).session_lifetime.total_seconds() == 3600
        now_ms = rig.listener.now_ms
        rig.listener.now_ms = lambda: now_ms() + 3_600_000  # type: ignore[method-assign]
        rig.listener._sweep_secured(rig.listener.now_ms())
        assert len(rig.listener._connections) == 1
        client.send(METADATA, 9)
        assert await client.ended() == b""
        assert rig.host.requests == []

    run(scenario, **{**SASL, "listener.name.s.plain.connections.max.reauth.ms": "3600000"})


def test_unsigned_oauthbearer_tokens_need_explicit_config() -> None:
    async def scenario(rig: ListenerRig) -> None:
        parts = ({"alg": "none"}, {"sub": "alice", "exp": 4_000_000_000})
        token = b".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts)
        client = await rig.client()
        await handshake(client, "OAUTHBEARER")
        data = b"n,,\x01auth=Bearer " + token + b".\x01\x01"
        assert (await authenticate(client, data)).error_code == 0

    handler = "org.apache.kafka.OAuthBearerUnsecuredValidatorCallbackHandler"
    name = "listener.name.s.oauthbearer.sasl.server.callback.handler.class"
    run(scenario, **{**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER", name: handler})


# --- TLS -----------------------------------------------------------------------------------------------


async def tls_client(rig: ListenerRig, **more: Any) -> WireClient:
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    if more:
        context.load_cert_chain(*more["files"])
    made = WireClient(
        *await asyncio.open_connection("127.0.0.1", rig.port, ssl=context, server_hostname="localhost")
    )
    rig.clients.append(made)
    return made


def test_requests_and_responses_over_tls() -> None:
    """Frames of many records in both directions; the end of the connection is announced."""

    async def scenario(rig: ListenerRig) -> None:
        client = await tls_client(rig)
        client.send(METADATA, 9, client="c" * 32_000)
        client.send(METADATA, 9)
        assert len((await rig.host.request(0)).peer.client_id) == 32_000
        (connection,) = rig.listener._connections
        log = FakeFiles().open("/log", create=True)
        log.pwrite(0, [b"1" * 900_000])
        lent = log.lend(0, 900_000)
        assert lent is not None
        assert connection.takes_runs
        connection._output.write([b"0" * 300_000, LentRun(lent, 1), b"2"])
        assert await client.reader.readexactly(1_200_001) == b"0" * 300_000 + b"1" * 900_000 + b"2"
        assert connection.unsent_bytes == 0
        connection.abort()
        assert await client.ended() == b""

    run(scenario, **TLS)


def test_plaintext_on_a_tls_port(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: ListenerRig) -> None:
        for data in (b"\0\0\0\x20\0\x12\0\3" + bytes(28), b"GET / HTTP/1.1\r\n\r\n"):
            client = await rig.client()
            client.write(data)
            await client.ended()
        assert rig.listener.tallies.failed_handshakes == 2
        assert rig.host.requests == []

    run(scenario, **TLS)
    assert "does not speak TLS" in caplog.text
    assert caplog.text.count("closing") == 1


def test_tls_on_a_plaintext_port(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: ListenerRig) -> None:
        with pytest.raises(OSError, match=r".*"):
            await tls_client(rig)

    run(scenario, listeners="PLAINTEXT://127.0.0.1:0")
    assert "the client speaks TLS" in caplog.text


@pytest.mark.parametrize("size", [0, 1, 5, 50])
def test_truncated_handshakes(size: int) -> None:
    """Whether the client waits or goes: the others are served, and nothing remains."""

    async def scenario(rig: ListenerRig) -> None:
        hello = client_hello()
        waiting, going = await rig.client(), await rig.client()
        for client in (waiting, going):
            client.write(hello[:size])
        going.writer.write_eof()
        assert await going.ended() == b""
        served = await tls_client(rig)
        served.send(METADATA, 9)
        await rig.host.request(0)
        assert await waiting.ended() == b""  # at the deadline
        assert len(rig.listener.unready) == 0
        assert len(rig.listener._connections) == 1

    run(scenario, **TLS, **{"connection.handshake.timeout.ms": 1_000})


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_handshake_in_single_bytes() -> None:
    async def scenario(rig: ListenerRig) -> None:
        client = await rig.client()
        for byte in client_hello():
            client.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.reader.readexactly(1)) == b"\x16"

    run(scenario, **TLS)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=alice,OU=data"),
        ("RULE:^CN=(.*?),.*$/$1/U", "ALICE"),
        ("RULE:^CN=bob/$1/", None),
        ("RULE:^(.*)$//", None),
    ],
)
def test_names_of_client_certificates(tmp_path: Path, rules: str, name: str | None) -> None:
    """A certificate that no rule maps, or to an empty name, is refused."""
    files = AUTHORITY.issue("alice").written(tmp_path, "client")

    async def scenario(rig: ListenerRig) -> None:
        client = await tls_client(rig, files=files)
        client.send(METADATA, 9)
        if name is None:
            assert await client.ended() == b""
            assert rig.listener.tallies.failed_authentications == 1
        else:
            identity = (await rig.host.request(0)).peer.identity
            assert identity == Identity(user(name), "127.0.0.1", "SSL")

    more = {"ssl.client.auth": "required", "ssl.truststore.certificates": AUTHORITY.pem}
    run(scenario, **TLS, **more, **{"ssl.principal.mapping.rules": rules})


def test_changed_key_store_is_used_by_the_next_connection(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    path.write_text(NODE.key_pem() + NODE.chain_pem)
    other = Authority().issue("other")

    async def scenario(rig: ListenerRig) -> None:
        client = await tls_client(rig)
        path.write_text(other.key_pem() + other.chain_pem)
        rig.listener._sweep_secured(0)
        with pytest.raises(ssl.SSLCertVerificationError):
            await tls_client(rig)
        client.send(METADATA, 9)
        await rig.host.request(0)

    run(scenario, listeners="SSL://127.0.0.1:0", **{"ssl.keystore.location": str(path)})


def test_key_store_of_a_changed_configuration(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next connection has it; one that has gone since it was checked leaves that before in use."""
    paths = {name: tmp_path / f"{name}.pem" for name in ("own", "new", "gone")}
    paths["own"].write_text(NODE.key_pem() + NODE.chain_pem)
    other = Authority().issue("other")
    paths["new"].write_text(other.key_pem() + other.chain_pem)

    async def scenario(rig: ListenerRig) -> None:
        def change(name: str) -> None:
            rig.host.now = rig.host.now.merged({"listener.name.ssl.ssl.keystore.location": str(paths[name])})
            rig.listener._sweep_secured(0)

        await tls_client(rig)
        change("gone")
        await tls_client(rig)
        change("new")
        with pytest.raises(ssl.SSLCertVerificationError):
            await tls_client(rig)
        change("own")
        await tls_client(rig)

    with caplog.at_level(logging.ERROR):
        run(scenario, listeners="SSL://127.0.0.1:0", **{"ssl.keystore.location": str(paths["own"])})
    (line,) = [each.getMessage() for each in caplog.records if "key stores" in each.getMessage()]
    assert "not used, but those before" in line
    assert "gone.pem" in line
