"""Tokens: the HMAC of Kafka, expiry, and the principals that may renew."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode

from headrace.protocol.security.tokens import DelegationToken, token_hmac, token_password

TOKEN = DelegationToken("id", "User:o", "User:q", ("User:r",), 1, 10, 5)


def test_the_password_is_the_hmac_sha512_of_the_id() -> None:
    expected = hmac.new(b"key", b"id", hashlib.sha512).digest()
    assert token_hmac("key", "id") == expected
    assert b64decode(token_password("key", "id")) == expected


def test_a_token_is_valid_until_the_earlier_time_inclusive() -> None:
    assert not TOKEN.is_expired(5)
    assert TOKEN.is_expired(6)
    assert TOKEN._replace(expiry_ms=20).is_expired(11)


def test_owner_requester_and_renewers() -> None:
    assert [TOKEN.is_of(f"User:{name}") for name in "oqrx"] == [True, True, True, False]
