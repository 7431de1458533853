"""Nodes, a controller and clients, for a script: nothing happens by chance, and time passes evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster import Plan, SimCluster
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, NewTopicSpec, ReplicaAssignment
from log_contents import buffers
from network import Weather
from recorder import Fact, Recorder
from sim_clients import SimClient
from sim_node import SimNode
from wording import Wording, batches, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.storage_node.log.log import Log

TOPIC = "orders"
STEADY = Weather(min_delay_ms=1, mean_delay_ms=0)
LIMIT_MS = 30_000


class SteadyNode(SimNode):
    """Its disk always takes as long, and its process stays dead until the script starts it."""

    def _delay(self, mean_ms: int) -> int:
        return mean_ms

    def _restart_soon(self) -> None:
        pass


class Operator(SimClient):
    """Asks the controller."""

    def _poll(self) -> None:
        pass


class ClusterStage(SimCluster):
    """A cluster whose conversation is recorded. With `groups` it has coordinators, and the conversation is
    that of the clients with them: fetches between nodes and the logs of followers are left out."""

    node_class = SteadyNode

    def __init__(self, *, groups: str = "", partitions: int = 1) -> None:
        super().__init__("traces", Plan(partitions=partitions, groups=groups, is_brisk=True, weather=STEADY))
        self.network.weather = STEADY
        self._read_to: dict[tuple[str, str], int] = {}
        self.recorder = Recorder(
            self.world,
            Wording(self, shows_replication=not groups).words,
            (self._metadata, self._roles, self._logs),
        )

    def open(self) -> None:
        """Start everything and create TOPIC; the trace begins then."""
        self.recorder.is_on = False
        for process in (*self.controllers.values(), *self.nodes.values()):
            process.start()
        self.until(lambda: sum(not each.is_fenced for each in self.rules.image.brokers.values()) == 3)
        self._create_topics()
        self.until(lambda: TOPIC in self.rules.image.topics and self.is_in_sync())
        self.world.run(500)
        self.recorder.is_on = True

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until it holds."""
        self.require(LIMIT_MS, condition, "the script waits for ever")

    def has_replicated(self) -> bool:
        """Whether all replicas have all records, and know that they are committed."""
        partitions = [
            partition
            for node in self.nodes.values()
            if node.core is not None
            for partition in node.core.table.partitions.values()
        ]
        ends: dict[Any, set[int]] = {}
        for each in partitions:
            assert each.log is not None
            ends.setdefault(each.key, set()).update((each.log.log_end_offset, each.high_watermark))
        return all(node.is_alive for node in self.nodes.values()) and all(
            len(each) == 1 for each in ends.values()
        )

    def _make_clients(self) -> None:
        self.topics = [TOPIC]
        self.operator = Operator(self, "operator")
        self.producers, self.consumers, self.keyed = [], [], None

    @property
    def checked_topics(self) -> list[str]:
        """Topics whose replicas must come into sync."""
        return [TOPIC]

    def guess_controller(self, _random: Any) -> str:
        """The controller that decides, if there is one."""
        return next((each.name for each in self.controllers.values() if each.core is not None), "c1")

    def _create_topics(self) -> None:
        assignments = tuple(
            ReplicaAssignment(number, tuple((number + index) % 3 + 1 for index in range(3)))
            for number in range(self.plan.partitions)
        )
        configs = {"min.insync.replicas": "2"}
        spec = NewTopicSpec(TOPIC, assignments=assignments, configs=configs)
        controller = self.guess_controller(None)
        link = self.transport.open(self.operator, controller)
        link.ask(registry.CREATE_TOPICS, CreateTopicsRequest((spec,)), (), 1_000, lambda *_: None)

    def _check(self) -> None:
        super()._check()
        self.recorder.look()

    # --- facts --------------------------------------------------------------------------------------------

    def _metadata(self) -> Iterator[Fact]:
        image = self.rules.image
        for number, broker in image.brokers.items():
            state = "fenced" if broker.is_fenced else "unfenced"
            yield Fact(
                ("broker", number),
                (state, broker.broker_epoch),
                f"controller: node {number} {state}, broker epoch {broker.broker_epoch}",
            )
        for name, topic in image.topics.items():
            for number, partition in enumerate(topic.partitions):
                leader = f"node {partition.leader}" if partition.leader >= 0 else "none"
                sentence = (
                    f"controller: {name}-{number} leader {leader}, leader epoch {partition.leader_epoch}, "
                    f"ISR {listed(partition.isr)}"
                )
                yield Fact(("metadata", name, number), partition, sentence)

    def _roles(self) -> Iterator[Fact]:
        for node in self.nodes.values():
            for partition in node.core.table.partitions.values() if node.core is not None else ():
                tp = "-".join(map(str, partition.topic_partition))
                epoch = f"leader epoch {partition.leader_epoch}"
                role = f"becomes leader of {tp}, {epoch}"
                if not partition.is_leader:
                    role = f"follows node {partition.leader} for {tp}, {epoch}"
                    if partition.leader < 0:
                        role = f"has no leader for {tp}, {epoch}"
                yield Fact(("role", node.name, tp), role, f"node {node.node_id}: {role}")

    def _logs(self) -> Iterator[Fact]:
        for node in self.nodes.values():
            for partition in node.core.table.partitions.values() if node.core is not None else ():
                log = partition.log
                if log is None or log.is_offline or (self.groups is not None and not partition.is_leader):
                    continue
                tp = "-".join(map(str, partition.topic_partition))
                ends = (log.log_end_offset, partition.high_watermark)
                sentence = f"node {node.node_id}: {tp} log end offset {ends[0]}, high watermark {ends[1]}"
                if partition.is_leader and partition.is_internal:
                    yield from self._appended(node, tp, log)
                yield Fact(("log", node.name, tp), ends, sentence)

    def _appended(self, node: SimNode, tp: str, log: Log) -> Iterator[Fact]:
        """What the node's coordinator has appended since the last look."""
        start, end = self._read_to.get((node.name, tp), 0), log.log_end_offset
        self._read_to[node.name, tp] = end
        for text in batches(buffers(log, start, end) if start < end else ()):
            yield Fact(("appended", tp), (end, text), f"node {node.node_id}: appends to {tp}: {text}")
