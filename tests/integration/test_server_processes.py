"""`headrace server`: a controller and three nodes as processes, from config files like Kafka's."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic
from headrace.clients.admin.security_types import ScramPassword
from headrace.clients.sync.admin_io import Admin
from headrace.protocol.errors import NetworkError
from headrace.runtime.ports_io import reserve_ports
from headrace.services.server.config_file import server_file
from headrace.services.server.control_io import FILE, ask
from headrace.services.server.process_io import format_standalone
from planted_secrets import SECRETS, TEXT, planted_in_keys
from steady_load import SteadyLoad
from waiting import wait_for

# Secrets of every server: no file of a bundle has their values.
SECURED = {
    "delegation.token.secret.key": "hunter2-of-tokens",
    "metrics.basic.auth": "ann:hunter2-of-metrics",
}
# Of the process that makes a bundle, under names that a bundle shows.
VARIABLES = {
    "RAY_REDIS_PASSWORD": "hunter2-env-a",
    "JAVA_OPTS": "-Djavax.net.ssl.keyStorePassword=hunter2-env-b",
    "RAY_PROXY": "http://ann:hunter2-env-c@proxy:8080",
    "PYTHON_KEY": "-----BEGIN PRIVATE KEY-----\nhunter2+env+d\n-----END PRIVATE KEY-----",
    "RAY_JAAS": 'org.apache.PlainLoginModule required username="ann" password="hunter2-env-e";',
}
REPLICATED = {"offsets.topic.replication.factor": 3, "transaction.state.log.replication.factor": 3}


class Process:
    """One server with its config file; `start` returns at once."""

    def __init__(self, folder: Path, role: str, number: int, config: dict[str, Any]) -> None:
        self.folder, self.role, self.data = folder, role, folder / f"{role}-{number}"
        self.file = folder / f"{role}-{number}.properties"
        self.file.write_text("# of a test\n" + "".join(f"{key}={value}\n" for key, value in config.items()))
        self.port = config.get("listener.port", 0)
        self.log = folder / f"{role}-{number}.log"
        self.child: subprocess.Popen[bytes]

    def start(self, **environment: str) -> None:
        with self.log.open("ab") as stream:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "headrace", "server", self.role, "--config", str(self.file)],
                stdout=stream,
                stderr=stream,
                env={**os.environ, **environment},
            )

    def is_ready(self) -> bool:
        assert self.child.poll() is None, self.log.read_text()[-3000:]
        try:
            return bool(ask(str(self.data), "status")["pid"] == self.child.pid)
        except (NetworkError, FileNotFoundError):
            return False

    def stop(self) -> None:
        self.child.terminate()
        assert self.child.wait(60) == 0, self.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    """The controller first; all serve."""
    folder = tmp_path_factory.mktemp("servers")
    port, *ports = reserve_ports(4)
    address = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{port}"}
    address |= SECURED
    controller = {"process.roles": "controller", "node.id": 7, "listener.port": port, **address}
    found = [Process(folder, "controller", 7, {**controller, "log.dirs": folder / "controller-7"})]
    for number, native in enumerate(ports, 1):
        config = {"node.id": number, "log.dirs": folder / f"node-{number}", "listener.port": native}
        found.append(Process(folder, "node", number, {**address, **config, **REPLICATED}))
    for server in found:
        server.start()
    try:
        wait_for(lambda: all(server.is_ready() for server in found), "all servers serve")
        yield found
    finally:
        for server in reversed(found):
            if server.child.poll() is None:
                server.child.terminate()
        for server in reversed(found):
            server.child.wait(60)


@pytest.fixture(scope="module")
def bootstrap(servers: list[Process]) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers[1:])


def all_in_sync(admin: Admin, *topics: str) -> bool:
    found = admin.describe_topics(*topics)
    return all(len(part.isr) == 3 for topic in topics for part in found[topic].partitions)


def test_killed_server_and_rolling_restart_under_load(servers: list[Process], bootstrap: str) -> None:
    """SIGKILL of one node, its restart, then a clean restart of every node: no send and no poll fails,
    nothing acknowledged is missing."""
    with Admin(bootstrap) as admin:
        topic = NewTopic("steady", partitions=3, replication_factor=3, configs={"min.insync.replicas": 2})
        assert not admin.create_topics(topic).errors
        load = SteadyLoad(bootstrap, "steady")
        try:
            wait_for(lambda: load.acknowledged > 20 or load.errors, "records are acknowledged")
            for server in servers[1:]:
                if server is servers[1]:
                    server.child.kill()
                    server.child.wait()
                else:
                    server.stop()
                    assert not (server.data / FILE).exists()
                before = load.acknowledged
                wait_for(lambda: load.acknowledged > before + 5, "two nodes acknowledge")  # noqa: B023
                server.start()
                wait_for(server.is_ready, "the node serves again")
                wait_for(lambda: all_in_sync(admin, "steady"), "all replicas are in sync")
        finally:
            outcome = load.stop()
    assert outcome.errors == []
    assert (outcome.missing, outcome.acknowledged > 40) == (0, True)


def test_status_and_stacks_come_from_the_running_process(
    servers: list[Process], command_line: CommandLine
) -> None:
    """The control socket is for the owner alone; a data dir without a server is reported."""
    node, controller = servers[1], servers[0]
    assert (node.data / FILE).stat().st_mode & 0o777 == 0o600
    status = command_line.json("server", "status", "--config", str(node.file))
    assert (status["name"], status["state"], status["pid"]) == ("node-1", "active", node.child.pid)
    code, out, _ = command_line("server", "status", "--config", str(controller.file), "--stacks")
    assert code == 0
    assert "sigtimedwait" in out
    assert "controller-7" in out


def test_service_manager_gets_ready_alive_and_stopping(servers: list[Process], tmp_path: Path) -> None:
    """As systemd: a socket in the environment, and a watchdog of 0.2 s. The node is one more of the
    cluster."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        text = servers[1].file.read_text()
        address = next(line for line in text.splitlines() if line.startswith("controller."))
        config = dict([address.split("=", 1)], **{"node.id": 9, "log.dirs": tmp_path / "node-9"})
        server = Process(tmp_path, "node", 9, config)
        server.start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        lines = [manager.recv(4096).decode()]
        while not lines[-1].startswith("WATCHDOG=1"):
            lines.append(manager.recv(4096).decode())
        server.stop()
        while not lines[-1].startswith("STOPPING=1"):
            lines.append(manager.recv(4096).decode())
    states = [line.partition("\n")[0] for line in lines]
    assert states[-1] == "STOPPING=1"
    assert states.index("READY=1") < states.index("WATCHDOG=1")


