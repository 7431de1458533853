"""The gatherers of `headrace doctor` on this machine, with planted files and sockets."""

import socket
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from headrace.services.certificates import CertificateAuthority
from headrace.services.doctor.disks_io import disk_facts, mount_of
from headrace.services.doctor.machine_io import machine_facts
from headrace.services.doctor.ports_io import advertised_facts, port_facts, reach_facts
from headrace.services.doctor.secrets_io import certificate_facts, secret_facts

pytestmark = pytest.mark.usefixtures("home")


def test_facts_of_this_machine_are_read(tmp_path: Path) -> None:
    """Memory, limits, kernel, versions and the speed of fsync; nothing is left in the data dir."""
    found = machine_facts([str(tmp_path)], [("127.0.0.1", 1)])
    assert found.memory.total_bytes > found.memory.available_bytes > 0
    assert found.limits.open_files > 0
    assert int(found.kernel.sysctls["vm.swappiness"]) >= 0
    assert found.versions.python == sys.version.split()[0]
    assert (found.versions.codec, found.versions.has_curve) == ("compiled", True)
    assert found.versions.libraries["ray"].startswith("2.")
    (disk,) = found.disks
    assert disk.total_bytes > disk.free_bytes > 0
    assert len(disk.fsync_ms) > 3
    assert list(tmp_path.glob(".doctor-*")) == []


def test_missing_data_dir_is_that_of_its_nearest_parent(tmp_path: Path) -> None:
    """Before the first start; the longest mount point decides, /proc for files below it."""
    assert disk_facts(str(tmp_path / "a" / "b")).mount_point == disk_facts(str(tmp_path)).mount_point
    assert mount_of("/proc/self/status")[2] == "proc"
    assert mount_of("/dev/shm")[2] == "tmpfs"


def test_folder_that_cannot_be_written_is_a_trouble() -> None:
    assert "not writable" in disk_facts("/proc/self").trouble


def test_ports_are_free_taken_or_unusable() -> None:
    """A listener of this test, and an address of another machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port_facts("127.0.0.1", port).state in ("taken", "headrace")
        (reached, refused) = reach_facts([f"127.0.0.1:{port}", "127.0.0.1:1"])
        assert reached.error == ""
        assert "refused" in refused.error
    assert port_facts("127.0.0.1", port).state == "free"
    assert port_facts("192.0.2.1", port).state == "unusable"


def test_advertised_hosts_are_resolved() -> None:
    """An address, and a name that no resolver knows."""
    assert advertised_facts("node-1", "PLAINTEXT", "127.0.0.1:9092").resolved == ("127.0.0.1",)
    assert advertised_facts("node-1", "PLAINTEXT", "no.such.host.invalid:9092").error


def test_secrets_are_found_with_their_modes_and_certificates_with_their_ends(tmp_path: Path) -> None:
    """A key that others can read, and a certificate of 10 days; public files are no secrets."""
    folder = tmp_path / "data" / "security"
    folder.mkdir(parents=True)
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("ca", now, days=10)
    (folder / "ca.pem").write_text(authority.to_pem().chain)
    (folder / "ca.key").write_text(authority.to_pem().key)
    (folder / "ca.key").chmod(0o644)
    (folder / "notes.txt").write_text("nothing")
    found = {Path(each.path).name: each.mode for each in secret_facts([str(tmp_path / "data")])}
    assert found["ca.key"] & stat.S_IROTH
    assert "notes.txt" not in found
    assert "ca.pem" not in found
    (certificate,) = certificate_facts([str(tmp_path / "data")])
    assert 9 < certificate.days_left <= 10
