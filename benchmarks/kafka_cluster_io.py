"""Several KRaft nodes of Apache Kafka on loopback, brokers and controllers; one can be killed and started."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import kafka_io
from .kafka_io import SERVER_JVM, KafkaNode, classpath, free_ports, pinned, run_tool, wait_for_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_STORAGE, _QUORUM = "kafka.tools.StorageTool", "org.apache.kafka.tools.MetadataQuorumCommand"


class KafkaCluster:
    """Nodes 1, 2, ...; data in `folder`/node-N. `stop` it. Errors: KafkaError."""

    def __init__(
        self, folder: Path, nodes: int, overrides: Mapping[str, str], cores: Iterable[int] | None
    ) -> None:
        self._cores = None if cores is None else list(cores)
        self._scratch = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        self._nodes: dict[int, KafkaNode] = {}
        ports = free_ports(2 * nodes)
        self._ports = {
            number: (ports[2 * number - 2], ports[2 * number - 1]) for number in range(1, nodes + 1)
        }
        self.bootstrap = ",".join(f"127.0.0.1:{broker}" for broker, _ in self._ports.values())
        try:
            cluster_id = run_tool(_STORAGE, "random-uuid").strip()
            for number in self._ports:
                log_dir = folder / f"node-{number}"
                log_dir.mkdir(parents=True)
                settings = node_settings(number, self._ports, log_dir) | dict(overrides)
                lines = "".join(f"{name}={value}\n" for name, value in settings.items())
                self._config(number).write_text(lines)
                run_tool(_STORAGE, "format", "-t", cluster_id, "-c", str(self._config(number)))
            launched = {number: self._launch(number) for number in self._ports}
            for number, process in launched.items():
                self._nodes[number] = self._node(number, process)
            for number, process in launched.items():
                wait_for_port(process, self._ports[number][0], self._log(number))
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """Of the nodes, by number."""
        return [node.pid for _, node in sorted(self._nodes.items())]

    def active_controller(self) -> int:
        """The node that leads the metadata log."""
        told = run_tool(_QUORUM, "--bootstrap-server", self.bootstrap, "describe", "--status")
        found = re.search(r"LeaderId:\s+(\d+)", told)
        if found is None:
            raise kafka_io.KafkaError(f"no leader of the quorum in: {told}")
        return int(found[1])

    def kill(self, number: int) -> None:
        """SIGKILL, and gone."""
        process = self._nodes[number].process
        process.kill()
        process.wait()

    def start(self, number: int) -> None:
        """A killed one over its files; it takes connections on return."""
        process = self._launch(number)
        self._nodes[number] = self._node(number, process)
        wait_for_port(process, self._ports[number][0], self._log(number))

    def stop(self) -> None:
        """All at once: the last one alone would wait for a quorum. Safe to call again."""
        for node in self._nodes.values():
            node.process.kill()
            node.process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        command = ["java", *SERVER_JVM, "-cp", classpath(), "kafka.Kafka", str(self._config(number))]
        with self._log(number).open("a") as output, pinned(self._cores):
            return subprocess.Popen(command, stdout=output, stderr=output)

    def _node(self, number: int, process: subprocess.Popen[bytes]) -> KafkaNode:
        return KafkaNode(process, f"127.0.0.1:{self._ports[number][0]}", self._scratch)

    def _config(self, number: int) -> Path:
        return self._scratch / f"server-{number}.properties"

    def _log(self, number: int) -> Path:
        return self._scratch / f"server-{number}.log"


def node_settings(number: int, ports: Mapping[int, tuple[int, int]], log_dir: Path) -> dict[str, str]:
    """server.properties of one node among `ports`, (broker's, controller's) by node."""
    broker, controller = ports[number]
    voters = ",".join(f"{each}@127.0.0.1:{port}" for each, (_, port) in sorted(ports.items()))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(log_dir),
        "group.initial.rebalance.delay.ms": "0",
    }
