"""The two systems behind one face: an address, log dirs, a restart."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

from headrace.benchmarks import kafka_io

from .tap_io import Tap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Both systems get these; all else is as they come.
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",  # records of scenarios are as old as their timestamps say
    "group.initial.rebalance.delay.ms": "0",
}
STOP_TIMEOUT_S = 30.0
JVM = ("-Xms256m", "-Xmx512m", "-Djava.awt.headless=true")


class System(Protocol):
    """One node on loopback. `bootstrap` stays the same over restarts, `log_dir` holds its partitions."""

    name: str
    tap: Tap
    log_dir: Path

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Kafka:
    """Apache Kafka, broker and controller in one JVM."""

    def __init__(self, scratch: Path, settings: Mapping[str, str], name: str = "kafka") -> None:
        self.name, self.tap = name, Tap()
        self.log_dir = scratch / name
        self.log_dir.mkdir()
        self._settings = {**SETTINGS, **settings}
        self._settings["advertised.listeners"] = f"PLAINTEXT://{self.bootstrap}"
        self._node: kafka_io.KafkaNode | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients go."""
        return f"127.0.0.1:{self.tap.port}"

    def start(self) -> None:
        """Takes connections on return."""
        self._node = kafka_io.start_node(self.log_dir, self._settings, jvm=JVM)
        self.tap.target = int(self._node.bootstrap.rsplit(":", 1)[1])

    def stop(self) -> None:
        """Cleanly; safe to call again."""
        node, self._node = self._node, None
        if node is not None:
            node.stop()


class Headrace:
    """A controller and a storage node with a listener for Kafka's clients, two processes."""

    def __init__(self, scratch: Path, settings: Mapping[str, str]) -> None:
        self.name, self.tap = "headrace", Tap()
        self.log_dir = scratch / self.name
        self._port = kafka_io.free_ports(1)[0]
        self._settings = {
            **SETTINGS,
            **settings,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
        }
        self._scratch = scratch
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def bootstrap(self) -> str:
        """Where clients go."""
        return f"127.0.0.1:{self.tap.port}"

    def start(self) -> None:
        """Takes connections on return."""
        controller = self._start("controller", self._scratch / "headrace-controller", "")
        self._start("node", self.log_dir, controller, *(f"{k}={v}" for k, v in self._settings.items()))
        self.tap.target = self._port

    def stop(self) -> None:
        """Cleanly, the node first; safe to call again."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                assert process.stdout is not None
                process.stdout.close()

    def _start(self, kind: str, folder: Path, *arguments: str) -> str:
        """Its port, once it serves."""
        ports, *pairs = arguments
        command = [sys.executable, "-m", "headrace.benchmarks.server_process", kind, str(folder), ports, ""]
        with (self._scratch / f"{kind}.txt").open("a") as errors:
            process = subprocess.Popen([*command, *pairs], stdout=subprocess.PIPE, stderr=errors, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"{kind} did not start: {(self._scratch / f'{kind}.txt').read_text()[-3000:]}")
        return line.split()[1]


@contextlib.contextmanager
def running(*systems: System) -> Iterator[None]:
    """Started, and stopped in the end."""
    try:
        for system in systems:
            system.start()
        yield
    finally:
        for system in systems:
            system.stop()
            system.tap.close()
