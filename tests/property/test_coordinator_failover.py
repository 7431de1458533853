"""Counters on replicated nodes: isolated leaders, elections, crashes; with the production cores.

Laws: an acknowledged write is in the state of every later leader, in the order of the log; an isolated leader
acknowledges nothing; the state of a leader follows from its log.
"""

from typing import Any

from coordinator_rig import CODEC, Counter
from core_rig import FakePeer, FakeRequest
from headrace.coordinators.runtime.coordinators import Coordinators
from headrace.protocol.errors import CoordinatorNotAvailableError, NotCoordinatorError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import DescribeGroupsRequest, HeartbeatRequest
from headrace.protocol.model import CONSUMER_OFFSETS
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.coordinator_records import decode_record
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from replica_rig import TOPIC, Replicas

GROUP = "g"


class Cluster:
    """Three nodes with counters."""

    def __init__(self, **facts: Any) -> None:
        self.shards: dict[int, Counter] = {}  # the newest shard of each node
        self.replicas = Replicas(3, topic=CONSUMER_OFFSETS, coordinators=self._coordinators, **facts)
        self.replicas.settle()
        self._sessions = 1_000

    def _coordinators(self, host: Any, now_ms: int) -> Any:
        def make(partition: int, context: Any) -> Any:
            self.shards[host.node_id] = Counter(partition, context)
            return self.shards[host.node_id]

        return Coordinators(host, {CONSUMER_OFFSETS: make}, CODEC, now_ms)

    @property
    def leader(self) -> int:
        return self.replicas.registration.leader

    def ask(self, node: int, api: Any, body: Any) -> FakeRequest:
        self._sessions += 1
        return self.replicas.nodes[node].ask(api, body, (), FakePeer(self._sessions))

    def set(self, node: int, number: int) -> FakeRequest:
        return self.ask(node, registry.HEARTBEAT, HeartbeatRequest(GROUP, number, ""))

    def get(self, node: int) -> FakeRequest:
        return self.ask(node, registry.DESCRIBE_GROUPS, DescribeGroupsRequest((GROUP,)))

    def logged(self, node: int, upto: int = 1 << 60) -> list[int]:
        """The numbers in a node's log, in order."""
        log = self.replicas.partition(node).log
        found = []
        for data in log.reader.read(
            log.log_start_offset, 1 << 30, upto_offset=min(upto, log.log_end_offset)
        ).data:
            view = memoryview(data)
            while len(view):
                size = 12 + int.from_bytes(view[8:12], "big")
                for record in active_codec().decode(view[:size]):
                    _, value = decode_record(record.key, record.value)  # type: ignore[misc]
                    if value is not None:  # None: it was appended for a read
                        found.append(value.offset)
                view = view[size:]
        return found


def test_isolated_leader_acknowledges_nothing() -> None:
    """The next leader has all acknowledged writes and no others; uncommitted ones are lost."""
    cluster = Cluster()
    first = cluster.set(1, 1)
    cluster.replicas.settle()
    assert first.answer.error_detail == "1"
    cluster.replicas.isolate(1)
    alone, seen = cluster.set(1, 2), cluster.get(1)
    cluster.replicas.change(leader=2, isr=(2, 3))
    cluster.replicas.settle()
    cluster.replicas.pass_time(200)
    assert not alone.is_answered
    assert not seen.is_answered
    found = cluster.get(2)
    cluster.replicas.settle()
    assert found.answer.groups[0].group_state == "1"
    cluster.replicas.pass_time(5_000)
    assert isinstance(alone.error, CoordinatorNotAvailableError)
    waiting = cluster.set(1, 3)
    second = cluster.set(2, 4)
    cluster.replicas.settle()
    assert second.answer.error_detail == "4"
    cluster.replicas.heal()
    cluster.replicas.settle()
    assert isinstance(waiting.error, NotCoordinatorError)
    assert isinstance(cluster.set(1, 5).error, NotCoordinatorError)
    cluster.replicas.pass_time(1_000)
    cluster.replicas.change(leader=1)
    cluster.replicas.settle()
    found = cluster.get(1)
    cluster.replicas.settle()
    assert found.answer.groups[0].group_state == "4"
    assert cluster.logged(1) == [1, 4]


def test_resumed_leader_serves_no_stale_state() -> None:
    """All state of the resumed leader is committed, but newer writes are at the next leader."""
    cluster = Cluster()
    cluster.set(1, 1)
    cluster.replicas.settle()
    cluster.replicas.isolate(1)
    cluster.replicas.change(leader=2, isr=(2, 3))
    cluster.replicas.settle()
    cluster.replicas.pass_time(200)
    second = cluster.set(2, 2)
    cluster.replicas.settle()
    assert second.answer.error_detail == "2"
    seen = cluster.get(1)
    assert not seen.is_answered
    cluster.replicas.heal()
    cluster.replicas.settle()
    assert seen.answer.groups[0].error_code == NotCoordinatorError.code