def test_bundle_has_no_secret_and_lists_what_is_down(
    servers: list[Process],
    bootstrap: str,
    command_line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node 3 is killed. Secrets are in every sensitive key of a config file, in logs, in a file of the data
    dir, in the environment, in the configs of the running servers, and one is the password of a user."""
    killed, folder = servers[3], servers[0].folder
    (folder / "security").mkdir()
    (folder / "security" / "ca.key").write_text("hunter2-of-a-file\n")
    in_config, in_log = planted_in_keys("hunter2-config"), planted_in_keys("hunter2-log")
    lines = "".join(f"2026-11-29 INFO x: {line}\n" for line, _ in in_log)
    # the part of the log that is kept begins inside a key
    cut = "x" * 3_000_000 + "\nhunter2+cut+key\n-----END PRIVATE KEY-----\n"
    (folder / "app.log").write_text(f"{cut}{lines}the key was hunter2-of-a-file\nend\n")
    config = "".join(f"{line}\n" for line, _ in in_config)
    (folder / "secret.properties").write_text(servers[1].file.read_text() + config + TEXT)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with Admin(bootstrap) as admin:
        admin.set_passwords({"carol": ScramPassword("hunter2-of-carol")}).raise_for_errors()
    killed.child.kill()
    killed.child.wait()
    archive = tmp_path / "b.tar.gz"
    arguments = ("--data-dir", str(folder), "--log", str(folder / "app.log"), "--log", str(servers[1].log))
    command = (
        "debug",
        "bundle",
        "-f",
        str(archive),
        *arguments,
        "--server-config",
        str(folder / "secret.properties"),
    )
    facts = command_line.at(bootstrap).json(*command)
    killed.start()
    assert any(each.startswith("server node-3") for each in facts["missing"])
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as opened:
        files = {
            name.partition("/")[2]: opened.extractfile(name).read().decode()  # type: ignore[union-attr]
            for name in opened.getnames()
        }
    manifest = json.loads(files["manifest.json"])
    for entry in manifest["files"]:
        assert hashlib.sha256(files[entry["path"]].encode()).hexdigest() == entry["sha256"]
    for name, text in files.items():
        assert [secret for secret in (*SECRETS, "hunter2") if secret in text] == [], name
    assert "metrics.basic.auth" in files["cluster/node-configs-1.json"]
    (machine,) = {name.split("/")[1] for name in files if name.startswith("machines/")}
    for path in (
        "configs/secret.properties", "logs/app.log", "servers/node-1/meta.properties", "kernel/meminfo.txt",
        "servers/node-3/files.jsonl", "servers/controller-7/metadata.jsonl", "kernel/processes.txt",
    ):  # fmt: skip
        assert files[f"machines/{machine}/{path}"], path
    metadata = files[f"machines/{machine}/servers/controller-7/metadata.jsonl"].splitlines()
    rows = [json.loads(line) for line in metadata]
    assert {"RegisterBroker", "UserScramCredential"} <= {row.get("type") for row in rows}
    assert [row["value"] for row in rows if row.get("path") == "/features/security.version"]
    assert not [
        row for row in rows if "error" in row or row.get("credential", {}).get("keys", "") > "(hidden)"
    ]
    assert "log.dirs=" in files[f"machines/{machine}/configs/secret.properties"]
    assert files[f"machines/{machine}/logs/app.log"].endswith("end\n")
    server = json.loads(files["servers/node-1.json"])
    assert server["status"]["node_id"] == 1
    assert any("sigtimedwait" in line for lines in server["stacks"].values() for line in lines)
    states = {each["node_id"]: each["state"] for each in json.loads(files["cluster/nodes.json"])["nodes"]}
    assert states[1] == "active"
    assert json.loads(files["cluster/quorum.json"])["leader_id"] == 7
    assert json.loads(files["doctor.json"])["machines"]
    wait_for(killed.is_ready, "node 3 serves again")
    assert command_line.at(bootstrap)(*command)[0] == 1, "an archive is never overwritten"


def test_server_that_cannot_start_ends_with_one_line(servers: list[Process]) -> None:
    """A locked data dir, and a key of the other role."""
    node = servers[1]
    for arguments, text in (
        ((), "another process holds its .lock"),
        (("-X", "metadata.log.dir=/x"), "metadata.log.dir is a key of a controller"),
    ):
        command = [
            sys.executable,
            "-m",
            "headrace",
            "server",
            "node",
            "-c",
            str(node.file),
            "--log-level",
            "ERROR",
        ]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (1, 2)
        assert text in next(line for line in done.stderr.splitlines() if line.startswith("headrace: "))
    assert node.child.poll() is None


def format_twice(file: Path) -> None:
    """The first time it begins a quorum, whatever a blank controller answers; then it changes nothing."""
    command = [sys.executable, "-m", "headrace", "server", "format", "--standalone", "-c", str(file)]
    for more, code, text in (
        (["--if-new"], 0, "is the first voter"),
        (["--if-new"], 0, "the quorum exists"),
        ([], 1, "is part of a quorum already"),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_second_controller_joins_a_formatted_one(tmp_path: Path) -> None:
    """`format --standalone` begins a quorum once; the second controller becomes a voter by itself."""
    ports = reserve_ports(2)
    address = ",".join(f"127.0.0.1:{port}" for port in ports)
    both = [
        Process(
            tmp_path,
            "controller",
            number,
            {
                "controller.id": number,
                "metadata.log.dir": tmp_path / f"controller-{number}",
                "listener.port": port,
                "controller.quorum.bootstrap.servers": address,
            },
        )
        for number, port in enumerate(ports, 1)
    ]
    both[1].start()  # blank: it is no quorum that the first one could join
    try:
        wait_for(both[1].is_ready, "the second controller waits for a quorum")
        format_twice(both[0].file)
        both[0].start()
        wait_for(lambda: all(server.is_ready() for server in both), "both controllers serve")

        def voters() -> Any:
            return ask(str(both[0].data), "status")["quorum"]["voters"]

        wait_for(lambda: len(voters()) == 2, "two voters", evidence=lambda: str(voters()))
        # a controller whose disk was lost begins no second quorum beside the others
        lost = server_file(
            "controller", both[0].file.read_text(), {"metadata.log.dir": str(tmp_path / "lost")}
        )
        assert not format_standalone(lost, if_new=True)
        assert not (tmp_path / "lost").exists()
    finally:
        for server in both:
            server.child.send_signal(signal.SIGTERM)
        for server in both:
            assert server.child.wait(60) == 0
