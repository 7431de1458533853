"""A listener with its certificate in PKCS12, and a user of it who authenticates by a token (OAUTHBEARER)."""

import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import headrace
import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from headrace.services.certificates import CertificateAuthority
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

signer = ec.generate_private_key(ec.SECP256R1())


class Tokens(AbstractTokenProvider):
    def token(self):
        now_s = int(time.time())
        claims = {"iss": "idp", "aud": "kafka", "sub": "alice", "iat": now_s, "exp": now_s + 600}
        return jwt.encode(claims, signer, "ES256", headers={"kid": "k"})


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def pkcs12_of(issued):
    found = x509.load_pem_x509_certificate(issued.chain.encode())
    key = load_pem_private_key(issued.key.encode(), None)
    return pkcs12.serialize_key_and_certificates(b"n", key, found, None, BestAvailableEncryption(b"store"))


with tempfile.TemporaryDirectory() as name:
    folder, now = Path(name), datetime.now(UTC)
    authority = CertificateAuthority.create("headrace", now)
    public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(signer.public_key())), "kid": "k"}
    store = pkcs12_of(authority.issue("n", ["localhost"], now))
    keys = written(folder, "jwks.json", json.dumps({"keys": [public]}))
    config = {
        "listeners": "SASL_SSL://localhost:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": written(folder, "n.p12", store),
        "ssl.keystore.password": "store",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": Path(keys).as_uri(),
        "sasl.oauthbearer.expected.issuer": "idp",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    with headrace.local(**config) as cluster:
        cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
        producer = KafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap,
            security_protocol="SASL_SSL",
            ssl_cafile=written(folder, "ca.pem", authority.to_pem().chain),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        assert producer.send("t", b"by a token").get(60).offset == 0
        producer.close()
