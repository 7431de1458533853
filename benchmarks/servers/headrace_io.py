"""headrace under test: one node, or three nodes with three controllers, in processes of their own."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from headrace.runtime.ports_io import reserve_ports

from ..constants import HEADRACE, NODES
from ..harness import NO_CONFIGS
from .secured_io import TlsListeners
from .topics_io import HeadraceTopics, TopicServers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .children_io import Child, Children
    from .secured_io import CurveKeys

START_TIMEOUT_S = 30.0
LISTENERS, PLAINTEXT = "listeners", "PLAINTEXT://"
# the topics of the coordinators on a single node
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class _Servers(TopicServers):
    name = HEADRACE

    def __init__(
        self, children: Children, data_dir: Path, cores: Iterable[int], profile: str, *, nodes: int
    ) -> None:
        self.data_dir, self._children, self._cores, self._profile = data_dir, children, list(cores), profile
        self.replicas = nodes
        self._nodes: dict[int, Child] = {}
        self._controllers: dict[int, Child] = {}

    @property
    def node_pids(self) -> list[int]:
        """Processes that hold records."""
        return [node.pid for node in self._nodes.values()]

    @property
    def controller_pids(self) -> list[int]:
        """Processes that hold metadata only."""
        return [controller.pid for controller in self._controllers.values()]

    @property
    def cpu_pids(self) -> list[int]:
        """All processes; Kafka's JVM is broker and controller, too."""
        return [*self.node_pids, *self.controller_pids]

    def begin_profile(self) -> None:
        """Start the sampling profiler of every node."""
        for pid in self.node_pids:
            os.kill(pid, signal.SIGUSR1)

    def end_profile(self) -> None:
        """Each node writes its profile."""
        for pid in self.node_pids:
            os.kill(pid, signal.SIGUSR2)

    def stop(self) -> None:
        """Nodes first, so that they can report their end to the controllers."""
        self._topics.close()
        for child in (*self._nodes.values(), *self._controllers.values()):
            self._children.end(child)

    def _start(self, kind: str, name: str, ports: Iterable[int], configs: Mapping[str, str]) -> Child:
        profile = self._profile + name.removeprefix(kind) if self._profile and kind == "node" else ""
        pairs = (f"{key}={value}" for key, value in configs.items())
        arguments = (kind, str(self.data_dir / name), ",".join(map(str, ports)), profile, *pairs)
        return self._children.start(name, "servers.server_process", *arguments, cores=self._cores)


class Headrace(_Servers):
    """One storage node and one controller; defaults but for `settings`, and one kind of security."""

    def __init__(
        self,
        children: Children,
        scratch: Path,
        cores: Iterable[int],
        profile: str = "",
        settings: Mapping[str, str] = NO_CONFIGS,
        security: TlsListeners | CurveKeys | None = None,
    ) -> None:
        super().__init__(children, scratch / "headrace-data", cores, profile, nodes=1)
        settings, of_controller = dict(settings), {}
        self.kafka_bootstrap = settings.get(LISTENERS, "").removeprefix(PLAINTEXT)
        if isinstance(security, TlsListeners):
            settings |= security.settings({"PLAINTEXT": int(self.kafka_bootstrap.rpartition(":")[2])})
            self.tls = security.address
        elif security is not None:
            settings |= security.node
            of_controller, self.client_config = security.controller, security.client
        self._controllers[1] = self._start("controller", "controller", (), of_controller)
        port = ready_port(self._controllers[1])
        self._nodes[1] = self._start("node", "node", (port,), {**ONE_REPLICA, **settings})
        self.bootstrap = f"127.0.0.1:{ready_port(self._nodes[1])}"
        self._topics = HeadraceTopics(self.bootstrap, self.client_config)

    @property
    def node_dirs(self) -> list[Path]:
        """The only node's folder."""
        return [self.data_dir / "node"]


class HeadraceCluster(_Servers):
    """Three storage nodes and three controllers; `has_listener`: also for Kafka clients."""

    def __init__(
        self,
        children: Children,
        scratch: Path,
        cores: Iterable[int],
        profile: str = "",
        *,
        has_listener: bool = False,
    ) -> None:
        super().__init__(children, scratch / "headrace-nodes", cores, profile, nodes=NODES)
        self._ports: list[int] = []
        for number in range(1, NODES + 1):
            self._start_controller(number)
        kafka_ports = reserve_ports(NODES) if has_listener else []
        self._kafka_addresses = {number: f"127.0.0.1:{port}" for number, port in enumerate(kafka_ports, 1)}
        self.kafka_bootstrap = ",".join(self._kafka_addresses.values())
        for number in range(1, NODES + 1):
            self._start_node(number)
        self.bootstrap = ",".join(f"127.0.0.1:{ready_port(node)}" for node in self._nodes.values())
        self._topics = HeadraceTopics(self.bootstrap)
        self._wait_for_nodes()

    def node_to_kill(self, topic: str) -> int:
        """The leader of the first partition."""
        return self.replicas_of(topic)[0].leader

    def kill(self, node: int) -> None:
        """SIGKILL; the process is gone on return."""
        self._nodes[node].process.kill()
        self._nodes[node].process.wait()
        self._children.end(self._nodes[node])

    def restart(self, node: int) -> None:
        """Start a killed node with its files."""
        self._start_node(node)
        ready_port(self._nodes[node])

    def _start_controller(self, number: int) -> None:
        """The first one starts the quorum, the others join it."""
        configs = {"controller.id": str(number)}
        if self._ports:
            configs["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{self._ports[0]}"
            configs["controller.quorum.auto.join.enable"] = "true"
        self._controllers[number] = self._start("controller", f"controller-{number}", (), configs)
        self._ports.append(ready_port(self._controllers[number]))

    def _start_node(self, number: int) -> None:
        configs = {"node.id": str(number)}
        if number in self._kafka_addresses:
            configs[LISTENERS] = PLAINTEXT + self._kafka_addresses[number]
        self._nodes[number] = self._start("node", f"node-{number}", self._ports, configs)


def ready_port(child: Child) -> int:
    """The port of a server process that is starting. Errors: ChildError."""
    return int(child.line(START_TIMEOUT_S).removeprefix("ready "))


def kafka_listener() -> dict[str, str]:
    """The setting of a node that Kafka clients can connect to."""
    return {LISTENERS: f"{PLAINTEXT}127.0.0.1:{reserve_ports(1)[0]}"}
