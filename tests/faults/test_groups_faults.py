"""Scenarios 51 to 53 of RELIABILITY 1.8: members and coordinators of groups are restarted, killed and
paused."""

import contextlib
import subprocess
import sys
import threading
from typing import Any, Self

import headrace
import pytest
from fault_cluster import FaultCluster, Server
from headrace import TopicPartition, errors
from headrace.protocol.coordinator_ids import partition_of_id
from headrace.protocol.errors import CoordinatorNotAvailableError, NotCoordinatorError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import OffsetFetchGroup, OffsetFetchRequest, TopicNamePartitions
from waiting import PATIENCE_S

OFFSETS = "__consumer_offsets"
CLASSIC = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 200}
KINDS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"], **CLASSIC},
    "cooperative": {"assignors": ["cooperative-sticky"], **CLASSIC},
    "new": {"group_protocol": "consumer"},
}
each_kind = pytest.mark.parametrize(
    "kind", ["cooperative", *(pytest.param(kind, marks=pytest.mark.faults) for kind in ("eager", "new"))]
)
NODE = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.heartbeat.interval.ms": 200,
}
PARTITIONS = 6
COMMITS, WIDE = 1_000, 100  # commits of so many partitions: about 7 MB
TPS = tuple(TopicPartition("t", number) for number in range(PARTITIONS))


def coordinator(cluster: FaultCluster, group: str = "g") -> Server:
    """The node that coordinates the group."""
    count = len(cluster.image().topics[OFFSETS].partitions)
    return cluster.node(cluster.leader(OFFSETS, partition_of_id(group, count)))


class Owners:
    """The owners of partitions, as reported by the rebalance listeners."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, str] = {}
        self.complaints: list[str] = []
        self._lock = threading.Lock()

    def assigned(self, name: str, tps: Any) -> None:
        with self._lock:
            for tp in tps:
                other = self.by_partition.setdefault(tp, name)
                if other != name:
                    self.complaints.append(f"{name} gets {tp} while {other} has it")

    def gave_up(self, name: str, tps: Any) -> None:
        with self._lock:
            for tp in tps:
                if self.by_partition.pop(tp, name) != name:
                    self.complaints.append(f"{name} gives up {tp}, which another has")


class Member:
    """A group member in a thread: reads, and commits the offsets of what it read."""

    def __init__(self, cluster: FaultCluster, owners: Owners, name: str, **options: Any) -> None:
        self.name, self.failure = name, None
        self.seen: set[tuple[int, int]] = set()
        self.committed: dict[TopicPartition, int] = {}  # acknowledged commits
        self._owners = owners
        self._is_over = threading.Event()
        self._consumer = headrace.Consumer(
            "t",
            bootstrap=cluster.bootstrap,
            group="g",
            listener=self,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=3_000,
            **options,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def on_assigned(self, _consumer: Any, tps: Any) -> None:
        self._owners.assigned(self.name, tps)

    def on_revoked(self, _consumer: Any, tps: Any) -> None:
        self._owners.gave_up(self.name, tps)

    def on_lost(self, _consumer: Any, tps: Any) -> None:
        self._owners.gave_up(self.name, tps)

    def close(self, **how: Any) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert self.failure is None, self.failure
        self._consumer.close(**how)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                records = self._consumer.poll(0.1)
                self.seen.update((record.partition, record.offset) for record in records)
                if records:
                    self._commit(records)
        except Exception as error:  # noqa: BLE001 - the test tells it
            self.failure = error

    def _commit(self, records: list[Any]) -> None:
        # reassigned: another member reads these records again
        with contextlib.suppress(errors.CommitFailedError):
            for tp, offset in self._consumer.commit(records).items():
                self.committed[tp] = offset.offset


class Load:
    """A producer, and a thread that checks that committed offsets never decrease."""

    def __init__(self, cluster: FaultCluster, *, looks: bool = True) -> None:
        self.sent: list[Any] = []
        self.complaints: list[str] = []
        self._cluster = cluster
        self._is_over = threading.Event()
        works = (self._send, self._look) if looks else (self._send,)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def end(self) -> set[tuple[int, int]]:
        """Stop; returns partition and offset of all sent records."""
        self.__exit__()
        assert self.complaints == []
        return {(sent.partition, sent.offset) for sent in (future.result(PATIENCE_S) for future in self.sent)}

    def _send(self) -> None:
        with self._cluster.clients.producer() as producer:
            number = 0
            while not self._is_over.wait(0.01):
                for _ in range(10):
                    self.sent.append(producer.send("t", b"%d" % number, partition=number % PARTITIONS))
                    number += 1

    def _look(self) -> None:
        highest: dict[TopicPartition, int] = {}
        with self._cluster.clients.consumer(group="g") as consumer:
            while not self._is_over.wait(0.02):
                for tp, found in consumer.committed(*TPS, timeout=PATIENCE_S).items():
                    offset = -1 if found is None else found.offset
                    if offset < highest.get(tp, -1):
                        self.complaints.append(f"{tp} was committed to {highest[tp]}, now {offset}")
                    highest[tp] = offset


def is_shared(owners: Owners, members: list[Member]) -> bool:
    """Whether each member has an assignment, and every partition an owner."""
    for member in members:
        assert member.failure is None, member.failure
    names = [owners.by_partition.get(tp) for tp in TPS]
    share = PARTITIONS // len(members)
    return all(names.count(member.name) == share for member in members)


def place_of(line: str) -> tuple[int, int]:
    """Partition and offset in a line of the killed member's output."""
    partition, offset = line.split()
    return int(partition), int(offset)


