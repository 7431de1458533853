"""Transactions of several producers on one partition with a scripted coordinator, while leaders die:
read_committed consumers read exactly the committed records, in order (scenarios 43, 46 and 48)."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from core_rig import FakeRequest
from fake_files import FakeFiles
from headrace.protocol.errors import NO_ERROR
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import PartitionResult, TopicNamePartitions
from headrace.protocol.messages.transactions import (
    AddedPartitions,
    AddPartitionsToTxnResponse,
    TransactionMarker,
    WriteTxnMarkersRequest,
)
from headrace.protocol.metadata.records import PartitionRecord, TopicRecord
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import ControlType, control_type
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.effects import AskPeer
from log_rig import batch, split
from node_rig import WALL_MS
from producer_oracle import check_producers
from replica_rig import TOPIC, Replicas

STATE_TOPIC = b"transaction-state"[:16]
SEEDS = 40
PRODUCERS = (7, 8, 9)


@dataclass
class Transactions:
    """One transactional id with its producer and coordinator state: each EndTxn increments the epoch."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    number: int = 0  # the transaction's number, for its records
    has_partition: bool = False  # in the coordinator's state
    values: list[bytes] = field(default_factory=list)  # acknowledged in this transaction
    request: FakeRequest | None = None
    marker: tuple[int, bool, FakeRequest] | None = None  # epoch, committed, the pending request
    is_broken: bool = False  # a batch failed: the transaction must abort