def test_too_few_in_sync_replicas_stop_a_coordinator() -> None:
    """It returns an error, and continues once enough replicas are in sync."""
    cluster = Cluster(min_isr=2)
    for follower in (2, 3):
        cluster.replicas.cut.add((follower, 1))
        cluster.replicas.break_link(follower, 1)
    lonely = cluster.set(1, 1)
    cluster.replicas.pass_time(60_000, every=1_000)
    assert cluster.replicas.registration.isr == (1,)
    assert isinstance(lonely.error, CoordinatorNotAvailableError)  # appended, and not committed in time
    assert isinstance(cluster.set(1, 3).error, CoordinatorNotAvailableError)  # not even appended
    cluster.replicas.cut.clear()
    cluster.replicas.pass_time(10_000, every=1_000)
    done = cluster.set(1, 2)
    cluster.replicas.settle()
    assert done.answer.error_detail == "2"
    assert cluster.logged(1) == [1, 2]


class FailoverMachine(RuleBasedStateMachine):
    """Writes, isolation, elections among the members of the ISR, crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(min_isr=2)
        self.number = 0
        self.open: list[tuple[FakeRequest, int]] = []
        self.reported: list[int] = []
        self.reads: list[tuple[FakeRequest, int]] = []  # and the highest acknowledged number at the request

    @property
    def replicas(self) -> Replicas:
        return self.cluster.replicas

    @rule(node=st.integers(1, 3))
    def write(self, node: int) -> None:
        self.number += 1
        self.open.append((self.cluster.set(node, self.number), self.number))

    @rule(node=st.integers(1, 3))
    def read(self, node: int) -> None:
        self.reads.append((self.cluster.get(node), max(self.reported, default=0)))

    @rule()
    def settle(self) -> None:
        self.replicas.settle()

    @rule(steps=st.integers(1, 4))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.replicas.step()

    @precondition(lambda self: not self.replicas.frozen)
    @rule(node=st.integers(1, 3))
    def isolate(self, node: int) -> None:
        self.replicas.isolate(node)

    @precondition(lambda self: self.replicas.frozen)
    @rule()
    def heal(self) -> None:
        self.replicas.heal()

    @rule(node=st.integers(1, 3))
    def elect(self, node: int) -> None:
        """An ISR member leads; unreachable replicas leave the ISR as far as min ISR allows."""
        isr = self.replicas.registration.isr
        if node in isr and node not in self.replicas.frozen:
            received = tuple(member for member in isr if member not in self.replicas.frozen)
            self.replicas.change(leader=node, isr=received)

    @rule(node=st.integers(1, 3))
    def crash(self, node: int) -> None:
        """Restart the process of a node on its files."""
        if node == self.cluster.leader or node in self.replicas.frozen:
            return
        self.cluster.shards.pop(node, None)
        self.replicas.restart(node, self.replicas.crash(node))

    @rule(milliseconds=st.sampled_from([200, 2_000, 6_000]))
    def wait(self, milliseconds: int) -> None:
        self.replicas.pass_time(milliseconds, every=milliseconds // 2)

    @invariant()
    def acknowledged_writes_are_committed(self) -> None:
        for request, number in self.open:
            if request.answer is not None:
                self.reported.append(number)
        self.open = [(request, number) for request, number in self.open if not request.is_answered]
        node = self.cluster.leader
        if node in self.replicas.frozen:
            return
        logged = self.cluster.logged(node)
        missing = [number for number in self.reported if number not in logged]
        assert not missing, f"node {node} leads without {missing}"

    @invariant()
    def reads_return_committed_state(self) -> None:
        """From any replica, since there are no leases here."""
        for request, response in self.reads:
            if request.answer is not None and not request.answer.groups[0].error_code:
                shown = request.answer.groups[0].group_state
                assert int(shown if shown != "None" else 0) >= response
        self.reads = [(request, response) for request, response in self.reads if not request.is_answered]

    @invariant()
    def the_state_is_the_log(self) -> None:
        node = self.cluster.leader
        shard = self.cluster.shards.get(node)
        if node in self.replicas.frozen or shard is None or not shard.is_loaded or shard.is_closed:
            return
        logged = self.cluster.logged(node)
        assert shard.numbers.get(GROUP) == (logged[-1] if logged else None)
        assert self.replicas.nodes[node].core.table.partitions[TOPIC, 0].is_leader


TestFailover = FailoverMachine.TestCase
TestFailover.settings = settings(max_examples=40, stateful_step_count=30)
