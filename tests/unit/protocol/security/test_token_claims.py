"""Claims of tokens, each of them missing, wrong, too early and too late."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from headrace.protocol.security.oauthbearer import BearerToken, TokenError
from headrace.protocol.security.token_claims import Expectations, UnsecuredValidator, checked, parts_of

NOW_MS = 1_000_000
EXPECTED = Expectations("https://idp", ("kafka", "other"), 1_000, required_scopes=frozenset(("write",)))
GOOD = {"iss": "https://idp", "aud": "kafka", "sub": "alice", "exp": 1_010, "iat": 990, "scope": "read write"}


def test_valid_claims() -> None:
    token = BearerToken("alice", 1_010_000, frozenset(("read", "write")))
    assert checked(GOOD, EXPECTED, NOW_MS) == token
    assert checked({**GOOD, "aud": ["a", "kafka"], "scope": ["read", "write"]}, EXPECTED, NOW_MS) == token


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exp": 999}, "expired"),
        ({"exp": "1010"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": None}, "exp is not a time"),
        ({"iat": 1_002}, "future"),
        ({"nbf": 1_002}, "not valid yet"),
        ({"iss": "https://other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "else"}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"sub": ""}, "sub"),
        ({"sub": 7}, "sub"),
        ({"scope": "read"}, "scope"),
    ],
)
def test_invalid_claims(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenError, match=words):
        checked({**GOOD, **changes}, EXPECTED, NOW_MS)


@pytest.mark.parametrize("changes", [{"exp": 999.5}, {"iat": 1_001}, {"nbf": 1_001}])
def test_clock_skew_is_tolerated(changes: dict[str, Any]) -> None:
    assert checked({**GOOD, **changes}, EXPECTED, NOW_MS).name == "alice"


def test_claims_by_other_names() -> None:
    expected = Expectations(scope_claim="scp", sub_claim="email")
    claims = {"exp": 2_000, "email": "a@b", "scp": ["x"]}
    assert checked(claims, expected, NOW_MS) == BearerToken("a@b", 2_000_000, frozenset(("x",)))


def test_unsecured_tokens() -> None:
    """Neither signed tokens nor others than tokens."""
    validator = UnsecuredValidator(EXPECTED)
    assert validator.validate(f"{encoded({'alg': 'none'})}.{encoded(GOOD)}.", NOW_MS).name == "alice"
    for token in (
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}.abc",
        f"{encoded({'alg': 'HS256'})}.{encoded(GOOD)}.",
        f"{encoded({})}.{encoded(GOOD)}.",
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}",
        f"{encoded({'alg': 'none'})}.{encoded([1])}.",
        "=.=.",
        "a.b.",
        ".." + "x" * 100,
        f"{urlsafe_b64encode(b'[' * 100_000).decode()}..",
    ):
        with pytest.raises(TokenError):
            validator.validate(token, NOW_MS)


def test_parts_of_a_token() -> None:
    assert parts_of(f"{encoded({'a': 1})}.{encoded({'b': 2})}.sig") == ({"a": 1}, {"b": 2}, "sig")


def encoded(document: Any) -> str:
    return urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")
