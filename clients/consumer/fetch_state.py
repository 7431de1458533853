"""One partition as a consumer sees it: where it reads, what is fetched and not yet handed out. Pure.

Fetched bytes stay as they came until they are wanted: a `Chunk` is one record batch, decoded when the user
gets to it, and its values are deserialised then. The bytes are kept beside the records, because the user may
go on with columns in the middle of a batch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_OFFSET
from .validation import ReadEpochs

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError
    from ...protocol.messages.data import ListOffsetsPartitionResponse
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from .validation import Divergence


class Chunk:
    """One fetched batch on its way to the user.

    Once `is_decoded`, `records[index:ready]` can be handed out; those before `loaded` are deserialised, those
    before `ready` have been through the interceptors too. `is_active` turns False when the partition is
    paused, sought or dropped: whoever iterates over the chunk stops. `count` is what the batch says of
    itself, not yet believed. An `is_hidden` one has nothing for the user: a marker, or records of an aborted
    transaction.
    """

    __slots__ = (
        "batch",
        "count",
        "index",
        "is_active",
        "is_decoded",
        "is_hidden",
        "is_partly_gathered",
        "loaded",
        "next_offset",
        "ready",
        "records",
        "size_bytes",
        "state",
    )

    def __init__(
        self, state: PartitionState, batch: Buffer, next_offset: int, is_hidden: bool, count: int = 0
    ) -> None:
        self.state, self.batch, self.count = state, batch, count
        self.next_offset, self.is_hidden = next_offset, is_hidden
        self.size_bytes = len(batch)
        self.records: list[Any] = []
        self.index = self.loaded = self.ready = 0
        self.is_active, self.is_decoded = True, False
        self.is_partly_gathered = False  # rows of it went into a table, others are left

    @property
    def is_ready(self) -> bool:
        """Whether a record of it can be handed out now."""
        return self.index < self.ready

    @property
    def is_begun(self) -> bool:
        """Whether the user has records of it, and others are left."""
        return self.index > 0 or self.is_partly_gathered


@dataclass(slots=True, eq=False)
class PartitionState:
    """Invariants: `fetch_offset` is the offset after the last chunk, or `position` without chunks; a response
    to a request of another `version` says nothing about this state; `epochs` are of the records before
    `fetch_offset`, which are the log's own under the leader epoch `validated_epoch`."""

    tp: TopicPartition
    position: int | None = None  # the next record to hand out when there is no chunk; None: not known yet
    reset: int | None = None  # the timestamp (or -1 latest, -2 earliest) that the position is looked up by
    fetch_offset: int = 0
    chunks: deque[Chunk] = field(default_factory=deque)
    buffered_bytes: int = 0
    version: int = 0  # counts seeks and the like
    is_paused: bool = False
    is_in_flight: bool = False  # a fetch or lookup of this version is under way
    failures: int = 0  # in a row
    retry_at_ms: int = 0
    awaits_start: bool = False  # what its group has committed is asked for
    lacks_leader: bool = False  # and so waits; it goes on as soon as the metadata names one
    topic_id: bytes | None = None  # of the topic that the position belongs to
    high_watermark: int | None = None  # the end for readers: the last stable offset under read_committed
    log_start_offset: int | None = None
    error: HeadraceError | None = None  # to be raised to the user
    epochs: ReadEpochs = field(default_factory=ReadEpochs)
    validated_epoch: int | None = None
    divergence: Divergence | None = None  # what the validation under way has found
    until: int | None = None  # nothing from this offset on is fetched
    follower: int | None = None  # the node to fetch from until `follower_until_ms` instead of the leader
    follower_until_ms: int = 0
    leader_only_until_ms: int = 0  # a follower failed lately

    def found(self, answer: ListOffsetsPartitionResponse, leader_epoch: int) -> None:
        """The lookup of `reset` was answered by the leader of an epoch."""
        if answer.offset == NO_OFFSET and self.reset not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            self.reset = LATEST_TIMESTAMP  # nothing is that new: what comes next is
            return
        if self.reset != EARLIEST_TIMESTAMP:  # before the start there is nothing that could be lost
            self.epochs.note(answer.leader_epoch, answer.offset)
        self.position, self.reset = max(answer.offset, 0), None
        self.fetch_offset, self.failures = self.position, 0
        self.validated_epoch = leader_epoch

    def next_position(self) -> int | None:
        """The offset of the next record to hand out (records in between may not exist)."""
        if not self.chunks:
            return self.position
        head = self.chunks[0]
        if head.index < len(head.records):
            offset: int = head.records[head.index].offset
            return offset
        return head.next_offset if head.is_decoded else self.position

    def lag(self) -> int | None:
        """Records between the position and the end, as of the last answer; None while one is not known."""
        position = self.next_position()
        if position is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - position, 0)

    def unpack_head(self) -> Chunk:
        """The first chunk as it came, with `position` at its next record; whoever iterates over it stops."""
        head = self.chunks[0]
        if head.is_decoded:
            self.position = self.next_position()
            head.is_active = False
            head = Chunk(self, head.batch, head.next_offset, head.is_hidden, head.count)
            self.chunks[0] = head
        return head

    def drop_chunks(self) -> int:
        """Forget what was fetched; how many bytes that were."""
        for chunk in self.chunks:
            chunk.is_active = False
        self.chunks.clear()
        dropped, self.buffered_bytes = self.buffered_bytes, 0
        return dropped

    def move(self, offset: int | None, reset: int | None) -> int:
        """Read from `offset`, or from where the lookup of `reset` leads; the bytes dropped."""
        self.epochs.clear()
        return self.go(offset, reset)

    def go(self, offset: int | None, reset: int | None) -> int:
        """`move`, with what is known of the epochs before `offset`."""
        self.position, self.reset = offset, reset
        self.fetch_offset = offset or 0
        self.epochs.cut(self.fetch_offset)
        self.validated_epoch = self.divergence = self.follower = None
        self.version += 1
        self.is_in_flight = self.awaits_start = False
        self.error = None
        self.failures = self.retry_at_ms = 0
        return self.drop_chunks()
