"""Credentials of requests, and the clients that they become."""

import base64

import pytest
from headrace.clients.config import ConnectionConfig
from headrace.services.web.credentials import ANONYMOUS, Credentials, credentials_of, method_of
from headrace.services.web.problems import Problem

SERVER = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "web",
    "sasl.password": "secret",
    "server.public.key": "0" * 64,
}


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_user_of_the_request_replaces_that_of_the_server() -> None:
    """A request never acts with the server's own password."""
    config = credentials_of(basic("ann:pass:word"), "basic").client_config(SERVER)
    assert (config["sasl.username"], config["sasl.password"]) == ("ann", "pass:word")
    assert config["server.public.key"] == "0" * 64
    token = credentials_of("Bearer abc", "bearer").client_config(SERVER)
    assert token["sasl.oauthbearer.token"] == "abc"
    assert not {"sasl.username", "sasl.password"} & token.keys()


def test_password_is_not_printed() -> None:
    """Credentials are keys of the pool, and appear in tracebacks."""
    assert "word" not in repr(Credentials("ann", "word")) + repr(Credentials(token="word"))


@pytest.mark.parametrize(
    "header",
    [None, "", "Basic", "Basic !!!", basic("ann"), basic("ann:"), basic(":x"), "Bearer x", "Basic /w=="],
)
def test_missing_or_malformed_credentials(header: str | None) -> None:
    """The response asks for credentials, as browsers and curl understand it."""
    with pytest.raises(Problem) as refused:
        credentials_of(header, "basic")
    assert refused.value.status == 401
    assert refused.value.headers["www-authenticate"].startswith("Basic ")


def test_cluster_without_users_needs_no_credentials() -> None:
    """The default depends on the protocol of the clients."""
    assert credentials_of(basic("ann:x"), "none") == ANONYMOUS
    assert method_of(ConnectionConfig()) == "none"
    assert method_of(ConnectionConfig.of(SERVER)) == "basic"
    token = Credentials(token="abc").client_config(SERVER)
    assert method_of(ConnectionConfig.of(token)) == "bearer"
