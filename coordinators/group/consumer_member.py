"""A member of a group of the new protocol: what it told of itself, and where it is on its way to the target.

Source: Kafka ConsumerGroupMember.java, MemberState.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.records.group_records import AssignedTopic, ConsumerGroupMemberMetadataValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...protocol.records.group_records import ClassicMemberMetadata
    from .assignors.model import Partitions

    Since = Mapping[tuple[bytes, int], int]  # (topic id, partition) -> member epoch

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2  # the member comes back under its instance id; its partitions wait for it
NO_EPOCH = -1


class MemberState(Enum):
    """Where a member is on its way; the values are those of the records."""

    STABLE = 0  # has what the target of its epoch gives it
    UNREVOKED_PARTITIONS = 1  # is to give partitions back before it moves to the next epoch
    UNRELEASED_PARTITIONS = 2  # is in the newest epoch, but others have not given back all that it shall have
    UNKNOWN = 127  # written by a later version: it must begin again with nothing


_M = MemberState

MEMBER_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    _M.STABLE: {
        _M.UNREVOKED_PARTITIONS: "the target or the subscription takes partitions away",
        _M.UNRELEASED_PARTITIONS: "others still have what the new target gives it",
    },
    _M.UNREVOKED_PARTITIONS: {
        _M.STABLE: "given back, and all of the target is free",
        _M.UNRELEASED_PARTITIONS: "given back, but others still have what the target gives it",
    },
    _M.UNRELEASED_PARTITIONS: {
        _M.STABLE: "the last of them is free",
        _M.UNREVOKED_PARTITIONS: "a newer target or the subscription takes partitions away",
    },
    _M.UNKNOWN: {
        _M.STABLE: "owns nothing, and all of the target is free",
        _M.UNRELEASED_PARTITIONS: "owns nothing, and others still have what the target gives it",
    },
}

_NOTHING_TOLD = ConsumerGroupMemberMetadataValue(None, None, "", "", (), None, -1, None)


@dataclass(frozen=True, slots=True)
class Member:
    """One member. Invariant: `assigned` and `pending` are disjoint, and no other member has any of them.

    `since` says at which epoch it got a partition, as far as that is known. `previous_epoch` is an epoch that
    the member may still believe in: the answer that told it the newer one can be lost.
    """

    member_id: str
    told: ConsumerGroupMemberMetadataValue = _NOTHING_TOLD
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    pending: Partitions = field(default_factory=dict)
    since: Since = field(default_factory=dict)  # of what it has, also of what it is to give back

    @property
    def instance_id(self) -> str | None:
        """Of a static member."""
        return self.told.instance_id

    @property
    def classic(self) -> ClassicMemberMetadata | None:
        """Set while it speaks the classic protocol."""
        return self.told.classic

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that it reads by name."""
        return self.told.subscribed_topic_names

    @property
    def regex(self) -> str:
        """The expression that it reads by, empty if there is none."""
        return self.told.subscribed_topic_regex or ""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Has it all that the target of `epoch` gives it?"""
        return self.state is MemberState.STABLE and self.epoch == epoch


def as_topics(partitions: Partitions, since: Since | None = None) -> tuple[AssignedTopic, ...]:
    """As records have them, sorted by topic id."""
    return tuple(
        AssignedTopic(topic, tuple(each), _epochs(topic, each, since or {}))
        for topic, each in sorted(partitions.items())
        if each
    )


def _epochs(topic: bytes, partitions: tuple[int, ...], since: Since) -> tuple[int, ...] | None:
    """All or nothing."""
    found = [since[topic, each] for each in partitions if (topic, each) in since]
    return tuple(found) if len(found) == len(partitions) else None


def as_since(topics: Iterable[AssignedTopic]) -> Since:
    """As far as the records say."""
    return {
        (each.topic_id, partition): epoch
        for each in topics
        for partition, epoch in zip(each.partitions, each.epochs or (), strict=False)
    }


def as_partitions(topics: Iterable[AssignedTopic]) -> Partitions:
    """As everything here has them."""
    return {each.topic_id: tuple(sorted(each.partitions)) for each in topics if each.partitions}


def each_partition(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    """One by one."""
    return ((topic, partition) for topic, each in partitions.items() for partition in each)
