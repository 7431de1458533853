"""Tokens of an OIDC provider: keys, algorithms and signatures."""

import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from headrace.protocol.security.jwks import JwksValidator, KeySet
from headrace.protocol.security.oauthbearer import TokenError
from headrace.protocol.security.token_claims import Expectations

NOW_MS = 1_000_000
CLAIMS = {"iss": "idp", "aud": "kafka", "sub": "alice", "exp": 1_010, "iat": 990}
EC_KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)
SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"


def entry(key: Any, kind: Any, **more: str) -> dict[str, Any]:
    return {**json.loads(kind.to_jwk(key.public_key())), **more}


KEYS = [
    entry(EC_KEY, jwt.algorithms.ECAlgorithm, kid="ec"),
    entry(RSA_KEY, jwt.algorithms.RSAAlgorithm, kid="rsa", alg="RS256"),
    entry(EC_KEY, jwt.algorithms.ECAlgorithm, kid="enc", use="enc"),
    {"kty": "oct", "k": SECRET, "kid": "oct"},
    {"kty": "EC", "crv": "unknown", "kid": "odd"},
    "not a key",
]


def validator(*keys: Any, missing: Any = lambda: None) -> JwksValidator:
    found = KeySet(json.dumps({"keys": keys or KEYS}))
    return JwksValidator(Expectations("idp", ("kafka",), 0), lambda: found, missing)


def token(key: Any, algorithm: str, key_id: str | None, **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(claims, key, algorithm, headers=headers)


def test_signed_tokens() -> None:
    assert validator().validate(token(EC_KEY, "ES256", "ec"), NOW_MS).name == "alice"
    assert validator().validate(token(RSA_KEY, "RS256", "rsa"), NOW_MS).name == "alice"
    assert validator(KEYS[0]).validate(token(EC_KEY, "ES256", None), NOW_MS).name == "alice"


@pytest.mark.parametrize(
    "made",
    [
        token(OTHER_KEY, "ES256", "ec"),
        token(EC_KEY, "ES256", "rsa"),
        token(RSA_KEY, "PS256", "rsa"),
        token(EC_KEY, "ES256", "enc"),
        token(EC_KEY, "ES256", None),
        token(EC_KEY, "ES256", "unknown"),
        token("secret-secret-secret-secret-secr", "HS256", "oct"),
        token("", "none", "ec"),
        token(EC_KEY, "ES256", "ec", iss="other"),
        token(EC_KEY, "ES256", "ec", exp=999),
        token(EC_KEY, "ES256", "ec", iat=None),
        token(EC_KEY, "ES256", "ec")[:-2],
        "a.b.c",
    ],
)
def test_other_tokens_are_refused(made: str) -> None:
    with pytest.raises(TokenError) as raised:
        validator().validate(made, NOW_MS)
    assert made not in str(raised.value)
    assert raised.value.__context__ is None


def test_unknown_key_requests_the_providers_keys() -> None:
    asked: list[int] = []
    with pytest.raises(TokenError, match="does not publish"):
        validator(missing=lambda: asked.append(1)).validate(token(EC_KEY, "ES256", "new"), NOW_MS)
    assert asked == [1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": {}}'])
def test_other_documents_are_no_key_sets(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- of json, or of the key set
        KeySet(text)
    assert len(KeySet('{"keys": []}')) == 0
