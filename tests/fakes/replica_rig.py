"""Several node cores that replicate: the rig delivers messages and has one clock and a small controller."""

from dataclasses import dataclass
from typing import Any, Self

import msgspec
from core_rig import CoreRig, FakePeer, FakeRequest
from fake_files import FakeFiles
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import AlteredPartition, AlterPartitionResponse
from headrace.protocol.messages.data import FetchRequest, FetchResponse
from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionRegistration
from headrace.protocol.metadata.records import (
    ConfigRecord,
    FenceBrokerRecord,
    FormatRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from headrace.protocol.metadata.replay import replay
from headrace.storage_node.effects import ProposeIsr, SendFetch
from headrace.storage_node.embedded.contract import CoordinatorFactory
from node_rig import WALL_MS, batch, values_of

TOPIC = b"topic-of-replicas"[:16]
INELIGIBLE, FENCED_EPOCH, OLD_VERSION = 107, 74, 95


@dataclass(eq=False)
class _Fetch:
    """A fetch in flight to `leader`, and its response."""

    follower: int
    leader: int
    effect: SendFetch
    request: FakeRequest


class Replicas:
    """Nodes 1..n with one topic of one partition, led by node 1. Messages are delivered only by `settle`."""

    def __init__(self, nodes: int = 3, *, min_isr: int = 1, rf: int | None = None, **facts: Any) -> None:
        """`facts` are topic configs with underscores; `node` has node configs; `coordinators` makes the
        coordinators of a node; `topic` is the topic's name."""
        self.topic: str = facts.pop("topic", "t")
        self.coordinators: CoordinatorFactory | None = facts.pop("coordinators", None)
        self.node_config: dict[str, Any] = facts.pop("node", {})
        self.racks: dict[int, str] = facts.pop("racks", {})
        self.now_ms = 1_000
        self.image = MetadataImage()
        self.records: list[Any] = []
        self.nodes: dict[int, CoreRig] = {}
        self.epochs: dict[int, int] = {}
        self.cut: set[tuple[int, int]] = set()  # (follower, leader) without a link
        self.held_back: set[tuple[int, int]] = set()  # (follower, leader) whose responses are delayed
        self.no_controller: set[int] = set()
        self.frozen: set[int] = set()  # nodes that do not get metadata updates
        self.full: set[int] = set()  # nodes that have reported a full disk
        self.is_flushing = True
        self.asked: list[Any] = []  # number of AlterPartition requests
        self._sessions: dict[tuple[int, int], FakePeer] = {}
        self._number = 100
        self._fetches: list[_Fetch] = []
        replicas = tuple(range(1, (rf or nodes) + 1))
        self._note(FormatRecord("c"))
        for node in range(1, nodes + 1):
            self._register(node)
            self._note(UnfenceBrokerRecord(node, self.epochs[node]))
        configs = {"min.insync.replicas": str(min_isr)} | {k.replace("_", "."): v for k, v in facts.items()}
        self._note(
            TopicRecord(self.topic, TOPIC),
            *(ConfigRecord(TOPIC_RESOURCE, self.topic, name, value) for name, value in configs.items()),
            PartitionRecord(TOPIC, 0, replicas, replicas, 1, 0, 0),
        )
        for node in range(1, nodes + 1):
            self.start(node, FakeFiles())

    @classmethod
    def settled(cls, nodes: int = 3, **facts: Any) -> Self:
        """A cluster whose followers have fetched from the leader."""
        cluster = cls(nodes, **facts)
        cluster.settle()
        return cluster

    # --- nodes and metadata -------------------------------------------------------------------------------

    def start(self, node: int, files: FakeFiles) -> None:
        """Start a node on `files` with the current metadata."""
        rig = CoreRig(files, f"/d{node}", (), node, self.coordinators, **self.node_config)
        rig.now_ms = self.now_ms
        self.nodes[node] = rig
        rig.metadata(*self.records, broker_epoch=self.epochs[node])

    def crash(self, node: int, power: str | int | None = None) -> FakeFiles:
        """End the process; returns its disk."""
        rig = self.nodes.pop(node)
        for pair in [pair for pair in self._sessions if node in pair]:
            self.break_link(*pair)
        return rig.files.restart() if power is None else rig.files.power_loss(power)

    def restart(self, node: int, files: FakeFiles) -> None:
        """Start the next process, which registers and is unfenced."""
        self._register(node)
        self._note(UnfenceBrokerRecord(node, self.epochs[node]))
        self.start(node, files)
        self._publish()

    def fence(self, node: int) -> None:
        self.publish(FenceBrokerRecord(node, self.epochs[node]))

    def publish(self, *records: Any) -> None:
        """Send metadata records to all nodes that are not frozen."""
        self._note(*records)
        self._publish()

    def change(self, **facts: Any) -> None:
        """Change the partition's registration; with a leader this begins a leader epoch."""
        self.publish(PartitionChangeRecord(TOPIC, 0, **facts))

    @property
    def registration(self) -> PartitionRegistration:
        return self.image.topics[self.topic].partitions[0]

    @property
    def leader(self) -> CoreRig:
        return self.nodes[self.registration.leader]

    def partition(self, node: int) -> Any:
        return self.nodes[node].core.table.partitions[TOPIC, 0]

    def end(self, node: int) -> int:
        return int(self.partition(node).log.log_end_offset)

    def watermark(self, node: int) -> int:
        return int(self.partition(node).high_watermark)

    def values(self, node: int) -> list[bytes | None]:
        """All records in a node's log, of all leader epochs."""
        log = self.partition(node).log
        data = log.reader.read(log.log_start_offset, 1 << 30, upto_offset=log.log_end_offset).data
        return [value for _, value in values_of(data)]

    def produce(self, *values: bytes, acks: int = -1, node: int | None = None, **facts: Any) -> FakeRequest:
        rig = self.leader if node is None else self.nodes[node]
        return rig.produce(TOPIC, batch(*(values or (b"v",))), acks=acks, **facts)

    def write(self, *values: bytes, **facts: Any) -> FakeRequest:
        """`produce`, then `settle`."""
        request = self.produce(*values, **facts)
        self.settle()
        return request

    # --- time and messages --------------------------------------------------------------------------------

    def break_link(self, follower: int, leader: int) -> None:
        """Break the connection: fetches in flight fail, and so do new ones until the pair is removed from
        `cut`."""
        peer = self._sessions.pop((follower, leader), None)
        if peer is None:
            return
        peer.is_connected = False
        if leader in self.nodes:
            self.nodes[leader].core.connection_gone(peer.session, self.now_ms)
            self.nodes[leader].check()
        lost = [f for f in self._fetches if (f.follower, f.leader) == (follower, leader)]
        self._fetches = [f for f in self._fetches if f not in lost]
        for fetch in lost:
            self._fail(fetch.follower, fetch.effect)

    def cut_link(self, follower: int, leader: int) -> None:
        """Break the connection until `heal`."""
        self.cut.add((follower, leader))
        self.break_link(follower, leader)

    def isolate(self, node: int) -> None:
        """Cut all links of the node, including those to the controller."""
        for other in self.nodes:
            self.cut |= {(node, other), (other, node)}
            self.break_link(node, other)
            self.break_link(other, node)
        self.no_controller.add(node)
        self.frozen.add(node)

    def heal(self) -> None:
        self.cut.clear()
        self.no_controller.clear()
        self.frozen.clear()
        self._publish()

    def settle(self, rounds: int = 200) -> None:
        """Deliver messages and flush until none is left."""
        for _ in range(rounds):
            if not self.step():
                return
        raise AssertionError("messages never end")

    def step(self) -> bool:
        """Advance every message by one hop; returns whether there was any."""
        moved = False
        for node in sorted(self.nodes):
            rig = self.nodes[node]
            if self.is_flushing:
                moved |= bool(rig.flush())
            moved |= bool(rig.read_cold()) or bool(rig.read_coordinator_logs())
            moved |= rig.checkpoint_starts()
            for effect in rig.pop(SendFetch):
                self._send(node, effect)
                moved = True
            for effect in rig.pop(ProposeIsr):
                self._decide(node, effect.request)
                moved = True
        answered = [fetch for fetch in self._fetches if self._has_arrived(fetch)]
        self._fetches = [fetch for fetch in self._fetches if not self._has_arrived(fetch)]
        for fetch in answered:
            self._answer(fetch)
            moved = True
        return moved

    def pass_time(self, milliseconds: int, every: int = 100) -> None:
        """Advance the clock, with messages and the nodes' ticks."""
        for _ in range(milliseconds // every):
            self.now_ms += every
            for node in sorted(self.nodes):
                rig = self.nodes[node]
                rig.pass_time(every)
                rig.tick()
            self.settle()

    def check_prefixes(self) -> None:
        """Assert that any two logs are equal below the lower of their high watermarks."""
        logs = {node: self.values(node) for node in self.nodes if (TOPIC, 0) in self.held(node)}
        for one in logs:
            for other in logs:
                end = min(self.watermark(one), self.watermark(other))
                assert logs[one][:end] == logs[other][:end], f"nodes {one} and {other} differ below {end}"

    def held(self, node: int) -> Any:
        return self.nodes[node].core.table.partitions

    # --- internals ----------------------------------------------------------------------------------------

    def _note(self, *records: Any) -> None:
        self.records += records
        self.image = replay(self.image, self.image.offset + 1, records)[0]

    def _register(self, node: int) -> None:
        epoch = self.image.offset + 1
        self.epochs[node] = epoch
        rack = self.racks.get(node)
        self._note(RegisterBrokerRecord(node, bytes([node]) * 16, "h", node, rack, (), epoch))

    def _publish(self) -> None:
        for node in sorted(self.nodes):
            rig = self.nodes[node]
            behind = self.records[rig.image.offset + 1 :]
            if node not in self.frozen and behind:
                rig.metadata(*behind, broker_epoch=self.epochs[node])

    def _send(self, follower: int, effect: SendFetch) -> None:
        leader = effect.where[0]
        if leader not in self.nodes or (follower, leader) in self.cut:
            self._fail(follower, effect)
            return
        peer = self._sessions.get((follower, leader))
        if peer is None:
            self._number += 1
            peer = self._sessions[follower, leader] = FakePeer(self._number)
        body = msgspec.msgpack.decode(msgspec.msgpack.encode(effect.request), type=FetchRequest)
        request = self.nodes[leader].ask(registry.FETCH, body, (), peer)
        self._fetches.append(_Fetch(follower, leader, effect, request))

    def _fail(self, follower: int, effect: SendFetch) -> None:
        rig = self.nodes.get(follower)
        if rig is not None:
            rig.core.replica_fetch_failed(effect.where, effect.number, rig.now_ms)
            rig.check()

    def _has_arrived(self, fetch: _Fetch) -> bool:
        return fetch.request.is_answered and (fetch.follower, fetch.leader) not in self.held_back

    def _answer(self, fetch: _Fetch) -> None:
        rig, request = self.nodes.get(fetch.follower), fetch.request
        if rig is None or request.is_dropped:
            return
        if request.error is not None:
            self._fail(fetch.follower, fetch.effect)
            return
        body = msgspec.msgpack.decode(msgspec.msgpack.encode(request.answer), type=FetchResponse)
        frames = list(request.answer_frames)
        rig.core.replica_fetched(fetch.effect.where, fetch.effect.number, body, frames, rig.now_ms, WALL_MS)
        rig.check()

    def _decide(self, node: int, request: Any) -> None:
        """Decide AlterPartition like the controller."""
        rig = self.nodes[node]
        if node in self.no_controller:
            rig.core.isr_failed(rig.now_ms)
            rig.check()
            return
        self.asked.append(request)
        response = AlterPartitionResponse(0, "", tuple(self._altered(node, i) for i in request.partitions))
        rig.core.isr_answered(response, rig.now_ms)
        rig.check()
        self._publish()

    def _altered(self, node: int, item: Any) -> AlteredPartition:
        now, code = self.registration, 0
        if item.leader_epoch != now.leader_epoch or node != now.leader:
            code = FENCED_EPOCH
        elif item.partition_epoch != now.partition_epoch:
            code = OLD_VERSION
        else:
            for member, epoch in item.isr:
                broker = self.image.brokers[member]
                is_full = member not in now.isr and member in self.full
                if is_full or broker.is_fenced or epoch not in (-1, broker.broker_epoch):
                    code = INELIGIBLE
        if not code:
            self._note(PartitionChangeRecord(TOPIC, 0, isr=tuple(member for member, _ in item.isr)))
            now = self.registration
        return AlteredPartition(
            TOPIC, 0, code, "", now.leader, now.leader_epoch, now.isr, now.partition_epoch
        )
