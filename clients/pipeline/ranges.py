"""What tasks are given: ranges of offsets, with all that is needed to read them exactly. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_EPOCH, NO_NODE, TopicPartition

if TYPE_CHECKING:
    from .offsets import Position

CREATED_AGAIN = "the topic was created again"


class OffsetRange(NamedTuple):
    """The records of one partition from `start` up to before `end`; some offsets may have none.

    `topic_id` and `leader_epoch` are those of the plan: a topic that was created again since, or a log that
    lost these offsets, is noticed. `leader` is a node id and `hosts` where its records are near, both hints.
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
        """Which partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets it spans: at least as many as it has records."""
        return max(self.end - self.start, 0)


class Loss(NamedTuple):
    """Offsets from `start` up to before `end` that should be there and are not, and why. As many as nobody
    knows, if these are the same."""

    tp: TopicPartition
    start: int
    end: int
    reason: str

    @property
    def size(self) -> int:
        """How many offsets."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        if not self.size:
            return f"{self.tp}: what came from offset {self.start} on is lost: {self.reason}"
        return f"{self.tp}: {self.size} offsets from {self.start} on are lost: {self.reason}"


class Plan(NamedTuple):
    """`ranges` are what tasks read, one each. `starts` and `ends` are exact offsets of all partitions, those
    without new records too, with the ids of their topics; `losses` is what is not there, always empty under
    failOnDataLoss."""

    ranges: tuple[OffsetRange, ...]
    starts: Position
    ends: Position
    losses: tuple[Loss, ...] = ()
