"""The first user of a cluster on Ray: made once, with a client file for the owner only."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import headrace
import pytest
from cryptography import x509
from headrace.protocol.errors import ConfigError
from headrace.services import secure_up_io
from headrace.services.cluster_files_io import ClusterFile
from headrace.services.secure_up import secure_config
from headrace.services.secure_up_io import check_still_secured, key_folder, make_certificates, make_first_user
from headrace.services.secured_files import CLIENT_FILE


def facts(cluster: headrace.LocalCluster, protocol: str = "SASL_SSL") -> ClusterFile:
    """What `up` knows of the cluster."""
    config = {"native.security.protocol": protocol}
    return ClusterFile("c", "", (), 1, str(cluster.data_dir), config=config)


def test_the_first_user_is_made_once(tmp_path: Path) -> None:
    """Its file is the config of a client; a second `up` changes no password."""
    security = headrace.Security(users={"other": "other-secret"})
    with headrace.local(data_dir=str(tmp_path), security=security) as cluster:
        endpoints, reports = {"node-1": cluster.bootstrap}, []
        make_first_user(facts(cluster, "SSL"), endpoints, reports.append)
        assert reports == []
        make_first_user(facts(cluster), endpoints, reports.append)
        path = key_folder(facts(cluster)).folder / CLIENT_FILE
        (report,) = reports
        assert report.startswith(f"{path} has the client config of the user admin")
        assert path.stat().st_mode & 0o777 == 0o600
        text = path.read_text()
        config: dict[str, Any] = dict(line.split("=", 1) for line in text.splitlines())
        with headrace.Admin(cluster.bootstrap, config=config) as admin:
            assert admin.list_topics() == []
        make_first_user(facts(cluster), endpoints, reports.append)
        assert path.read_text() == text
        assert len(reports) == 1


def test_a_refused_user_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no file says that there is one."""
    security = headrace.Security(users={"other": "other-secret"})
    monkeypatch.setattr(secure_up_io, "ADMIN", "")
    with headrace.local(data_dir=str(tmp_path), security=security) as cluster:
        with pytest.raises(headrace.KafkaError):
            make_first_user(facts(cluster), {"node-1": cluster.bootstrap}, print)
        assert not (key_folder(facts(cluster)).folder / CLIENT_FILE).exists()


def test_certificates_are_made_once_and_secured_data_stays_secured(tmp_path: Path) -> None:
    """Keys are readable by their owner alone. Without --secure the cluster does not start by accident."""
    config = secure_config({}, str(tmp_path))
    secured = ClusterFile("c", "", (), 1, str(tmp_path), config=config)
    reports: list[str] = []
    make_certificates(secured, ["10.0.0.7"], reports.append)
    folder = tmp_path / "security"
    before = (folder / "server.pem").read_text()
    certificate = x509.load_pem_x509_certificate(before.partition("-----END PRIVATE KEY-----\n")[2].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ip_address("10.0.0.7") in names.get_values_for_type(x509.IPAddress)
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    make_certificates(secured, ["10.0.0.8"], reports.append)
    assert (folder / "server.pem").read_text() == before
    assert len(reports) == 1

    (folder / CLIENT_FILE).touch()
    check_still_secured(secured)
    for chosen in ({}, {"native.security.protocol": "PLAINTEXT"}):
        plain = ClusterFile("c", "", (), 1, str(tmp_path), config=chosen)
        if chosen:
            check_still_secured(plain)
        else:
            with pytest.raises(ConfigError, match="--secure"):
                check_still_secured(plain)


def test_own_key_store_needs_no_certificates(tmp_path: Path) -> None:
    """What is configured has precedence."""
    config = secure_config({"ssl_keystore_location": "/own.pem", "listeners": "SSL://:9093"}, str(tmp_path))
    assert (config["ssl_keystore_location"], config["listeners"]) == ("/own.pem", "SSL://:9093")
    assert "ssl.keystore.location" not in config
    make_certificates(ClusterFile("c", "", (), 1, str(tmp_path), config=config), [], print)
    assert not (tmp_path / "security").exists()
