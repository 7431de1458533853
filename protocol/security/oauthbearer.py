"""SASL OAUTHBEARER: a bearer token, which a validator checks. Pure.

Source: RFC 7628; Kafka OAuthBearerSaslServer.java, OAuthBearerClientInitialResponse.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .principals import user
from .sasl import DIFFERENT_AUTHORIZATION_ID, Authenticated, Challenge, Refused

if TYPE_CHECKING:
    from .sasl import SaslResult

MAX_MESSAGE_BYTES = 128 * 1024
_SEPARATOR = "\x01"
_INITIAL = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^\x00=,]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_.+~/A-Za-z0-9]+=*)")
_REFUSAL = '{"status":"invalid_token"}'


class TokenError(ValueError):
    """A token is not valid; the message has no part of the token."""


class BearerToken(NamedTuple):
    """The claims of a valid token that the listener uses."""

    name: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()


class TokenValidator(Protocol):
    """Checks tokens."""

    def validate(self, token: str, wall_ms: int, /) -> BearerToken:
        """The token's claims. Errors: TokenError."""


class OAuthBearerServer:
    """Implements SaslServer. After an invalid token the client gets a JSON error, which it acknowledges."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._reason = ""  # of the rejection, once the JSON error is sent

    def step(self, response: bytes, wall_ms: int, /) -> SaslResult:
        """The token, or the acknowledgement of a rejection."""
        if self._reason:
            return Refused(_REFUSAL, self._reason)
        try:
            authorization_id, token = _initial(response)
            bearer = self._validator.validate(token, wall_ms)
        except TokenError as error:
            self._reason = str(error)
            return Challenge(_REFUSAL.encode())
        if authorization_id not in ("", bearer.name):
            reason = "the authorization id is not the principal of the token"
            return Refused(DIFFERENT_AUTHORIZATION_ID, reason)
        return Authenticated(b"", user(bearer.name), bearer.expires_ms)


def _initial(response: bytes) -> tuple[str, str]:
    """Authorization id and token of the first message. Errors: TokenError."""
    if len(response) > MAX_MESSAGE_BYTES:
        raise TokenError(f"the message has {len(response)} bytes")
    found = _INITIAL.fullmatch(response.decode("latin-1"))
    if found is None:
        raise TokenError("the message is not an OAUTHBEARER client response")
    pairs = [pair.partition("=") for pair in found["pairs"].split(_SEPARATOR) if pair]
    values = {name.lower(): value for name, _, value in pairs}
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None:
        raise TokenError("the message has no bearer token")
    authorization_id = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return authorization_id, bearer["token"]
