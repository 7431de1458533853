"""The controller core under random actions of nodes, leaders and operators; all invariants of replication are
checked after every step.

Besides `check`, which looks at one image, the machine compares each change with the image before: epochs, the
transitions of the state tables, and KIP-966: no replica with every acknowledged record leaves ISR and ELR.
Leaders propose with right and wrong epochs.
"""

from controller_kit import Driver
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.controller.state.laws import check_change
from headrace.protocol.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    NotControllerError,
)
from headrace.protocol.messages import control
from headrace.protocol.metadata.image import MetadataImage, configured
from headrace.protocol.metadata.records import PartitionChangeRecord
from headrace.protocol.metadata.replay import image_of, image_records, replay
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

NODES = st.integers(1, 5)
TOPICS = st.sampled_from(["t", "u"])
NUMBERS = st.integers(0, 2)
OFF = st.integers(-1, 1)
SETS = st.lists(NODES, min_size=0, max_size=4)
LOST = st.frozensets(st.tuples(TOPICS, NUMBERS), max_size=2)


class Cluster(RuleBasedStateMachine):
    """Five node ids, two topics of up to three partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.processes = 100
        self.seen = self.driver.image
        self.lossy: frozenset[int] = frozenset()
        self.lost: frozenset[tuple[str, int]] | None = (
            None  # partitions in which they may have lost records, None for all
        )

    @initialize(min_isr=st.integers(1, 3), factor=st.integers(1, 4), unclean=st.booleans())
    def begin(self, min_isr: int, factor: int, unclean: bool) -> None:
        """A cluster of four active nodes with one topic."""
        self.driver.join(1, 2, 3, 4)
        configs = {
            "min.insync.replicas": str(min_isr),
            "unclean.leader.election.enable": str(unclean).lower(),
        }
        self.driver.create("t", num_partitions=2, replication_factor=factor, configs=configs)

    # --- nodes -----------------------------------------------------------------------------------------

    @rule(node=NODES, is_clean=st.booleans(), lag=st.integers(0, 1), lost=LOST)
    def start(self, node: int, is_clean: bool, lag: int, lost: frozenset[tuple[str, int]]) -> None:
        """Register a new process of a node. The previous one may still have a session, and some logs may have
        been truncated since its clean shutdown."""
        before = self.driver.image.brokers.get(node)
        self.processes += 1
        previous = before.broker_epoch if before is not None and is_clean else -lag
        reply = self.driver.register(
            node, self.processes, previous_broker_epoch=previous, lost_replicas=tuple(sorted(lost))
        )
        if reply.error_code or before is None:
            return
        self.lossy = frozenset((node,))
        self.lost = lost if previous == before.broker_epoch else None
        for topic in self.driver.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if self.lost is None or (topic.name, number) in self.lost:
                    assert node not in partition.isr + partition.elr

    @rule(
        node=NODES, what=st.sampled_from(["", "", "", "want_fence", "want_shutdown"]), back=st.integers(0, 9)
    )
    def heartbeat(self, node: int, what: str, back: int) -> None:
        """Send a heartbeat of a node that has all metadata or is slightly behind."""
        if node in self.driver.image.brokers:
            offset = max(-1, self.driver.image.offset - back)
            self.driver.heartbeat(node, metadata_offset=offset, **({what: True} if what else {}))

    @rule(node=NODES, keys=st.sets(st.tuples(TOPICS, NUMBERS), max_size=3))
    def break_disk(self, node: int, keys: set[tuple[str, int]]) -> None:
        """Fail or repair some disks of a node."""
        topics = self.driver.image.topics
        broken = tuple(sorted((topics[name].topic_id, number) for name, number in keys if name in topics))
        if node in self.driver.image.brokers:
            self.driver.heartbeat(node, offline_replicas=broken)

    @rule(node=NODES, epoch=st.integers(-1, 60))
    def heartbeat_with_any_epoch(self, node: int, epoch: int) -> None:
        """Send a heartbeat with any broker epoch."""
        self.driver.ask(control.BrokerHeartbeatRequest(node, epoch, epoch))

    @rule(silent=st.sets(NODES, max_size=2), ms=st.sampled_from([10, 1600]))
    def wait(self, silent: set[int], ms: int) -> None:
        """Advance the time; nodes without heartbeats are fenced."""
        for _ in range(0, ms, 800):
            for node in sorted(set(self.driver.image.brokers) - silent):
                self.driver.heartbeat(node)
            self.driver.wait(min(ms, 800))

    @rule(node=NODES, is_clean=st.booleans(), lost=LOST)
    def bounce(self, node: int, is_clean: bool, lost: frozenset[tuple[str, int]]) -> None:
        """End a node; its next process registers and catches up."""
        if node in self.driver.image.brokers:
            self.driver.fence(node)
            self.start(node, is_clean, 1, lost)
            self.driver.heartbeat(node)

    @rule(node=st.sets(NODES, min_size=1, max_size=4))
    def power_cut(self, node: set[int]) -> None:
        """End several nodes at the same time."""
        self.driver.fence(*sorted(node & set(self.driver.image.brokers)))

    @rule()
    def long_wait(self) -> None:
        """Send heartbeats of all nodes until the periodic elections."""
        self.driver.now_ms += 300_000
        for node, broker in self.driver.image.brokers.items():
            if not broker.is_fenced:
                self.driver.heartbeat(node)
        self.driver.wait(20)

    @rule(node=NODES, is_drained=st.booleans())
    def drain(self, node: int, is_drained: bool) -> None:
        """Drain a node or end the drain; the response has the number of its remaining leaderships."""
        reply = self.driver.ask(control.DrainNodeRequest(node, is_drained))
        if not reply.error_code:
            partitions = [p for t in self.driver.image.topics.values() for p in t.partitions]
            assert reply.leaders_left == sum(p.leader == node for p in partitions)

    @rule(node=NODES)
    def leave(self, node: int) -> None:
        """Remove a node."""
        self.driver.ask(control.UnregisterBrokerRequest(node))

    @rule()
    def restart_controller(self) -> None:
        """Start a new controller process with the same log."""
        self.driver.restart()

    # --- leaders ---------------------------------------------------------------------------------------

    @rule(topic=TOPICS, number=NUMBERS, drop=st.sets(NODES, max_size=3), grow=st.booleans())
    def propose(self, topic: str, number: int, drop: set[int], grow: bool) -> None:
        """Propose a valid ISR: the leader and some eligible replicas, with the current epochs."""
        partition = self._partition(topic, number)
        if partition is None or partition.leader < 0:
            return
        pool = partition.replicas if grow else partition.isr
        isr = [node for node in pool if node not in drop and self._is_active(node)]
        answer = self.driver.alter_partition(topic, number, {*isr, partition.leader})
        assert answer.error_code in (0, NewLeaderElectedError.code), answer
        after = self._partition(topic, number)
        assert (answer.leader, answer.leader_epoch) == (after.leader, after.leader_epoch)
        assert (answer.isr, answer.partition_epoch) == (after.isr, after.partition_epoch)
        assert after.leader_recovery_state == 0

    @rule(topic=TOPICS, number=NUMBERS)
    def catch_up(self, topic: str, number: int) -> None:
        """Propose an ISR with one more replica."""
        partition = self._partition(topic, number)
        if partition is not None and partition.leader >= 0:
            away = [n for n in partition.replicas if n not in partition.isr and self._is_active(n)]
            answer = self.driver.alter_partition(topic, number, (*partition.isr, *away[:1]))
            assert answer.error_code in (0, NewLeaderElectedError.code), answer

    @rule(topic=TOPICS, number=NUMBERS, drop=st.sets(NODES, max_size=3), is_old=st.booleans())
    def propose_badly(self, topic: str, number: int, drop: set[int], is_old: bool) -> None:
        """Propose an ISR with a fenced or stopping node, or with the broker epoch of a previous process."""
        partition = self._partition(topic, number)
        if partition is None or partition.leader < 0:
            return
        brokers = self.driver.image.brokers
        isr = sorted({*partition.replicas, partition.leader} - (drop - {partition.leader}))
        members = [(node, brokers[node].broker_epoch - is_old) for node in isr]
        answer = self.driver.alter_partition(topic, number, members)
        is_refused = is_old or not all(self._is_active(node) or node == partition.leader for node in isr)
        assert (answer.error_code == IneligibleReplicaError.code) == is_refused

    @rule(topic=TOPICS, number=NUMBERS, sender=NODES, leader_epoch=OFF, partition_epoch=OFF)
    def propose_late(self, topic, number, sender, leader_epoch, partition_epoch) -> None:
        """Propose a valid ISR from a node with older or newer metadata, or from a node that is not the
        leader."""
        partition = self._partition(topic, number)
        if partition is None or sender not in self.driver.image.brokers:
            return
        answer = self.driver.alter_partition(
            topic,
            number,
            {sender, *filter(self._is_active, partition.isr)},
            node_id=sender,
            leader_epoch=partition.leader_epoch + leader_epoch,
            partition_epoch=partition.partition_epoch + partition_epoch,
        )
        if max(leader_epoch, partition_epoch) > 0:
            assert answer.error_code == NotControllerError.code
        elif leader_epoch < 0:
            assert answer.error_code == FencedLeaderEpochError.code
        elif sender != partition.leader:
            assert answer.error_code == InvalidRequestError.code
        elif partition_epoch < 0:
            assert answer.error_code == InvalidUpdateVersionError.code
        else:
            assert answer.error_code in (0, NewLeaderElectedError.code)

    @rule(
        topic=TOPICS,
        number=NUMBERS,
        isr=SETS,
        sender=NODES,
        leader_epoch=st.integers(-1, 1),
        partition_epoch=st.integers(-1, 1),
        recovery=st.integers(0, 2),
    )
    def propose_anything(self, topic, number, isr, sender, leader_epoch, partition_epoch, recovery) -> None:
        """Propose any ISR: accepted proposals must be valid, and rejected ones must change nothing."""
        partition = self._partition(topic, number)
        if partition is None:
            return
        before = self.driver.image
        answer = self.driver.alter_partition(
            topic,
            number,
            isr,
            node_id=sender,
            leader_epoch=partition.leader_epoch + leader_epoch,
            partition_epoch=partition.partition_epoch + partition_epoch,
            leader_recovery_state=recovery,
        )
        if answer.error_code in (0, NewLeaderElectedError.code):
            assert sender == partition.leader
            assert leader_epoch == partition_epoch == 0
            assert set(isr) <= set(partition.replicas)
        else:
            assert self.driver.image is before

    # --- operators -------------------------------------------------------------------------------------

    @rule(topic=TOPICS, count=st.integers(1, 3), factor=st.integers(1, 4))
    def create(self, topic: str, count: int, factor: int) -> None:
        """Create a topic."""
        self.driver.create(topic, num_partitions=count, replication_factor=factor)

    @rule(topic=TOPICS)
    def grow(self, topic: str) -> None:
        """Add partitions to a topic, up to three."""
        self.driver.ask(control.CreatePartitionsRequest((control.PartitionGrowth(topic, 3),)))

    @rule(topic=st.just("u"))
    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.driver.ask(control.DeleteTopicsRequest((topic,)))

    @rule(topic=TOPICS, number=NUMBERS, wish=st.one_of(st.none(), SETS), allow=st.booleans())
    def reassign(self, topic: str, number: int, wish: list[int] | None, allow: bool) -> None:
        """Start or cancel a reassignment."""
        before = self._partition(topic, number)
        wanted = None if wish is None else tuple(wish)
        error = self.driver.reassign(topic, number, wanted, allow_replication_factor_change=allow)
        after = self._partition(topic, number)
        if not error and wanted is not None:
            assert tuple(n for n in after.replicas if n not in after.removing_replicas) == wanted
        if not error and wanted is None:
            assert set(after.replicas) == set(before.replicas) - set(before.adding_replicas)
            assert (after.adding_replicas, after.removing_replicas) == ((), ())
        listed = {
            (o.topic, o.partition)
            for o in self.driver.ask(control.ListPartitionReassignmentsRequest()).ongoing
        }
        is_listed = (topic, number) in listed
        assert is_listed == bool(after and (after.adding_replicas or after.removing_replicas))

    @rule(topic=TOPICS, number=NUMBERS)
    def move_away(self, topic: str, number: int) -> None:
        """Reassign a partition to other nodes only."""
        partition = self._partition(topic, number)
        if partition is not None:
            free = [node for node in sorted(self.driver.image.brokers) if node not in partition.replicas]
            self.driver.reassign(topic, number, tuple(free[:2]))

    @rule(topic=TOPICS, number=NUMBERS)
    def cancel(self, topic: str, number: int) -> None:
        """Cancel a reassignment."""
        self.driver.reassign(topic, number, None)

    @rule(kind=st.integers(0, 2), topic=TOPICS)
    def elect(self, kind: int, topic: str) -> None:
        """Request elections; after a successful preferred election the preferred replica is the leader."""
        if kind == 2:
            self.driver.ask(control.ElectLeadersRequest(0, None))
            return
        errors = self.driver.elect(kind, topic, 0, 1)
        for number, error in enumerate(errors):
            partition = self._partition(topic, number)
            if not error:
                assert partition.leader == partition.replicas[0] if kind == 0 else partition.leader >= 0

    @rule(value=st.integers(1, 3), topic=st.sampled_from(["t", ""]))
    def configure(self, value: int, topic: str) -> None:
        """Change min.insync.replicas of a topic or of the cluster."""
        self.driver.configure(topic, min_insync_replicas=str(value))

    # --- invariants ------------------------------------------------------------------------------------

    def _is_active(self, node: int) -> bool:
        return state_of(self.driver.image, node) is BrokerState.ACTIVE

    def _partition(self, topic: str, number: int):
        image = self.driver.image.topics.get(topic)
        return image.partitions[number] if image is not None and number < len(image.partitions) else None

    @invariant()
    def every_change_is_lawful(self) -> None:
        """Check each record since the last step against the image before it."""
        image = self.seen
        for record in self.driver.records[image.offset + 1 :]:
            after, _ = replay(image, image.offset + 1, [record])
            if isinstance(record, PartitionChangeRecord):
                topic = image.topics[image.topic_names[record.topic_id]]
                now = after.topics[topic.name].partitions[record.partition]
                min_isr = int(configured(image, topic.name, "min.insync.replicas") or 1)
                is_lossy = self.lost is None or (topic.name, record.partition) in self.lost
                lossy = self.lossy if is_lossy else frozenset()
                check_change(topic.partitions[record.partition], now, min_isr, lossy)
            image = after
        self.seen, self.lossy = self.driver.image, frozenset()

    @invariant()
    def the_log_gives_the_image(self) -> None:
        """A replay of the whole log and a snapshot both give the image."""
        image = self.driver.image
        assert image_of(image_records(image), image.offset) == image

    @invariant()
    def a_partition_has_a_leader_if_possible(self) -> None:
        """A partition has no leader only while all replicas with its acknowledged records are fenced."""
        image = self.driver.image
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition.leader == -1:
                    for node in partition.isr or partition.elr:
                        is_broken = (topic.topic_id, number) in image.brokers[node].offline_replicas
                        assert is_broken or state_of(image, node) is not BrokerState.ACTIVE

    def teardown(self) -> None:
        """Replay the whole log."""
        assert replay(MetadataImage(), 0, self.driver.records)[0] == self.driver.image
