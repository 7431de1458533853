"""The users of a local cluster, and what its clients are given."""

from headrace import Security
from headrace.protocol.security.scram import ScramMechanism


def test_passwords_are_not_printed_and_an_admin_is_added() -> None:
    """Unless there is one, or no users at all."""
    security = Security(users={"alice": "secret"})
    assert "secret" not in repr(security)
    assert security.with_admin("made").users == {"admin": "made", "alice": "secret"}
    assert Security(users={"admin": "own"}).with_admin("made").users == {"admin": "own"}
    assert Security().with_admin("made").users == {}
    assert (security.protocol, Security().protocol) == ("SASL_SSL", "SSL")


def test_given_client_config_has_precedence() -> None:
    """The cluster adds what is missing."""
    security = Security(users={"alice": "secret"}).with_admin("made")
    admin = security.client_config("file", {})
    assert admin == {
        "security.protocol": "SASL_SSL",
        "trusted.server.keys.file": "file",
        "sasl.username": "admin",
        "sasl.password": "made",
    }
    for name in ("username", "sasl.username", "sasl_oauthbearer_token_file"):
        assert "sasl.username" not in security.client_config("file", {name: "x"})
    assert "trusted.server.keys.file" not in security.client_config("file", {"server_public_key": "x"})
    assert security.client_config("file", {"security_protocol": "PLAINTEXT"}) == {}
    assert Security().client_config("file", {}) == {
        "security.protocol": "SSL",
        "trusted.server.keys.file": "file",
    }


def test_users_get_a_credential_of_each_mechanism() -> None:
    """Salted here: the password is in no request."""
    salts = iter(bytes([number]) for number in range(9))
    requests = Security(users={"a": "one", "b": "two"}).credentials(lambda: next(salts))
    found = [(each.user, each.mechanism) for request in requests for each in request.upsertions]
    assert found == [(name, kind) for kind in (ScramMechanism(1), ScramMechanism(2)) for name in "ab"]
    assert len({each.salt for request in requests for each in request.upsertions}) == 4
    assert "one" not in str(requests)
