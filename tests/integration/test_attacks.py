"""Attacks on a cluster with users and rules, on both planes: passwords that are tried, users and rules that
are removed while clients are connected, and requests without rights."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import headrace
import msgspec
import pytest
from authorization_kit import OWNERS, T, cases_of, codes, id_of, name_of, named, needs_of
from beside.wire import Closed, Wire
from confluent_kafka import KafkaError, KafkaException, Producer
from headrace.clients.admin.security_types import ScramPassword
from headrace.clients.cluster.security_io import connection_security
from headrace.clients.config import ConnectionConfig
from headrace.protocol import errors
from headrace.protocol.errors import SaslAuthenticationFailedError, TopicAuthorizationFailedError
from headrace.protocol.messages.data import ProduceRequest
from headrace.protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.protocol.security.required_operations import Scope
from headrace.protocol.security.scram import NONCE_BYTES, ScramClient, ScramMechanism, nonce_of
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.authorization.access import refusal
from headrace.runtime.repeats import INTERVAL_MS
from headrace.runtime.waiting_io import until
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from headrace.storage_node.edge.served_apis import SERVED_APIS
from kafka_listener_rig import WireClient
from transport_kit import run

TIMEOUT_S = 60.0
PASSWORD, WRONG = "pass-" + secrets.token_hex(8), "wr0ng-" + secrets.token_hex(8)
HANDSHAKE, AUTHENTICATE = 17, 36
SASL_FAILED = "sasl_authentication_failed"
TRIES, TOGETHER = 240, 8
SCRAM = ScramMechanism.SCRAM_SHA_256
SESSION_MS = 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    """One node; users alice and bob, neither of whom has any rights, on both planes."""
    config: dict[str, Any] = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f'm required user_alice="{PASSWORD}";',
        "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.native.plain.sasl.jaas.config": f'm required user_alice="{PASSWORD}";',
        "connection.failed.authentication.delay.ms": 0,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
    }
    users = headrace.Security(users={"alice": PASSWORD, "bob": PASSWORD})
    with headrace.local(nodes=1, security=users, **config) as made:
        yield made


def rule(user: str, operation: AclOperation, topic: str) -> AclBinding:
    """The user may do this with the topic."""
    return AclBinding(
        ResourceType.TOPIC, topic, PatternType.LITERAL, f"User:{user}", "*", operation, AclPermission.ALLOW
    )


def new_topic(cluster: headrace.LocalCluster, name: str, user: str, partitions: int = 1) -> None:
    """A topic that the user may write, describe and read."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic(name, partitions=partitions)).raise_for_errors()
        operations = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
        admin.create_acls(*(rule(user, each, name) for each in operations)).raise_for_errors()
    with cluster.admin(username=user, password=PASSWORD) as admin:
        assert until(lambda: name in {topic.name for topic in admin.list_topics()}, TIMEOUT_S)


def failures(cluster: headrace.LocalCluster) -> dict[str, int]:
    """Failed authentications so far, by plane."""
    (node,) = cluster.status()["nodes"]
    return {
        "kafka": node["kafka"]["failed_authentications"],
        "native": node["native"]["authentications_failed"],
    }


# --- passwords -----------------------------------------------------------------------------------------


async def try_at_kafka(cluster: headrace.LocalCluster) -> None:
    client = await WireClient.to(int(cluster.kafka_bootstrap.rpartition(":")[2]))
    client.send(HANDSHAKE, 1, mechanism="PLAIN")
    client.send(AUTHENTICATE, 2, auth_bytes=f"\0alice\0{WRONG}".encode())
    await client.answer(HANDSHAKE, 1)
    assert (await client.answer(AUTHENTICATE, 2))[1].error_code == 58
    assert await client.ended() == b""
    client.close()


async def try_natively(cluster: headrace.LocalCluster) -> None:
    with pytest.raises(SaslAuthenticationFailedError):
        await opened(cluster, "alice", WRONG)


