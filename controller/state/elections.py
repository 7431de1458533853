"""Who leads a partition: each reason for an election is a named strategy. Pure.

A strategy looks at one partition and at which nodes are active, and gives the change to record, or None.
What all keep: a leader is active and in the ISR; the ISR is never empty; the last member of an ISR stays in
it while it is away, because it alone has everything that was acknowledged.
Source: Kafka PartitionChangeBuilder.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.records import PartitionChangeRecord
from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from ...protocol.metadata.image import MetadataImage, PartitionRegistration

    Strategy = Callable[[PartitionRegistration, int, Set[int]], "Change | None"]


class Change(NamedTuple):
    """What an election changes; None leaves a fact as it is."""

    leader: int | None
    isr: tuple[int, ...] | None


def node_gone(partition: PartitionRegistration, node_id: int, active: Set[int]) -> Change | None:
    """Strategy: `node_id` was fenced or is shutting down, and is not in `active` any more.

    It leaves the ISR unless it is the last member. What it led goes to the first assigned replica that is in
    the ISR and active, or to nobody.
    """
    if node_id not in partition.isr:
        return None
    rest = tuple(member for member in partition.isr if member != node_id)
    isr = rest or partition.isr
    leader = _first_eligible(partition, isr, active) if partition.leader == node_id else None
    if leader is None and isr == partition.isr:
        return None
    return Change(leader, None if isr == partition.isr else isr)


def node_back(partition: PartitionRegistration, node_id: int, active: Set[int]) -> Change | None:
    """Strategy: `node_id` is active again and takes the leaderless partitions that it is in sync for."""
    if partition.leader != NO_NODE or node_id not in partition.isr:
        return None
    leader = _first_eligible(partition, partition.isr, active)
    return None if leader == NO_NODE else Change(leader, None)


STRATEGIES: dict[str, Strategy] = {"node-gone": node_gone, "node-back": node_back}


def elect_all(
    image: MetadataImage, strategy: Strategy, node_id: int, active: Set[int]
) -> Iterator[PartitionChangeRecord]:
    """The changes that `strategy` makes to all partitions of the cluster because of one node."""
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            change = strategy(partition, node_id, active)
            if change is not None:
                yield PartitionChangeRecord(topic.topic_id, number, change.leader, change.isr)


def active_nodes(image: MetadataImage) -> frozenset[int]:
    """The nodes that may lead: registered and not fenced."""
    return frozenset(node_id for node_id, broker in image.brokers.items() if not broker.is_fenced)


def _first_eligible(partition: PartitionRegistration, isr: tuple[int, ...], active: Set[int]) -> int:
    return next((node for node in partition.replicas if node in isr and node in active), NO_NODE)
