"""The claims of a JSON Web Token: parsed, and checked against what a listener expects. Pure.

Source: RFC 7519; Kafka ClaimValidationUtils.java, DefaultJwtValidator (BrokerJwtValidator.java),
OAuthBearerUnsecuredValidatorCallbackHandler.java; KIP-768.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .oauthbearer import BearerToken, TokenError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a listener expects of tokens; an empty issuer or audience is not checked."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    clock_skew_ms: int = 30_000
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    required_scopes: frozenset[str] = frozenset()


def checked(claims: Mapping[str, Any], expected: Expectations, wall_ms: int, /) -> BearerToken:
    """The token of these claims. Errors: TokenError."""
    expires_ms = _time_ms(claims, "exp")
    if wall_ms - expected.clock_skew_ms >= expires_ms:
        raise TokenError("the token has expired")
    if "iat" in claims and _time_ms(claims, "iat") - expected.clock_skew_ms > wall_ms:
        raise TokenError("the token was issued in the future")
    if "nbf" in claims and _time_ms(claims, "nbf") - expected.clock_skew_ms > wall_ms:
        raise TokenError("the token is not valid yet")
    if expected.issuer and claims.get("iss") != expected.issuer:
        raise TokenError("the token has another issuer")
    if expected.audiences and set(expected.audiences).isdisjoint(_texts(claims.get("aud"))):
        raise TokenError("the token is for another audience")
    name = claims.get(expected.sub_claim)
    if not isinstance(name, str) or not name.strip():
        raise TokenError(f"the token has no claim {expected.sub_claim}")
    scopes = frozenset(scope for text in _texts(claims.get(expected.scope_claim)) for scope in text.split())
    if not expected.required_scopes <= scopes:
        raise TokenError("the token lacks a required scope")
    return BearerToken(name, expires_ms, scopes)


class UnsecuredValidator:
    """Accepts unsigned tokens: for tests only, as in Kafka. Implements TokenValidator."""

    def __init__(self, expected: Expectations) -> None:
        self._expected = expected

    def validate(self, token: str, wall_ms: int, /) -> BearerToken:
        """Errors: TokenError, also for a token with a signature."""
        header, claims, signature = parts_of(token)
        if header.get("alg") != "none" or signature:
            raise TokenError("an unsecured token has the algorithm none and no signature")
        return checked(claims, self._expected, wall_ms)


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Header, claims and encoded signature of a token, not verified. Errors: TokenError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError(f"the token has {len(parts)} parts, not 3")
    return _document(parts[0], "header"), _document(parts[1], "claims"), parts[2]


def _document(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise TokenError(f"the {what} of the token are not JSON")
    return document


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**40:
        raise TokenError(f"the claim {name} is not a time")
    return int(value * 1000)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(each for each in value if isinstance(each, str))
    return ()