async def opened(cluster: headrace.LocalCluster, user: str, password: str) -> Connection:
    config = {**cluster.client_config(user, password), "sasl.mechanism": "PLAIN"}
    security, _ = connection_security(ConnectionConfig.of(config))
    host, port = cluster.bootstrap.split(":")
    return await Connection.open(host, int(port), client_id="raw", timeout_s=TIMEOUT_S, security=security)


@pytest.mark.parametrize(
    ("plane", "attempt", "tries"), [("kafka", try_at_kafka, TRIES), ("native", try_natively, TRIES // 4)]
)
def test_a_burst_of_wrong_passwords(
    cluster: headrace.LocalCluster,
    caplog: pytest.LogCaptureFixture,
    plane: str,
    attempt: Callable[[headrace.LocalCluster], Any],
    tries: int,
) -> None:
    """Each is counted, the log has one line per interval and no password, and a producer is served."""
    topic = f"burst-{plane}"
    new_topic(cluster, topic, "bob")
    before, began_s, served = failures(cluster), time.monotonic(), 0
    with ThreadPoolExecutor(1) as pool, cluster.producer(username="bob", password=PASSWORD) as producer:
        producer.send(topic, b"before").result(TIMEOUT_S)
        burst = pool.submit(run, attack(cluster, attempt, tries))
        while not burst.done():
            producer.send(topic, b"meanwhile").result(TIMEOUT_S)
            served += 1
        burst.result()
    assert served
    assert failures(cluster) == {**before, plane: before[plane] + tries}
    lines = [each.getMessage() for each in caplog.records if "authentication of" in each.getMessage()]
    assert len(lines) <= 1 + (time.monotonic() - began_s) * 1000 / INTERVAL_MS
    assert WRONG not in caplog.text
    assert PASSWORD not in caplog.text


async def attack(
    cluster: headrace.LocalCluster, attempt: Callable[[headrace.LocalCluster], Any], tries: int
) -> None:
    """So many attempts, some at the same time."""
    for start in range(0, tries, TOGETHER):
        await asyncio.gather(*(attempt(cluster) for _ in range(start, min(start + TOGETHER, tries))))


# --- users and rules that are removed ------------------------------------------------------------------


def log_in(wire: Wire, user: str) -> Any:
    """The last answer of an authentication by SCRAM."""
    client = ScramClient(SCRAM, user, PASSWORD, nonce_of(secrets.token_bytes(NONCE_BYTES)))
    wire.ask("sasl_handshake", 1, mechanism=SCRAM.sasl_name)
    first = wire.ask("sasl_authenticate", 2, auth_bytes=client.first())
    if first["error_code"] != "none":
        return first
    return wire.ask("sasl_authenticate", 2, auth_bytes=client.step(first["auth_bytes"]))


def can_log_in(cluster: headrace.LocalCluster, user: str) -> bool:
    with Wire(cluster.kafka_bootstrap) as wire:
        error = log_in(wire, user)["error_code"]
    assert error in ("none", SASL_FAILED)
    return error == "none"


def test_the_connection_of_a_removed_user_ends_with_its_session(cluster: headrace.LocalCluster) -> None:
    """It cannot authenticate again; a new connection is refused at once."""
    with cluster.admin() as admin, Wire(cluster.kafka_bootstrap) as wire:
        admin.set_passwords({"carol": ScramPassword(PASSWORD, SCRAM)}).raise_for_errors()
        assert until(lambda: can_log_in(cluster, "carol"), TIMEOUT_S)
        assert log_in(wire, "carol")["session_lifetime"] == SESSION_MS
        wire.ask("metadata", 9, topics=[])
        admin.delete_passwords({"carol": SCRAM}).raise_for_errors()
        assert until(lambda: not can_log_in(cluster, "carol"), TIMEOUT_S)

        def is_closed() -> bool:
            try:
                wire.ask("metadata", 9, topics=[])
            except Closed:
                return True
            return False

        assert until(is_closed, TIMEOUT_S)


def test_a_rule_is_removed_under_running_producers(cluster: headrace.LocalCluster) -> None:
    """On both planes: what was confirmed is stored, and nothing of what was refused."""
    new_topic(cluster, "revoked", "bob", partitions=2)
    config = {
        "bootstrap.servers": cluster.kafka_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": PASSWORD,
        "log_level": 0,
    }
    kafka_producer = Producer(config)

    def send_to_kafka(value: bytes) -> bool:
        reports: list[Any] = []
        try:
            kafka_producer.produce(
                "revoked", value, partition=1, on_delivery=lambda error, _: reports.append(error)
            )
        except KafkaException as error:  # it has metadata without the topic
            reports.append(error.args[0])
        assert kafka_producer.flush(TIMEOUT_S) == 0
        if reports[0] is not None:
            assert reports[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return reports[0] is None

    with cluster.admin() as admin, cluster.producer(username="bob", password=PASSWORD) as producer:

        def send_natively(value: bytes) -> bool:
            try:
                producer.send("revoked", value, partition=0).result(TIMEOUT_S)
            except TopicAuthorizationFailedError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            sent = [pool.submit(send_until_refused, each) for each in (send_natively, send_to_kafka)]
            for each in (send_natively, send_to_kafka):
                assert each(b"allowed")
            admin.delete_acls(AclFilter(name="revoked")).raise_for_errors()
            counts = [each.result() + 1 for each in sent]
        assert not send_natively(b"refused")
        assert not send_to_kafka(b"refused")
    with cluster.consumer(group=None, auto_offset_reset="earliest") as consumer:
        parts = [headrace.TopicPartition("revoked", number) for number in (0, 1)]
        assert [consumer.end_offsets(parts)[each] for each in parts] == counts


def send_until_refused(send: Callable[[bytes], bool]) -> int:
    """The number of records that were confirmed."""
    count = 0
    while send(b"allowed"):
        count += 1
    return count


# --- rights --------------------------------------------------------------------------------------------


def test_no_native_request_does_anything_without_rights(cluster: headrace.LocalCluster) -> None:
    """Every api of the node's native listener, by a user without any rule, as the table of required
    operations says: refused as a whole, or each resource, or nothing is shown."""
    with cluster.admin() as admin:
        names = [name_of(T, owner) for owner in OWNERS]
        admin.create_topics(*map(headrace.NewTopic, names)).raise_for_errors()
        ids = {topic.name: topic.topic_id for topic in admin.list_topics()}
    real = {id_of(owner): ids[name_of(T, owner)] for owner in OWNERS}

    async def test() -> None:
        connection = await opened(cluster, "alice", PASSWORD)
        for api in SERVED_APIS:
            for case in cases_of(api):
                body, frames = with_ids(case.body, real), []
                if isinstance(body, ProduceRequest):  # with an answer
                    body, frames = msgspec.structs.replace(body, acks=1), [b"x"] * len(body.partitions)
                try:
                    answer = (await connection.request(api, body, frames, timeout_s=TIMEOUT_S)).body
                    error = None
                except errors.KafkaError as raised:
                    answer, error = None, raised
                assert_refused(case._replace(body=body), answer, error)
        connection.close()

    run(test())


def assert_refused(case: Any, answer: Any, error: errors.KafkaError | None) -> None:
    """As the requirements of the request say."""
    needs = [need for need in needs_of(case) if need.scope in (Scope.REQUEST, Scope.EACH)]
    wanted = {refusal(need.right.resource_type).code for need in needs}
    if error is not None:
        assert error.code in wanted, (case.label, error)
        return
    if wanted:
        assert codes(answer) & wanted, (case.label, answer)
    secret = {name_of(T, owner) for owner in OWNERS} - set(named(case.body))
    assert not secret & set(named(answer)), (case.label, answer)


def with_ids(value: Any, real: dict[bytes, bytes]) -> Any:
    """The same message about topics that exist."""
    if isinstance(value, bytes):
        return real.get(value, value)
    if isinstance(value, msgspec.Struct):
        fields = {name: with_ids(getattr(value, name), real) for name in value.__struct_fields__}
        return type(value)(**fields)
    if isinstance(value, tuple):
        inner = [with_ids(each, real) for each in value]
        return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
    return value
