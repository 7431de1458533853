"""A cluster of real processes on this host, connected through the chaos network of proxy.py.

The names of the servers are those of the links: "controller-1", "node-1". Faults of links apply to clients
with the ids "client-N"; they do not apply to "observer-N" and to the requests of this module.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import controller_process
import headrace
import node_process
import process_log
from forking import Forked
from headrace.protocol.errors import HeadraceError, NetworkError, NotControllerError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import FetchMetadataRequest
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from headrace.protocol.metadata.image import MetadataImage, PartitionRegistration
from headrace.protocol.metadata.replay import image_of, replay
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.ports_io import reserve_ports
from node_rig import Client, batch
from proxy import HOST, ChaosNetwork, between
from waiting import PATIENCE_S, wait_for

ASK_TIMEOUT_S = 2.0
SESSION_S = 1.5  # broker.session.timeout.ms, the default
LAG_S = 2.0  # replica.lag.time.max.ms, far below the default of 30 s: tests wait for it
LOG_TAIL_CHARS = 3_000


class Server:
    """One server process with its own files. Its address is that of its proxy and never changes."""

    def __init__(self, name: str, script: str, directory: Path, network: ChaosNetwork | None) -> None:
        self.name, self.directory = name, directory
        self.id = int(name.partition("-")[2])
        # The ports behind the proxy, and of a node's Kafka listener. They stay reserved while it is down.
        self.port, self.kafka_port = reserve_ports(2)
        self.address_port = self.port if network is None else network.listen(name)
        if network is not None:
            network.route(name, self.port)
        self.log_path = directory.with_name(f"{name}.log")
        self.arguments: list[str] = []
        self.environment: dict[str, str] = {}
        self.process: Forked | None = None
        self._script = script
        self._is_ready = threading.Event()

    @property
    def is_alive(self) -> bool:
        """Whether its process exists, paused or not."""
        return self.process is not None and self.process.poll() is None

    @property
    def is_standing_still(self) -> bool:
        """Whether its process is paused or has ended."""
        return not self.is_alive or self._state() == "T"

    def start(self, *, wait: bool = True) -> None:
        """Start a process with the present files."""
        assert not self.is_alive, f"{self.name} runs already"
        self._is_ready = threading.Event()
        environment = {**os.environ, process_log.VARIABLE: "INFO", **self.environment}
        with self.log_path.open("ab") as log:
            self.process = Forked([self._script, *self.arguments], log=log, environment=environment)
        threading.Thread(target=self._listen, args=(self.process, self._is_ready), daemon=True).start()
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves. Fails with the end of its log."""
        assert self._is_ready.wait(PATIENCE_S), f"{self.name} does not get ready:\n{self.log_tail()}"
        assert self.is_alive, f"{self.name} has ended:\n{self.log_tail()}"

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._signal(signal.SIGKILL)
        self._wait_for_end()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM and wait for a clean shutdown."""
        self.terminate()
        assert self._wait_for_end() == 0, f"{self.name} did not shut down cleanly:\n{self.log_tail()}"

    def pause(self) -> None:
        """Send SIGSTOP and wait until all its threads are stopped."""
        self._signal(signal.SIGSTOP)
        wait_for(lambda: self._state() == "T", f"{self.name} is paused")

    def resume(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Remove all its files, as with a new disk."""
        assert not self.is_alive
        shutil.rmtree(self.directory)

    def log_tail(self) -> str:
        """The end of its output."""
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    def _signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _wait_for_end(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def _state(self) -> str:
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    @staticmethod
    def _listen(process: Forked, is_ready: threading.Event) -> None:
        with process.stdout:
            for line in process.stdout:
                if line.startswith(b"ready "):
                    is_ready.set()
        process.wait()
        is_ready.set()  # it has ended: `wait_ready` checks that


class Raw:
    """Requests to one node without retries. Its methods raise HeadraceError."""

    def __init__(self, network: ChaosNetwork, port: int, name: str) -> None:
        self._thread = network.thread
        opening = Connection.open(HOST, port, client_id=name, timeout_s=PATIENCE_S)
        self._client = Client(self._thread.call(opening, 2 * PATIENCE_S))

    def begin_produce(self, topic_id: bytes, *values: bytes, **options: Any) -> Future[Any]:
        """Send a batch; the future gets the partition's response. Options: partition, acks, timeout_ms."""
        data = batch(*values, timestamp_ms=time.time_ns() // 1_000_000)
        return self._thread.submit(self._client.produce(topic_id, data, **options))

    def produce(self, topic_id: bytes, *values: bytes, **options: Any) -> Any:
        """Send a batch; returns the partition's response."""
        return self.begin_produce(topic_id, *values, **options).result(PATIENCE_S)

    def is_acknowledged(self, produced: Future[Any]) -> bool:
        """Whether a `begin_produce` was acknowledged; False without a response."""
        try:
            return bool(produced.result(PATIENCE_S).error_code == 0)
        except NetworkError:
            return False

    def fetch(self, topic_id: bytes, offset: int = 0) -> tuple[Any, list[tuple[int, bytes | None]]]:
        """Fetch partition 0: its response, and (offset, value) of each record."""
        return self._thread.call(self._client.fetch(topic_id, offset), PATIENCE_S)

    def close(self) -> None:
        """Close the connection."""
        self._thread.wake(self._client.close)


class FaultCluster:
    """Controllers and storage nodes; a context manager that starts and stops them all."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        controllers: int = 1,
        config: Mapping[str, Any] | None = None,
        controller_config: Mapping[str, Any] | None = None,
        seed: int = 1,
        kafka: bool = False,
        proxied: bool = True,
    ) -> None:
        """`kafka`: nodes have a Kafka listener, too. `proxied`: every connection goes through the chaos
        network; False where the load of the machine is the fault, to which the proxy would add delays."""
        self.directory = directory
        self._is_proxied = proxied
        self._has_kafka = kafka
        self.network = ChaosNetwork(seed)
        self._config = {"replica.lag.time.max.ms": int(LAG_S * 1000), **(config or {})}
        self._controller_config = dict(controller_config or {})
        self._counts = {"controller": controllers, "node": nodes}
        self.servers: dict[str, Server] = {}
        self._image = MetadataImage()
        self._clients: headrace.Cluster | None = None

    # --- life ---------------------------------------------------------------------------------------------

    def __enter__(self) -> FaultCluster:
        self.network.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._clients is not None:
            self._clients.close(1)
        for server in self.servers.values():
            if server.is_alive:
                server.kill()  # SIGKILL also ends a paused process
        self.network.__exit__()
        assert self.network.failure is None, self.network.failure

    def _start(self) -> None:
        scripts = {"controller": controller_process.__file__, "node": node_process.__file__}
        network = self.network if self._is_proxied else None
        for kind, count in self._counts.items():
            for number in range(1, count + 1):
                name = f"{kind}-{number}"
                self.servers[name] = Server(name, scripts[kind], self.directory / name, network)
                if kind == "controller":
                    self.servers[name].environment[process_log.DISK_STALL] = str(self._disk_stall)
        self._start_quorum()
        for server in self.nodes:
            server.arguments = self._node_arguments(server)
            server.start(wait=False)
        for server in self.nodes:
            server.wait_ready()

    def _start_quorum(self) -> None:
        """The first controller formats the quorum, the others join it; later each finds it by the others."""
        first, *others = self.controllers
        first.arguments = self._controller_arguments(first, [])
        first.start()
        for server in others:
            server.arguments = self._controller_arguments(server, [first])
            server.start()
        if others:
            self.until(lambda: len(self.quorum().voters) == len(self.controllers), "all controllers vote")
        for server in others:
            server.arguments = self._controller_arguments(server, self.controllers)
        if others:
            first.arguments = self._controller_arguments(first, self.controllers)

    def _controller_arguments(self, server: Server, known: list[Server]) -> list[str]:
        values = {
            "controller.id": server.id,
            "listener.port": server.port,
            "advertised.port": server.address_port,
            **self._controller_config,
        }
        if known:
            addresses = ",".join(f"{HOST}:{each.address_port}" for each in known if each is not server)
            values["controller.quorum.bootstrap.servers"] = addresses
            values["controller.quorum.auto.join.enable"] = True
        return [str(server.directory), *(f"{name}={value}" for name, value in values.items())]

    def _node_arguments(self, server: Server) -> list[str]:
        controllers = ",".join(str(each.address_port) for each in self.controllers)
        values = {
            "node.id": server.id,
            "listener.port": server.port,
            "advertised.port": server.address_port,
            **self._config,
        }
        if self._has_kafka:
            values["listeners"] = f"PLAINTEXT://{HOST}:{server.kafka_port}"
        return [str(server.directory), controllers, *(f"{name}={value}" for name, value in values.items())]

    # --- servers and clients ------------------------------------------------------------------------------

    @property
    def controllers(self) -> list[Server]:
        """All controllers, by number."""
        return [server for name, server in self.servers.items() if name.startswith("controller")]

    @property
    def nodes(self) -> list[Server]:
        """All storage nodes, by number."""
        return [server for name, server in self.servers.items() if name.startswith("node")]

    def node(self, node_id: int) -> Server:
        """The storage node with this id."""
        return self.servers[f"node-{node_id}"]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(f"{HOST}:{server.address_port}" for server in self.nodes)

    @property
    def kafka_bootstrap(self) -> str:
        """The Kafka listeners of all nodes; faults of links do not apply to them."""
        return ",".join(f"{HOST}:{server.kafka_port}" for server in self.nodes)

    @property
    def clients(self) -> headrace.Cluster:
        """Clients of the test itself; faults of links do not apply to them."""
        if self._clients is None:
            self._clients = headrace.connect(self.bootstrap, client_id="observer-1")
        return self._clients

    # --- the state of the cluster -------------------------------------------------------------------------

    def ask(self, server: Server, api: Any, body: Any, timeout_s: float = ASK_TIMEOUT_S) -> Any:
        """Send a request past the chaos network; returns the response. Errors: HeadraceError."""

        async def work() -> Any:
            connection = await Connection.open(HOST, server.port, client_id="observer-0", timeout_s=timeout_s)
            try:
                return (await connection.request(api, body, timeout_s=timeout_s)).body
            finally:
                connection.close()

        return self.network.thread.call(work(), 3 * timeout_s)

    def ask_controller(self, api: Any, body: Any) -> Any:
        """Send a request to the active controller; returns the response."""
        answers: list[Any] = []

        def is_answered() -> bool:
            for server in self.controllers:
                if not server.is_standing_still:
                    with contextlib.suppress(HeadraceError, TimeoutError):
                        answers.append(self.ask(server, api, body))
                        if answers[-1].error_code != NotControllerError.code:
                            return True
            return False

        self.until(is_answered, f"a controller answers {api.name}")
        return answers[-1]

    def quorum(self) -> DescribeQuorumResponse:
        """The quorum as described by its leader; by the one of the newest epoch if two controllers lead."""
        found: list[DescribeQuorumResponse] = []

        def is_known() -> bool:
            for server in self.controllers:
                if not server.is_standing_still:
                    with contextlib.suppress(HeadraceError, TimeoutError):
                        answer = self.ask(server, registry.DESCRIBE_QUORUM, DescribeQuorumRequest())
                        if answer.leader_id == server.id and not answer.error_code:
                            found.append(answer)
            return bool(found)

        self.until(is_known, "a controller leads")
        return max(found, key=lambda answer: answer.leader_epoch)

    @property
    def active_controller(self) -> Server:
        """The active controller; waits for one."""
        return self.servers[f"controller-{self.quorum().leader_id}"]

    def raw(self, server: Server, name: str = "observer-0") -> Raw:
        """A connection to a node, past the chaos network; the caller closes it."""
        return Raw(self.network, server.port, name)

    def image(self) -> MetadataImage:
        """The newest metadata that any controller has published."""
        request = FetchMetadataRequest(-1, self._image.offset, 0)
        for server in self.controllers:
            if not server.is_standing_still:
                with contextlib.suppress(HeadraceError, TimeoutError):
                    self._follow(self.ask(server, registry.FETCH_METADATA, request))
        return self._image

    def _follow(self, answer: Any) -> None:
        old = self._image
        if answer.error_code:
            return
        if answer.is_snapshot:
            found = image_of(answer.records, answer.end_offset - 1)
            self._image = found if found.offset > old.offset else old
        elif answer.base_offset == old.offset + 1 and answer.records:
            self._image, _ = replay(old, answer.base_offset, answer.records)

    def partition(self, topic: str, number: int = 0) -> PartitionRegistration:
        """The partition's registration in the newest metadata."""
        return self.image().topics[topic].partitions[number]

    def leader(self, topic: str, number: int = 0) -> int:
        """The id of the partition's leader; waits for one."""
        self.until(lambda: self.partition(topic, number).leader >= 0, f"{topic}-{number} has a leader")
        return self.partition(topic, number).leader

    def follower(self, topic: str, number: int = 0) -> int:
        """The id of a follower of the partition."""
        leader = self.leader(topic, number)
        return next(node for node in self.partition(topic, number).replicas if node != leader)

    def is_fenced(self, node_id: int) -> bool:
        """Whether the node is fenced in the newest metadata."""
        return self.image().brokers[node_id].is_fenced

    def knows(self, server: Server, offset: int) -> bool:
        """Whether a node has applied the metadata up to this offset."""
        try:
            answer = self.ask(server, registry.METADATA, MetadataRequest(()))
        except (HeadraceError, TimeoutError):
            return False
        return int(answer.metadata_offset) >= offset

    def until(
        self, is_so: Callable[[], object], what: str, *, evidence: Callable[[], str] | None = None
    ) -> None:
        """Poll until the condition holds. Fails with the end of each server's log."""
        wait_for(is_so, what, evidence=evidence or self.evidence)

    def until_in_sync(self, topic: str, count: int = 3) -> None:
        """Wait until every partition has a leader and this many replicas in sync."""

        def is_so() -> bool:
            found = self.image().topics[topic].partitions
            return all(partition.leader >= 0 and len(partition.isr) >= count for partition in found)

        self.until(is_so, f"all partitions of {topic} have {count} replicas in sync")

    def until_serving(self, topic: str) -> None:
        """Wait until every live node knows the topic and its leaders."""
        offset = self.image().offset
        for server in self.nodes:
            if server.is_alive:
                self.until(lambda server=server: self.knows(server, offset), f"{server.name} knows {topic}")

    def evidence(self) -> str:
        """The metadata, and the end of each server's log."""
        parts = [f"--- metadata: {self._image.topics}"]
        parts += [f"--- {server.name}\n{server.log_tail()}" for server in self.servers.values()]
        return "\n".join(parts)

    # --- topics and faults --------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, replication: int = 3, **configs: Any) -> None:
        """Create a topic; wait until its replicas are in sync and every node knows it."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = headrace.NewTopic(name, partitions, replication, settings)
        with self.clients.admin() as admin:
            admin.create_topics(topic).raise_for_errors()
        self.until_in_sync(name, replication)
        self.until_serving(name)

    @property
    def _disk_stall(self) -> Path:
        return self.directory / "disk-stall-ms"

    def stall_controllers_disks(self, ms: int) -> None:
        """Delay every fsync of all controllers from now on; 0 ends that."""
        if not ms:
            self._disk_stall.unlink(missing_ok=True)
            return
        written = self._disk_stall.with_suffix(".new")
        written.write_text(str(ms))
        written.rename(self._disk_stall)

    def isolate(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Freeze all links between the two groups, in both directions."""
        self.network.freeze(between(some, others))

    def all_links(self) -> list[tuple[str, str]]:
        """All links between servers, and from the workload's clients."""
        names = list(self.servers)
        return between(names, names) + self.client_links(self.nodes)

    @staticmethod
    def client_links(servers: Iterable[Server], clients: int = 16) -> list[tuple[str, str]]:
        """The links from every client of the workload to these servers."""
        return [(f"client-{number}", server.name) for server in servers for number in range(clients)]

    def until_replicas_agree(self, topic: str, number: int = 0) -> None:
        """Wait until all replicas have equal bytes."""

        def is_so() -> bool:
            logs = self.logs_of(topic, number)
            return set(logs) >= set(self.partition(topic, number).replicas) and len(set(logs.values())) == 1

        self.until(
            is_so, f"the replicas of {topic}-{number} agree", evidence=lambda: self._differences(topic)
        )

    def _differences(self, topic: str) -> str:
        logs = {node: len(data) for node, data in self.logs_of(topic).items()}
        return f"bytes by node: {logs}\n{self.evidence()}"

    def logs_of(self, topic: str, number: int = 0) -> dict[int, bytes]:
        """The bytes in the files of the partition's log, by node; without nodes whose files change while they
        are read."""
        found = {}
        for server in self.nodes:
            folder = server.directory / f"{topic}-{number}"
            if folder.is_dir():
                with contextlib.suppress(FileNotFoundError):
                    found[server.id] = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        return found


def hold(seconds: float) -> None:
    """Wait for the duration of a fault."""
    threading.Event().wait(seconds)
