"""Both systems through one interface: addresses, log dirs, nodes that stop and restart."""

import contextlib
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.benchmarks.servers.kafka_cluster_io import KafkaCluster
from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.runtime.ports_io import reserve_ports
from headrace.runtime.server_security_config import SSL
from headrace.services.server_keys_io import ServerKeyFolder

from . import secured_io
from .secured_io import MUTUAL, OPEN, SEALED, Files
from .tap_io import Tap

# settings of both systems; all others are defaults
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",  # timestamps of scenarios are in the past
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
}
# in addition, for three nodes
OF_THREE = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
CONTROLLERS_OF_THREE = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",  # leaders change by scenarios only
}
SELECTOR = "RackAwareReplicaSelector"
STOP_TIMEOUT_S = 30.0
JVM = ("-Xms256m", "-Xmx512m", "-Djava.awt.headless=true")


class System(ABC):
    """Nodes 1, 2, ... on loopback, each behind a tap, so that addresses survive restarts."""

    def __init__(self, name: str, nodes: int, files: Files | None = None) -> None:
        """With `files` the only node has an authorizer and the listeners of `secured_io`."""
        self.name = name
        self.files = files
        self.taps = {number: Tap() for number in range(1, nodes + 1)}
        # of other listeners than that behind the tap, which cannot read what is encrypted
        self.ports = dict(zip((SEALED, MUTUAL), reserve_ports(2), strict=True)) if files else {}
        self.log_dirs: dict[int, Path] = {}
        self.second_dirs: dict[int, Path] = {}  # of nodes that have two

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(map(self.address, self.taps))

    @property
    def log_dir(self) -> Path:
        """Of the first node."""
        return self.log_dirs[1]

    @property
    def seen(self) -> dict[tuple[int, int], set[str]]:
        """The clients that sent each (API key, version) to any node."""
        heads = {head for tap in self.taps.values() for head in tap.seen}
        return {head: set().union(*(tap.seen.get(head, ()) for tap in self.taps.values())) for head in heads}

    def _place(self, folder: Path) -> None:
        """Assign log dirs; the last of several nodes has a second one."""
        self.log_dirs = {number: folder / f"node-{number}" for number in self.taps}
        if len(self.taps) > 1:
            number = max(self.taps)
            self.second_dirs = {number: folder / f"node-{number}-second"}
            self.second_dirs[number].mkdir(parents=True)

    def log_of(self, number: int, partition: str) -> Path:
        """The folder of a partition's log on a node, in either log dir."""
        dirs = [self.log_dirs[number], *filter(None, [self.second_dirs.get(number)])]
        return next((each / partition for each in dirs if (each / partition).is_dir()), dirs[0] / partition)

    def address(self, number: int) -> str:
        """host:port of one node."""
        return f"127.0.0.1:{self.taps[number].port}"

    def address_of(self, listener: str) -> str:
        """host:port of a listener of the only node of a secured system."""
        return f"127.0.0.1:{self.ports.get(listener, self.taps[1].port)}"

    def settings_of(self, number: int) -> dict[str, str]:
        """A node's own settings: its address, its security, and its rack in a cluster."""
        if self.files is not None:
            return secured_io.settings(self.files, {OPEN: self.taps[number].port, **self.ports})
        own = {"advertised.listeners": f"PLAINTEXT://{self.address(number)}"}
        if number in self.second_dirs:
            own["log.dirs"] = f"{self.log_dirs[number]},{self.second_dirs[number]}"
        return own | ({"broker.rack": f"rack-{number}"} if len(self.taps) > 1 else {})

    def close(self) -> None:
        """Stop the system and its taps."""
        self.stop()
        for tap in self.taps.values():
            tap.close()

    @abstractmethod
    def start(self) -> None:
        """Every node accepts connections on return."""

    @abstractmethod
    def stop(self) -> None:
        """All nodes; a single one by a controlled shutdown. May be called again."""

    @abstractmethod
    def end(self, number: int) -> None:
        """A controlled shutdown of one node."""

    @abstractmethod
    def kill(self, number: int) -> None:
        """SIGKILL one node."""

    @abstractmethod
    def restart(self, number: int) -> None:
        """Start a stopped or killed node; it accepts connections on return."""


