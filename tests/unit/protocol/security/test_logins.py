"""A client's side of the mechanisms, against the servers' side."""

import pytest
from headrace.protocol.errors import ConfigError, SaslAuthenticationFailedError
from headrace.protocol.security.logins import BearerLogin, PlainLogin, ScramLogin
from headrace.protocol.security.plain import PlainServer
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge, Refused
from headrace.protocol.security.scram import ScramMechanism
from headrace.protocol.security.scram_server import ScramSaslServer
from security_kit import Users


def test_plain() -> None:
    """One message, and the server's answer completes it."""
    login = PlainLogin("alice", "secret")
    result = PlainServer({"alice": "secret"}).step(login.first(), 0)
    assert result == Authenticated(b"", user("alice"))
    assert not login.is_complete
    assert login.step(b"") == b""
    assert login.is_complete
    with pytest.raises(ConfigError, match="NUL"):
        PlainLogin("a\0b", "secret")


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_scram_proves_both_sides(mechanism: ScramMechanism) -> None:
    """The client is complete only after the server's proof; one without the credential is found out."""
    server = ScramSaslServer(mechanism, Users(), "server")
    login = ScramLogin(mechanism, "alice", "secret", "client", by_token=False)
    first = server.step(login.first(), 0)
    assert isinstance(first, Challenge)
    last = server.step(login.step(first.data), 0)
    assert isinstance(last, Authenticated)
    assert not login.is_complete
    assert login.step(last.data) == b""
    assert login.is_complete
    cheated = ScramLogin(mechanism, "alice", "secret", "client", by_token=False)
    cheated.first()
    with pytest.raises(SaslAuthenticationFailedError):
        cheated.step(b"r=other,s=c2FsdA==,i=4096")


def test_a_wrong_scram_password_is_refused_by_the_server() -> None:
    """With a reason for the log alone."""
    server = ScramSaslServer(ScramMechanism.SCRAM_SHA_256, Users(), "server")
    login = ScramLogin(ScramMechanism.SCRAM_SHA_256, "alice", "wrong", "client", by_token=False)
    first = server.step(login.first(), 0)
    assert isinstance(first, Challenge)
    assert isinstance(server.step(login.step(first.data), 0), Refused)


def test_a_bearer_token() -> None:
    """An empty answer accepts it; any other refuses it, which the client acknowledges."""
    login = BearerLogin("a.b.c")
    assert login.first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert login.step(b"") == b""
    assert login.is_complete
    refused = BearerLogin("a.b.c")
    assert refused.step(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslAuthenticationFailedError, match="refused the token"):
        refused.step(b"")
    for token in ("", "two words", "ü", "a\x01b"):
        with pytest.raises(ConfigError):
            BearerLogin(token)
