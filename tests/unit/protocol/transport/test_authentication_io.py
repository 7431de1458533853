"""Authentication on a real listener: accepted and refused clients, and its effect on other clients."""

import asyncio
import contextlib
import socket
import time
from typing import Any

import pytest
from headrace.protocol.errors import (
    ConfigError,
    IllegalSaslStateError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.messages.registry import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from headrace.protocol.security.principals import user
from headrace.protocol.transport import wire
from headrace.protocol.transport.dealer_options_io import new_curve_keys
from headrace.protocol.transport.peers import MIB, RouterLimits
from headrace.protocol.transport.security import Credentials, Login
from headrace.protocol.transport.unfinished_io import SLACK_BYTES
from security_kit import SCRAM, credentials, secured
from transport_kit import ASK, METADATA_BODY, PATIENCE_S, raw_peer, run, until
from zmtp_bytes import MORE, dealer, frame, message


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_the_right_password_is_served(mechanism: str) -> None:
    """The handler sees the principal and the address; each mechanism gives the same user."""

    async def test() -> None:
        async with secured() as served:
            client = await served.open(credentials(mechanism=mechanism))
            assert (await client.request(METADATA, ASK, timeout_s=PATIENCE_S)).body == METADATA_BODY
            identity = served.requests[0].peer.identity
            assert (identity.principal, identity.host, identity.mechanism) == (
                user("alice"),
                "127.0.0.1",
                mechanism,
            )
            assert not identity.is_server
            client.close()

    run(test())


def test_a_wrong_password_names_the_user_and_not_the_password() -> None:
    """The error is not one that is retried; the log has the reason, and neither of them the password."""

    async def test() -> None:
        async with secured() as served:
            for mechanism in ("PLAIN", SCRAM):
                with pytest.raises(SaslAuthenticationFailedError, match="user alice") as caught:
                    await served.open(credentials(password="wr0ng", mechanism=mechanism))
                assert not caught.value.retriable
                assert "wr0ng" not in str(caught.value)
            with pytest.raises(SaslAuthenticationFailedError, match="user absent"):
                await served.open(credentials("absent"))
            assert served.router.stats.authentications_failed == 3
            assert all("wr0ng" not in text for text in served.warnings)
            assert served.requests == []
            await until(lambda: served.router.connections == 0)
            assert served.gone == []  # no handler knew them

    run(test())


def test_a_rejection_arrives_before_its_connection_ends() -> None:
    """Also if the search for connections to close comes next: a shutdown drops unsent messages."""

    async def test() -> None:
        async with secured(failed_delay_ms=lambda: 0) as served:
            reply_error = served.router.reply_error

            def swept(*rejection: Any) -> None:
                reply_error(*rejection)
                asyncio.get_running_loop().call_soon(served.router._sweep)

            served.router.reply_error = swept
            for _ in range(20):
                with pytest.raises(SaslAuthenticationFailedError):
                    await served.open(credentials(password="wr0ng"))

    run(test())


def test_client_and_server_have_to_agree() -> None:
    """No user, a mechanism that is not enabled, and a user at a server that asks for none."""

    async def test() -> None:
        async with secured() as served:
            with pytest.raises(SaslAuthenticationFailedError, match=r"username=.*PLAIN, SCRAM-SHA-256"):
                await served.open()
            with pytest.raises(UnsupportedSaslMechanismError, match=r"user alice.*enabled mechanisms: PLAIN"):
                await served.open(credentials(mechanism="OAUTHBEARER"))
        async with secured(is_plain=True, sasl=None) as served:
            with pytest.raises(IllegalSaslStateError, match=r"user alice.*no authentication at this port"):
                await served.open(credentials())

    run(test())


def test_server_key_needs_no_user_and_other_keys_do() -> None:
    """The key says which server it is."""

    async def test() -> None:
        async with secured() as served:
            node = await served.open(own_keys=served.node_keys)
            await node.request(METADATA, ASK, timeout_s=PATIENCE_S)
            assert served.requests[0].peer.identity.is_server
            assert str(served.requests[0].peer.identity.principal) == "Server:node-1"
            with pytest.raises(SaslAuthenticationFailedError):
                await served.open(own_keys=new_curve_keys())
            node.close()

    run(test())


def test_the_wrong_server_key_is_a_clear_error_at_once() -> None:
    """A man in the middle, or a replaced key; the next of several keys is tried."""

    async def test() -> None:
        async with secured() as served:
            wrong = new_curve_keys().public
            with pytest.raises(NetworkError, match="another key than the trusted one"):
                await served.open(credentials(), server_keys=lambda _server: (wrong,))
            with pytest.raises(NetworkError, match="no public key of the server is known"):
                await served.open(credentials(), server_keys=lambda _server: ())
            both = await served.open(credentials(), server_keys=lambda _server: (wrong, served.keys.public))
            assert both.server_key == served.keys.public
            both.close()

    run(test())


def test_encryption_on_one_side_only_is_a_clear_error_at_once() -> None:
    """Without a timeout on either side."""

    async def test() -> None:
        async with secured() as served:
            with pytest.raises(NetworkError, match=r"encrypted .*security\.protocol"):
                await served.open(credentials(), server_keys=None)
        async with secured(is_plain=True) as served:
            key = new_curve_keys().public
            with pytest.raises(NetworkError, match="the server does not encrypt"):
                await _open_with_curve(served, key)

    run(test())


async def _open_with_curve(served, key) -> None:  # type: ignore[no-untyped-def]
    from headrace.protocol.transport.dealer_io import Connection
    from headrace.protocol.transport.security import ConnectionSecurity

    security = ConnectionSecurity(server_keys=lambda _server: (key,), credentials=credentials())
    await Connection.open(
        "127.0.0.1", served.router.port, client_id="c", timeout_s=PATIENCE_S, security=security
    )


def test_unauthenticated_peers_reach_no_handler_and_are_closed() -> None:
    """A request before authentication ends the connection; a flood of such peers takes no
    place of a user; one that does nothing is closed in time."""

    async def test() -> None:
        limits = RouterLimits(max_peers=64, handshake_timeout_ms=60_000)
        async with secured(limits, is_plain=True) as served:
            client = await served.open(credentials())
            with raw_peer(served.router.port) as bad:
                await bad.shake_hands()
                bad.ask(METADATA.key, wire.encode(ASK))
                await bad.disconnected()
            idle = [raw_peer(served.router.port) for _ in range(18)]
            peers = [each.__enter__() for each in idle]
            for peer in peers:
                await peer.shake_hands()
            await peers[0].disconnected()  # 16 are the limit: the oldest goes
            await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
            other = await served.open(credentials())
            for each in idle:
                each.__exit__(None, None, None)
            assert [request.peer.client_id for request in served.requests] == ["client"]
            assert "raw" not in served.gone
            client.close()
            other.close()
        async with secured(RouterLimits(handshake_timeout_ms=20), is_plain=True) as served:
            with raw_peer(served.router.port) as idle_peer:
                await idle_peer.shake_hands()
                await idle_peer.disconnected()
            assert served.router.stats.authentications_overdue == 1

    run(test())


def test_messages_out_of_order_and_garbage_end_the_connection() -> None:
    """SaslAuthenticate first, garbage, and again after a failure: refused, and nothing else happens."""

    async def test() -> None:
        async with secured(is_plain=True) as served:
            with raw_peer(served.router.port) as bad:
                await bad.shake_hands()
                bad.ask(SASL_AUTHENTICATE.key, wire.encode(SaslAuthenticateRequest(b"x")))
                assert (await bad.answer())[0].error_code == IllegalSaslStateError.code
                bad.ask(SASL_HANDSHAKE.key, wire.encode(SaslHandshakeRequest("PLAIN")))
                await bad.disconnected()
            with raw_peer(served.router.port) as bad:
                await bad.shake_hands()
                bad.ask(SASL_HANDSHAKE.key, wire.encode(SaslHandshakeRequest(SCRAM)))
                await bad.answer()
                bad.ask(SASL_AUTHENTICATE.key, wire.encode(SaslAuthenticateRequest(b"\xff" * 1000)))
                assert (await bad.answer())[0].error_code == SaslAuthenticationFailedError.code
                await bad.disconnected()
            with raw_peer(served.router.port) as bad:
                await bad.shake_hands()
                bad.ask(SASL_HANDSHAKE.key, b"\xc1")
                assert (await bad.answer())[0].error_code != 0
            assert served.requests == []

    run(test())


def test_a_connection_authenticates_again_in_time_or_ends() -> None:
    """headrace's client does; one that does not is closed; a password that is gone ends the next attempt."""

    async def test() -> None:
        async with secured(max_reauth_ms={SCRAM: 1500}) as served:
            client = await served.open(credentials())
            await until(lambda: served.router.stats.authentications >= 2)
            assert not client.is_closed
            del served.users.passwords["alice"]
            await until(lambda: client.is_closed)
            with pytest.raises(SaslAuthenticationFailedError):
                await served.open(credentials())
        async with secured(
            RouterLimits(handshake_timeout_ms=100), max_reauth_ms={"PLAIN": 50}, is_plain=True
        ) as served:
            with raw_peer(served.router.port) as lazy:
                await lazy.shake_hands()
                lazy.ask(SASL_HANDSHAKE.key, wire.encode(SaslHandshakeRequest("PLAIN")))
                await lazy.answer()
                message = SaslAuthenticateRequest(b"\0alice\0secret")
                lazy.ask(SASL_AUTHENTICATE.key, wire.encode(message))
                _, (body, *_) = await lazy.answer()
                assert wire.response_decoder(SASL_AUTHENTICATE)(body).session_lifetime_ms == 50
                await lazy.disconnected()
            assert served.router.stats.authentications_overdue == 1

    run(test())


def test_a_login_that_cannot_be_made_any_more_is_a_failed_authentication() -> None:
    """As that of a token file that was deleted: the error is one of the connection, and names its cause."""

    def gone(_host: str) -> Login:
        raise ConfigError("sasl.oauthbearer.token.file /token: gone")

    async def test() -> None:
        async with secured(max_reauth_ms={SCRAM: 1500}) as served:
            with pytest.raises(SaslAuthenticationFailedError, match=r"bearer is not authenticated.*: gone"):
                await served.open(Credentials(mechanism=SCRAM, new_login=gone, name="the bearer"))
            logins = iter((credentials().new_login, gone))
            client = await served.open(
                Credentials(mechanism=SCRAM, new_login=lambda host: next(logins)(host), name="the bearer")
            )
            await until(lambda: client.is_closed)

    run(test())


def test_a_connection_cannot_change_its_user() -> None:
    """Bob's password on alice's connection."""

    async def test() -> None:
        async with secured() as served:
            client = await served.open(credentials())
            await client.send(SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"))
            with pytest.raises(SaslAuthenticationFailedError, match="cannot change its user"):
                await client.send(SASL_AUTHENTICATE, SaslAuthenticateRequest(b"\0bob\0other"))
            client.close()

    run(test())


def test_a_delegation_token_authenticates_its_owner_until_it_expires() -> None:
    """With SCRAM: the token's id and HMAC for user name and password."""

    async def test() -> None:
        async with secured() as served:
            ends_ms = int(time.time() * 1000) + 3_600_000
            served.users.tokens = {"id1": ("aG1hYw==", ends_ms), "id2": ("aG1hYw==", 1)}
            client = await served.open(credentials("id1", "aG1hYw==", by_token=True))
            await client.request(METADATA, ASK, timeout_s=PATIENCE_S)
            identity = served.requests[0].peer.identity
            assert (identity.principal, identity.token_id) == (user("alice"), "id1")
            assert identity.expires_ms is not None
            assert identity.expires_ms <= ends_ms
            for name, by_token in (("id1", False), ("id2", True), ("id3", True)):
                with pytest.raises(SaslAuthenticationFailedError):
                    await served.open(credentials(name, "aG1hYw==", by_token=by_token))
            client.close()

    run(test())


def test_a_client_learns_the_keys_of_the_other_servers() -> None:
    """One pinned key is enough: the server behind it names the others."""

    async def test() -> None:
        async with secured() as served:
            learned: list[tuple[str, ...]] = []
            client = await served.open(credentials(), learned=learned.append)
            assert learned == [(f"node-1 {served.node_keys.public.hex()}",)]
            client.close()
            await asyncio.sleep(0)

    run(test())


@pytest.mark.parametrize("is_tried", [False, True])
def test_a_repeated_handshake_gives_neither_time_nor_another_password_to_try(is_tried: bool) -> None:
    """Before the password, and before the answer to a wrong one, which is held back."""

    async def test() -> None:
        async with secured(is_plain=True, failed_delay_ms=lambda: 3_600_000) as served:
            with raw_peer(served.router.port) as bad:
                await bad.shake_hands()
                bad.ask(SASL_HANDSHAKE.key, wire.encode(SaslHandshakeRequest("PLAIN")))
                await bad.answer()
                if is_tried:
                    wrong = SaslAuthenticateRequest(b"\0alice\0wrong")
                    bad.ask(SASL_AUTHENTICATE.key, wire.encode(wrong))
                bad.ask(API_VERSIONS.key, wire.encode(ApiVersionsRequest("raw", "0", "again")))
                await bad.disconnected()
            assert served.router.stats.authentications_failed == is_tried
            assert served.router.stats.handshakes == 1
            assert served.router.connections == 0

    run(test())


@pytest.mark.parametrize("is_unauthenticated", [False, True])
def test_a_message_without_end_ends_an_unauthenticated_connection(is_unauthenticated: bool) -> None:
    """ZeroMQ keeps its parts in memory, and does not limit their number."""

    async def test() -> None:
        long_ms = 3_600_000
        limits = RouterLimits(
            handshake_timeout_ms=long_ms, heartbeat_interval_ms=long_ms, heartbeat_timeout_ms=long_ms
        )
        async with secured(limits, is_plain=True) as served:
            user = await served.open(credentials())
            bad = dealer(served.router.port, hello() if is_unauthenticated else b"")
            await until(lambda: served.router.stats.handshakes == 1 + is_unauthenticated)
            sent = 0
            with contextlib.closing(bad), contextlib.suppress(ConnectionError):
                while True:
                    with contextlib.suppress(BlockingIOError):
                        bad.send(frame(bytes(32 * 1024), MORE))
                        sent += 1
                    assert sent < 10_000, "the connection is still there"
                    await asyncio.sleep(0.001)
            await user.request(METADATA, ASK, timeout_s=PATIENCE_S)
            assert len(served.requests) == 1
            user.close()

    run(test())


@pytest.mark.parametrize("mechanism", ["PLAIN", None])
def test_a_message_without_end_of_a_user_is_cut_off(mechanism: str | None) -> None:
    """Also where no users are. Others are served; the log says why, and it is counted."""

    async def test() -> None:
        limits = RouterLimits(max_request_bytes=MIB)
        async with secured(limits, is_plain=True, **({} if mechanism else {"sasl": None})) as served:
            user = await served.open(credentials() if mechanism else None)
            bad = dealer(served.router.port, hello())
            with contextlib.closing(bad):
                if mechanism:
                    await log_in(bad, served)
                sent = await endless(bad, 10 * (MIB + SLACK_BYTES))
            assert sent > MIB
            assert served.router.stats.messages_unfinished == 1
            assert "without end; socket.request.max.bytes is 1048576" in served.warnings[-1]
            await user.request(METADATA, ASK, timeout_s=PATIENCE_S)
            assert (len(served.requests), served.router.connections) == (1, 1)
            user.close()

    run(test())


async def endless(bad: socket.socket, most_bytes: int) -> int:
    """Send parts of one message until the server closes the connection; the number of bytes by then."""
    part, sent = memoryview(frame(bytes(64 * 1024), MORE)), 0
    left = part
    with contextlib.suppress(ConnectionError):
        while True:
            assert sent < most_bytes, "the connection is still there"
            try:
                count = bad.send(left)
            except BlockingIOError:
                await asyncio.sleep(0.001)
                continue
            sent += count
            left = left[count:] or part
            await asyncio.sleep(0.001)  # the listener looks at its connections four times a second
    return sent


async def log_in(bad: socket.socket, served: Any) -> None:
    """As alice, by hand."""
    await until(lambda: served.router.connections == 2)
    session = list(served.router._peers)[-1].session

    def ask(number: int, api: Any, body: Any) -> bytes:
        return message(wire.encode(RequestHeader(api.key, 0, number, session)), wire.encode(body))

    bad.sendall(ask(2, SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN")))
    bad.sendall(ask(3, SASL_AUTHENTICATE, SaslAuthenticateRequest(b"\0alice\0secret")))
    await until(lambda: served.router.stats.authentications == 2)


def hello() -> bytes:
    """A handshake."""
    header = wire.encode(RequestHeader(API_VERSIONS.key, 0, 1, 0))
    return message(header, wire.encode(ApiVersionsRequest("raw", "0", "raw")))