VICTIM = """
import ast, sys, headrace
consumer = headrace.Consumer("t", bootstrap=sys.argv[1], group="g", auto_offset_reset="earliest",
    **ast.literal_eval(sys.argv[2]))
while True:
    for record in consumer.poll(1, 100):
        print(record.partition, record.offset, flush=True)
    consumer.commit()
"""


def bounce_in_turn(cluster: FaultCluster, owners: Owners, members: list[Member], options: Any) -> None:
    """Each member leaves the group, and a new one joins."""
    for index, old in enumerate(members):
        old.close()
        members[index] = Member(cluster, owners, f"{old.name}'", **options)
        members[index].seen |= old.seen
    cluster.until(lambda: is_shared(owners, members), "all partitions have owners after the restart")


def kill_another(cluster: FaultCluster, options: Any) -> set[tuple[int, int]]:
    """A member in a process of its own joins, reads, commits and is killed; returns what it read."""
    command = [sys.executable, "-c", VICTIM, cluster.bootstrap, repr(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None
            lines = [victim.stdout.readline() for _ in range(50)]
        finally:
            victim.kill()
        # it prints records before it commits them
        return {place_of(line) for line in (*lines, *victim.stdout) if line.endswith("\n")}


def restart_static(cluster: FaultCluster, owners: Owners, members: list[Member], options: Any) -> None:
    """The first member becomes static and restarts with the same instance id; then it leaves for good."""
    static = {"group_instance_id": "static", **options}
    for name, how, its_options in (("s", {}, static), ("s'", {}, static), ("m", {"leave": True}, options)):
        old = members[0]
        old.close(**how)
        members[0] = Member(cluster, owners, name, **its_options)
        members[0].seen |= old.seen
        cluster.until(lambda: is_shared(owners, members), f"{name} has its assignment")


@each_kind
@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.faults)])
def test_s51_members_are_restarted_and_killed(make_cluster: Any, kind: str, rounds: int) -> None:
    """Members leave and join, one is killed, a static one restarts: a partition never has two owners,
    committed offsets never decrease, and every record is read."""
    cluster = make_cluster(config=NODE)
    cluster.create_topic("t", PARTITIONS, min_insync_replicas=2)
    owners, options, seen = Owners(), KINDS[kind], set[tuple[int, int]]()
    with Load(cluster) as load:
        members = [Member(cluster, owners, f"m{number}", **options) for number in range(3)]
        cluster.until(lambda: is_shared(owners, members), "all partitions have owners")
        for _ in range(rounds):
            bounce_in_turn(cluster, owners, members, options)
            seen |= kill_another(cluster, options)
            cluster.until(lambda: is_shared(owners, members), "the killed member is expired")
            restart_static(cluster, owners, members, options)
        sent = load.end()
        cluster.until(lambda: seen.union(*(each.seen for each in members)) >= sent, "all records are read")
    for member in members:
        member.close()
    assert owners.complaints == []


WHAT_IS_COMMITTED = OffsetFetchRequest(
    (OffsetFetchGroup("g", (TopicNamePartitions("t", tuple(range(PARTITIONS))),)),), False
)


