"""The planner: each goal, limits, cost, and ten thousand partitions."""

import random
import time

import pytest
from headrace.protocol.model import TopicPartition
from headrace.services.balance.model import (
    Limits,
    LogDirFacts,
    Move,
    NodeFacts,
    PartitionFacts,
    Plan,
    Snapshot,
)
from headrace.services.balance.planner import plan

GIB = 1 << 30


def nodes(count: int, racks: int = 0, capacity: int = 1000 * GIB) -> tuple[NodeFacts, ...]:
    return tuple(
        NodeFacts(
            number,
            f"r{number % racks}" if racks else None,
            capacity_bytes=capacity,
            free_bytes=capacity // 2,
        )
        for number in range(1, count + 1)
    )


def part(
    number: int, *replicas: int, size: int = GIB, rate: float = 0.0, topic: str = "t", movable: bool = True
) -> PartitionFacts:
    return PartitionFacts(
        TopicPartition(topic, number), replicas, replicas[0], size, rate, rate, is_movable=movable
    )


def replicas_after(made: Plan, number: int) -> tuple[int, ...] | None:
    return next((move.after for move in made.moves if move.place.partition == number), None)


def test_racks_come_first() -> None:
    """Both replicas are in one rack: one of them moves to the other rack, though the counts were even."""
    snapshot = Snapshot(nodes(4, racks=2), (part(0, 1, 3), part(1, 2, 4)))
    made = plan(snapshot)
    assert (made.before.rack_misses, made.after.rack_misses) == (2, 0)
    assert all(move.goal == "rack" for move in made.moves if move.added)


def test_a_new_node_gets_its_share() -> None:
    """Three nodes with twelve replicas, a fourth one is empty: three move, no more."""
    snapshot = Snapshot(nodes(4), tuple(part(n, n % 3 + 1) for n in range(12)))
    made = plan(snapshot)
    assert [move.added for move in made.moves] == [(4,)] * 3
    assert made.copied_bytes == 3 * GIB
    assert made.after.replicas.imbalance == made.after.leaders.imbalance == 0


def test_disks_are_evened_by_swaps_that_keep_the_counts() -> None:
    """Equal counts, but one node has the large partitions: they change places with small ones."""
    large = tuple(part(n, 1, size=100 * GIB) for n in range(4))
    small = tuple(part(n, 2, size=GIB) for n in range(4, 8))
    made = plan(Snapshot(nodes(2), large + small))
    assert made.after.disk.imbalance < 0.1 < made.before.disk.imbalance
    assert made.after.replicas.imbalance == 0


def test_disk_usage_is_relative_to_the_size_of_the_disks() -> None:
    """A node with a disk of a quarter of the size is as full with a quarter of the bytes."""
    big, small = nodes(1)[0], NodeFacts(2, None, capacity_bytes=250 * GIB, free_bytes=100 * GIB)
    held = (*(part(n, 1, size=40 * GIB) for n in range(2)), *(part(n, 2, size=10 * GIB) for n in (2, 3)))
    made = plan(Snapshot((big, small), held))
    assert made.moves == ()
    assert made.before.disk.imbalance == 0


def test_leaders_change_along_a_chain() -> None:
    """Node 1 leads three and node 3 none, and no partition is on both: node 2 stands between them."""
    held = (part(0, 1, 2), part(1, 1, 2), part(2, 1, 2), part(3, 2, 3), part(4, 2, 3), part(5, 2, 3))
    made = plan(Snapshot(nodes(3), held), Limits(goals=("leaders",)))
    assert made.copied_bytes == 0
    assert (made.after.leaders.smallest, made.after.leaders.largest) == (2, 2)


def test_traffic_is_evened_by_leaders_alone() -> None:
    """Two busy partitions with one leader: a quiet one changes places with one of them, nothing is copied."""
    held = (part(0, 1, 2, rate=100), part(1, 1, 2, rate=100), part(2, 2, 1, rate=1), part(3, 2, 1, rate=1))
    made = plan(Snapshot(nodes(2), held))
    assert made.copied_bytes == 0
    assert made.after.traffic.imbalance < 0.1 < made.before.traffic.imbalance
    assert made.after.leaders.imbalance == 0


