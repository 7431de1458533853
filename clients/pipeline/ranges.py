"""Ranges of offsets with everything that a task needs to read them exactly. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_EPOCH, NO_NODE, TopicPartition

if TYPE_CHECKING:
    from .offsets import Position

CREATED_AGAIN = "the topic was created again"


class OffsetRange(NamedTuple):
    """The records of one partition from `start` up to `end` (exclusive); some offsets may have no record.

    `topic_id` and `leader_epoch` are those of the plan, to detect a topic that was created again, or a log
    that lost these offsets. `leader` is a node id and `hosts` are machines with its records; both are hints.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = b""
    leader_epoch: int = NO_EPOCH
    leader: int = NO_NODE
    hosts: tuple[str, ...] = ()

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets: at least the number of records."""
        return max(self.end - self.start, 0)


class Loss(NamedTuple):
    """Missing offsets from `start` up to `end` (exclusive), with the reason. Their number is unknown if the
    two are equal."""

    tp: TopicPartition
    start: int
    end: int
    reason: str

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        if not self.size:
            return f"{self.tp}: records from offset {self.start} on are lost: {self.reason}"
        return f"{self.tp}: {self.size} offsets from {self.start} on are lost: {self.reason}"


class Plan(NamedTuple):
    """`ranges` are read by one task each. `starts` and `ends` are exact offsets of all partitions, including
    those without new records, with topic ids; `losses` is always empty with failOnDataLoss."""

    ranges: tuple[OffsetRange, ...]
    starts: Position
    ends: Position
    losses: tuple[Loss, ...] = ()
