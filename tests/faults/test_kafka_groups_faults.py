"""Groups of Kafka's clients over the listener while coordinators, controllers and members fail.

Laws: each group reads every acknowledged record, and no acknowledged commit is lost.
"""

import contextlib
import gc
from typing import Any, Self

import pytest
from fault_cluster import FaultCluster, Server
from headrace.protocol.coordinator_ids import partition_of_id
from kafka_load import PARTITIONS, KafkaLoad, Librdkafka
from kafka_members import KINDS, LibrdkafkaMember, Member, NewLibrdkafkaMember, committed_of
from waiting import wait_for

NODE = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.heartbeat.interval.ms": 500,
}
OFFSETS = "__consumer_offsets"


def coordinator(cluster: FaultCluster, group: str) -> Server:
    """The node that coordinates the group."""
    count = len(cluster.image().topics[OFFSETS].partitions)
    return cluster.node(cluster.leader(OFFSETS, partition_of_id(group, count)))


class Group:
    """One group: its present and former members, all of one client."""

    def __init__(self, load: KafkaLoad, kind: type[Member]) -> None:
        self.load, self.kind, self.name = load, kind, kind.__name__
        self.members: list[Member] = []
        self.all_members: list[Member] = []

    def __enter__(self) -> Self:
        for _ in range(2):
            self.join()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            with contextlib.suppress(Exception):
                member.leave()
        gc.collect()  # closes the sockets that kafka-python leaks

    def join(self) -> None:
        """Add a member."""
        member = self.kind(self.load.cluster.kafka_bootstrap, self.load.topic, self.name)
        self.members.append(member)
        self.all_members.append(member)
        member.start()

    def leave(self) -> None:
        """Remove the oldest member."""
        self.members.pop(0).leave()

    @property
    def seen(self) -> set[bytes]:
        return {value for member in self.all_members for value in list(member.seen)}

    @property
    def committed(self) -> dict[int, int]:
        """The highest acknowledged offset of each partition."""
        return {
            partition: max(member.committed[partition] for member in self.all_members)
            for partition in range(PARTITIONS)
        }

    def progress(self) -> str:
        lines = [
            f"{self.name}: {len(member.seen)} seen, {member.commits} commits, {member.failure!r}"
            for member in self.all_members
        ]
        return "\n".join([*lines, self.load.progress()])

    def until_committed(self, count: int) -> None:
        """Wait until the group has committed this many more records."""
        goal = sum(self.committed.values()) + count

        def is_so() -> bool:
            for member in self.members:
                assert member.failure is None, self.progress()
            return sum(self.committed.values()) >= goal

        wait_for(is_so, f"{self.name} commits {count} more", 90, self.progress)

    def judge(self) -> None:
        """Check the laws, after the end of the load."""
        wanted = {value for sender in self.load.senders for value in sender.acked}
        wait_for(lambda: wanted <= self.seen, f"{self.name} has seen everything", 60, self.progress)
        while self.members:
            self.leave()
        held = committed_of(self.load.cluster.kafka_bootstrap, self.load.topic, self.name, PARTITIONS)
        lost = {p: (offset, held[p]) for p, offset in self.committed.items() if held[p] < offset}
        assert not lost, f"{self.name}: (acknowledged, committed) offsets: {lost}"


def play(make_cluster: Any, kind: type[Member], scenario: Any, **options: Any) -> None:
    """Run a scenario on a group of this client under load, and check the laws."""
    cluster = make_cluster(kafka=True, config=NODE, **options)
    with KafkaLoad(cluster, Librdkafka) as load, Group(load, kind) as group:
        group.until_committed(50)
        scenario(cluster, load, group)
        load.finish()
        group.judge()


def kill_coordinator(cluster: FaultCluster, load: KafkaLoad, group: Group) -> None:
    """Kill the coordinator during commits, restart it, twice."""
    for _ in range(2):
        node = coordinator(cluster, group.name)
        node.kill()
        group.until_committed(50)
        node.start()
        cluster.until_in_sync(OFFSETS)
        cluster.until_in_sync(load.topic)


def change_controller(cluster: FaultCluster, load: KafkaLoad, group: Group) -> None:
    """Kill the active controller while a member joins, and another controller while one leaves."""
    dead = cluster.active_controller
    dead.kill()
    group.join()
    group.until_committed(50)
    dead.start()
    cluster.active_controller.stop()
    group.leave()
    group.until_committed(50)
    load.more()


@pytest.mark.parametrize(
    "kind",
    [
        NewLibrdkafkaMember,
        *(pytest.param(kind, marks=pytest.mark.faults) for kind in KINDS if kind is not NewLibrdkafkaMember),
    ],
    ids=lambda kind: kind.__name__,
)
def test_coordinator_is_killed_while_members_commit(make_cluster: Any, kind: Any) -> None:
    """Its successor has every acknowledged commit."""
    play(make_cluster, kind, kill_coordinator)


@pytest.mark.faults
@pytest.mark.parametrize("kind", [LibrdkafkaMember, NewLibrdkafkaMember], ids=lambda kind: kind.__name__)
def test_controller_changes_during_rebalances(make_cluster: Any, kind: Any) -> None:
    """Members join and leave meanwhile, without delay."""
    play(make_cluster, kind, change_controller, controllers=3)
