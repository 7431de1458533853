"""`headrace doctor` and `headrace debug bundle` beside a cluster in this process."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic
from headrace.services.local_io import LocalCluster, local


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with local(nodes=2, data_dir=str(tmp_path_factory.mktemp("cluster") / "data")) as running:
        running.admin().create_topics(NewTopic("lonely", partitions=2, replication_factor=1))
        yield running


@pytest.fixture
def headrace(cluster: LocalCluster, command_line: CommandLine) -> CommandLine:
    return command_line.at(cluster.bootstrap)


def test_doctor_reports_machine_and_cluster(cluster: LocalCluster, headrace: CommandLine) -> None:
    """The topic with one replica, the single controller, and a port that another process has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        arguments = ("--data-dir", str(cluster.data_dir), "--listen", f"127.0.0.1:{port}")
        report = headrace.json("doctor", *arguments, code=1)
        code, out, _ = headrace("doctor", *arguments)
    assert code == 1
    assert f"port 127.0.0.1:{port} is in use" in out
    assert "fix: sudo ss -ltnp" in out
    found = {each["check"]: each for each in report["findings"]}
    assert found["port"]["severity"] == "error"
    assert "lonely" in found["one-replica"]["problem"]
    assert found["controllers"]["where"] == "cluster"
    (machine,) = report["machines"]
    assert machine["disks"][0]["fsync_ms"]
    assert {each["error"] for each in machine["reach"]} == {""}
    assert report["cluster"]["voters"] == [1]


def test_cluster_that_does_not_answer_is_an_error(command_line: CommandLine, tmp_path: Path) -> None:
    """The machine is checked all the same."""
    arguments = ("-X", "default.api.timeout.ms=300", "--data-dir", str(tmp_path))
    report = command_line.at("127.0.0.1:1").json("doctor", *arguments, code=1)
    assert [each["check"] for each in report["findings"] if each["where"] == "cluster"] == ["cluster"]
    assert report["machines"][0]["versions"]["codec"] == "compiled"
