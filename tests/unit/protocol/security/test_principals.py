"""Principals as text."""

from __future__ import annotations

import pytest
from headrace.protocol.security.principals import Principal, parse_principal, user


@pytest.mark.parametrize("text", ["User:alice", "User:CN=kafka,O=a:b", "Group:x", "User:*"])
def test_round_trip(text: str) -> None:
    """Names may contain colons."""
    assert str(parse_principal(text)) == text


def test_user_is_a_principal_of_kafkas_type() -> None:
    assert user("alice") == Principal("User", "alice")


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="type:name"):
        parse_principal(text)
