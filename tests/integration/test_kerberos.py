"""GSSAPI on both planes of one node, against a real MIT KDC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import headrace
import kafka
import pytest
from headrace.protocol.errors import SaslAuthenticationFailedError
from headrace.services.local_io import LocalCluster
from kafka_clients import WAIT_S
from kerberos_kit import REALM, Kdc, kdc, require

TOPIC = "by-ticket"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC with the service, the user alice, and mallory, to whose principal no rule applies."""
    require()
    with kdc(tmp_path_factory.mktemp("kdc")) as made:
        made.add("alice", "kafka/localhost", "kafka/127.0.0.1", "mallory/admin")
        yield made


@pytest.fixture(scope="module")
def cluster(realm: Kdc) -> Iterator[LocalCluster]:
    """A node that takes tickets on both planes."""
    keytab = realm.keytab("node", "kafka/localhost", "kafka/127.0.0.1")
    rules = "RULE:[1:$1@$0](.*@HEADRACE\\.TEST)s/@.*//"
    jaas = '{} required useKeyTab=true storeKey=true keyTab="{}" principal="kafka/{}@{}";'
    config: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "advertised.listeners": "SASL_PLAINTEXT://localhost:0",
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": rules,
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas.format(
            MODULE, keytab, "localhost", REALM
        ),
        "listener.name.native.gssapi.sasl.jaas.config": jaas.format(MODULE, keytab, "127.0.0.1", REALM),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:alice",
    }
    with headrace.local(security=headrace.Security(users={"bob": "bob-secret"}), **config) as made:
        with made.admin() as admin:
            admin.create_topics(headrace.NewTopic(TOPIC)).raise_for_errors()
        yield made


def test_one_ticket_is_one_user_on_both_planes(
    cluster: LocalCluster, realm: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python produces with the tickets of a keytab; a native consumer of the same principal reads."""
    clients = realm.keytab("clients", "alice")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{clients}")
    address = cluster.status()["nodes"][0]["kafka"]["listeners"]["SASL_PLAINTEXT"]
    names: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    producer = kafka.KafkaProducer(bootstrap_servers=address, **names, sasl_kerberos_service_name="kafka")
    try:
        producer.send(TOPIC, b"one").get(WAIT_S)
    finally:
        producer.close()
    login = cluster.client_config() | {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": f"alice@{REALM}",
        "sasl.kerberos.keytab": str(clients),
    }
    config = {key: value for key, value in login.items() if key not in ("sasl.username", "sasl.password")}
    with headrace.Consumer(
        TOPIC, bootstrap=cluster.bootstrap, config={**config, "auto.offset.reset": "earliest"}
    ) as consumer:
        assert next(iter(consumer)).value == b"one"


def test_a_principal_without_a_rule_is_refused(cluster: LocalCluster, realm: Kdc) -> None:
    login = cluster.client_config() | {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": f"mallory/admin@{REALM}",
        "sasl.kerberos.keytab": str(realm.keytab("mallory", "mallory/admin")),
    }
    config = {key: value for key, value in login.items() if key not in ("sasl.username", "sasl.password")}
    with (
        pytest.raises(SaslAuthenticationFailedError, match="GSSAPI"),
        headrace.Admin(cluster.bootstrap, config=config) as admin,
    ):
        admin.list_topics()
