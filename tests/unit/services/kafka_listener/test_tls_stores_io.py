"""Key stores: their forms, faults without secrets, and a change while the node runs."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from headrace.protocol.errors import ConfigError
from headrace.services.kafka_listener.tls_stores_io import MAX_STORE_BYTES, TlsStores
from headrace.storage_node.configs.gateway_config import security_of
from headrace.storage_node.configs.node_config import NodeConfig

AUTHORITY = Authority()
NODE, OTHER = AUTHORITY.issue("node"), AUTHORITY.issue("other")


def stores(**config: str) -> TlsStores:
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    return TlsStores(
        security_of(NodeConfig.of({"log.dirs": "/d", "listeners": "SSL://h:1", **dotted}), "SSL")
    )


def served(context: ssl.SSLContext, **versions: Any) -> tuple[str, str]:
    """Version and name of the server that a client meets."""
    one, other = socket.socketpair()
    client = ssl.create_default_context(cadata=AUTHORITY.pem)
    for name, value in versions.items():
        setattr(client, name, value)
    thread = threading.Thread(target=lambda: context.wrap_socket(one, server_side=True).close())
    thread.start()
    with client.wrap_socket(other, server_hostname="localhost") as wrapped:
        subject = dict(pair for part in wrapped.getpeercert()["subject"] for pair in part)  # type: ignore[index, union-attr, misc]
        found = str(wrapped.version()), str(subject["commonName"])
    thread.join()
    return found


def test_forms_of_key_stores(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(NODE.key_pem("p") + NODE.chain_pem)
    (tmp_path / "n.p12").write_bytes(NODE.pkcs12("p"))
    for made in (
        stores(ssl_keystore_key=NODE.key_pem(), ssl_keystore_certificate_chain=NODE.chain_pem),
        stores(ssl_keystore_location=str(both), ssl_key_password="p"),
        stores(
            ssl_keystore_location=str(tmp_path / "n.p12"),
            ssl_keystore_type="PKCS12",
            ssl_keystore_password="p",
        ),
    ):
        assert served(made.context) == ("TLSv1.3", "node")


def test_versions_and_suites_of_tls() -> None:
    pem = {"ssl_keystore_key": NODE.key_pem(), "ssl_keystore_certificate_chain": NODE.chain_pem}
    for more in (
        {"ssl_protocol": "TLSv1.2"},
        {"ssl_enabled_protocols": "TLSv1.2"},
        {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
    ):
        assert served(stores(**pem, **more).context)[0] == "TLSv1.2"
    only_13 = stores(**pem, ssl_enabled_protocols="TLSv1.3").context
    assert only_13.minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigError, match="no version"):
        stores(**pem, ssl_protocol="TLSv1.2", ssl_enabled_protocols="TLSv1.3")


def test_sessions_are_resumed_by_one_ticket() -> None:
    """OpenSSL sends two by default; each takes an eighth of a handshake."""
    pem = {"ssl_keystore_key": NODE.key_pem(), "ssl_keystore_certificate_chain": NODE.chain_pem}
    made = stores(**pem).context
    client = ssl.create_default_context(cadata=AUTHORITY.pem)
    session, resumed = None, []
    for _ in range(2):
        one, other = socket.socketpair()
        thread = threading.Thread(target=lambda one=one: made.wrap_socket(one, server_side=True).close())
        thread.start()
        with client.wrap_socket(other, server_hostname="localhost", session=session) as wrapped:
            assert wrapped.recv(1) == b""  # behind the ticket
            session = wrapped.session
            resumed.append(wrapped.session_reused)
        thread.join()
    assert resumed == [False, True]
    assert made.num_tickets == 1


def test_client_certificates_are_verified_without_tickets() -> None:
    """A resumed session would skip the verification."""
    pem = {"ssl_keystore_key": NODE.key_pem(), "ssl_keystore_certificate_chain": NODE.chain_pem}
    made = stores(**pem, ssl_client_auth="requested", ssl_truststore_certificates=AUTHORITY.pem).context
    assert made.verify_mode is ssl.CERT_OPTIONAL
    assert made.num_tickets == 0
    assert made.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"ssl_keystore_location": "/nowhere"}, "No such file"),
        ({"ssl_keystore_location": "/a\0b"}, "null"),
        ({"ssl_keystore_location": "/dev/zero"}, "not a regular file"),
        ({"ssl_keystore_location": "/"}, "not a regular file"),
        ({"ssl_keystore_key": "secret", "ssl_keystore_certificate_chain": NODE.chain_pem}, "key store"),
        (
            {"ssl_keystore_key": NODE.key_pem("secret"), "ssl_keystore_certificate_chain": NODE.chain_pem},
            "key store",
        ),
        (
            {"ssl_keystore_key": OTHER.key_pem(), "ssl_keystore_certificate_chain": NODE.chain_pem},
            "KEY_VALUES_MISMATCH",
        ),
        ({"ssl_keystore_location": __file__, "ssl_keystore_type": "PKCS12"}, "PKCS12"),
        (
            {
                "ssl_keystore_key": NODE.key_pem(),
                "ssl_keystore_certificate_chain": NODE.chain_pem,
                "ssl_truststore_certificates": "none",
                "ssl_client_auth": "required",
            },
            "trust store",
        ),
    ],
)
def test_stores_that_cannot_be_used(config: dict[str, str], words: str) -> None:
    """Without a question on the terminal for a password that is missing, and without secrets."""
    with pytest.raises(ConfigError, match=words) as raised:
        stores(**config)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None


def test_no_store_is_waited_for_or_read_without_end(tmp_path: Path) -> None:
    """A pipe without a writer, and a file that is larger than any store."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        stores(ssl_keystore_location=str(tmp_path / "pipe"))
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_STORE_BYTES + 1)
    with pytest.raises(ConfigError, match="larger than"):
        stores(ssl_keystore_location=str(tmp_path / "large"))


def test_changed_files_are_loaded(tmp_path: Path) -> None:
    """A file that is written in part is not: the certificates before stay until it is whole."""
    path = tmp_path / "store.pem"
    path.write_text(NODE.key_pem() + NODE.chain_pem)
    made = stores(ssl_keystore_location=str(path))
    assert made.reload() is None
    path.write_text(OTHER.key_pem())
    assert "key store" in str(made.reload())
    assert served(made.context)[1] == "node"
    assert made.reload() is None
    (tmp_path / "new").write_text(OTHER.key_pem() + OTHER.chain_pem)
    os.replace(tmp_path / "new", path)
    assert made.reload() == ""
    assert served(made.context)[1] == "other"
    path.unlink()
    assert "No such file" in str(made.reload())
