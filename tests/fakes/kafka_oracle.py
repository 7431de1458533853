"""Apache Kafka itself, from Maven, as the oracle: its dump tool, and a single KRaft node on loopback."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

POM = Path(__file__).parents[1] / "oracle" / "pom.xml"
VERSION = "4.1.0"
_FORMAT = ("format", "--standalone")
JVM = ["-Xms256M", "-Xmx512M", "-Djava.awt.headless=true"]


def absent() -> str | None:
    """Why the oracle cannot run here, or None."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def classpath() -> str:
    """Kafka's jars, fetched once into the cache folder; safe when several test processes ask at once."""
    cache = Path(os.environ.get("HEADRACE_CACHE", Path.home() / ".cache" / "headrace")) / f"kafka-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / ".complete").exists():
            command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={cache}"], check=True, timeout=600)
            (cache / ".complete").touch()
    return f"{cache}/*"


def run_tool(main_class: str, *arguments: str) -> str:
    """What one of Kafka's tools prints; its failure is the test's failure."""
    command = ["java", *JVM, "-cp", classpath(), main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump_log(*paths: Path, options: tuple[str, ...] = ("--print-data-log", "--deep-iteration")) -> str:
    """Kafka's DumpLogSegments over `paths`."""
    return run_tool("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, paths)))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


@contextlib.contextmanager
def kafka_server(log_dir: Path, **overrides: str) -> Iterator[str]:
    """One KRaft node with its data in `log_dir`; gives its bootstrap address, stops it cleanly after.

    A folder that an earlier node left is taken up again, not formatted anew.
    """
    broker, controller = _free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not (log_dir / "meta.properties").exists():
            cluster_id = run_tool("kafka.tools.StorageTool", "random-uuid").strip()
            run_tool("kafka.tools.StorageTool", *_FORMAT, "-t", cluster_id, "-c", str(config))
        log = Path(scratch) / "server.log"
        with log.open("w") as output:
            command = ["java", *JVM, "-cp", classpath(), "kafka.Kafka", str(config)]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_for_port(process, broker, log)
            yield f"127.0.0.1:{broker}"
        finally:
            process.terminate()
            process.wait(60)


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)  # the one thing to wait for is another program's start
    raise AssertionError(f"Kafka did not open port {port}: {log.read_text()[-3000:]}")