def refuses_group_requests(cluster: FaultCluster, node: Server) -> bool:
    """Whether the node refuses requests of the group. Fails if it serves stale offsets."""
    (answer,) = cluster.ask(node, registry.OFFSET_FETCH, WHAT_IS_COMMITTED, PATIENCE_S).groups
    assert answer.error_code, f"{node.name} serves stale offsets: {answer}"
    return bool(answer.error_code == NotCoordinatorError.code)


@pytest.mark.faults
@each_kind
def test_s52_the_coordinator_fails_during_rebalances(make_cluster: Any, kind: str) -> None:
    """The coordinator is killed when a member has just joined, the next one is paused at the next join: a new
    coordinator loads the group with its committed offsets, and the resumed one refuses requests."""
    cluster = make_cluster(config=NODE)
    cluster.create_topic("t", PARTITIONS, min_insync_replicas=2)
    owners = Owners()
    with Load(cluster, looks=False) as load:
        members = [Member(cluster, owners, "m0", **KINDS[kind])]
        cluster.until(lambda: is_shared(owners, members), "the first member owns all partitions")
        for number in (1, 2):
            cluster.until_in_sync(OFFSETS)
            cluster.until_in_sync("t")
            node = coordinator(cluster)
            members.append(Member(cluster, owners, f"m{number}", **KINDS[kind]))
            node.kill() if number == 1 else node.pause()
            cluster.until(lambda node=node: coordinator(cluster) is not node, "another node coordinates")
            cluster.until(lambda: is_shared(owners, members), "all partitions have owners")
            if number == 1:
                node.start()
            else:
                node.resume()
                cluster.until(lambda node=node: refuses_group_requests(cluster, node), f"{node.name} refuses")
        sent = load.end()
        cluster.until(lambda: set().union(*(each.seen for each in members)) >= sent, "all records are read")
    for member in members:
        member.close()
    assert owners.complaints == []
    with cluster.clients.consumer(group="g") as consumer:
        found = consumer.committed(*TPS, timeout=PATIENCE_S)
    for tp, each in found.items():
        assert each.offset >= max(member.committed.get(tp, 0) for member in members)


def test_s52_isolated_coordinator_serves_no_stale_offsets(make_cluster: Any) -> None:
    """A coordinator without links to the controller and other nodes, like one that was just resumed: it
    refuses to serve offsets from its state."""
    cluster = make_cluster(config={**NODE, "offsets.commit.timeout.ms": 500})
    cluster.create_topic("t", PARTITIONS)
    with cluster.clients.consumer(group="g", enable_auto_commit=False) as consumer:
        consumer.commit(dict.fromkeys(TPS, 1))
        cluster.until_in_sync(OFFSETS)
        node = coordinator(cluster)
        cluster.isolate([node.name], [name for name in cluster.servers if name != node.name])
        cluster.until(lambda: coordinator(cluster) is not node, "another node coordinates")
        (answer,) = cluster.ask(node, registry.OFFSET_FETCH, WHAT_IS_COMMITTED, PATIENCE_S).groups
        assert answer.error_code == CoordinatorNotAvailableError.code
        cluster.network.heal()
        cluster.until(lambda: refuses_group_requests(cluster, node), f"{node.name} refuses")
        assert {each.offset for each in consumer.committed(*TPS, timeout=PATIENCE_S).values()} == {1}


@pytest.mark.faults
def test_s53_offsets_survive_compaction_and_a_full_restart(make_cluster: Any) -> None:
    """A hundred thousand commits in segments of the minimum size; all nodes are killed and restarted: the
    last commits are loaded, and the compacted log is not much larger than they are."""
    config = {
        **NODE,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": 1 << 20,
        "log.cleaner.backoff.ms": 100,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    cluster = make_cluster(config=config)
    cluster.create_topic("t", WIDE, 1)
    tps = [TopicPartition("t", number) for number in range(WIDE)]
    with cluster.clients.consumer(group="g", enable_auto_commit=False) as consumer:
        for offset in range(COMMITS):
            consumer.commit(dict.fromkeys(tps, offset))
    cluster.until_in_sync(OFFSETS)

    def is_small() -> bool:
        sizes = [len(data) for data in cluster.logs_of(OFFSETS).values()]
        return len(sizes) == 3 and max(sizes) < 2 << 20

    cluster.until(is_small, "the logs are compacted")
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.start()
    with cluster.clients.consumer(group="g") as consumer:
        found = consumer.committed(*tps, timeout=PATIENCE_S)
    assert {tp: each.offset for tp, each in found.items()} == dict.fromkeys(tps, COMMITS - 1)
