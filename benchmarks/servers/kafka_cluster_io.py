"""Several KRaft nodes of Apache Kafka on loopback, each broker and controller."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.runtime.ports_io import reserve_ports

from . import kafka_io
from .kafka_io import SERVER_JVM, STOP_TIMEOUT_S, KafkaNode, classpath, pinned, run_tool, wait_for_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STORAGE, _QUORUM = "kafka.tools.StorageTool", "org.apache.kafka.tools.MetadataQuorumCommand"


class KafkaCluster:
    """Nodes 1, 2, ...; data in `folder`/node-N. `nodes`: how many, or their reserved ports (broker,
    controller) by number. `own`: overrides of single nodes.

    Errors: KafkaError.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int | Mapping[int, tuple[int, int]],
        overrides: Mapping[str, str],
        cores: Iterable[int] | None,
        *,
        own: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
        jvm: Sequence[str] = SERVER_JVM,
    ) -> None:
        self._cores, self._jvm = None if cores is None else list(cores), jvm
        self._scratch = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        self._nodes: dict[int, KafkaNode] = {}
        self._ports = _ports_of(nodes) if isinstance(nodes, int) else dict(nodes)
        self.bootstrap = ",".join(f"127.0.0.1:{broker}" for broker, _ in self._ports.values())
        try:
            for number in self._ports:
                log_dir = folder / f"node-{number}"
                log_dir.mkdir(parents=True)
                settings = node_settings(number, self._ports, log_dir) | dict(overrides)
                settings |= own.get(number, {})
                lines = "".join(f"{name}={value}\n" for name, value in settings.items())
                self._config(number).write_text(lines)
            self._format()
            self.start_all()
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """By node number."""
        return [node.pid for _, node in sorted(self._nodes.items())]

    def active_controller(self) -> int:
        """The leader of the metadata quorum. Errors: KafkaError."""
        status = run_tool(_QUORUM, "--bootstrap-server", self.bootstrap, "describe", "--status")
        found = re.search(r"LeaderId:\s+(\d+)", status)
        if found is None:
            raise kafka_io.KafkaError(f"no leader of the quorum in: {status}")
        return int(found[1])

    def port(self, number: int) -> int:
        """The client port of a node."""
        return self._ports[number][0]

    def kill(self, number: int) -> None:
        """SIGKILL; the process is gone on return."""
        process = self._nodes[number].process
        process.kill()
        process.wait()

    def end(self, number: int) -> None:
        """A controlled shutdown: its partitions have other leaders on return, if there are other replicas."""
        self._nodes[number].process.terminate()
        self._nodes[number].process.wait(STOP_TIMEOUT_S)

    def start(self, number: int) -> None:
        """Start a killed or stopped node with its files; it accepts connections on return."""
        self._launch(number)
        self._wait(number)

    def start_all(self) -> None:
        """Start all nodes at once: a single one would wait for a quorum."""
        for number in self._ports:
            self._launch(number)
        for number in self._ports:
            self._wait(number)

    def stop(self) -> None:
        """SIGKILL all: a controlled shutdown of the last one would wait for a quorum. May be called again."""
        for node in self._nodes.values():
            node.process.kill()
            node.process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _format(self) -> None:
        """With all nodes as initial voters of a dynamic quorum."""
        cluster_id, *directories = (kafka_io.random_id() for _ in range(len(self._ports) + 1))
        voters = ",".join(
            f"{number}@127.0.0.1:{port}:{directory}"
            for (number, (_, port)), directory in zip(self._ports.items(), directories, strict=True)
        )
        for number in self._ports:
            arguments = ("-t", cluster_id, "-c", str(self._config(number)), "--initial-controllers", voters)
            run_tool(_STORAGE, "format", *arguments)

    def _launch(self, number: int) -> None:
        command = ["java", *self._jvm, "-cp", classpath(), "kafka.Kafka", str(self._config(number))]
        with self._log(number).open("a") as output, pinned(self._cores):
            process = subprocess.Popen(command, stdout=output, stderr=output)
        self._nodes[number] = KafkaNode(process, f"127.0.0.1:{self.port(number)}", self._scratch)

    def _wait(self, number: int) -> None:
        wait_for_port(self._nodes[number].process, self.port(number), self._log(number))

    def _config(self, number: int) -> Path:
        return self._scratch / f"server-{number}.properties"

    def _log(self, number: int) -> Path:
        return self._scratch / f"server-{number}.log"


def _ports_of(nodes: int) -> dict[int, tuple[int, int]]:
    ports = reserve_ports(2 * nodes)
    return {number: (ports[2 * number - 2], ports[2 * number - 1]) for number in range(1, nodes + 1)}


def node_settings(number: int, ports: Mapping[int, tuple[int, int]], log_dir: Path) -> dict[str, str]:
    """server.properties of one node. `ports`: (broker, controller) by node."""
    broker, controller = ports[number]
    controllers = ",".join(f"127.0.0.1:{port}" for _, (_, port) in sorted(ports.items()))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controllers,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(log_dir),
        "group.initial.rebalance.delay.ms": "0",
    }
