"""What tasks are given: ranges of offsets, with all that is needed to read them exactly. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.model import NO_EPOCH, NO_NODE, TopicPartition


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
    """Offsets from `start` up to before `end` that should be there and are not, and why."""

    tp: TopicPartition
    start: int
    end: int
    reason: str

    @property
    def size(self) -> int:
        """How many offsets."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.tp}: {self.size} offsets from {self.start} on are lost: {self.reason}"


class Plan(NamedTuple):
    """`ranges` are what tasks read, one each. `starts` and `ends` are exact offsets of all partitions, those
    without new records too; `losses` is what is not there, always empty under failOnDataLoss; `topic_ids` are
    those of all topics of which there is a partition."""

    ranges: tuple[OffsetRange, ...]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    losses: tuple[Loss, ...] = ()
    topic_ids: dict[str, bytes] = {}  # noqa: RUF012  # nobody changes it