class Kafka(System):
    """Apache Kafka, each node broker and controller in one JVM."""

    def __init__(
        self,
        scratch: Path,
        settings: Mapping[str, str],
        name: str = "kafka",
        *,
        nodes: int = 1,
        files: Files | None = None,
    ) -> None:
        super().__init__(name, nodes, files)
        self._folder = scratch / f"{name}-{nodes}{'-secured' if files else ''}"
        self._place(self._folder)
        self._settings = {**SETTINGS, **settings}
        if nodes > 1:
            selector = f"org.apache.kafka.common.replica.{SELECTOR}"
            self._settings |= {**OF_THREE, **CONTROLLERS_OF_THREE, "replica.selector.class": selector}
        self._cluster: KafkaCluster | None = None

    def start(self) -> None:
        if self._cluster is None:
            ports = reserve_ports(2 * len(self.taps))
            pairs = dict(zip(self.taps, zip(ports[::2], ports[1::2], strict=True), strict=True))
            own, jvm = {number: self.settings_of(number) for number in self.taps}, JVM
            if self.files is not None:
                broker, controller = pairs[1]
                own[1] |= secured_io.kafka_settings({OPEN: broker, **self.ports}, controller)
                jvm += secured_io.kafka_jvm(self.files)
            self._cluster = KafkaCluster(self._folder, pairs, self._settings, None, own=own, jvm=jvm)
            for number, tap in self.taps.items():
                tap.target = self._cluster.port(number)
        else:
            self._cluster.start_all()

    def stop(self) -> None:
        if self._cluster is not None and len(self.taps) == 1:
            self._cluster.end(1)
        elif self._cluster is not None:
            for number in self.taps:
                self._cluster.kill(number)

    def close(self) -> None:
        super().close()
        if self._cluster is not None:
            self._cluster.stop()

    def end(self, number: int) -> None:
        self._started.end(number)

    def kill(self, number: int) -> None:
        self._started.kill(number)

    def restart(self, number: int) -> None:
        self._started.start(number)

    @property
    def _started(self) -> KafkaCluster:
        assert self._cluster is not None
        return self._cluster


class Headrace(System):
    """Storage nodes with a listener for Kafka clients, and as many controllers, each in its own process."""

    def __init__(
        self, scratch: Path, settings: Mapping[str, str], *, nodes: int = 1, files: Files | None = None
    ) -> None:
        super().__init__("headrace", nodes, files)
        self._folder = scratch / f"headrace-{nodes}{'-secured' if files else ''}"
        self._folder.mkdir()
        self._place(self._folder)
        self._settings, self._of_controllers = {**SETTINGS, **settings}, {}
        if nodes > 1:
            self._settings |= {**OF_THREE, "replica.selector.class": SELECTOR}
            self._of_controllers = CONTROLLERS_OF_THREE
        for tap in self.taps.values():
            tap.target = reserve_ports(1)[0]
        self._controllers: list[subprocess.Popen[str]] = []
        self._nodes: dict[int, subprocess.Popen[str]] = {}
        self._ports: list[str] = []

    def start(self) -> None:
        """The first controller starts the quorum, the others join it."""
        self._ports = []
        for number in self.taps:
            pairs = {"controller.id": str(number), **self._of_controllers}
            if self.files is not None:
                pairs |= {"delegation.token.secret.key": secured_io.TOKEN_SECRET}
                pairs |= self._server_keys(ServerName(CONTROLLER, number))
            if number > 1:
                first = f"127.0.0.1:{self._ports[0]}"
                pairs |= {
                    "controller.quorum.bootstrap.servers": first,
                    "controller.quorum.auto.join.enable": "true",
                }
            process, port = self._start("controller", number, "", pairs)
            self._controllers.append(process)
            self._ports.append(port)
        for number in self.taps:
            self.restart(number)

    def stop(self) -> None:
        for number in list(self._nodes):
            self.end(number)
        while self._controllers:
            _terminate(self._controllers.pop())

    def end(self, number: int) -> None:
        _terminate(self._nodes.pop(number))

    def kill(self, number: int) -> None:
        process = self._nodes.pop(number)
        process.kill()
        _terminate(process)

    def restart(self, number: int) -> None:
        first = "PLAINTEXT" if self.files is None else OPEN
        listeners = {first: self.taps[number].target, **self.ports}
        pairs = {
            "node.id": str(number),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            **self._settings,
            **self.settings_of(number),
            **({} if self.files is None else self._server_keys(ServerName(NODE, number))),
        }
        self._nodes[number], _ = self._start("node", number, ",".join(self._ports), pairs)

    def _server_keys(self, name: ServerName) -> dict[str, str]:
        """Servers know each other by these, so that rules are for clients alone."""
        folder = ServerKeyFolder(self._folder / "security")
        folder.make([name])
        return {"native.security.protocol": SSL, **folder.config_of(name)}

    def _start(
        self, kind: str, number: int, ports: str, pairs: Mapping[str, str]
    ) -> tuple[subprocess.Popen[str], str]:
        """The process and its port, when it serves."""
        folder = self._folder / f"{kind}-{number}"
        command = [
            sys.executable,
            "-m",
            "headrace.benchmarks.servers.server_process",
            kind,
            str(folder),
            ports,
            "",
        ]
        command += [f"{name}={value}" for name, value in pairs.items()]
        log = self._folder / f"{kind}-{number}.txt"
        with log.open("a") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            _terminate(process)
            raise RuntimeError(f"{kind} {number} did not start: {log.read_text()[-3000:]}")
        return process, line.split()[1]


def _terminate(process: subprocess.Popen[str]) -> None:
    """SIGTERM, and wait for the end."""
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


@contextlib.contextmanager
def running(*systems: System) -> Iterator[None]:
    """Start the systems, and stop them at the end."""
    try:
        for system in systems:
            system.start()
        yield
    finally:
        for system in systems:
            system.close()
