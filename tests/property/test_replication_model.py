"""With any faults between nodes and any leader: acknowledged records stay, and logs agree in the end."""

from typing import Any

import hypothesis.strategies as st
from headrace.protocol.metadata.image import CLUSTER_DEFAULT
from headrace.protocol.metadata.records import ConfigRecord, UnfenceBrokerRecord
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replica_rig import TOPIC, Replicas

NODES = (1, 2, 3)
ANY_NODE = st.sampled_from(NODES)


class ReplicationMachine(RuleBasedStateMachine):
    """Three nodes; processes die and restart with their page cache; no disk is lost."""

    @initialize(min_isr=st.sampled_from([1, 2]), durability=st.sampled_from(["async", "fsync"]))
    def start(self, min_isr: int, durability: str) -> None:
        self.cluster = Replicas(
            min_isr=min_isr,
            durability=durability,
            node={"replica_lag_time_max_ms": 1_000, "replica_fetch_wait_max_ms": 200},
        )
        self.asked: list[tuple[bytes, Any]] = []
        self.files: dict[int, Any] = {}
        self.number = 0

    # --- work -----------------------------------------------------------------------------------------------

    @rule(node=ANY_NODE, acks=st.sampled_from([-1, -1, 1]))
    def produce(self, node: int, acks: int) -> None:
        """Send to any node, also to a former leader, or one that never led."""
        if node in self.files or (TOPIC, 0) not in self.cluster.held(node):
            return
        value = b"%d" % self.number
        self.number += 1
        request = self.cluster.produce(value, node=node, acks=acks, timeout_ms=2_000)
        if acks == -1:
            self.asked.append((value, request))

    @rule(node=ANY_NODE)
    def produce_to_the_leader(self, node: int) -> None:
        self.produce(self.cluster.registration.leader if self.cluster.registration.leader > 0 else node, -1)

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.cluster.step()

    @rule()
    def settle(self) -> None:
        self.cluster.settle()

    @rule(fetchers=st.integers(1, 4), tail_bytes=st.sampled_from([0, 2_000, 1 << 26]))
    def reconfigure(self, fetchers: int, tail_bytes: int) -> None:
        """Partitions move between fetchers, and tail caches shrink and grow."""
        self.cluster.publish(
            ConfigRecord(*CLUSTER_DEFAULT, "num.replica.fetchers", str(fetchers)),
            ConfigRecord(*CLUSTER_DEFAULT, "log.tail.cache.bytes", str(tail_bytes)),
        )

    @rule(milliseconds=st.sampled_from([100, 300, 1_500]))
    def wait(self, milliseconds: int) -> None:
        self.cluster.pass_time(milliseconds)

    # --- faults ---------------------------------------------------------------------------------------------

    @rule(follower=ANY_NODE, leader=ANY_NODE)
    def cut(self, follower: int, leader: int) -> None:
        if follower != leader:
            self.cluster.cut.add((follower, leader))
            self.cluster.break_link(follower, leader)

    @rule(node=ANY_NODE)
    def isolate(self, node: int) -> None:
        if node not in self.files:
            self.cluster.isolate(node)

    @rule(node=ANY_NODE)
    def freeze(self, node: int) -> None:
        """The node gets no metadata for a while."""
        self.cluster.frozen.add(node)

    @rule()
    def heal(self) -> None:
        self.cluster.heal()

    @rule()
    def toggle_disks(self) -> None:
        self.cluster.is_flushing = not self.cluster.is_flushing

    @rule(node=ANY_NODE)
    def checkpoint(self, node: int) -> None:
        if node in self.cluster.nodes:
            rig = self.cluster.nodes[node]
            if rig.core.table.is_checkpointing:
                rig.end_checkpoint()
            else:
                rig.begin_checkpoint()

    @precondition(lambda self: not self.files)
    @rule(node=ANY_NODE)
    def crash(self, node: int) -> None:
        self.files[node] = self.cluster.crash(node)
        self.controller_drops(node)

    @precondition(lambda self: self.files)
    @rule()
    def restart(self) -> None:
        node, files = self.files.popitem()
        self.cluster.restart(node, files)

    # --- the controller -------------------------------------------------------------------------------------

    def controller_drops(self, node: int) -> None:
        """The controller fences the node and elects an ISR member; the last ISR member stays in the ISR."""
        now = self.cluster.registration
        self.cluster.fence(node)
        isr = tuple(member for member in now.isr if member != node) or now.isr
        if now.leader != node:
            self.cluster.change(isr=isr)
        elif isr == now.isr:
            self.cluster.change(leader=-1)
        else:
            self.cluster.change(leader=isr[0], isr=isr)

    @rule(node=ANY_NODE)
    def session_ends(self, node: int) -> None:
        """The node lives, but its heartbeats do not reach the controller for a while."""
        if node not in self.files and len(self.cluster.registration.isr) > 1:
            self.controller_drops(node)
            self.cluster.publish(UnfenceBrokerRecord(node, self.cluster.epochs[node]))

    @rule(node=ANY_NODE)
    def elect(self, node: int) -> None:
        """Any member of the ISR may lead next; the same one as well."""
        now = self.cluster.registration
        if node in now.isr and node not in self.files:
            self.cluster.change(leader=node)

    # --- what must hold -------------------------------------------------------------------------------------

    @invariant()
    def eligible_leaders_have_all_committed_records(self) -> None:
        cluster = self.cluster
        alive = [node for node in NODES if node in cluster.nodes]
        watermark = max(cluster.watermark(node) for node in alive)
        members = [node for node in cluster.registration.isr if node in alive]
        logs = [cluster.values(node)[:watermark] for node in members]
        assert all(len(log) == watermark and log == logs[0] for log in logs)
        cluster.check_prefixes()

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        members = [node for node in self.cluster.registration.isr if node in self.cluster.nodes]
        if not members:
            return
        log = self.cluster.values(members[0])
        for value, request in self.asked:
            if request.answer is not None and request.first.error_code == 0:
                assert log[request.first.base_offset] == value

    def teardown(self) -> None:
        """After the faults all logs are equal, all replicas are in sync, and writes succeed."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.is_flushing = True
        for rig in cluster.nodes.values():
            rig.end_checkpoint()
        cluster.heal()
        if self.files:
            self.restart()
        leader = next(node for node in cluster.registration.isr)
        cluster.change(leader=leader)
        cluster.pass_time(4_000)
        assert cluster.registration.isr == NODES
        assert cluster.values(1) == cluster.values(2) == cluster.values(3)
        request = cluster.produce(b"end")
        cluster.settle()
        assert request.first.error_code == 0
        self.what_was_acknowledged_is_there()


ReplicationMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestReplicationMachine = ReplicationMachine.TestCase
