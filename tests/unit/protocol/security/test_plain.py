"""SASL PLAIN: one message, and everything that it may not be."""

import pytest
from headrace.protocol.security.jaas import single_module
from headrace.protocol.security.plain import MAX_MESSAGE_BYTES, PlainServer, plain_users
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Refused

MODULE = 'x.PlainLoginModule required username="n" password="p" user_alice="a=1" user_bob="b";'
USERS = plain_users(single_module(MODULE, "PlainLoginModule"))


def test_users_are_the_options_with_kafkas_prefix() -> None:
    assert USERS == {"alice": "a=1", "bob": "b"}


@pytest.mark.parametrize("message", [b"\0alice\0a=1", b"alice\0alice\0a=1"])
def test_right_password(message: bytes) -> None:
    assert PlainServer(USERS).step(message, 0) == Authenticated(b"", user("alice"))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0alice\0wrong", "invalid user name or password"),
        (b"\0mallory\0a=1", "invalid user name or password"),
        (b"bob\0alice\0a=1", "authorization id"),
        (b"\0\0a=1", "user name is empty"),
        (b"\0alice\0", "password is empty"),
        (b"\0nobody\0", "password is empty"),
        (b"", "1 parts"),
        (b"\0alice\0a=1\0", "4 parts"),
        (b"\0alice\0\xff", "UTF-8"),
        (b"\0" * (MAX_MESSAGE_BYTES + 1), "bytes"),
    ],
)
def test_rejections_do_not_contain_the_password(message: bytes, reason: str) -> None:
    """Neither text has the password."""
    result = PlainServer(USERS).step(message, 0)
    assert isinstance(result, Refused)
    assert reason in result.reason
    assert "a=1" not in result.text + result.reason
