"""Tokens that an OIDC provider has signed, verified with its published keys (JWKS). Pure.

Only signatures by public keys: a token with the algorithm none, or with an HMAC, is always rejected. Needs
PyJWT. Source: RFC 7517, RFC 8725; Kafka BrokerJwtValidator.java; KIP-768.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import jwt

from .oauthbearer import BearerToken, TokenError
from .token_claims import Expectations, checked, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jwt.types import Options

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_KEYS = 256  # Bound: keys of one provider
_PUBLIC_TYPES = ("RSA", "EC", "OKP")


class KeySet:
    """The public keys of a provider."""

    def __init__(self, text: str) -> None:
        """A JWKS document; keys of other types or for other uses are skipped. Errors: ValueError."""
        document = json.loads(text)
        entries = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            raise ValueError("the document is not a JSON Web Key Set")  # noqa: TRY004 -- as json.loads
        self._keys: dict[str, jwt.PyJWK] = {}
        for entry in entries[:MAX_KEYS]:
            if _is_usable(entry):
                try:
                    self._keys[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
                except jwt.PyJWTError:
                    continue  # a curve or an algorithm that is not supported

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of this id; without an id the only key."""
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)


def _is_usable(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("kty") in _PUBLIC_TYPES
        and entry.get("use", "sig") == "sig"
        and entry.get("alg", ALGORITHMS[0]) in ALGORITHMS
    )


class JwksValidator:
    """Fulfils TokenValidator."""

    def __init__(
        self, expected: Expectations, keys: Callable[[], KeySet], missing: Callable[[], None]
    ) -> None:
        """`keys` returns the latest key set; `missing` is called for a token with an unknown key id: the
        provider may have published a new key."""
        self._expected, self._keys, self._missing = expected, keys, missing

    def validate(self, token: str, wall_ms: int, /) -> BearerToken:
        """Errors: TokenError."""
        header, _, _ = parts_of(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenError("the token is not signed with a public key algorithm")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenError("the key id of the token is not text")
        key = self._keys().find(key_id)
        if key is None:
            self._missing()
            raise TokenError("the token is signed with a key that the provider does not publish")
        claims = _verified(token, key, algorithm)
        if "iat" not in claims:
            raise TokenError("the token has no claim iat")
        return checked(claims, self._expected, wall_ms)


# The claims are checked against the time argument, not PyJWT's clock.
_SIGNATURE_ALONE: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


def _verified(token: str, key: jwt.PyJWK, algorithm: str) -> Mapping[str, Any]:
    """The claims, once the signature is verified. Errors: TokenError."""
    claims: Mapping[str, Any] | None = None
    with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError):
        claims = jwt.decode(token, key, algorithms=[algorithm], options=_SIGNATURE_ALONE)
    if claims is None:  # not in an except block: the traceback must not have the token
        raise TokenError("the signature of the token is not valid")
    return claims
