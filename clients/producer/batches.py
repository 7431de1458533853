"""The batches of a producer, by topic and partition, and the producer id that they carry. Data only."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...protocol.records.codec import BatchBuilder
    from ...protocol.records.header import Buffer
    from ..cluster.metadata import ClusterView
    from .lanes import Lane, Slot
    from .partitioner import StickyChoice


class Identity(NamedTuple):
    """The producer id and epoch of an idempotent producer."""

    producer_id: int
    epoch: int


class Stamp(NamedTuple):
    """The producer fields in the header of a batch."""

    producer_id: int
    epoch: int
    base_sequence: int
    is_transactional: bool


class Batch:
    """One batch from its first record to its outcome, which `delivery` (opaque here) resolves."""

    __slots__ = (
        "attempts",
        "builder",
        "charged_bytes",
        "count",
        "counted_bytes",
        "created_ms",
        "data",
        "deadline_ms",
        "delivery",
        "is_expired",
        "is_flushed",
        "is_in_doubt",
        "is_on_wire",
        "is_open",
        "last_error",
        "leader",
        "number",
        "queue",
        "retry_at_ms",
        "size_bytes",
        "stamp",
        "stamped_as",
        "turn",
    )  # fmt: skip

    def __init__(self, queue: PartitionQueue, delivery: Any, created_ms: int, deadline_ms: int) -> None:
        self.queue, self.delivery = queue, delivery
        self.created_ms, self.deadline_ms = created_ms, deadline_ms
        self.builder: BatchBuilder | None = None  # until the first attempt
        self.data: Buffer | None = None  # from the first attempt on
        self.count = self.size_bytes = 0  # final once it is sealed
        self.is_open, self.is_flushed, self.is_expired = True, False, False
        self.is_on_wire = False  # in a request without a response
        self.is_in_doubt = False  # an earlier attempt may be in the log
        self.attempts, self.retry_at_ms = 0, 0
        self.charged_bytes = self.counted_bytes = 0
        self.last_error: BaseException | None = None
        self.leader: tuple[bytes, int] | None = None  # (topic id, leader epoch) of the last attempt
        self.number = self.turn = -1  # of its first record and of the batch in the partition: sequences.py
        self.stamp: Stamp | None = None  # from the first attempt on
        self.stamped_as: Stamp | None = None  # the stamp in `data`


class PartitionQueue:
    """The batches of one partition in sending order; the last one may be open."""

    __slots__ = ("batches", "is_muted", "open", "partition", "slot", "topic")

    def __init__(self, topic: TopicQueues, partition: int, slot: Slot) -> None:
        self.topic, self.partition, self.slot = topic, partition, slot
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.is_muted = False


class TopicQueues:
    """The partitions of one topic and its sticky choice.

    `queues` may be longer than `partition_count`, after the topic was created again with fewer partitions:
    the batches of the others wait there until their deadlines.
    """

    __slots__ = (
        "lane", "led", "max_batch_bytes", "name", "partition_count", "queues", "relearn_at_ms", "sticky",
    )  # fmt: skip

    def __init__(self, name: str, sticky: StickyChoice, max_batch_bytes: int, lane: Lane) -> None:
        self.name, self.sticky, self.lane = name, sticky, lane
        self.queues: list[PartitionQueue] = []
        self.partition_count = 0
        # Below max.request.size for a while, when the leader has rejected a batch as too large.
        self.max_batch_bytes, self.relearn_at_ms = max_batch_bytes, 0
        self.led: tuple[ClusterView | None, int, list[int]] | None = None  # see `Accumulator._with_leader`
