"""The interface that the group shard uses for groups of all protocols.

Implemented by classic groups (classic_group.py), consumer-protocol groups (consumer_group.py) and streams
groups (streams/streams_group.py). A group holds its members; committed offsets are in offset_store.py.
Source: Kafka Group.java.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import FencedInstanceIdError
from ...protocol.messages.groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..runtime.ports import Record


def fenced_instance(instance_id: str | None, holder: str) -> FencedInstanceIdError:
    """The error of a static member that was replaced by another one with the same instance id."""
    return FencedInstanceIdError(
        f"group.instance.id {instance_id!r} now belongs to another consumer, member {holder!r}"
    )


class GroupType(Enum):
    """The group protocol; the values are those of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"


Place = tuple[str, bytes, int]  # topic name, topic id, partition


class Group(Protocol):
    """One group. The checks raise KafkaErrors and change nothing."""

    @property
    def group_id(self) -> str:
        """The key of all records of the group."""

    @property
    def group_type(self) -> GroupType:
        """Classic, consumer or streams."""

    @property
    def protocol_type(self) -> str:
        """ "consumer" for groups of consumers, "streams" for streams groups; empty until the first member
        joins."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the current state, as in ListGroups."""

    @property
    def member_count(self) -> int:
        """Members, including expired ones that are not removed yet."""

    @property
    def is_empty(self) -> bool:
        """No members: the group may be deleted, and its offsets may expire."""

    def has_member(self, member_id: str) -> bool:
        """Whether this member id is a current member."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; True if subscriptions are unknown."""

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Check an offset commit. Errors: UnknownMemberIdError, FencedInstanceIdError,
        IllegalGenerationError, RebalanceInProgressError, StaleMemberEpochError, depending on the protocol."""

    def has_had_since(self, member_id: str, epoch: int, places: Iterable[Place]) -> bool:
        """Whether the member has owned all these partitions since `epoch`. No other member can have committed
        for them since, so its commit is valid even with that older epoch (KIP-1251)."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check an offset fetch; without member id and epoch (None or empty, below 0) it is always allowed.
        Errors: UnknownMemberIdError, StaleMemberEpochError."""

    def check_offset_delete(self) -> None:
        """Check the deletion of offsets of topics without subscribers. Errors: NonEmptyGroupError,
        GroupIdNotFoundError."""

    def check_group_delete(self) -> None:
        """Check the deletion of the group. Errors: NonEmptyGroupError, GroupIdNotFoundError."""

    def tombstones(self) -> list[Record]:
        """Records that delete the group without its offsets; empty if it has no records."""

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The wall time at which the retention of an offset committed at `commit_ms` starts, if no member
        subscribes to its topic; None while offsets of the group must not expire."""


def is_in_states(group: Group, states: frozenset[str]) -> bool:
    """Whether its state is in `states` (lower case); an empty set accepts every group."""
    return not states or group.state_name.lower() in states


def as_listed(group: Group) -> ListedGroup:
    """The group's entry in ListGroups."""
    return ListedGroup(group.group_id, group.protocol_type, group.state_name, group.group_type.value)
