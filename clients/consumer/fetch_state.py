"""One partition of a consumer: its position, and the batches that were fetched and not yet consumed. Pure.

A `FetchedBatch` stays encoded until the application reaches it; then it is decoded and its records are
deserialized. Its bytes are kept, because the application may read the rest of the batch as columns.
Source: Kafka SubscriptionState.java (TopicPartitionState), CompletedFetch.java.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_OFFSET
from .validation import PositionValidation

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError
    from ...protocol.messages.data import ListOffsetsPartitionResponse
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer


# After a fetch from a follower failed, the leader is fetched from for this long, without naming a rack.
LEADER_ONLY_MS = 5_000


class FetchedBatch:
    """One record batch between the fetch and the application.

    Once it `is_decoded`, `records[index:ready]` can be returned. Records before `loaded` are deserialized;
    those before `ready` have passed the interceptors too. `is_active` becomes False when the partition is
    paused, sought or removed, and ends an iteration over the batch. `count` is the number of records that the
    header claims. A batch that `is_skipped` has nothing for the application: it is a control batch, or its
    transaction was aborted.
    """

    __slots__ = (
        "count",
        "data",
        "index",
        "is_active",
        "is_decoded",
        "is_partly_in_columns",
        "is_skipped",
        "loaded",
        "next_offset",
        "ready",
        "records",
        "size_bytes",
        "state",
    )

    def __init__(
        self, state: PartitionState, data: Buffer, next_offset: int, is_skipped: bool, count: int = 0
    ) -> None:
        self.state, self.data, self.count = state, data, count
        self.next_offset, self.is_skipped = next_offset, is_skipped
        self.size_bytes = len(data)
        self.records: list[Any] = []
        self.index = self.loaded = self.ready = 0
        self.is_active, self.is_decoded = True, False
        self.is_partly_in_columns = False  # some rows were read as columns, others are left

    @property
    def is_ready(self) -> bool:
        """Whether a record can be returned now."""
        return self.index < self.ready

    @property
    def is_started(self) -> bool:
        """Whether the application has some of the records, and others are left."""
        return self.index > 0 or self.is_partly_in_columns


@dataclass(slots=True, eq=False)
class PartitionState:
    """Invariant: `fetch_offset` is the offset after the last batch, or `position` if there is none.
    Invariant: the response to a request of another `version` is ignored.
    """

    tp: TopicPartition
    position: int | None = None  # the next record to return if there is no batch; None: not known yet
    reset: int | None = None  # timestamp (or -1 latest, -2 earliest) for the ListOffsets lookup of `position`
    fetch_offset: int = 0
    batches: deque[FetchedBatch] = field(default_factory=deque)
    buffered_bytes: int = 0
    version: int = 0  # counts seeks and resets
    is_paused: bool = False
    is_in_flight: bool = False  # a request of this version is in flight
    failures: int = 0  # in a row
    retry_at_ms: int = 0
    awaits_start: bool = False  # the committed offset of the group is being fetched
    lacks_leader: bool = False  # the next fetch waits until the metadata names a leader
    topic_id: bytes | None = None  # of the topic that the position belongs to
    high_watermark: int | None = None  # under read_committed the last stable offset
    log_start_offset: int | None = None
    error: HeadraceError | None = None  # raised to the application
    validation: PositionValidation = field(default_factory=PositionValidation)
    until: int | None = None  # exclusive end of what is fetched
    follower: int | None = None  # the node to fetch from until `follower_until_ms` instead of the leader
    follower_until_ms: int = 0
    leader_only_until_ms: int = 0  # a follower failed: fetch from the leader until then

    def on_offset_listed(self, response: ListOffsetsPartitionResponse, leader_epoch: int) -> None:
        """The leader of `leader_epoch` answered the lookup of `reset`."""
        if response.offset == NO_OFFSET and self.reset not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            self.reset = LATEST_TIMESTAMP  # no record has this timestamp or a later one: read new records
            return
        if self.reset != EARLIEST_TIMESTAMP:  # no record before the log start can be lost
            self.validation.epochs.note(response.leader_epoch, response.offset)
        self.position, self.reset = max(response.offset, 0), None
        self.fetch_offset, self.failures = self.position, 0
        self.validation.leader_epoch = leader_epoch

    def on_epoch_end(self, leader_epoch: int, epoch: int, end_offset: int) -> None:
        """See `PositionValidation.on_epoch_end`."""
        self.validation.on_epoch_end(leader_epoch, epoch, end_offset, self.fetch_offset)

    def next_position(self) -> int | None:
        """The offset of the next record to return; compaction may have left a gap before it."""
        if not self.batches:
            return self.position
        head = self.batches[0]
        if head.index < len(head.records):
            offset: int = head.records[head.index].offset
            return offset
        return head.next_offset if head.is_decoded else self.position

    def lag(self) -> int | None:
        """Records between the position and the high watermark of the last fetch; None if one is unknown."""
        position = self.next_position()
        if position is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - position, 0)

    def encoded_head(self) -> FetchedBatch:
        """The first batch in encoded form, with `position` at its next record; ends an iteration over it."""
        head = self.batches[0]
        if head.is_decoded:
            self.position = self.next_position()
            head.is_active = False
            head = FetchedBatch(self, head.data, head.next_offset, head.is_skipped, head.count)
            self.batches[0] = head
        return head

    def drop_batches(self) -> int:
        """Drop the fetched batches; their size in bytes."""
        for batch in self.batches:
            batch.is_active = False
        self.batches.clear()
        dropped, self.buffered_bytes = self.buffered_bytes, 0
        return dropped

    def move(self, offset: int | None, reset: int | None) -> int:
        """Read from `offset`, or from the offset that the lookup of `reset` gives; the bytes dropped."""
        self.validation.epochs.clear()
        return self.move_back(offset, reset)

    def move_back(self, offset: int | None, reset: int | None) -> int:
        """As `move`, but keep the epochs of the records before `offset`."""
        self.position, self.reset = offset, reset
        self.fetch_offset = offset or 0
        self.validation.truncate(self.fetch_offset)
        self.follower = None
        self.version += 1
        self.is_in_flight = self.awaits_start = False
        self.error = None
        self.failures = self.retry_at_ms = 0
        return self.drop_batches()

    def leave_follower(self, now_ms: int) -> None:
        """Fetch from the leader, at once and for LEADER_ONLY_MS."""
        self.follower, self.leader_only_until_ms = None, now_ms + LEADER_ONLY_MS

    def check(self) -> None:
        """Assert the invariants."""
        assert self.buffered_bytes == sum(batch.size_bytes for batch in self.batches)
        assert self.fetch_offset == (self.batches[-1].next_offset if self.batches else self.position or 0)
        self.validation.epochs.check()
