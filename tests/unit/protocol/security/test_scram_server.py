"""SCRAM as a SaslServer: users and tokens, replayed messages and changed nonces."""

from base64 import b64encode

import pytest
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge, Refused
from headrace.protocol.security.scram import (
    ScramAccount,
    ScramClient,
    ScramMechanism,
    credential_from_password,
)
from headrace.protocol.security.scram_server import ScramSaslServer

SHA_512 = ScramMechanism.SCRAM_SHA_512
CREDENTIAL = credential_from_password(SHA_512, "secret", b"salt" * 6)


class Accounts:
    def scram_account(self, mechanism: ScramMechanism, name: str, by_token: bool) -> ScramAccount | None:
        assert mechanism is SHA_512
        if by_token:
            return ScramAccount(CREDENTIAL, user("owner"), 1_000, name) if name == "token" else None
        return ScramAccount(CREDENTIAL, user(name)) if name == "alice" else None


def server(nonce: str = "server") -> ScramSaslServer:
    return ScramSaslServer(SHA_512, Accounts(), nonce)


def exchange(name: str, password: str = "secret", *, by_token: bool = False, wall_ms: int = 0) -> object:
    client, other = ScramClient(SHA_512, name, password, "client", by_token=by_token), server()
    first = other.step(client.first(), wall_ms)
    if not isinstance(first, Challenge):
        return first
    last = other.step(client.step(first.data), wall_ms)
    if isinstance(last, Authenticated):
        client.step(last.data)
        assert client.is_complete
        return last._replace(data=b"")
    return last


def test_users_and_tokens() -> None:
    assert exchange("alice") == Authenticated(b"", user("alice"))
    assert exchange("token", by_token=True, wall_ms=999) == Authenticated(b"", user("owner"), 1_000, "token")


@pytest.mark.parametrize(
    ("name", "password", "by_token"),
    [
        ("alice", "wrong", False),
        ("bob", "secret", False),
        ("token", "secret", False),
        ("token", "x", True),
        ("token", "secret", True),
    ],
)
def test_wrong_password_unknown_user_and_expired_token(name: str, password: str, by_token: bool) -> None:
    """The client learns the same in each case."""
    result = exchange(name, password, by_token=by_token, wall_ms=1_000)
    assert isinstance(result, Refused)
    assert result.text.endswith("invalid credentials with SASL mechanism SCRAM-SHA-512")


def test_replayed_and_changed_messages_are_refused() -> None:
    client, other = ScramClient(SHA_512, "alice", "secret", "client"), server("one")
    challenge = other.step(client.first(), 0)
    assert isinstance(challenge, Challenge)
    final = client.step(challenge.data)
    assert isinstance(other.step(final, 0), Authenticated)
    assert isinstance(other.step(final, 0), Refused)
    for nonce, message in (("two", final), ("one", final.replace(b"r=client", b"r=Client"))):
        again = server(nonce)
        again.step(ScramClient(SHA_512, "alice", "secret", "client").first(), 0)
        assert isinstance(again.step(message, 0), Refused)


def test_passwords_cost_the_client_and_not_the_server() -> None:
    """The server has the keys that are derived from the password: with so many iterations, an exchange would
    take it a quarter of an hour."""
    dear = CREDENTIAL._replace(iterations=999_999_999)

    class Dear:
        def scram_account(self, _mechanism: ScramMechanism, name: str, _by_token: bool) -> ScramAccount:
            return ScramAccount(dear, user(name))

    trying = ScramSaslServer(SHA_512, Dear(), "server")
    first = trying.step(b"n,,n=alice,r=client", 0)
    assert isinstance(first, Challenge)
    assert b"i=999999999" in first.data
    proof = b64encode(bytes(64))
    assert isinstance(trying.step(b"c=biws,r=clientserver,p=" + proof, 0), Refused)
