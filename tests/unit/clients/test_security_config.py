"""Security keys of clients: which go together, what is implied, and that secrets are not shown."""

from typing import Any

import pytest
from headrace.clients.config import ConnectionConfig
from headrace.clients.pipeline.sink_options import write_options
from headrace.clients.pipeline.source_options import read_options
from headrace.protocol.errors import ConfigError

KEY = "ab" * 32
ALICE = {"username": "alice", "password": "secret"}


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"server_public_key": KEY}, "SSL"),
        ({**ALICE, "server_public_key": KEY}, "SASL_SSL"),
        ({**ALICE, "trusted_server_keys_file": "keys"}, "SASL_SSL"),
        ({"security.protocol": "SSL", "server.public.key": f"{KEY},{KEY}"}, "SSL"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": "t", "server_public_key": KEY},
            "SASL_SSL",
        ),
    ],
)
def test_the_protocol_follows_from_the_keys(given: dict[str, Any], protocol: str) -> None:
    """Unless it is set."""
    assert ConnectionConfig.of(given).protocol == protocol


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (ALICE, "needs server.public.key or trusted.server.keys.file"),
        ({"security_protocol": "SSL"}, "needs server.public.key"),
        (
            {"security_protocol": "SASL_SSL", "server_public_key": KEY},
            "needs sasl.username and sasl.password",
        ),
        ({"username": "alice", "server_public_key": KEY}, "needs sasl.username and sasl.password"),
        ({**ALICE, "security_protocol": "PLAINTEXT"}, "neither users nor encryption"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        ({"sasl_mechanism": "SCRAM-MD5"}, "sasl.mechanism"),
        (
            {"sasl_mechanism": "GSSAPI", "username": "a", "server_public_key": KEY},
            "takes the tickets of kinit",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "server_public_key": KEY},
            "needs sasl.oauthbearer.token or",
        ),
    ],
)
def test_keys_that_do_not_fit_are_errors_before_a_connection(given: dict[str, Any], text: str) -> None:
    """Nothing is left out silently: a password is never sent in clear."""
    with pytest.raises(ConfigError, match=text) as caught:
        ConnectionConfig.of(given)
    assert "secret" not in str(caught.value)


def test_secrets_are_not_printed() -> None:
    """The config of a client may be in a log."""
    config = ConnectionConfig.of({**ALICE, "server_public_key": KEY, "sasl_oauthbearer_token": "tok3n"})
    assert "secret" not in repr(config)
    assert "tok3n" not in repr(config)
    assert "alice" in repr(config)


def test_options_of_pipelines_have_the_keys_of_clients_and_hide_them() -> None:
    """Spark and Ray Data: with Spark's prefix, and options that may end up in a plan or a log."""
    security = {
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "secret",
        "kafka.server.public.key": KEY,
    }
    reading = read_options({"subscribe": "t", **security})
    writing = write_options({"topic": "t", **security})
    for options in (reading, writing):
        assert dict(options.client)["sasl.password"] == "secret"
        assert "secret" not in repr(options)
    with pytest.raises(ConfigError, match=r"needs sasl\.username and sasl\.password"):
        read_options({"subscribe": "t", "kafka.sasl.username": "alice", "kafka.server.public.key": KEY})
