"""Kinds of peers, exchanges and their end, without sockets."""

from typing import Any

import pytest
from headrace.protocol.errors import ClusterAuthorizationFailedError, IllegalSaslStateError
from headrace.protocol.messages.registry import METADATA, SASL_HANDSHAKE
from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from headrace.protocol.security.principals import user
from headrace.protocol.security.server_keys import CONTROLLER, CurveKeys, ServerName, TrustedKeys
from headrace.protocol.transport.authentication import (
    MAX_SASL_BYTES,
    ListenerAuthentication,
    Refusal,
    overdue,
)
from headrace.protocol.transport.peers import Peer, PeerTable
from headrace.protocol.transport.security import RouterSecurity
from security_kit import Users
from transport_kit import APIS

KEY = bytes([7]) * 32
ALICE = SaslAuthenticateRequest(b"\0alice\0secret")


def listener(**facts: Any) -> ListenerAuthentication:
    """Authentication of users and one trusted controller."""
    keys = TrustedKeys([(ServerName(CONTROLLER, 1), KEY)])
    security = {"sasl": Users().factories, "keys": CurveKeys(KEY, KEY), "trusted": lambda: keys, **facts}
    return ListenerAuthentication(RouterSecurity(**security), APIS)


def peer(key: bytes = b"k") -> Peer:
    """A connection after its handshake."""
    return Peer(key, 1, address="10.0.0.1:99")


def test_every_request_is_allowed_without_security() -> None:
    """And there is nothing to authenticate with."""
    one = peer()
    authentication = ListenerAuthentication(None, APIS)
    authentication.classify(one, "", 0)
    assert one.served is authentication.all
    assert SASL_HANDSHAKE.key not in authentication.all
    assert (authentication.mechanisms(one), authentication.server_keys(), one.is_unauthenticated) == (
        (),
        (),
        False,
    )


def test_an_unauthenticated_peer_becomes_a_user() -> None:
    """It may only authenticate before, and afterwards everything but change its user."""
    one, authentication = peer(), listener()
    authentication.classify(one, "", 0)
    assert METADATA.key not in one.served
    assert "PLAIN" in authentication.mechanisms(one)
    authentication.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    assert authentication.step(one, ALICE, 5, 1000).session_lifetime_ms == 0
    assert (one.identity.principal, one.identity.host) == (user("alice"), "10.0.0.1")
    assert METADATA.key in one.served
    assert (one.exchange, one.expires_ms) == (None, None)
    authentication.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    with pytest.raises(Refusal, match="cannot change its user"):
        authentication.step(one, SaslAuthenticateRequest(b"\0bob\0other"), 5, 1000)


def test_server_keys_identify_servers_and_others_are_unauthenticated() -> None:
    """A trusted key is a server; on a controller's port all others are refused."""
    one, authentication = peer(), listener(is_for_servers_only=True)
    authentication.classify(one, KEY.hex(), 0)
    assert one.identity.is_server
    with pytest.raises(Refusal, match="by its key"):
        authentication.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    for key in ("", (b"x" * 32).hex()):
        with pytest.raises(ClusterAuthorizationFailedError):
            authentication.classify(peer(), key, 0)
    assert authentication.server_keys() == (f"controller-1 {KEY.hex()}",)
    assert listener(keys=None).server_keys() == ()


def test_an_exchange_in_the_wrong_order_or_too_large() -> None:
    """Refused with the reason of the protocol."""
    one, authentication = peer(), listener()
    authentication.classify(one, "", 0)
    with pytest.raises(Refusal) as caught:
        authentication.step(one, ALICE, 0, 0)
    assert isinstance(caught.value.answer, IllegalSaslStateError)
    authentication.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    with pytest.raises(Refusal, match="at most"):
        authentication.step(one, SaslAuthenticateRequest(b"x" * (MAX_SASL_BYTES + 1)), 0, 0)
    with pytest.raises(Refusal, match="not enabled"):
        authentication.begin(one, SaslHandshakeRequest("GSSAPI"), 0)


def test_expired_exchanges_and_sessions_end_connections() -> None:
    """An exchange that lasts too long; the limit of a session, or the end of a token if that is earlier."""
    one, authentication = peer(), listener(max_reauth_ms={"PLAIN": 500})
    authentication.classify(one, "", 100)
    assert not overdue(one, 200, 100)
    assert "did not authenticate within 100 ms" in overdue(one, 201, 100)
    authentication.begin(one, SaslHandshakeRequest("PLAIN"), 200)
    assert authentication.step(one, ALICE, 1000, 70_000).session_lifetime_ms == 500
    assert (one.expires_ms, one.identity.expires_ms) == (1500, 70_500)
    assert not overdue(one, 1499, 100)
    assert "again in time" in overdue(one, 1500, 100)


def test_unauthenticated_peers_have_a_separate_connection_limit() -> None:
    """A full table takes them, and refuses one that has authenticated; the oldest is surplus."""
    table = PeerTable(1)
    table.admit(Peer(b"user", 1))
    peers = [Peer(b"%d" % number, 2, is_unauthenticated=True) for number in range(17)]
    for each in peers[:16]:
        table.admit(each)
    assert table.surplus_unauthenticated() is None
    table.admit(peers[16])
    assert table.surplus_unauthenticated() is peers[0]
    with pytest.raises(Exception, match="limit of 1 connections"):
        table.promote(peers[1])
    table.limit = 2
    table.promote(peers[1])
    assert not peers[1].is_unauthenticated
    table.forget(peers[0])
    assert table.surplus_unauthenticated() is None
