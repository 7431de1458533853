"""Key stores of a listener that are changed while its node runs, by headrace's and by Kafka's clients."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import headrace
import pytest
from certificates import Authority, Issued
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from headrace import Resource
from headrace.protocol.errors import HeadraceError
from headrace.services.local_io import LocalCluster
from kafka_clients import WAIT_S
from waiting import wait_for

AUTHORITY = Authority()
PREFIX = "listener.name.ssl."
NODE = Resource("broker", "1")


def pem(folder: Path, certificate: Issued, name: str) -> str:
    """A PEM file with a key and its chain."""
    path = folder / f"{name}.pem"
    path.write_text(certificate.key_pem() + certificate.chain_pem)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    """Two nodes with TLS by a certificate for `first`."""
    config = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": pem(folder, AUTHORITY.issue("first"), "first"),
    }
    with headrace.local(nodes=2, **config) as made:
        yield made


def address(cluster: LocalCluster, index: int, listener: str) -> tuple[str, int]:
    host, _, port = cluster.status()["nodes"][index]["kafka"]["listeners"][listener].rpartition(":")
    return host, int(port)


def served(cluster: LocalCluster, index: int = 0) -> str:
    """The common name of the certificate that a new connection gets."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    with (
        socket.create_connection(address(cluster, index, "SSL"), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        subject = dict(pair for part in wrapped.getpeercert()["subject"] for pair in part)  # type: ignore[index, union-attr, misc]
        return str(subject["commonName"])


def test_another_key_store_is_in_use_without_a_restart(cluster: LocalCluster, folder: Path) -> None:
    """On its node alone, until it is deleted. A connection that is open stays; passwords are not shown."""
    (folder / "second.p12").write_bytes(AUTHORITY.issue("second").pkcs12("store"))
    changes = {
        f"{PREFIX}ssl.keystore.type": "PKCS12",
        f"{PREFIX}ssl.keystore.location": str(folder / "second.p12"),
        f"{PREFIX}ssl.keystore.password": "store",
    }
    with cluster.admin() as admin:
        admin.alter_configs({NODE: changes}).raise_for_errors()
        wait_for(lambda: served(cluster) == "second", "the new certificate")
        assert served(cluster, 1) == "first"
        described = admin.describe_configs(NODE)[NODE]
        assert described[f"{PREFIX}ssl.keystore.location"].value == str(folder / "second.p12")
        secret = described[f"{PREFIX}ssl.keystore.password"]
        assert (secret.value, secret.is_sensitive) == (None, True)
        cluster.restart_node(0)
        assert served(cluster) == "second"
        admin.alter_configs({NODE: dict.fromkeys(changes)}).raise_for_errors()
        wait_for(lambda: served(cluster) == "first", "the certificate of the file")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({f"{PREFIX}ssl.keystore.location": "/gone.pem"}, r"listener SSL: ssl\.keystore\.location: .*/gone"),
        ({f"{PREFIX}ssl.keystore.type": "PKCS12"}, "PKCS12 store is not valid"),
        ({f"{PREFIX}ssl.keystore.type": "JKS"}, "one of PEM, PKCS12"),
        ({"ssl.keystore.location": "/gone.pem"}, r"listener\.name\.<name>\.ssl\.keystore\.location"),
        ({"listener.name.plaintext.ssl.keystore.location": "/gone.pem"}, "PLAINTEXT has no TLS"),
        ({"listener.name.other.ssl.keystore.location": "/gone.pem"}, "that listeners lacks"),
        ({f"{PREFIX}ssl.protocol": "TLSv1.2"}, "unknown config key"),
    ],
)
def test_key_stores_that_cannot_be_used_are_refused(
    cluster: LocalCluster, changes: dict[str, str], fault: str
) -> None:
    """Nothing is changed, also by what is valid beside them."""
    with cluster.admin() as admin:
        before = admin.describe_configs(NODE)[NODE]
        with pytest.raises(HeadraceError, match=fault):
            admin.alter_configs({NODE: {**changes, "log.roll.ms": 100_000}})[NODE]
        assert admin.describe_configs(NODE)[NODE] == before
        everywhere = Resource("broker", "")
        with pytest.raises(HeadraceError, match="key of one node"):
            admin.alter_configs({everywhere: {f"{PREFIX}ssl.keystore.location": "/gone.pem"}})[everywhere]
    assert served(cluster) == "first"


def test_kafkas_admin_client_changes_them(cluster: LocalCluster, folder: Path) -> None:
    """As kafka-configs.sh does; the error of a bad file is Kafka's INVALID_CONFIG."""
    host, port = address(cluster, 1, "PLAINTEXT")
    admin = AdminClient({"bootstrap.servers": f"{host}:{port}"})

    def alter(location: str, kind: AlterConfigOpType = AlterConfigOpType.SET) -> None:
        entry = ConfigEntry(f"{PREFIX}ssl.keystore.location", location, incremental_operation=kind)
        resource = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)

    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        alter(str(folder / "gone.pem"))
    alter(pem(folder, AUTHORITY.issue("third"), "third"))
    wait_for(lambda: served(cluster, 1) == "third", "the new certificate")
    alter("", AlterConfigOpType.DELETE)
    wait_for(lambda: served(cluster, 1) == "first", "the certificate of the file")
