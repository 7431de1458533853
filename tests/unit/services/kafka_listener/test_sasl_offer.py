"""The mechanisms of a listener, made from its configuration."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from headrace.protocol.errors import ConfigError
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge
from headrace.services.kafka_listener.sasl_offer import SaslSetup
from headrace.storage_node.configs.gateway_config import security_of
from headrace.storage_node.configs.node_config import NodeConfig

PREFIX = "listener.name.sasl_plaintext."
HANDLER = PREFIX + "oauthbearer.sasl.server.callback.handler.class"


class NoAccounts:
    def scram_account(self, *_asked: Any) -> None:
        return None


def setup(mechanisms: str, **config: str) -> SaslSetup:
    values = {"log.dirs": "/d", "listeners": "SASL_PLAINTEXT://h:1", "sasl.enabled.mechanisms": mechanisms}
    return SaslSetup(security_of(NodeConfig.of({**values, **config}), "SASL_PLAINTEXT"), NoAccounts())


def test_mechanisms_are_offered_in_their_order_with_their_limits() -> None:
    jaas = {
        PREFIX + "plain.sasl.jaas.config": 'm required user_a="b";',
        PREFIX + "plain.connections.max.reauth.ms": "5",
    }
    offer = setup("SCRAM-SHA-512,PLAIN,SCRAM-SHA-256", **jaas).offer
    assert tuple(offer.mechanisms) == ("SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256")
    assert offer.max_reauth_ms == {"SCRAM-SHA-512": 0, "PLAIN": 5, "SCRAM-SHA-256": 0}
    assert offer.mechanisms["PLAIN"]().step(b"\0a\0b", 0) == Authenticated(b"", user("a"))
    assert offer.mechanisms["PLAIN"]() is not offer.mechanisms["PLAIN"]()


def test_gssapi_is_not_supported() -> None:
    with pytest.raises(ConfigError, match="GSSAPI"):
        setup("GSSAPI")


def test_signed_tokens(tmp_path: Path) -> None:
    """The keys in a file; those of a token that is signed with a newer key are read in the background."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    (tmp_path / "keys").write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    made = setup("OAUTHBEARER", **{"sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys").as_uri()})
    try:
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 60}
        server = made.offer.mechanisms["OAUTHBEARER"]
        for key_id, kind in (("k", Authenticated), ("other", Challenge)):
            token = jwt.encode(claims, key, "ES256", headers={"kid": key_id})
            result = server().step(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), now_s * 1000)
            assert isinstance(result, kind)
    finally:
        made.close()


def test_options_of_the_unsecured_validator() -> None:
    jaas = (
        'm required unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorRequiredScope="a b"'
        ' unsecuredValidatorScopeClaimName="scp" unsecuredValidatorAllowableClockSkewMs="3000";'
    )
    options = {
        HANDLER: "x.OAuthBearerUnsecuredValidatorCallbackHandler",
        PREFIX + "oauthbearer.sasl.jaas.config": jaas,
    }
    server = setup("OAUTHBEARER", **options).offer.mechanisms["OAUTHBEARER"]
    for scopes, kind in (("b a c", Authenticated), ("a", Challenge)):
        parts = ({"alg": "none"}, {"name": "alice", "exp": 10, "scp": scopes})
        token = ".".join(urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
        assert isinstance(server().step(f"n,,\x01auth=Bearer {token}.\x01\x01".encode(), 12_000), kind)
    options[PREFIX + "oauthbearer.sasl.jaas.config"] = jaas.replace("3000", "x")
    with pytest.raises(ConfigError, match="ClockSkew"):
        setup("OAUTHBEARER", **options)
