"""GSSAPI on both planes of one node, against a real MIT KDC: Kafka's Java tools, librdkafka, kafka-python and
headrace's clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import kafka
import kafka_oracle
import pytest
from beside.wire import Wire
from headrace.clients.cluster.security_io import connection_security
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import SaslAuthenticationFailedError, TopicAuthorizationFailedError
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.messages.registry import METADATA
from headrace.protocol.security.gssapi_sasl import GssapiLogin
from headrace.protocol.transport.dealer_io import Connection
from headrace.services.local_io import LocalCluster
from kafka_clients import WAIT_S
from kerberos_kit import REALM, Kdc, kdc, require
from transport_kit import run
from waiting import wait_for

TOPIC = "by-ticket"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
REAUTH_MS = 3_000
SHORT_S = 2  # lifetime of the tickets of the principal short
TOOLS = "org.apache.kafka.tools"
# One component of the realm is a user, carol/admin is carol-admin; no rule is for others with two components.
RULES = r"RULE:[1:$1@$0](.*@HEADRACE\.TEST)s/@.*//,RULE:[2:$1-$2](carol-.*)/L"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC with the service, and users."""
    require()
    with kdc(tmp_path_factory.mktemp("kdc")) as made:
        made.add("alice", "carol", "kafka/localhost", "kafka/127.0.0.1", "mallory/admin", "carol/ADMIN")
        made.add("short", max_life=f"{SHORT_S} seconds")
        yield made


@pytest.fixture(scope="module")
def cluster(realm: Kdc) -> Iterator[LocalCluster]:
    """A node that takes tickets on both planes; sessions of the listener SHORT and of native clients are
    short."""
    keytab = realm.keytab("node", "kafka/localhost", "kafka/127.0.0.1")
    jaas = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/{{}}@{REALM}";'
    config: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://localhost:0,SHORT://localhost:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas.format("localhost"),
        "listener.name.short.gssapi.sasl.jaas.config": jaas.format("localhost"),
        "listener.name.short.gssapi.connections.max.reauth.ms": str(REAUTH_MS),
        "listener.name.native.gssapi.sasl.jaas.config": jaas.format("127.0.0.1"),
        "listener.name.native.gssapi.connections.max.reauth.ms": str(REAUTH_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:alice;User:carol-admin",
    }
    with headrace.local(security=headrace.Security(users={"bob": "bob-secret"}), **config) as made:
        with made.admin() as admin:
            admin.create_topics(headrace.NewTopic(TOPIC)).raise_for_errors()
        yield made


def address(cluster: LocalCluster, listener: str = "SASL_PLAINTEXT") -> str:
    """The address of a listener for Kafka clients."""
    return str(cluster.status()["nodes"][0]["kafka"]["listeners"][listener])


def native(cluster: LocalCluster, **keys: str) -> dict[str, Any]:
    """The config of a native client that takes the tickets of the cache, or those that `keys` name."""
    known = cluster.client_config()
    kept = {key: value for key, value in known.items() if key not in ("sasl.username", "sasl.password")}
    named = {f"sasl.kerberos.{key}": value for key, value in keys.items()}
    return {**kept, "sasl.mechanism": "GSSAPI", **named}


def of_keytab(cluster: LocalCluster, realm: Kdc, principal: str) -> dict[str, Any]:
    """The config of a native client that gets its tickets by a keytab."""
    keytab = realm.keytab(principal.replace("/", "."), principal)
    return native(cluster, principal=f"{principal}@{REALM}", keytab=keytab)


def read(cluster: LocalCluster, config: dict[str, Any], wanted: bytes) -> bytes | None:
    """The value, once it is among the records of the topic."""
    with headrace.Consumer(
        TOPIC, bootstrap=cluster.bootstrap, config={**config, "auto.offset.reset": "earliest"}
    ) as consumer:
        return next((record.value for record in consumer if record.value == wanted), None)