def test_a_full_disk_gets_nothing() -> None:
    """The emptiest node has no space for another replica: the second emptiest gets it."""
    full = NodeFacts(2, None, capacity_bytes=1000 * GIB, free_bytes=50 * GIB)
    snapshot = Snapshot((*nodes(1), full, nodes(3)[2]), tuple(part(n, 1) for n in range(4)))
    made = plan(snapshot)
    assert {move.added for move in made.moves} == {(3,)}


def test_topics_and_nodes_limit_the_moves() -> None:
    """Only partitions of the topic move, only from or to the named node, and excluded nodes keep theirs."""
    held = tuple(part(n, 1, topic="ab"[n % 2]) for n in range(12))
    made = plan(Snapshot(nodes(3), held), Limits(topics=frozenset("a")))
    assert {move.place.topic for move in made.moves} == {"a"}
    made = plan(Snapshot(nodes(3), held), Limits(nodes=frozenset({2})))
    assert {move.added for move in made.moves} == {(2,)}
    made = plan(Snapshot(nodes(3), held), Limits(excluded=frozenset({2})))
    assert {move.added for move in made.moves} == {(3,)}


def test_what_cannot_leave_a_node_is_named() -> None:
    """Three replicas cannot be on two nodes; a partition that is being reassigned waits."""
    busy = PartitionFacts(TopicPartition("busy", 0), (3,), 3, is_movable=False, is_copyable=False)
    made = plan(Snapshot(nodes(3), (part(0, 1, 2, 3), busy)), Limits(evacuated=frozenset({3}), goals=()))
    assert made.moves == ()
    assert "3 replicas need 3 nodes, 2 would remain" in made.stuck[TopicPartition("t", 0)]
    assert "being reassigned" in made.stuck[TopicPartition("busy", 0)]


def test_log_dirs_of_a_node_are_evened() -> None:
    """All replicas are in the first of two dirs: half of the bytes move to the second."""
    held = tuple(part(n, 1) for n in range(4))
    dirs = (
        LogDirFacts("/a", 100 * GIB, 90 * GIB, {each.place: GIB for each in held}),
        LogDirFacts("/b", 100 * GIB, 90 * GIB, {}),
    )
    node = NodeFacts(1, None, capacity_bytes=200 * GIB, free_bytes=180 * GIB, log_dirs=dirs)
    made = plan(Snapshot((node,), held), with_dirs=True)
    assert [(move.before, move.after) for move in made.dir_moves] == [("/a", "/b")] * 2


def test_the_duration_is_that_of_the_busiest_node() -> None:
    """Two gigabytes from one node to two others: the sender needs twice the time of each receiver."""
    moves = tuple(Move(TopicPartition("t", n), (1,), (2 + n,), GIB, "replicas") for n in range(2))
    state = plan(Snapshot(nodes(1), ())).before
    assert Plan(moves, state, state).duration_s(GIB // 10) == pytest.approx(20, rel=0.01)
    assert Plan(moves, state, state).duration_s(None) is None


def test_ten_thousand_partitions_are_planned_in_seconds() -> None:
    """A hundred nodes of four racks, some of them new, with sizes that differ by orders of magnitude: two
    seconds of CPU, and a bound that a slow machine keeps."""
    chance = random.Random(7)
    held = []
    for number in range(10_000):
        replicas = tuple(chance.sample(range(1, 97), 3))
        held.append(part(number, *replicas, size=int(chance.paretovariate(1.3) * 1e7), rate=chance.random()))
    started = time.process_time()
    made = plan(Snapshot(nodes(100, racks=4), tuple(held)))
    assert time.process_time() - started < 10
    assert made.after.rack_misses == 0
    assert made.after.replicas.largest - made.after.replicas.smallest <= 1
    assert made.after.leaders.largest - made.after.leaders.smallest <= 1
    assert made.after.disk.imbalance < made.before.disk.imbalance
