"""Three nodes of each system, every partition with three replicas; a node can be killed and brought back.

Both have three controllers that vote: Kafka's inside its three JVMs, headrace's in processes of their own.
All settings of servers are defaults, but those of `Kafka.SETTINGS`; topics have min.insync.replicas 2.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.runtime.ports_io import reserve_ports
from headrace.runtime.waiting_io import until

from . import kafka_cluster_io
from .replicated import NODES
from .systems_io import (
    LISTENERS,
    NO_CONFIGS,
    PLAINTEXT,
    START_TIMEOUT_S,
    TOPIC_TIMEOUT_S,
    Kafka,
    silent,
    wait_gone,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .children_io import Child, Children

IN_SYNC = {"min.insync.replicas": "2"}
RETURN_TIMEOUT_S = 90.0


class Place(NamedTuple):
    """A partition's leader, -1 while there is none, and how many of its replicas are in sync."""

    leader: int
    in_sync: int


class HeadraceCluster:
    """Three storage nodes and three controllers, six processes. Kafka's clients reach it if it `listens`."""

    name = "headrace"

    def __init__(
        self,
        children: Children,
        scratch: Path,
        cores: Iterable[int],
        profile: str = "",
        *,
        listens: bool = False,
    ) -> None:
        from headrace import Admin

        self.data_dir = scratch / "headrace-nodes"
        self._children, self._cores, self._profile = children, list(cores), profile
        self._controllers, self._ports = self._start_quorum()
        self._nodes: dict[int, Child] = {}
        self._addresses: dict[int, str] = {}
        ports = reserve_ports(NODES) if listens else []
        self._kafka_addresses = {number: f"127.0.0.1:{port}" for number, port in enumerate(ports, 1)}
        self.kafka_bootstrap = ",".join(self._kafka_addresses.values())
        for number in range(1, NODES + 1):
            self._nodes[number] = self._start_node(number)
        for number, node in self._nodes.items():
            self._addresses[number] = f"127.0.0.1:{ready_port(node)}"
        self.bootstrap = ",".join(self._addresses.values())
        self._admin = Admin(self.bootstrap)
        if not until(lambda: len(self._admin.describe_cluster().nodes) == NODES, START_TIMEOUT_S):
            raise TimeoutError("not all nodes of headrace came up")

    @property
    def node_pids(self) -> list[int]:
        """The processes that hold records."""
        return [node.pid for node in self._nodes.values()]

    @property
    def controller_pids(self) -> list[int]:
        """The processes that hold metadata alone."""
        return [controller.pid for controller in self._controllers]

    @property
    def cpu_pids(self) -> list[int]:
        """All of them."""
        return [*self.node_pids, *self.controller_pids]

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = NODES,
        *,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """All replicas of every partition are in sync on return."""
        from headrace import NewTopic

        configs = {**(IN_SYNC if replicas == NODES else {}), **configs}
        made = self._admin.create_topics(
            NewTopic(name, partitions, replicas, configs), timeout=TOPIC_TIMEOUT_S
        )
        made.raise_for_errors()
        wait_in_sync(self, name, partitions, replicas)

    def delete_topic(self, name: str) -> None:
        """Its files are gone on return."""
        self._admin.delete_topics(name, timeout=TOPIC_TIMEOUT_S).raise_for_errors()
        wait_all_gone(self.data_dir, name)

    def places(self, topic: str) -> list[Place]:
        """Its partitions, by number."""
        found = self._admin.describe_topics(topic)[topic].partitions
        return [Place(part.leader, len(part.isr)) for part in sorted(found, key=lambda p: p.partition)]

    def victim(self, topic: str) -> int:
        """The node to kill: the leader of the first partition."""
        return self.places(topic)[0].leader

    def kill(self, number: int) -> None:
        """SIGKILL, and gone."""
        self._nodes[number].process.kill()
        self._nodes[number].process.wait()
        self._children.end(self._nodes[number])

    def bring_back(self, number: int) -> None:
        """Start a killed node over its files."""
        self._nodes[number] = self._start_node(number)
        ready_port(self._nodes[number])

    def begin_profile(self) -> None:
        """Start the sampling profiler of every node."""
        for pid in self.node_pids:
            os.kill(pid, signal.SIGUSR1)

    def end_profile(self) -> None:
        """End it: each node writes its file."""
        for pid in self.node_pids:
            os.kill(pid, signal.SIGUSR2)

    def stop(self) -> None:
        """Nodes first, so that the controllers see them go."""
        self._admin.close()
        for child in (*self._nodes.values(), *self._controllers):
            self._children.end(child)

    def _start_quorum(self) -> tuple[list[Child], list[int]]:
        """The first begins it, the others join it."""
        children: list[Child] = []
        ports: list[int] = []
        for number in range(1, NODES + 1):
            pairs = [f"controller.id={number}"]
            if ports:
                pairs.append(f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[0]}")
                pairs.append("controller.quorum.auto.join.enable=true")
            children.append(self._start("controller", number, pairs))
            ports.append(ready_port(children[-1]))
        return children, ports

    def _start_node(self, number: int) -> Child:
        pairs = [f"node.id={number}"]
        if number in self._kafka_addresses:
            pairs.append(f"{LISTENERS}={PLAINTEXT}{self._kafka_addresses[number]}")
        return self._start("node", number, pairs, ",".join(map(str, self._ports)))

    def _start(self, kind: str, number: int, pairs: list[str], ports: str = "") -> Child:
        folder = self.data_dir / f"{kind}-{number}"
        profile = f"{self._profile}-{number}" if self._profile and kind == "node" else ""
        arguments = (kind, str(folder), ports, profile, *pairs)
        return self._children.start(f"{kind}-{number}", "server_process", *arguments, cores=self._cores)


