"""Results of the admin client about exact consumer lag: frozen values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.errors import HeadraceError
    from ...protocol.model import TopicPartition
    from .group_types import GroupDescription, GroupMemberDescription


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """The lag of a group in a partition.

    `records` that a consumer would still receive: offsets that compaction removed and transaction markers do
    not count. With isolation level read_committed records of aborted transactions do not count either, and
    `end` is the last stable offset; with read_uncommitted it is the high watermark. `seconds` is the age of
    the first record, by its timestamp and the leader's clock; 0 without any.
    Both lags are None if the group has committed no offset there, or with an `error`; `seconds` also if the
    record has no timestamp.
    """

    committed: int | None
    start: int | None = None
    end: int | None = None
    records: int | None = None
    seconds: float | None = None
    member: GroupMemberDescription | None = None
    error: HeadraceError | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupLag:
    """The lag of a group: of all partitions with a committed offset, or assigned to a member."""

    group: GroupDescription
    partitions: Mapping[TopicPartition, ConsumerLag]

    @property
    def records(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(lag.records or 0 for lag in self.partitions.values())

    @property
    def seconds(self) -> float:
        """The largest one of the partitions whose lag is known."""
        return max((lag.seconds or 0.0 for lag in self.partitions.values()), default=0.0)
