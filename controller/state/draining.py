"""What a drain does to acks=all: partitions whose ISR it leaves below min.insync.replicas. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import effective_min_isr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.metadata.records import PartitionChangeRecord
    from .standing import Standing

MAX_TOPICS = 20  # Bound: topics that an answer and a line of the log name; the count is of all


def below_min_isr(
    standing: Standing, node_id: int, changes: Iterable[PartitionChangeRecord]
) -> tuple[int, tuple[str, ...]]:
    """How many partitions with a replica on the node have too small an ISR for acks=all once `changes` are
    made, and the first of their topics by name."""
    isr_of = {(each.topic_id, each.partition): each.isr for each in changes if each.isr is not None}
    count, topics = 0, set[str]()
    for topic in standing.image.topics.values():
        min_isr = standing.min_isr(topic.name)
        for number, partition in enumerate(topic.partitions):
            isr = isr_of.get((topic.topic_id, number), partition.isr)
            is_below = len(isr) < effective_min_isr(min_isr, len(partition.replicas))
            if is_below and node_id in partition.replicas:
                count += 1
                topics.add(topic.name)
    return count, tuple(sorted(topics)[:MAX_TOPICS])


def stops_acks_all(node: str, count: int, topics: tuple[str, ...]) -> str:
    """The warning of a drain that stops acks=all."""
    return (
        f"the drain of {node} leaves {count} partitions below min.insync.replicas: producers with acks=all "
        f"get NOT_ENOUGH_REPLICAS for {', '.join(topics)}"
    )
