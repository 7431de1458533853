"""What the group shard asks of a group, whichever protocol its members speak.

Fulfilled by classic groups (classic_group.py) and groups of the new protocol (consumer_group.py). A group
holds its members; committed offsets are kept beside it (offset_store.py). Source: Kafka Group.java.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import FencedInstanceIdError
from ...protocol.messages.groups import ListedGroup

if TYPE_CHECKING:
    from ..runtime.ports import Record


def fenced_instance(instance_id: str | None, holder: str) -> FencedInstanceIdError:
    """The error of a static member whose place another one has."""
    return FencedInstanceIdError(
        f"another consumer with group.instance.id {instance_id!r} has taken over: it is member {holder!r} now"
    )


class GroupType(Enum):
    """Which protocol the group's members speak; the values are those of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """One group. The checks raise KafkaErrors and change nothing."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def group_type(self) -> GroupType:
        """Classic or consumer."""

    @property
    def protocol_type(self) -> str:
        """What its members do, "consumer" for all that read topics; empty while nobody has ever joined."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the state it is in now, as ListGroups says it."""

    @property
    def member_count(self) -> int:
        """Members, with those that are to be dropped but are not yet."""

    @property
    def is_empty(self) -> bool:
        """No members: it may be deleted, and its offsets may expire."""

    def has_member(self, member_id: str) -> bool:
        """Is this id a member now?"""

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read `topic`? True as well if that cannot be told."""

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """May this commit be taken? Errors: UnknownMemberIdError, FencedInstanceIdError,
        IllegalGenerationError, RebalanceInProgressError, StaleMemberEpochError, as the protocol says."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """May this member read committed offsets? Without member id and epoch (None or empty, below 0) anyone
        may. Errors: UnknownMemberIdError, StaleMemberEpochError."""

    def check_offset_delete(self) -> None:
        """May offsets of topics that nobody is subscribed to be deleted now? Errors: NonEmptyGroupError,
        GroupIdNotFoundError."""

    def check_group_delete(self) -> None:
        """May the group be deleted now? Errors: NonEmptyGroupError, GroupIdNotFoundError."""

    def tombstones(self) -> list[Record]:
        """Records that delete it from the log, without its offsets; empty if no record tells of it."""

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The wall time from which the retention of an offset that was committed at `commit_ms` counts, if
        the group is not subscribed to its topic; None while its offsets must not expire."""


def is_in_states(group: Group, states: frozenset[str]) -> bool:
    """Is its state one of these? They are in lower case; no state at all lets every group through."""
    return not states or group.state_name.lower() in states


def as_listed(group: Group) -> ListedGroup:
    """The group as ListGroups shows it."""
    return ListedGroup(group.group_id, group.protocol_type, group.state_name, group.group_type.value)
