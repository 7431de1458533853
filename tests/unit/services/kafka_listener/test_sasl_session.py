"""The states of a SASL session: what may be sent when, session lifetimes and re-authentication."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge, Refused
from headrace.services.kafka_listener.sasl_session import MIN_REAUTH_MS, SaslOffer, SaslSession

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
WALL_MS = 1_000_000


class Script:
    """A mechanism whose results the client chooses."""

    def step(self, response: bytes, _wall_ms: int, /) -> Any:
        if response == b"more":
            return Challenge(b"go on")
        if response == b"no":
            return Refused("refused", "a reason")
        name, _, expires_ms = response.decode().partition(" ")
        return Authenticated(b"done", user(name), int(expires_ms) if expires_ms else None, "t")


class Owner:
    def __init__(self) -> None:
        self.identities: list[Identity] = []
        self.failures: list[tuple[str, str]] = []

    def authenticated(self, identity: Identity) -> None:
        self.identities.append(identity)

    def authentication_failed(self, mechanism: str, reason: str) -> None:
        self.failures.append((mechanism, reason))


def session(max_reauth_ms: int = 0) -> tuple[SaslSession, Owner]:
    owner = Owner()
    offer = SaslOffer({"A": Script, "B": Script}, {"A": max_reauth_ms, "B": 0})
    return SaslSession(offer, Identity(host="h"), owner), owner


def test_only_requests_of_authentication_before_it_is_complete() -> None:
    made, owner = session()
    assert made.mechanisms == ("A", "B")
    assert [bool(made.fault(api, 0)) for api in (VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA)] == [
        False,
        False,
        True,
        True,
    ]
    assert made.handshake("A", 1, 0) is None
    assert [bool(made.fault(api, 0)) for api in (VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA)] == [
        True,
        True,
        False,
        True,
    ]
    assert made.authenticate(b"more", 0, WALL_MS) == (b"go on", 0, None)
    assert not made.is_open(0)
    assert made.authenticate(b"alice", 0, WALL_MS) == (b"done", 0, None)
    assert owner.identities == [Identity(user("alice"), "h", "A", None, "t")]
    assert made.is_open(10**12)
    assert made.fault(METADATA, 10**12) == ""


def test_refused_credentials_end_the_session() -> None:
    made, owner = session()
    made.handshake("A", 1, 0)
    answer = made.authenticate(b"no", 0, WALL_MS)
    assert isinstance(answer.error, SaslAuthenticationFailedError)
    assert owner.failures == [("A", "a reason")]
    assert "had failed" in made.fault(METADATA, 0)
    assert "had failed" in made.fault(HANDSHAKE, 0)


def test_unknown_mechanism_ends_the_session() -> None:
    made, owner = session()
    assert isinstance(made.handshake("X" * 1000, 1, 0), UnsupportedSaslMechanismError)
    assert len(owner.failures[0][0]) == 100
    assert made.fault(HANDSHAKE, 0)


def test_without_reauthentication_a_second_handshake_changes_nothing() -> None:
    made, owner = session()
    made.handshake("A", 1, 0)
    made.authenticate(b"alice", 0, WALL_MS)
    assert isinstance(made.handshake("A", 1, 10_000), IllegalSaslStateError)
    assert isinstance(made.authenticate(b"bob", 0, WALL_MS).error, IllegalSaslStateError)
    assert made.is_open(10_000)
    assert len(owner.identities) == 1
    assert owner.failures == []


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_ms", "lifetime_ms"),
    [
        (0, "", 0),
        (5_000, "", 5_000),
        (5_000, WALL_MS + 700, 700),
        (500, WALL_MS + 700, 500),
        (0, WALL_MS + 700, 0),
    ],
)
def test_session_lifetime(max_reauth_ms: int, expires_ms: Any, lifetime_ms: int) -> None:
    """The shorter of the limit and the credential's; as in Kafka a limit of 0 is none at all."""
    made, owner = session(max_reauth_ms)
    made.handshake("A", 1, 0)
    assert made.authenticate(f"alice {expires_ms}".strip().encode(), 10, WALL_MS).lifetime_ms == lifetime_ms
    assert owner.identities[0].expires_ms == (WALL_MS + lifetime_ms if lifetime_ms else None)
    if lifetime_ms:
        assert made.fault(METADATA, 10 + lifetime_ms - 1) == ""
        assert "expired" in made.fault(METADATA, 10 + lifetime_ms)
        assert made.fault(HANDSHAKE, 10 + lifetime_ms) == ""


def test_expired_credential_is_refused_where_sessions_are_limited() -> None:
    made, _ = session(5_000)
    made.handshake("A", 1, 0)
    assert made.authenticate(f"alice {WALL_MS}".encode(), 0, WALL_MS).error is not None


def test_reauthentication_renews_the_session() -> None:
    made, owner = session(5_000)
    made.handshake("A", 1, 0)
    made.authenticate(b"alice", 0, WALL_MS)
    assert isinstance(made.handshake("A", 1, MIN_REAUTH_MS - 1), IllegalSaslStateError)
    assert made.handshake("A", 1, 4_000) is None
    assert "before" in made.fault(METADATA, 4_000)
    made.authenticate(b"alice", 4_000, WALL_MS + 4_000)
    assert made.is_open(8_999)
    assert not made.is_open(9_000)
    assert [each.principal.name for each in owner.identities] == ["alice", "alice"]


@pytest.mark.parametrize(("mechanism", "response"), [("A", b"bob"), ("B", b"alice")])
def test_reauthentication_changes_neither_principal_nor_mechanism(mechanism: str, response: bytes) -> None:
    made, owner = session(5_000)
    made.handshake("A", 1, 0)
    made.authenticate(b"alice", 0, WALL_MS)
    if made.handshake(mechanism, 1, 4_000) is None:
        assert made.authenticate(response, 4_000, WALL_MS).error is not None
    assert len(owner.failures) == len(owner.identities) == 1
    assert not made.is_open(4_000)


def test_version_0_announces_tokens_without_requests() -> None:
    made, owner = session()
    made.handshake("A", 0, 0)
    assert made.takes_tokens
    made.authenticate(b"more", 0, WALL_MS)
    assert made.takes_tokens
    made.close()
    assert isinstance(made.authenticate(b"alice", 0, WALL_MS).error, IllegalSaslStateError)
    assert owner.identities == []