class KafkaCluster:
    """Three JVMs, each broker and controller."""

    name = "kafka"

    def __init__(self, scratch: Path, cores: Iterable[int]) -> None:
        from confluent_kafka.admin import AdminClient

        self.data_dir = scratch / "kafka-nodes"
        self._cluster = kafka_cluster_io.KafkaCluster(self.data_dir, NODES, Kafka.SETTINGS, cores)
        self.bootstrap = self.kafka_bootstrap = self._cluster.bootstrap
        self._admin: Any = None
        try:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=silent())
            self._wait_up()
        except BaseException:
            self._cluster.stop()
            raise

    def _wait_up(self) -> None:
        if not until(lambda: len(self._admin.list_topics(timeout=10).brokers) == NODES, TOPIC_TIMEOUT_S):
            raise TimeoutError("not all nodes of Kafka came up")

    @property
    def node_pids(self) -> list[int]:
        """Of the three JVMs."""
        return self._cluster.pids

    @property
    def controller_pids(self) -> list[int]:
        """None of their own."""
        return []

    @property
    def cpu_pids(self) -> list[int]:
        """All of them."""
        return self.node_pids

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = NODES,
        *,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """All replicas of every partition are in sync on return."""
        from confluent_kafka.admin import NewTopic

        config = {"file.delete.delay.ms": "0", **(IN_SYNC if replicas == NODES else {}), **configs}
        topic = NewTopic(name, partitions, replicas, config=config)
        self._admin.create_topics([topic])[name].result(TOPIC_TIMEOUT_S)
        wait_in_sync(self, name, partitions, replicas)

    def delete_topic(self, name: str) -> None:
        """Its files are gone on return."""
        self._admin.delete_topics([name])[name].result(TOPIC_TIMEOUT_S)
        wait_all_gone(self.data_dir, name)

    def places(self, topic: str) -> list[Place]:
        """Its partitions, by number."""
        found = self._admin.list_topics(topic, TOPIC_TIMEOUT_S).topics[topic].partitions
        return [Place(part.leader, len(part.isrs)) for _, part in sorted(found.items())]

    def victim(self, topic: str) -> int:
        """The node to kill: the first leader that is not the active controller too, whose loss costs more."""
        active = self._cluster.active_controller()
        return next(place.leader for place in self.places(topic) if place.leader != active)

    def kill(self, number: int) -> None:
        """SIGKILL, and gone."""
        self._cluster.kill(number)

    def bring_back(self, number: int) -> None:
        """Start a killed node over its files."""
        self._cluster.start(number)

    def stop(self) -> None:
        """Cleanly; safe to call again."""
        self._admin = None
        self._cluster.stop()


Cluster = HeadraceCluster | KafkaCluster


def ready_port(child: Child) -> int:
    """Of a server process that starts. Errors: ChildError."""
    return int(child.line(START_TIMEOUT_S).removeprefix("ready "))


def wait_in_sync(cluster: Cluster, topic: str, partitions: int, replicas: int = NODES) -> None:
    """Until every partition has a leader and all replicas in sync. Errors: TimeoutError."""

    def is_so() -> bool:
        # right after it was made, or a node was killed, an answer may miss
        with contextlib.suppress(Exception):
            places = cluster.places(topic)
            return len(places) == partitions and all(
                place.leader >= 0 and place.in_sync == replicas for place in places
            )
        return False

    if not until(is_so, RETURN_TIMEOUT_S):
        raise TimeoutError(f"{cluster.name}: not all replicas of {topic} are in sync")


def wait_all_gone(folder: Path, topic: str) -> None:
    """Until no node holds a folder of a topic."""
    for node in folder.iterdir():
        wait_gone(node, topic)
