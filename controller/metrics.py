"""Metrics of a controller about the cluster, under Kafka's names. Pure.

Gauges are derived from the committed image. Elections are counted by every controller when their records are
committed; a restart counts those behind its snapshot again. Election times are known to the controller that
decided: from the request or the expiry until the commit. A meter has its total as `count`, from which a
scraper derives rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.metadata.image import RECOVERING
from ..protocol.metadata.records import PartitionChangeRecord, PartitionRecord
from ..protocol.metadata.replay import changed_partition, registered_partition
from ..protocol.model import NO_NODE
from ..runtime.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..protocol.metadata.image import MetadataImage, PartitionRegistration
    from ..protocol.metadata.records import MetadataRecord


class ElectionCounts:
    """Elected leaders; `unclean` of them may lack acknowledged records; `times` in ms of elections decided
    here."""

    def __init__(self) -> None:
        self.elected = 0
        self.unclean = 0
        self.times = Histogram()

    def committed(
        self,
        before: MetadataImage,
        decisions: Iterable[Sequence[MetadataRecord]],
        took_ms: Sequence[int] = (),
    ) -> None:
        """Count decisions, in log order, that follow the image `before`; `took_ms` of each, if decided
        here."""
        partitions: dict[tuple[bytes, int], PartitionRegistration] = {}
        for number, records in enumerate(decisions):
            elected = self.elected
            self._committed(before, partitions, records)
            if number < len(took_ms):
                for _ in range(self.elected - elected):
                    self.times.record(took_ms[number])

    def _committed(
        self,
        before: MetadataImage,
        partitions: dict[tuple[bytes, int], PartitionRegistration],
        records: Sequence[MetadataRecord],
    ) -> None:
        """`partitions` are those that changed since `before`."""
        for record in records:
            if isinstance(record, PartitionRecord):  # the first leader of a new partition is not elected
                partitions[record.topic_id, record.partition] = registered_partition(record)
            elif isinstance(record, PartitionChangeRecord):
                key = (record.topic_id, record.partition)
                old = partitions.get(key) or _partition(before, key)
                partitions[key] = changed_partition(old, record)
                self._count(old, partitions[key])

    def _count(self, old: PartitionRegistration, new: PartitionRegistration) -> None:
        if new.leader in (NO_NODE, old.leader):
            return
        self.elected += 1
        is_known_safe = new.leader in old.isr or new.leader in old.elr
        self.unclean += new.leader_recovery_state == RECOVERING and not is_known_safe


def controller_metrics(image: MetadataImage, elections: ElectionCounts, *, is_active: bool) -> dict[str, Any]:
    """By Kafka's names, JSON-able."""
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    fenced = sum(broker.is_fenced for broker in image.brokers.values())
    return {
        "ActiveControllerCount": int(is_active),
        "ActiveBrokerCount": len(image.brokers) - fenced,
        "FencedBrokerCount": fenced,
        "OfflinePartitionsCount": sum(partition.leader == NO_NODE for partition in partitions),
        "PreferredReplicaImbalanceCount": sum(
            partition.leader != partition.replicas[0] for partition in partitions
        ),
        "LeaderElectionRateAndTimeMs": {**elections.times.summary(), "count": elections.elected},
        "UncleanLeaderElectionsPerSec": {"count": elections.unclean},
    }


def _partition(image: MetadataImage, key: tuple[bytes, int]) -> PartitionRegistration:
    topic_id, number = key
    return image.topics[image.topic_names[topic_id]].partitions[number]
