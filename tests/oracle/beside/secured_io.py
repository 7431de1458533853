"""Both systems with an authorizer, and listeners that ask for users: keys, certificates, tokens, settings.

The keys of the settings and the files are the same for both systems, but for what only a Kafka broker needs:
the users of its own connections.
"""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from certificates import Authority
from cryptography.hazmat.primitives.asymmetric import ec
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER

ADMIN, ALICE, BOB = "admin", "alice", "bob"  # bob has no rights
PASSWORD = {ADMIN: "admin-secret", ALICE: "alice-secret", BOB: "bob-secret"}
OPEN, SEALED, MUTUAL = "SASL_PLAINTEXT", "SASL_SSL", "SSL"  # listeners, named after their protocols
PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
ISSUER, AUDIENCE, KEY_ID = "oracle", "kafka", "k"
_COMMON = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_COMMON}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_COMMON}.scram.ScramLoginModule"
BEARER_MODULE = f"{_COMMON}.oauthbearer.OAuthBearerLoginModule"
_UNSECURED = f"{_COMMON}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_VALIDATED = f"{_COMMON}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_LIFETIME_S = 3_600
TOKEN_SECRET = "the key of the tokens' HMACs"


@dataclass(frozen=True)
class Files:
    """A CA, the key and certificates of the nodes and of each user, and the key set of a token provider."""

    folder: Path
    signer: ec.EllipticCurvePrivateKey

    @classmethod
    def made(cls, folder: Path) -> "Files":
        """New ones in `folder`."""
        folder.mkdir()
        authority = Authority()
        authority.written(folder)
        for name in ("node", ALICE, BOB):
            issued = authority.issue(name)
            issued.written(folder, name)
            (folder / f"{name}.store.pem").write_text(issued.key_pem() + issued.chain_pem)
        Authority("another CA").issue(ALICE).written(folder, "untrusted")
        signer = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(signer.public_key()))
        (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": KEY_ID, "use": "sig"}]}))
        return cls(folder, signer)

    def path(self, name: str) -> str:
        """`ca.pem`; of a user NAME.pem, NAME.key, and both in NAME.store.pem."""
        return str(self.folder / name)

    @property
    def jwks_url(self) -> str:
        """The key set as a file address."""
        return (self.folder / "jwks.json").as_uri()

    def signed_token(self, user: str, **changes: Any) -> str:
        """Of the provider, for SEALED. `changes`: claims."""
        now_s = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now_s, "exp": now_s + _LIFETIME_S}
        return jwt.encode({**claims, **changes}, self.signer, "ES256", headers={"kid": KEY_ID})


def unsigned_token(user: str, **changes: Any) -> str:
    """Without a signature, for OPEN: any user by name. `changes`: claims."""
    now_s = int(time.time())
    claims = {"sub": user, "iat": now_s, "exp": now_s + _LIFETIME_S, **changes}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)]
    return "".join(part.decode().rstrip("=") + "." for part in parts)


def _plain_users(own: str = "") -> str:
    """The users of PLAIN. `own`: the user of the broker's connections."""
    mine = f'username="{own}" password="{PASSWORD[own]}" ' if own else ""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORD.items())
    return f"{PLAIN_MODULE} required {mine}{users};"


def settings(files: Files, advertised: Mapping[str, int]) -> dict[str, str]:
    """Of both systems. `advertised`: the port that clients connect to, by listener."""
    found = {
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in advertised.items()),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "delegation.token.secret.key": TOKEN_SECRET,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.path("node.store.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.path("ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        f"{_prefix(OPEN, OAUTHBEARER)}.sasl.server.callback.handler.class": _UNSECURED,
        f"{_prefix(SEALED, OAUTHBEARER)}.sasl.server.callback.handler.class": _VALIDATED,
        "listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url": files.jwks_url,
        "listener.name.sasl_ssl.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.sasl_ssl.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    for name in (OPEN, SEALED):
        found[f"{_prefix(name, PLAIN)}.sasl.jaas.config"] = _plain_users()
    return found


def kafka_settings(listeners: Mapping[str, int], controller: int) -> dict[str, str]:
    """Only of Kafka. `listeners`: ports that the broker binds; `controller`: the one of its controller."""
    ports = {**listeners, "CONTROLLER": controller}
    found = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{OPEN if name == 'CONTROLLER' else name}" for name in ports
        ),
        "inter.broker.listener.name": OPEN,
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "sasl.mechanism.controller.protocol": PLAIN,
        "listener.name.controller.sasl.enabled.mechanisms": PLAIN,
        f"{_prefix('CONTROLLER', PLAIN)}.sasl.jaas.config": _plain_users(ADMIN),
        f"{_prefix(OPEN, OAUTHBEARER)}.sasl.jaas.config":
            f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="{ADMIN}";',
        f"{_prefix(SEALED, OAUTHBEARER)}.sasl.jaas.config": f"{BEARER_MODULE} required;",
        f"{_prefix(OPEN, PLAIN)}.sasl.jaas.config": _plain_users(ADMIN),
    }  # fmt: skip
    for name in (OPEN, SEALED):
        for mechanism in (SCRAM_256, SCRAM_512):
            found[f"{_prefix(name, mechanism)}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    return found


def kafka_jvm(files: Files) -> tuple[str, ...]:
    """Kafka reads key sets of listed addresses only (KAFKA-17627)."""
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={files.jwks_url}",)


def _prefix(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}"
