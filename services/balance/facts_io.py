"""Reads from a cluster what the planner needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NodeState
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ...runtime.waiting_io import let_pass
from ..network_status import pieces
from .model import Facts, Health, LogDirFacts, NodeFacts, PartitionFacts, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...clients.admin.admin_types import LogDirInfo, NodeInfo, PartitionDescription
    from ...clients.admin.replica_types import NodeReplicas
    from ...clients.sync.admin_io import Admin

Rates = dict[TopicPartition, tuple[float, float]]


def facts_of(admin: Admin, sample_s: float) -> Facts:
    """Everything about the cluster. The traffic is measured during `sample_s` seconds; 0 leaves it out.
    Errors: those of the client, but for a node that does not answer."""
    cluster = admin.describe_cluster(include_fenced=True).nodes
    active = [node.node_id for node in cluster if node.state is NodeState.ACTIVE]
    first = _answers(admin, active) if sample_s > 0 else {}
    started = time.monotonic()
    described = describe_all(admin)
    dirs = admin.describe_log_dirs(active)
    silent = tuple(dirs.errors)
    if sample_s > 0:
        let_pass(max(sample_s - (time.monotonic() - started), 0))
    rates = rates_of(first, _answers(admin, active)) if sample_s > 0 else {}
    known = {node_id: dirs[node_id] for node_id in active if node_id not in silent}
    sizes = _sizes(known)
    nodes = tuple(_node(node, known.get(node.node_id, ())) for node in cluster)
    partitions = tuple(_partition(each, sizes, rates) for each in described)
    health = Health(
        tuple(node.node_id for node in cluster if node.state is not NodeState.ACTIVE),
        silent,
        sum(each.is_unavailable for each in described),
        sum(each.is_under_replicated and not is_reassigning(each) for each in described),
        sum(is_reassigning(each) for each in described),
    )
    return Facts(Snapshot(nodes, partitions), health)


def describe_all(admin: Admin) -> list[PartitionDescription]:
    """Every partition of every topic. Errors: those of the client."""
    names = [item.name for item in admin.list_topics(internal=True)]
    found: list[PartitionDescription] = []
    for piece in pieces(names):
        topics = admin.describe_topics(*piece)
        for name in piece:
            if name not in topics.errors:  # deleted meanwhile
                found += topics[name].partitions
    return found


def is_reassigning(part: PartitionDescription) -> bool:
    """Whether its replicas are being moved."""
    return bool(part.adding_replicas or part.removing_replicas)


def place_of(part: PartitionDescription) -> TopicPartition:
    """Topic and number."""
    return TopicPartition(part.topic, part.partition)


def rates_of(before: Mapping[int, NodeReplicas], after: Mapping[int, NodeReplicas]) -> Rates:
    """Bytes per second that clients wrote and read, of all replicas of each partition; nodes that restarted
    between the samples are left out."""
    rates: Rates = {}
    for node_id, node in after.items():
        earlier = before.get(node_id)
        seconds = 0 if earlier is None else (node.clock_ms - earlier.clock_ms) / 1000
        if earlier is None or seconds <= 0:
            continue
        for place, now in node.replicas.items():
            then = earlier.replicas.get(place)
            if then is not None:
                wrote = max(now.produced_bytes - then.produced_bytes, 0) / seconds
                read = max(now.fetched_bytes - then.fetched_bytes, 0) / seconds
                others = rates.get(place, (0.0, 0.0))
                rates[place] = (others[0] + wrote, others[1] + read)
    return rates


def _answers(admin: Admin, node_ids: Iterable[int]) -> dict[int, NodeReplicas]:
    try:
        found = admin.describe_replicas(node_ids)
    except HeadraceError:
        return {}
    return {node_id: found[node_id] for node_id in found if node_id not in found.errors}


def _sizes(dirs: Mapping[int, Sequence[LogDirInfo]]) -> dict[TopicPartition, int]:
    """The largest replica of each partition: one that is being copied is still small."""
    sizes: dict[TopicPartition, int] = {}
    for each in (info for infos in dirs.values() for info in infos):
        for replica in each.replicas:
            place = TopicPartition(replica.topic, replica.partition)
            sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes


def _node(node: NodeInfo, infos: Sequence[LogDirInfo]) -> NodeFacts:
    dirs = tuple(
        LogDirFacts(
            info.path,
            max(info.total_bytes, 0),
            max(info.usable_bytes, 0),
            {
                TopicPartition(each.topic, each.partition): each.size_bytes
                for each in info.replicas
                if not each.is_future
            },
            info.is_cordoned,
        )
        for info in infos
        if info.error is None
    )
    return NodeFacts(
        node.node_id,
        node.rack,
        node.state is NodeState.ACTIVE,
        bool(dirs) and all(each.is_cordoned for each in dirs),
        sum(each.total_bytes for each in dirs),
        sum(each.usable_bytes for each in dirs) if dirs else -1,
        dirs,
    )


def _partition(
    part: PartitionDescription, sizes: Mapping[TopicPartition, int], rates: Rates
) -> PartitionFacts:
    place = place_of(part)
    target = tuple(node for node in part.replicas if node not in part.removing_replicas)
    is_copyable = not is_reassigning(part) and not part.is_unavailable
    return PartitionFacts(
        place,
        target,
        part.leader,
        sizes.get(place, 0),
        *rates.get(place, (0.0, 0.0)),
        is_movable=is_copyable and set(part.replicas) <= set(part.isr),
        is_copyable=is_copyable,
    )
