"""Metrics of a controller about the cluster, under Kafka's names. Pure.

Gauges are derived from the committed image. Elections are counted by every controller when their records are
committed; a restart counts those behind its snapshot again. Election times are known to the controller that
decided: from the request or the expiry until the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.metadata.image import RECOVERING
from ..protocol.metadata.records import PartitionChangeRecord, PartitionRecord
from ..protocol.metadata.replay import changed_partition, registered_partition
from ..protocol.model import NO_NODE
from ..runtime.telemetry import controller_table as table
from ..runtime.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..protocol.metadata.image import MetadataImage, PartitionRegistration
    from ..protocol.metadata.records import MetadataRecord
    from ..runtime.telemetry.samples import Samples

PIECE = 2_000  # partitions per turn of the loop


class QuorumFacts(NamedTuple):
    """The quorum as one controller sees it."""

    role: str
    leader_id: int
    epoch: int
    high_watermark: int
    log_end_offset: int
    voters: tuple[int, ...]


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


def write_image(samples: Samples, image: MetadataImage, elections: ElectionCounts) -> Iterator[None]:
    """Gauges of the cluster, in pieces of PIECE partitions: other work runs in between. The image is
    immutable."""
    fenced = sum(broker.is_fenced for broker in image.brokers.values())
    samples.set(table.ACTIVE_BROKERS, len(image.brokers) - fenced)
    samples.set(table.FENCED_BROKERS, fenced)
    samples.set(table.GLOBAL_TOPICS, len(image.topics))
    samples.observe(table.ELECTION_TIME, elections.times)
    samples.set(table.ELECTIONS, elections.elected)
    samples.set(table.UNCLEAN_ELECTIONS, elections.unclean)
    serving = [node_id for node_id, broker in image.brokers.items() if not broker.is_fenced]
    leaders, replicas = dict.fromkeys(serving, 0), dict.fromkeys(serving, 0)
    seen = offline = imbalanced = 0
    piece_end = PIECE
    for topic in list(image.topics.values()):
        for partition in topic.partitions:
            offline += partition.leader == NO_NODE
            imbalanced += partition.leader != partition.replicas[0]
            if partition.leader in leaders:
                leaders[partition.leader] += 1
            for node_id in partition.replicas:
                if node_id in replicas:
                    replicas[node_id] += 1
        seen += len(topic.partitions)
        if seen >= piece_end:
            piece_end = seen + PIECE
            yield
    samples.set(table.GLOBAL_PARTITIONS, seen)
    samples.set(table.OFFLINE_PARTITIONS, offline)
    samples.set(table.PREFERRED_IMBALANCE, imbalanced)
    samples.set(table.LEADER_SKEW, _skew(leaders))
    samples.set(table.REPLICA_SKEW, _skew(replicas))
    yield


def write_quorum(samples: Samples, facts: QuorumFacts, *, is_active: bool) -> None:
    """Gauges of the quorum as this controller sees it, and of its metadata log."""
    samples.set(table.ACTIVE_CONTROLLER, int(is_active))
    samples.set(table.CURRENT_LEADER, facts.leader_id)
    samples.set(table.CURRENT_EPOCH, facts.epoch)
    samples.set(table.RAFT_STATE, 1, facts.role)
    samples.set(table.HIGH_WATERMARK, facts.high_watermark)
    samples.set(table.LAST_COMMITTED_OFFSET, max(facts.high_watermark - 1, -1))
    samples.set(table.RAFT_END, facts.log_end_offset)
    samples.set(table.VOTERS, len(facts.voters))


def _skew(counts: dict[int, int]) -> float:
    """The largest count divided by the average; 1 if all are equal or there are none."""
    total = sum(counts.values())
    return max(counts.values()) * len(counts) / total if total else 1.0


def _partition(image: MetadataImage, key: tuple[bytes, int]) -> PartitionRegistration:
    topic_id, number = key
    return image.topics[image.topic_names[topic_id]].partitions[number]
