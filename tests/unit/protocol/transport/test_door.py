"""Kinds of peers, exchanges and their end, without sockets."""

from typing import Any

import pytest
from headrace.protocol.errors import ClusterAuthorizationFailedError, IllegalSaslStateError
from headrace.protocol.messages.registry import METADATA, SASL_HANDSHAKE
from headrace.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from headrace.protocol.security.principals import user
from headrace.protocol.security.server_keys import CONTROLLER, CurveKeys, ServerName, TrustedKeys
from headrace.protocol.transport.door import MAX_SASL_BYTES, Door, Refusal, overdue
from headrace.protocol.transport.peers import Peer, PeerTable
from headrace.protocol.transport.security import RouterSecurity
from security_kit import Users
from transport_kit import APIS

KEY = bytes([7]) * 32
ALICE = SaslAuthenticateRequest(b"\0alice\0secret")


def door(**facts: Any) -> Door:
    """A door with users and one trusted controller."""
    keys = TrustedKeys([(ServerName(CONTROLLER, 1), KEY)])
    security = {"sasl": Users().factories, "keys": CurveKeys(KEY, KEY), "trusted": lambda: keys, **facts}
    return Door(RouterSecurity(**security), APIS)


def peer(key: bytes = b"k") -> Peer:
    """A connection after its handshake."""
    return Peer(key, 1, address="10.0.0.1:99")


def test_every_request_is_allowed_without_security() -> None:
    """And there is nothing to authenticate with."""
    one = peer()
    kinds = Door(None, APIS)
    kinds.greet(one, "", 0)
    assert one.served is kinds.all
    assert SASL_HANDSHAKE.key not in kinds.all
    assert (kinds.mechanisms(one), kinds.server_keys(), one.is_guest) == ((), (), False)


def test_a_guest_becomes_a_user() -> None:
    """It may only authenticate before, and afterwards everything but change its user."""
    one, kinds = peer(), door()
    kinds.greet(one, "", 0)
    assert METADATA.key not in one.served
    assert "PLAIN" in kinds.mechanisms(one)
    kinds.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    assert kinds.step(one, ALICE, 5, 1000).session_lifetime_ms == 0
    assert (one.identity.principal, one.identity.host) == (user("alice"), "10.0.0.1")
    assert METADATA.key in one.served
    assert (one.exchange, one.expires_ms) == (None, None)
    kinds.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    with pytest.raises(Refusal, match="cannot change its user"):
        kinds.step(one, SaslAuthenticateRequest(b"\0bob\0other"), 5, 1000)


def test_server_keys_identify_servers_and_others_are_guests() -> None:
    """A trusted key is a server; on a controller's port all others are refused."""
    one, kinds = peer(), door(is_for_servers_only=True)
    kinds.greet(one, KEY.hex(), 0)
    assert one.identity.is_server
    with pytest.raises(Refusal, match="by its key"):
        kinds.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    for key in ("", (b"x" * 32).hex()):
        with pytest.raises(ClusterAuthorizationFailedError):
            kinds.greet(peer(), key, 0)
    assert kinds.server_keys() == (f"controller-1 {KEY.hex()}",)
    assert door(keys=None).server_keys() == ()


def test_an_exchange_in_the_wrong_order_or_too_large() -> None:
    """Refused with the reason of the protocol."""
    one, kinds = peer(), door()
    kinds.greet(one, "", 0)
    with pytest.raises(Refusal) as caught:
        kinds.step(one, ALICE, 0, 0)
    assert isinstance(caught.value.answer, IllegalSaslStateError)
    kinds.begin(one, SaslHandshakeRequest("PLAIN"), 0)
    with pytest.raises(Refusal, match="at most"):
        kinds.step(one, SaslAuthenticateRequest(b"x" * (MAX_SASL_BYTES + 1)), 0, 0)
    with pytest.raises(Refusal, match="not enabled"):
        kinds.begin(one, SaslHandshakeRequest("GSSAPI"), 0)


def test_expired_exchanges_and_sessions_end_connections() -> None:
    """An exchange that lasts too long; the limit of a session, or the end of a token if that is earlier."""
    one, kinds = peer(), door(max_reauth_ms={"PLAIN": 500})
    kinds.greet(one, "", 100)
    assert not overdue(one, 200, 100)
    assert "did not authenticate within 100 ms" in overdue(one, 201, 100)
    kinds.begin(one, SaslHandshakeRequest("PLAIN"), 200)
    assert kinds.step(one, ALICE, 1000, 70_000).session_lifetime_ms == 500
    assert (one.expires_ms, one.identity.expires_ms) == (1500, 70_500)
    assert not overdue(one, 1499, 100)
    assert "again in time" in overdue(one, 1500, 100)


def test_guests_have_a_separate_connection_limit() -> None:
    """A full table takes guests, and refuses one that has authenticated; the oldest guest is surplus."""
    table = PeerTable(1)
    table.admit(Peer(b"user", 1))
    guests = [Peer(b"%d" % number, 2, is_guest=True) for number in range(17)]
    for each in guests[:16]:
        table.admit(each)
    assert table.surplus_guest() is None
    table.admit(guests[16])
    assert table.surplus_guest() is guests[0]
    with pytest.raises(Exception, match="limit of 1 connections"):
        table.promote(guests[1])
    table.limit = 2
    table.promote(guests[1])
    assert not guests[1].is_guest
    table.forget(guests[0])
    assert table.surplus_guest() is None
