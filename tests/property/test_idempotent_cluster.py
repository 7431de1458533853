"""An idempotent producer with five batches in flight, and leaders that die and restart: each batch is stored
once and in order, whichever responses were lost (scenarios 38 and 39)."""

import random

import pytest
from core_rig import FakeRequest
from fake_files import FakeFiles
from headrace.protocol.records.header import read_batch_header
from log_rig import read_all, split
from producer_oracle import check_producers, idempotent
from replica_rig import TOPIC, Replicas

IN_FLIGHT = 5
SEEDS = 40


class Producer:
    """Sends in order; after an error or a leader change it resends all unacknowledged batches."""

    def __init__(self, cluster: Replicas) -> None:
        self._cluster = cluster
        self._leader = 0
        self._next = 0
        self.acknowledged: dict[int, int] = {}  # sequence to offset
        self._under_way: dict[int, FakeRequest] = {}

    def act(self, rng: random.Random) -> None:
        leader = self._cluster.registration.leader
        if leader not in self._cluster.nodes:
            return
        must_resend = leader != self._leader
        for sequence, request in list(self._under_way.items()):
            if not request.is_answered:
                continue
            is_lost = rng.random() < 0.2  # the response
            if request.answer is not None and request.first.error_code == 0 and not is_lost:
                self._acknowledge(sequence, request.first.base_offset)
            else:
                must_resend = True
        if must_resend:
            self._leader = leader
            for sequence in sorted(self._under_way):
                self._send(sequence)
        elif len(self._under_way) < IN_FLIGHT:
            self._send(self._next)
            self._next += 1

    def finish(self) -> None:
        """Resend until every batch is acknowledged."""
        rng = random.Random(1)
        limit = self._next
        for _ in range(200):
            self._cluster.settle()
            if len(self.acknowledged) >= limit:
                return
            self.act(rng)
            self._cluster.pass_time(200)
        raise AssertionError(f"{len(self.acknowledged)} of {limit} acknowledged")

    def _send(self, sequence: int) -> None:
        data = idempotent(9, sequence, tag=str(sequence))
        self._under_way[sequence] = self._cluster.leader.produce(TOPIC, data, timeout_ms=1_000)

    def _acknowledge(self, sequence: int, offset: int) -> None:
        del self._under_way[sequence]
        self.acknowledged[sequence] = offset


def fail(cluster: Replicas, rng: random.Random, down: dict[int, FakeFiles]) -> None:
    """The leader dies, or is isolated, and another ISR member leads; or a dead node restarts."""
    if down:
        node, files = down.popitem()
        cluster.restart(node, files)
        return
    leader = cluster.registration.leader
    others = [node for node in cluster.registration.isr if node != leader and node in cluster.nodes]
    if len(others) < 2:
        return
    down[leader] = cluster.crash(leader, rng.choice([None, None, "all"]))
    cluster.fence(leader)
    cluster.change(leader=rng.choice(others), isr=tuple(sorted(others)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_batch_is_stored_once(seed: int) -> None:
    """Every acknowledged batch is at its offset, and no batch is stored twice."""
    rng = random.Random(seed)
    cluster = Replicas(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    producer = Producer(cluster)
    down: dict[int, FakeFiles] = {}
    for _ in range(150):
        dice = rng.random()
        if dice < 0.5:
            producer.act(rng)
        elif dice < 0.96:
            cluster.step()
        else:
            fail(cluster, rng, down)
    for node, files in down.items():
        cluster.restart(node, files)
    cluster.pass_time(3_000)
    producer.finish()
    cluster.pass_time(2_000)
    assert cluster.registration.isr == (1, 2, 3)
    logs = {}
    for node in (1, 2, 3):
        log = cluster.partition(node).log
        headers = [read_batch_header(data) for part in read_all(log) for data in split(part)]
        logs[node] = [(header.base_sequence, header.base_offset) for header in headers]
        check_producers(log, was_loaded=True)
    assert logs[1] == logs[2] == logs[3]
    sequences = [sequence for sequence, _ in logs[1]]
    assert sequences == sorted(set(sequences))
    assert producer.acknowledged.items() <= dict(logs[1]).items()
