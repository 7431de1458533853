"""Scripted faults of a simulated cluster; each script leads to one rare situation.

A plan names a script (`Plan.scenario`), which runs between the start and the recovery, while clients work. It
waits for its conditions with `SimCluster.require`, so that nearly every seed reaches the situation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_laws import registration_of
from compacting import TOPIC
from erasing import retain
from headrace.protocol.records.header import read_batch_header
from log_contents import buffers, split

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster import SimCluster
    from headrace.protocol.metadata.image import PartitionRegistration
    from sim_node import SimNode

PATIENCE_MS = 15_000
COMPACTED, PRODUCED = (TOPIC, 0), ("t", 0)
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 2


def power_after_a_swap(cluster: SimCluster) -> None:
    """Six times a node loses power just after a cleaned segment replaced the old ones."""
    nodes = list(cluster.nodes.values())
    for _ in range(6):
        before = {node.name: node.swaps for node in nodes}
        swapped: list[SimNode] = []

        def has_swapped(before: dict[str, int] = before, swapped: list[SimNode] = swapped) -> bool:
            swapped[:] = [node for node in nodes if node.is_alive and node.swaps > before[node.name]]
            return bool(swapped)

        cluster.require(PATIENCE_MS, has_swapped, "no log is cleaned")
        swapped[0].die(power=True)
        cluster.require(PATIENCE_MS, lambda: all(node.is_alive for node in nodes), "a node stays dead")


def leader_lacks_an_epoch(cluster: SimCluster) -> None:
    """A leader's log was copied after compaction had removed all records of one leader epoch; a follower
    whose log ends in that epoch returns and must truncate."""
    first, second, third = cluster.nodes.values()
    _isolate(cluster, second)
    _require_isr(cluster, {1, 3}, leader=1)
    _isolate(cluster, first, second)
    _require_isr(cluster, {3}, leader=3)
    epoch = _registration(cluster).leader_epoch
    cluster.world.run(2_000)
    _isolate(cluster, second)
    _require_isr(cluster, {1, 3}, leader=3)
    _isolate(cluster, second, third)
    _require_isr(cluster, {1}, leader=1)
    for _ in range(40):
        cluster.world.run(500)
        if not _records_of(first, epoch):
            break
    else:
        raise AssertionError(f"epoch {epoch} is not compacted away")
    _isolate(cluster, third)
    _require_isr(cluster, {1, 2}, leader=1)
    _isolate(cluster, first, third)
    _require_isr(cluster, {2}, leader=2)
    _isolate(cluster, first)
    _require_isr(cluster, {2, 3}, leader=2)


def coordinators_are_cut_off(cluster: SimCluster) -> None:
    """Each group coordinator in turn is cut off from all nodes and clients except the one that only sends
    OffsetFetch, for longer than a new coordinator needs to load and to commit. Member sessions last longer
    than that (`Plan.session_ms`): an expired session would make the old coordinator append, and its responses
    would then wait for a commit."""
    assert cluster.groups is not None
    offset_poller = cluster.groups.offset_poller.name
    for number in range(OFFSETS_PARTITIONS):
        node = cluster.nodes[_registration(cluster, (OFFSETS_TOPIC, number)).leader]
        _isolate(cluster, node)
        cluster.network.separate(
            [node.name], [each for each in cluster.faults.clients() if each != offset_poller]
        )
        cluster.world.run(5_000)
        cluster.network.heal()
        cluster.world.run(2_000)


def drained_node_is_paused(cluster: SimCluster) -> None:
    """A drained node leaves the ISR, is paused, and is undrained within its session, so that the leader waits
    for it until it is fenced; producers send a few more records and then stop."""
    node = cluster.nodes[2]
    cluster.faults.set_drained(node, is_drained=True)
    cluster.require(PATIENCE_MS, lambda: 2 not in _isr(cluster, ("t", 0)), "a drained node stays in the ISR")
    cluster.world.run(500)  # it fetches and catches up
    pause_ms = 2 * PATIENCE_MS
    node.pause.begin(pause_ms)
    cluster.world.run(100)  # its last fetches arrive
    cluster.faults.set_drained(node, is_drained=False)
    cluster.world.run(100)  # fewer batches than producers may have in flight
    cluster.silent_until_ms = cluster.world.now_ms + pause_ms
    cluster.world.run(pause_ms)


def nodes_miss_removed_rules(cluster: SimCluster) -> None:
    """Rules change while one node is cut off from the servers and another one is paused; users reach both all
    the time, and the paused one reads their requests before the controllers' responses."""
    first, second, _ = cluster.nodes.values()
    _isolate(cluster, first)
    cluster.world.run(6_000)
    cluster.network.heal()
    second.pause.begin(5_000)
    second.deaf_ms = 20
    cluster.world.run(7_000)


def power_after_a_deletion(cluster: SimCluster) -> None:
    """Four times retention deletes all records of a partition, and then its leader loses power: only the
    producer snapshot at the log start has the producer state."""
    cluster.rules.on_retention()
    retain(cluster, ("retention.ms", "0"))

    def is_empty() -> bool:
        log = _leader(cluster).log_of(PRODUCED)
        if log is None or not log.log_end_offset or log.has_dropped_segments or log.flusher.is_running:
            return False
        return log.segments.first_base_offset == log.log_end_offset

    for _ in range(4):
        cluster.require(PATIENCE_MS, cluster.has_progress(), "no progress after the power loss")
        cluster.silent_until_ms = cluster.world.now_ms + PATIENCE_MS
        cluster.require(PATIENCE_MS, is_empty, "the records are not deleted")
        _leader(cluster).die(power=True)
        cluster.silent_until_ms = cluster.world.now_ms


def _leader(cluster: SimCluster) -> SimNode:
    return cluster.nodes[_registration(cluster, PRODUCED).leader]


def _isolate(cluster: SimCluster, *nodes: SimNode) -> None:
    """Heal the network, then cut these nodes off from all servers."""
    cluster.network.heal()
    for node in nodes:
        cluster.faults.separate_from_servers(node)


def _registration(cluster: SimCluster, key: tuple[str, int] = COMPACTED) -> PartitionRegistration:
    found = registration_of(cluster.rules.image, key)
    assert found is not None
    return found


def _require_isr(cluster: SimCluster, isr: set[int], leader: int) -> None:
    cluster.require(
        PATIENCE_MS,
        lambda: (_isr(cluster), _registration(cluster).leader) == (isr, leader),
        f"no ISR {isr} under leader {leader}",
    )


def _isr(cluster: SimCluster, key: tuple[str, int] = COMPACTED) -> set[int]:
    return set(_registration(cluster, key).isr)


def _records_of(node: SimNode, epoch: int) -> int:
    """The number of records of a leader epoch in the node's log."""
    log = node.log_of(COMPACTED)
    assert log is not None
    pieces = buffers(log, log.log_start_offset, log.log_end_offset)
    headers = (read_batch_header(batch) for piece in pieces for batch in split(piece))
    return sum(header.record_count for header in headers if header.leader_epoch == epoch)


SCENARIOS: dict[str, Callable[[SimCluster], None]] = {
    script.__name__: script
    for script in (
        power_after_a_swap,
        leader_lacks_an_epoch,
        coordinators_are_cut_off,
        drained_node_is_paused,
        nodes_miss_removed_rules,
        power_after_a_deletion,
    )
}
