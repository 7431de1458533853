"""SASL OAUTHBEARER: the messages of RFC 7628 around a validator."""

import pytest
from headrace.protocol.security.oauthbearer import (
    MAX_MESSAGE_BYTES,
    BearerToken,
    OAuthBearerServer,
    TokenError,
)
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge, Refused


class Validator:
    def validate(self, token: str, _wall_ms: int, /) -> BearerToken:
        if token != "good":
            raise TokenError("not good")
        return BearerToken("alice", 99)


def server() -> OAuthBearerServer:
    return OAuthBearerServer(Validator())


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=alice,\x01auth=bearer good\x01traceId=1 2\x01\x01",
    ],
)
def test_valid_token(message: bytes) -> None:
    assert server().step(message, 0) == Authenticated(b"", user("alice"), 99)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer bad\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01other=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01\x01",
        b"",
        b"\xff" * 20,
        b"n,,\x01auth=Bearer " + b"a" * MAX_MESSAGE_BYTES + b"\x01\x01",
    ],
)
def test_invalid_token_gets_a_document_and_then_the_refusal(message: bytes) -> None:
    exchange = server()
    assert exchange.step(message, 0) == Challenge(b'{"status":"invalid_token"}')
    assert isinstance(exchange.step(b"\x01", 0), Refused)
    assert isinstance(exchange.step(b"n,,\x01auth=Bearer good\x01\x01", 0), Refused)


def test_another_authorization_id_is_refused() -> None:
    assert isinstance(server().step(b"n,a=bob,\x01auth=Bearer good\x01\x01", 0), Refused)
