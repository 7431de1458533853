"""Unmodified Kafka clients on listeners with TLS and SASL, several security protocols on one node."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import headrace
import jwt
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.structs import TopicPartition as AioPartition
from certificates import Authority
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import ec
from headrace.services.local_io import LocalCluster
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaTokenProvider
from kafka_clients import WAIT_S, new_topic
from waiting import wait_for

USER, PASSWORD = "alice", "alice-secret"
PLAIN_USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
LISTENERS = "SSL://127.0.0.1:0,MTLS://127.0.0.1:0,OPEN_SASL://127.0.0.1:0,SASL_SSL://127.0.0.1:0"
TOPIC = "secured"
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def token(**changes: Any) -> str:
    """A token of the provider whose keys the listener reads."""
    now_s = int(time.time())
    claims = {"iss": "idp", "aud": "kafka", "sub": USER, "iat": now_s, "exp": now_s + 600, **changes}
    return jwt.encode(claims, EC_KEY, "ES256", headers={"kid": "k"})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node with four secured listeners; files of a client with a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    node, client = authority.issue("node"), authority.issue(USER)
    (folder / "node.p12").write_bytes(node.pkcs12("store"))
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key()))
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    config = {
        "listeners": LISTENERS,
        "listener.security.protocol.map": "MTLS:SSL,OPEN_SASL:SASL_PLAINTEXT",
        "ssl.keystore.key": node.key_pem("key-secret"),
        "ssl.key.password": "key-secret",
        "ssl.keystore.certificate.chain": node.chain_pem,
        "listener.name.mtls.ssl.keystore.type": "PKCS12",
        "listener.name.mtls.ssl.keystore.location": str(folder / "node.p12"),
        "listener.name.mtls.ssl.keystore.password": "store",
        "listener.name.mtls.ssl.keystore.key": "",
        "listener.name.mtls.ssl.truststore.location": authority.written(folder),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.open_sasl.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": "3000",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": "idp",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    chain, key = client.written(folder, "client")
    files = SimpleNamespace(ca=str(folder / "ca.pem"), chain=chain, key=key, folder=folder)
    with headrace.local(nodes=1, **config) as cluster:
        ports = cluster.status()["nodes"][0]["kafka"]["listeners"]
        made = Secured(cluster, ports, files, authority)
        made.add_scram_users()
        new_topic(cluster, TOPIC, 1)
        yield made


class Secured:
    """The cluster, and what clients need for each listener."""

    def __init__(
        self, cluster: LocalCluster, ports: dict[str, str], files: SimpleNamespace, authority: Authority
    ) -> None:
        self.cluster, self.ports, self.files, self.authority = cluster, ports, files, authority

    def status(self) -> dict[str, Any]:
        """Of the listener."""
        found: dict[str, Any] = self.cluster.status()["nodes"][0]["kafka"]
        return found

    def add_scram_users(self) -> None:
        """With Kafka's api, as kafka-configs.sh does."""
        admin = AdminClient(self.confluent("OPEN_SASL", "PLAIN"))
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            made = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([made]).values():
                future.result(WAIT_S)

    def confluent(self, listener: str, mechanism: str = "", **more: Any) -> dict[str, Any]:
        """Configs of librdkafka."""
        config = {"bootstrap.servers": self.ports[listener], "security.protocol": protocol(listener)}
        if protocol(listener).endswith("SSL"):
            config["ssl.ca.location"] = self.files.ca
        if listener == "MTLS":
            config |= {
                "ssl.certificate.location": self.files.chain,
                "ssl.key.location": self.files.key,
            }
        if mechanism:
            config |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        if mechanism == "OAUTHBEARER":
            config["oauth_cb"] = lambda _: (token(), time.time() + 600)
        return config | more

    def python(self, listener: str, mechanism: str = "") -> dict[str, Any]:
        """Arguments of kafka-python and aiokafka."""
        config: dict[str, Any] = {
            "bootstrap_servers": self.ports[listener],
            "security_protocol": protocol(listener),
        }
        if protocol(listener).endswith("SSL"):
            config["ssl_context"] = context = ssl.create_default_context(cafile=self.files.ca)
            if listener == "MTLS":
                context.load_cert_chain(self.files.chain, self.files.key)
        if mechanism:
            config |= {"sasl_mechanism": mechanism}
            config |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        return config


def protocol(listener: str) -> str:
    """Its security protocol."""
    return {"MTLS": "SSL", "OPEN_SASL": "SASL_PLAINTEXT"}.get(listener, listener)


class KafkaTokens(KafkaTokenProvider):  # type: ignore[misc]
    """Of kafka-python."""

    def __init__(self, **_config: Any) -> None:
        super().__init__()

    def token(self) -> str:
        return token()


class AioTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Of aiokafka."""

    async def token(self) -> str:
        return token()


KINDS = [
    ("SSL", ""),
    ("MTLS", ""),
    ("OPEN_SASL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "SCRAM-SHA-256"),
    ("SASL_SSL", "OAUTHBEARER"),
]


@pytest.mark.parametrize(("listener", "mechanism"), KINDS)
def test_librdkafka(secured: Secured, listener: str, mechanism: str) -> None:
    """Responses larger than what is sealed at once, in both directions."""
    values = [bytes([number]) * 700_000 for number in range(3)]
    config = secured.confluent(listener, mechanism)
    producer = Producer(config)
    reports: list[Any] = []
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, message: reports.append((error, message)))
    assert producer.flush(WAIT_S) == 0
    assert [error for error, _ in reports] == [None] * 3
    consumer = Consumer({**config, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, reports[0][1].offset())])
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < 3 and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(3, 0.5)]
    consumer.close()
    assert found[:3] == values


@pytest.mark.parametrize(("listener", "mechanism"), KINDS)
def test_kafka_python(secured: Secured, listener: str, mechanism: str) -> None:
    config = secured.python(listener, mechanism)
    if mechanism == "OAUTHBEARER":
        config["sasl_oauth_token_provider"] = KafkaTokens()
    producer = kafka.KafkaProducer(**config)
    sent = producer.send(TOPIC, b"python").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(group_id=None, **config)
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    assert next(consumer).value == b"python"
    consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), KINDS)
def test_aiokafka(secured: Secured, listener: str, mechanism: str) -> None:
    async def run() -> None:
        config = secured.python(listener, mechanism)
        if mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = AioTokens()
        async with AIOKafkaProducer(**config) as producer:
            sent = await producer.send_and_wait(TOPIC, b"aio")
        async with AIOKafkaConsumer(**config) as consumer:
            partition = AioPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            assert (await consumer.getone()).value == b"aio"

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_session_is_authenticated_again(secured: Secured) -> None:
    """KIP-368: librdkafka keeps its connection beyond the session's end."""
    admin = AdminClient(secured.confluent("SASL_SSL", "SCRAM-SHA-512"))
    failed = secured.status()["failed_authentications"]
    end = time.monotonic() + 4  # longer than connections.max.reauth.ms
    while time.monotonic() < end:
        assert TOPIC in admin.list_topics(timeout=WAIT_S).topics
    status = secured.status()
    assert status["failed_authentications"] == failed


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("PLAIN", {"sasl.password": "wrong"}),
        ("SCRAM-SHA-512", {"sasl.password": "wrong"}),
        ("SCRAM-SHA-512", {"sasl.username": "absent"}),
        ("OAUTHBEARER", {"oauth_cb": lambda _: (token(iss="other"), time.time() + 600)}),
        ("OAUTHBEARER", {"oauth_cb": lambda _: (token(exp=int(time.time()) - 60), time.time() + 600)}),
        ("OAUTHBEARER", {"oauth_cb": lambda _: (jwt.encode({}, "", "none"), time.time() + 600)}),
    ],
)
def test_wrong_credentials_are_refused(secured: Secured, mechanism: str, more: dict[str, Any]) -> None:
    """The client learns it at its first connection, and no sooner than after the delay."""
    failed = secured.status()["failed_authentications"]
    errors: list[Any] = []
    config = secured.confluent("SASL_SSL", mechanism, error_cb=errors.append, **more)
    admin = AdminClient(config)
    wait_for(lambda: (admin.poll(0.1), any("uthentication" in str(e) for e in errors))[1], "an error")
    assert secured.status()["failed_authentications"] > failed
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.1)


@pytest.mark.parametrize("from_days", [-5, 2])
def test_certificates_out_of_their_time_are_refused(secured: Secured, from_days: int) -> None:
    """Of clients: expired, and not valid yet."""
    client = secured.authority.issue(USER, from_days=from_days)
    assert_refused(secured, *client.written(secured.files.folder, f"c{from_days}"))


def test_certificates_of_another_authority_are_refused(secured: Secured) -> None:
    assert_refused(secured, *Authority().issue(USER).written(secured.files.folder, "other"))


def assert_refused(secured: Secured, chain: str, key: str) -> None:
    """The MTLS listener refuses a client with this certificate."""
    context = ssl.create_default_context(cafile=secured.files.ca)
    context.load_cert_chain(chain, key)
    failed = secured.status()["failed_handshakes"]
    with pytest.raises((OSError, EOFError)):
        _first_byte(secured.ports["MTLS"], context)
    assert secured.status()["failed_handshakes"] == failed + 1


def _first_byte(address: str, context: ssl.SSLContext) -> None:
    """The server verifies after the client's handshake is complete: its alert comes with the first read."""
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), WAIT_S) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped,
    ):
        wrapped.send(b"x")
        if not wrapped.recv(1):
            raise EOFError


def test_wrong_host_name_is_noticed_by_the_client(secured: Secured) -> None:
    """And the node serves the next client."""
    host, port = secured.ports["SSL"].split(":")
    context = ssl.create_default_context(cafile=secured.files.ca)
    with (
        pytest.raises(ssl.SSLCertVerificationError, match="not valid for"),
        socket.create_connection((host, int(port)), WAIT_S) as raw,
    ):
        context.wrap_socket(raw, server_hostname="other.example")
    assert TOPIC in AdminClient(secured.confluent("SSL")).list_topics(timeout=WAIT_S).topics