def test_one_ticket_is_one_user_on_both_planes(
    cluster: LocalCluster, realm: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python produces with the tickets of a keytab; a native consumer of the same principal reads."""
    config = of_keytab(cluster, realm, "alice")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{config['sasl.kerberos.keytab']}")
    names: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    producer = kafka.KafkaProducer(
        bootstrap_servers=address(cluster), **names, sasl_kerberos_service_name="kafka"
    )
    try:
        producer.send(TOPIC, b"python").get(WAIT_S)
    finally:
        producer.close()
    assert read(cluster, config, b"python") == b"python"


def test_kafkas_java_tools(cluster: LocalCluster, realm: Kdc, tmp_path: Path) -> None:
    """The console producer and consumer, with the login module of the JDK and sessions of limited length."""
    kafka_oracle.require()
    keytab = realm.keytab("java", "alice")
    jaas = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@{REALM}";'
    login = tmp_path / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={jaas}\n"
    )
    where = ("--bootstrap-server", address(cluster, "SHORT"), "--command-config", str(login))

    def run(tool: str, *arguments: str, given: str = "") -> str:
        jvm = [*kafka_oracle.JVM, f"-Djava.security.krb5.conf={realm.krb5_conf}"]
        command = ["java", *jvm, "-cp", kafka_oracle.classpath(), f"{TOOLS}.{tool}", *where, "--topic", TOPIC]
        done = subprocess.run(
            [*command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=WAIT_S * 4,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("ConsoleProducer", given="java\n")
    assert read(cluster, of_keytab(cluster, realm, "alice"), b"java") == b"java"
    first = ("--from-beginning", "--max-messages", "1")
    assert len(run("consumer.ConsoleConsumer", *first).splitlines()) == 1


def require_kcat() -> None:
    """Skip a test without kcat and GSSAPI of Cyrus SASL, or fail it where HEADRACE_REQUIRE_KAFKA says so."""
    plugins = list(Path("/usr/lib").glob("**/sasl2/libgssapiv2.so*"))
    if shutil.which("kcat") is None or not plugins:
        text = "kcat or its GSSAPI is not installed (Debian: kcat, libsasl2-modules-gssapi-mit)"
        (pytest.fail if os.environ.get("HEADRACE_REQUIRE_KAFKA") else pytest.skip)(text)


def test_librdkafka(cluster: LocalCluster, realm: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """kcat writes and reads with a ticket that its own kinit gets; with a service of another name the KDC has
    no ticket for it."""
    require_kcat()
    keytab = realm.keytab("kcat", "alice")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.folder / 'kcat.cache'}")
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": keytab,
        "sasl.kerberos.principal": f"alice@{REALM}",
    }

    def kcat(*arguments: str, given: str = "", service: str = "kafka") -> subprocess.CompletedProcess[str]:
        keys = {**config, "sasl.kerberos.service.name": service}
        options = [part for key, value in keys.items() for part in ("-X", f"{key}={value}")]
        command = ["kcat", *options, "-b", address(cluster), *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=WAIT_S * 4, check=False
        )

    sent = kcat("-P", "-t", TOPIC, given="kcat\n")
    assert sent.returncode == 0, sent.stderr
    found = kcat("-C", "-t", TOPIC, "-o", "beginning", "-e")
    assert "kcat" in found.stdout.splitlines(), found.stderr
    wrong = kcat("-L", "-m", "10", service="ldap")
    assert wrong.returncode != 0
    assert "not found in Kerberos database" in wrong.stderr


def test_sessions_have_the_length_of_their_listener(cluster: LocalCluster, realm: Kdc) -> None:
    """A listener without connections.max.reauth.ms has no limit, as in Kafka."""
    from headrace.protocol.security.kerberos_io import new_initiator

    keytab = realm.keytab("wire", "alice")

    def lifetime_ms(wire: Wire) -> int:
        wire.ask("sasl_handshake", 1, mechanism="GSSAPI")
        login = GssapiLogin(lambda: new_initiator("kafka", "localhost", f"alice@{REALM}", keytab))
        message = login.first()
        while not login.is_complete:
            answer = wire.ask("sasl_authenticate", 2, auth_bytes=message)
            assert answer["error_code"] == "none", answer
            message = login.step(answer["auth_bytes"])
        return int(answer["session_lifetime"])

    with Wire(address(cluster, "SHORT"), WAIT_S) as wire:
        assert lifetime_ms(wire) == REAUTH_MS
    with Wire(address(cluster), WAIT_S) as wire:
        assert lifetime_ms(wire) == 0


def test_a_native_client_authenticates_again(cluster: LocalCluster, realm: Kdc) -> None:
    """Its connection is open beyond the end of two sessions."""

    async def main() -> None:
        config = ConnectionConfig.of(of_keytab(cluster, realm, "alice"))
        security, _ = connection_security(config)
        host, _, port = cluster.bootstrap.rpartition(":")
        ends_at = time.monotonic() + 2 * REAUTH_MS / 1000
        connection = await Connection.open(
            host, int(port), client_id="c", timeout_s=WAIT_S, security=security, server=cluster.bootstrap
        )
        ask = MetadataRequest(None)
        while time.monotonic() < ends_at:
            assert (await connection.request(METADATA, ask, timeout_s=WAIT_S)).body.nodes
        connection.close()

    run(main())


def test_a_ticket_of_kinit_until_it_expires(
    cluster: LocalCluster, realm: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is missing, and is not retried."""
    cache = realm.kinit("alice", realm.keytab("kinit", "alice", "short"))
    monkeypatch.setenv("KRB5CCNAME", cache)
    with headrace.Admin(cluster.bootstrap, config=native(cluster)) as admin:
        assert TOPIC in {each.name for each in admin.list_topics()}
    cache = realm.kinit("short", realm.keytab("kinit", "alice", "short"))
    monkeypatch.setenv("KRB5CCNAME", cache)

    def refused() -> str:
        try:
            with headrace.Admin(cluster.bootstrap, config=native(cluster)) as admin:
                admin.list_topics()
        except SaslAuthenticationFailedError as error:
            return str(error)
        return ""

    # The KDC and the node take clocks for equal that differ by CLOCK_SKEW_S.
    wait_for(lambda: "expired" in refused(), "a client with an expired ticket is refused", evidence=refused)


def test_rules_make_users_of_principals(cluster: LocalCluster, realm: Kdc) -> None:
    """carol/ADMIN is the super user carol-admin, carol is another user, and no rule applies to
    mallory/admin."""
    with headrace.Producer(cluster.bootstrap, config=of_keytab(cluster, realm, "carol/ADMIN")) as producer:
        producer.send(TOPIC, b"carol").result(WAIT_S)
    with (
        headrace.Producer(cluster.bootstrap, config=of_keytab(cluster, realm, "carol")) as producer,
        pytest.raises(TopicAuthorizationFailedError),
    ):
        producer.send(TOPIC, b"carol").result(WAIT_S)
    with (
        pytest.raises(SaslAuthenticationFailedError, match="GSSAPI"),
        headrace.Admin(cluster.bootstrap, config=of_keytab(cluster, realm, "mallory/admin")) as admin,
    ):
        admin.list_topics()


def test_the_service_of_the_servers_has_one_name(cluster: LocalCluster, realm: Kdc) -> None:
    """A client with another one gets no ticket."""
    config = {**of_keytab(cluster, realm, "alice"), "sasl.kerberos.service.name": "ldap"}
    with (
        pytest.raises(SaslAuthenticationFailedError, match="not found in Kerberos database"),
        headrace.Admin(cluster.bootstrap, config=config) as admin,
    ):
        admin.list_topics()