class Cluster(Replicas):
    """Nodes that verify transactions with the test, which is the coordinator."""

    def __init__(self) -> None:
        self.writers = {producer_id: Transactions(producer_id) for producer_id in PRODUCERS}
        super().__init__(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
        self.publish(TopicRecord("__transaction_state", STATE_TOPIC))
        self.publish(PartitionRecord(STATE_TOPIC, 0, (1, 2, 3), (1, 2, 3), 2, 0, 0))

    def step(self) -> bool:
        moved = super().step()
        for node in sorted(self.nodes):
            for effect in self.nodes[node].pop(AskPeer):
                self._coordinate(node, effect)
                moved = True
        return moved

    def _coordinate(self, node: int, effect: AskPeer) -> None:
        (asked,) = effect.body.transactions
        writer = self.writers[asked.producer_id]
        is_current = asked.producer_epoch == writer.epoch and writer.marker is None
        writer.has_partition |= is_current
        code = NO_ERROR if is_current else 47
        result = AddedPartitions(asked.transactional_id, NO_ERROR, (PartitionResult("t", 0, code),))
        effect.answered(AddPartitionsToTxnResponse((result,)), self.now_ms, WALL_MS)
        self.nodes[node].check()


class Workload:
    """Acts on the cluster, and records the decisions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.committed: list[list[bytes]] = []
        self.aborted: set[bytes] = set()
        self._markers: list[TransactionMarker] = []

    def act(self, rng: random.Random) -> None:
        if self._markers and rng.random() < 0.05:
            self._write_marker(rng.choice(self._markers))  # an old marker request arrives again (scenario 45)
            return
        writer = self.cluster.writers[rng.choice(PRODUCERS)]
        if writer.marker is not None:
            self._end_again(writer)
        elif writer.request is not None:
            self._on_response(writer)
        elif writer.values and not writer.is_broken and rng.random() < 0.3:
            self._end(writer, committed=True)
        elif writer.is_broken or (writer.values and rng.random() < 0.15):
            self._end(writer, committed=False)
        else:
            self._write(writer)

    def _leader(self) -> Any:
        return self.cluster.nodes.get(self.cluster.registration.leader)

    def _write(self, writer: Transactions) -> None:
        leader = self._leader()
        if leader is None:
            return
        tag = f"{writer.producer_id}-{writer.number}-{writer.sequence}"
        data = batch(
            1,
            tag=tag,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=writer.sequence,
            is_transactional=True,
        )
        writer.request = leader.produce(TOPIC, data, timeout_ms=1_000, transactional_id="id")
        writer.values.append(f"{tag}:0".encode())

    def _on_response(self, writer: Transactions) -> None:
        """Real producers retry unacknowledged batches; here the transaction is aborted."""
        request = writer.request
        assert request is not None, "no pending marker request"
        if not request.is_answered:
            if request.peer.is_connected and self._leader() is not None:
                return
            writer.is_broken = True
        elif request.answer is None or request.first.error_code != NO_ERROR:
            writer.is_broken = True
        writer.request = None
        writer.sequence += 1

    def _end(self, writer: Transactions, *, committed: bool) -> None:
        """Decide the outcome, and increment the epoch."""
        if committed:
            self.committed.append(writer.values)
        else:
            self.aborted.update(writer.values)
        writer.epoch += 1
        writer.values, writer.sequence, writer.number = [], 0, writer.number + 1
        writer.is_broken = False
        if writer.has_partition:
            self._send_marker(writer, writer.epoch, committed=committed)
        writer.has_partition = False

    def _end_again(self, writer: Transactions) -> None:
        """Retry until the marker is acknowledged."""
        assert writer.marker is not None, "no pending marker"
        epoch, committed, request = writer.marker
        if request.answer is not None and request.answer.markers[0].results[0].error_code == NO_ERROR:
            writer.marker = None
        elif self._leader() is not None:
            self._send_marker(writer, epoch, committed=committed)

    def _send_marker(self, writer: Transactions, epoch: int, *, committed: bool) -> None:
        marker = TransactionMarker(
            writer.producer_id, epoch, committed, (TopicNamePartitions("t", (0,)),), 0, 2
        )
        self._markers.append(marker)
        writer.marker = (epoch, committed, self._write_marker(marker))

    def _write_marker(self, marker: TransactionMarker) -> FakeRequest:
        node = self._leader() or next(iter(self.cluster.nodes.values()))
        request: FakeRequest = node.ask(registry.WRITE_TXN_MARKERS, WriteTxnMarkersRequest((marker,)))
        return request

    # --- what readers see ---------------------------------------------------------------------------------

    def read(self) -> list[bytes]:
        """Read as a read_committed consumer, fetch by fetch."""
        leader = self._leader()
        offset, seen = 0, []
        while leader is not None:
            request = leader.fetch(TOPIC, offset, isolation=1, max_bytes=300)
            leader.read_cold()
            if request.answer is None or request.first.error_code or not request.answer_frames:
                break
            pending = sorted(request.first.aborted, key=lambda each: each[1])
            skipping: set[int] = set()
            for data in (data for frame in request.answer_frames for data in split(frame)):
                header = read_batch_header(data)
                while pending and pending[0][1] <= header.last_offset:
                    skipping.add(pending.pop(0)[0])
                records = active_codec().decode(data)
                if header.is_control:
                    if control_type(records[0].key) is ControlType.ABORT:
                        skipping.discard(header.producer_id)
                elif header.producer_id not in skipping:
                    seen += [record.key for record in records if record.offset >= offset]
                offset = header.next_offset
        return seen

    def check(self, *, is_all: bool) -> None:
        seen = self.read()
        assert len(seen) == len(set(seen)), "duplicate record"
        assert not self.aborted.intersection(seen), "aborted records were read"
        for values in self.committed:
            shown = [value for value in seen if value in set(values)]
            # an older open transaction may hold back the last stable offset
            assert shown == values if is_all else shown == values[: len(shown)], f"{shown} of {values}"
        known = {value for values in self.committed for value in values}
        assert set(seen) <= known, "records of an open transaction were read"


def fail(cluster: Cluster, rng: random.Random, down: dict[int, FakeFiles]) -> None:
    """The leader dies and another node is elected, or a dead node restarts."""
    if down:
        node, files = down.popitem()
        cluster.restart(node, files)
        return
    leader = cluster.registration.leader
    others = [node for node in cluster.registration.isr if node != leader and node in cluster.nodes]
    if len(others) == 2:
        down[leader] = cluster.crash(leader)
        cluster.fence(leader)
        cluster.change(leader=rng.choice(others), isr=tuple(sorted(others)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_readers_see_whole_transactions(seed: int) -> None:
    """At every moment; at the end all committed records are readable."""
    rng = random.Random(seed)
    cluster = Cluster()
    workload = Workload(cluster)
    down: dict[int, FakeFiles] = {}
    for _ in range(250):
        dice = rng.random()
        if dice < 0.4:
            workload.act(rng)
        elif dice < 0.95:
            cluster.step()
        elif dice < 0.97:
            fail(cluster, rng, down)
        else:
            workload.check(is_all=False)
    for node, files in down.items():
        cluster.restart(node, files)
    cluster.pass_time(3_000)
    for writer in cluster.writers.values():
        if writer.request is not None or writer.values:
            writer.request = None
            workload._end(writer, committed=False)
    for _ in range(20):
        for writer in cluster.writers.values():
            if writer.marker is not None:
                workload._end_again(writer)
        cluster.pass_time(300)
    assert all(writer.marker is None for writer in cluster.writers.values())
    workload.check(is_all=True)
    for node in (1, 2, 3):
        log = cluster.partition(node).log
        assert log.last_stable_offset == log.high_watermark
        check_producers(log, was_loaded=True)
