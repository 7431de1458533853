"""A member of a consumer-protocol group: its metadata, its partitions and its reconciliation state.

Source: Kafka ConsumerGroupMember.java, MemberState.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.records.group_records import AssignedTopic, ConsumerGroupMemberMetadataValue
from .modern_member import JOIN_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...protocol.records.group_records import ClassicMemberMetadata
    from .assignors.model import Partitions

    Since = Mapping[tuple[bytes, int], int]  # (topic id, partition) -> member epoch


class MemberState(Enum):
    """Reconciliation state; the values are those of the records."""

    STABLE = 0  # has the target assignment of its epoch
    UNREVOKED_PARTITIONS = 1  # has to revoke partitions before it moves to the next epoch
    # is at the newest epoch, but other members have not revoked all of its target's partitions
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127  # written by a later version: the member must rejoin without partitions


_M = MemberState

MEMBER_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    _M.STABLE: {
        _M.UNREVOKED_PARTITIONS: "partitions are removed from the target or the subscription",
        _M.UNRELEASED_PARTITIONS: "others own partitions of the new target",
    },
    _M.UNREVOKED_PARTITIONS: {
        _M.STABLE: "partitions are revoked, and the whole target is free",
        _M.UNRELEASED_PARTITIONS: "partitions are revoked, but others own partitions of the target",
    },
    _M.UNRELEASED_PARTITIONS: {
        _M.STABLE: "the last partition of the target is free",
        _M.UNREVOKED_PARTITIONS: "partitions are removed from the target or the subscription",
    },
    _M.UNKNOWN: {
        _M.STABLE: "owns nothing, and the whole target is free",
        _M.UNRELEASED_PARTITIONS: "owns nothing, and others own partitions of the target",
    },
}

_NO_METADATA = ConsumerGroupMemberMetadataValue(None, None, "", "", (), None, -1, None)


@dataclass(frozen=True, slots=True)
class Member:
    """One member. Invariant: `assigned` and `pending` are disjoint, and no other member has any of them.

    `since`: the member epoch at which it got each partition, where known. `previous_epoch`: an epoch that the
    member may still use, since the response with the newer one can be lost.
    """

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = _NO_METADATA
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    pending: Partitions = field(default_factory=dict)
    since: Since = field(default_factory=dict)  # of `assigned` and `pending`

    @property
    def instance_id(self) -> str | None:
        """None for dynamic members."""
        return self.metadata.instance_id

    @property
    def classic(self) -> ClassicMemberMetadata | None:
        """Set while it uses the classic protocol."""
        return self.metadata.classic

    @property
    def topics(self) -> tuple[str, ...]:
        """Subscribed topics by name."""
        return self.metadata.subscribed_topic_names

    @property
    def regex(self) -> str:
        """Its subscription expression; empty if there is none."""
        return self.metadata.subscribed_topic_regex or ""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has the whole target of `epoch`."""
        return self.state is MemberState.STABLE and self.epoch == epoch


def as_topics(partitions: Partitions, since: Since | None = None) -> tuple[AssignedTopic, ...]:
    """The form in records, sorted by topic id."""
    return tuple(
        AssignedTopic(topic, tuple(each), _epochs(topic, each, since or {}))
        for topic, each in sorted(partitions.items())
        if each
    )


def _epochs(topic: bytes, partitions: tuple[int, ...], since: Since) -> tuple[int, ...] | None:
    """The epoch of each partition; None unless all are known."""
    found = [since[topic, each] for each in partitions if (topic, each) in since]
    return tuple(found) if len(found) == len(partitions) else None


def as_since(topics: Iterable[AssignedTopic]) -> Since:
    """The assignment epochs in records, where present."""
    return {
        (each.topic_id, partition): epoch
        for each in topics
        for partition, epoch in zip(each.partitions, each.epochs or (), strict=False)
    }


def as_partitions(topics: Iterable[AssignedTopic]) -> Partitions:
    """The partitions in records by topic id."""
    return {each.topic_id: tuple(sorted(each.partitions)) for each in topics if each.partitions}


def each_partition(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    """Pairs of topic id and partition."""
    return ((topic, partition) for topic, each in partitions.items() for partition in each)
