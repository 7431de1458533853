"""Drains: a node that goes on running leads nothing any more and stays out of ISRs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import BrokerIdNotRegisteredError
from ...protocol.messages.control import DrainNodeRequest, DrainNodeResponse
from ...protocol.model import effective_min_isr
from .broker_states import shutdown_flag
from .cluster_state import led_by
from .decision import Decision
from .leader_and_isr import DRAINED, UNFENCED, changes
from .node_notes import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from .cluster_state import ClusterState
    from .fencing import Fencing

MAX_TOPICS = 20  # Bound: topic names in a response and in a log line; the count is complete


def decide_drain(fencing: Fencing, image: MetadataImage, request: DrainNodeRequest) -> Decision:
    """Move the node's leaderships and remove it from ISRs that other replicas keep, or end its drain. A
    repeated request moves what could not be moved before. Errors: BrokerIdNotRegisteredError."""
    broker = image.brokers.get(request.node_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"node {request.node_id} is not registered")
    node_id = broker.node_id
    moved: list[PartitionChangeRecord] = []
    if not broker.is_fenced:
        cluster, reason = fencing.cluster(image).including(node_id), UNFENCED
        if request.is_drained:
            cluster, reason = fencing.cluster(image, drained=node_id), DRAINED
        moved = list(changes(cluster, reason, node_id))
    records = (*shutdown_flag(broker, in_controlled_shutdown=request.is_drained), *moved)
    left = led_by(image, node_id) + sum(_gain(image, node_id, change) for change in moved)
    below, topics = below_min_isr(fencing.cluster(image), node_id, moved) if request.is_drained else (0, ())
    if records:
        action = "draining" if request.is_drained else "ending the drain of"
        fencing.notes.moved(image, f"{action} {named(broker)}", records)
    if records and below:
        fencing.notes.add(
            f"the drain of {named(broker)} leaves {below} partitions below min.insync.replicas: producers "
            f"with acks=all get NOT_ENOUGH_REPLICAS for {', '.join(topics)}",
            is_warning=True,
        )
    reply = DrainNodeResponse(0, "", left, image.offset + len(records), below, topics)
    return Decision(records, reply)


def below_min_isr(
    cluster: ClusterState, node_id: int, changes: Iterable[PartitionChangeRecord]
) -> tuple[int, tuple[str, ...]]:
    """The number of partitions with a replica on the node whose ISR is below min.insync.replicas after
    `changes`, and the names of the first of their topics."""
    isr_of = {(each.topic_id, each.partition): each.isr for each in changes if each.isr is not None}
    count, topics = 0, set[str]()
    for topic in cluster.image.topics.values():
        min_isr = cluster.min_isr(topic.name)
        for number, partition in enumerate(topic.partitions):
            isr = isr_of.get((topic.topic_id, number), partition.isr)
            is_below = len(isr) < effective_min_isr(min_isr, len(partition.replicas))
            if is_below and node_id in partition.replicas:
                count += 1
                topics.add(topic.name)
    return count, tuple(sorted(topics)[:MAX_TOPICS])


def _gain(image: MetadataImage, node_id: int, change: PartitionChangeRecord) -> int:
    """1 if the change makes the node a leader, -1 if it ends its leadership, else 0."""
    if change.leader is None:
        return 0
    before = image.topics[image.topic_names[change.topic_id]].partitions[change.partition].leader
    return (change.leader == node_id) - (before == node_id)
