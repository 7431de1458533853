"""`headrace doctor --config` reads what a config file refers to: ports, folders, keys, hosts."""

import socket
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from command_line import CommandLine
from headrace.services.certificates import CertificateAuthority
from headrace.services.cli.schema import schema_of
from headrace.services.doctor.config_io import config_facts

pytestmark = pytest.mark.usefixtures("home")


def write_file(folder: Path, **more: object) -> Path:
    """The config file of a node that has nothing wrong but for what `more` says."""
    config = {
        "node.id": 1,
        "log.dirs": folder / "data",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    file = folder / "node.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return file


def write_keys(file: Path, *, days: int) -> None:
    """A key store with a certificate of this validity, which others can read."""
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("ca", now, days=days)
    file.write_text(authority.to_pem().key + authority.to_pem().chain)
    file.chmod(0o644)


def test_ports_folders_keys_and_hosts_of_the_file_are_checked(
    tmp_path: Path, command_line: CommandLine
) -> None:
    """A port of another process, a folder that cannot be written, a certificate of five days, a dir of
    another node, an unknown host: each is a finding that names the file, and exit code 1."""
    write_keys(tmp_path / "keys.pem", days=5)
    used = tmp_path / "used"
    used.mkdir()
    (used / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = write_file(
            tmp_path,
            log_dirs=f"{used},/proc/headrace",
            listener_port=taken.getsockname()[1],
            listeners="SSL://127.0.0.1:0",
            advertised_host="no.such.host.invalid",
            ssl_keystore_location=tmp_path / "keys.pem",
            num_partition=3,
        )
        report = command_line.json("doctor", "--config", str(file), "--nodes", "1", code=1)
    jsonschema.validate(report, schema_of("doctor"))
    checks = {each["check"]: each["problem"] for each in report["findings"] if each["severity"] == "error"}
    assert checks.keys() & {"port", "port-of-server"}
    assert "/proc/headrace" in checks["disk-writable"]
    assert "keys.pem expires in 5 days" in checks["certificate"]
    assert "keys.pem has mode 0644" in checks["secret-mode"]
    assert "has the data of node 7, not 1" in checks["data-dir-owner"]
    assert "no.such.host.invalid does not resolve" in checks["advertised-host"]
    assert "replication.factor is 3, and the cluster has 1 nodes" in checks["replication-factor"]
    assert "num.partition" in checks["config"]
    (config,) = report["configs"]
    assert (config["name"], config["is_running"]) == ("node-1", False)
    assert report["cluster"] is None
    code, out, _ = command_line("doctor", "-c", str(file))
    assert code == 1
    assert f"{file}: node-1" in out


def test_faults_of_keys_are_those_of_the_server(tmp_path: Path) -> None:
    """A key store that does not exist, and metrics with a certificate that is none."""
    (tmp_path / "x.pem").write_text("nothing")
    file = write_file(
        tmp_path,
        listeners="SSL://127.0.0.1:0",
        ssl_keystore_location=tmp_path / "absent.pem",
        metrics_listener="127.0.0.1:0",
        metrics_ssl_certificate_file=tmp_path / "x.pem",
        metrics_ssl_key_file=tmp_path / "x.pem",
    )
    found = config_facts(str(file), {})
    assert len(found.key_faults) == 2
    assert "absent.pem" in found.key_faults[0]
    assert "metrics.ssl.certificate.file cannot be used" in found.key_faults[1]
    assert [each.error for each in found.reach] == ["Connection refused"]


def test_pairs_precede_the_keys_of_the_file(tmp_path: Path, command_line: CommandLine) -> None:
    """As they do for `headrace server`; the options of a cluster on Ray exclude a file."""
    file = write_file(tmp_path, num_partition=3)
    assert config_facts(str(file), {"node.id": "5"}).name == "node-5"
    assert command_line("doctor", "--all", "--config", str(file))[0] == 2
    assert command_line("doctor", "--nodes", "3")[0] == 2
