"""What all modern groups share (KIP-848, KIP-1071): members by id and instance id, target assignments, checks
of commits by member epoch. Pure.

All state comes from records; only `apply` changes it. Source: Kafka ModernGroup.java.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...protocol.errors import NonEmptyGroupError, StaleMemberEpochError, UnknownMemberIdError
from .modern_member import NO_EPOCH, ModernMember

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import Enum
    from typing import Self

    from ...protocol.errors import KafkaError
    from ..runtime.ports import Record
    from .group import GroupType, Place

M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")  # an assignment


class ModernGroup(ABC, Generic[M, T]):
    """Implements Group, for members of type M with assignments of type T."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self._instances: dict[str, str] = {}  # instance id -> member id

    def copy(self) -> Self:
        """A copy with containers of its own."""
        other = copy(self)
        other.unshare()
        return other

    def unshare(self) -> None:
        """Replace the containers, which a shallow copy shares with the original, by copies."""
        self.members, self.targets = dict(self.members), dict(self.targets)
        self._instances = dict(self._instances)

    @abstractmethod
    def apply(self, record: Record) -> None:
        """Apply a record of this group. Deletions of missing entries are ignored: compaction leaves such
        records."""

    # --- members --------------------------------------------------------------------------------------------

    def _put(self, member: M) -> None:
        """Add or replace a member."""
        self._forget_instance(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id

    def _drop(self, member_id: str) -> None:
        """Remove a member."""
        self._forget_instance(member_id)
        del self.members[member_id]

    def _forget_instance(self, member_id: str) -> None:
        before = self.members.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self._instances.get(instance_id) == member_id:
            del self._instances[instance_id]

    def _set_target(self, member_id: str, target: T | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def member(self, member_id: str) -> M:
        """Errors: UnknownMemberIdError."""
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberIdError(f"group {self._group_id!r} has no member {member_id!r}")
        return found

    def static_member(self, instance_id: str | None) -> M | None:
        """The member with this instance id."""
        return None if instance_id is None else self.members.get(self._instances.get(instance_id, ""))

    def check(self) -> None:
        """Assert the invariants of the members."""
        assert self.targets.keys() <= self.members.keys()
        assert all(self.static_member(instance) for instance in self._instances)

    # --- Group ----------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self._group_id

    @property
    @abstractmethod
    def group_type(self) -> GroupType: ...

    @property
    @abstractmethod
    def protocol_type(self) -> str: ...

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The current state; its value is Kafka's name."""

    @property
    def state_name(self) -> str:
        return str(self.state.value)

    @property
    def member_count(self) -> int:
        """Members, including static members that left temporarily."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def has_had_since(self, member_id: str, epoch: int, places: Iterable[Place]) -> bool: ...

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Errors: UnknownMemberIdError, and those of `_stale_epoch`."""
        epoch = generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch == NO_EPOCH and not member_id and group_instance_id is None:
            return  # TxnOffsetCommit without member fields: only its producer is checked
        self._check_epoch(self.member(member_id), epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Errors: UnknownMemberIdError, and those of `_stale_epoch`."""
        if not member_id and member_epoch < 0:
            return
        self._check_epoch(self.member(member_id or ""), member_epoch)

    def _check_epoch(self, member: M, epoch: int) -> None:
        if epoch != member.epoch:
            detail = f"member {member.member_id!r} is at epoch {member.epoch}, not {epoch}"
            raise self._stale_epoch(member, detail)

    def _stale_epoch(self, member: M, detail: str) -> KafkaError:
        """The error of a member that uses another epoch than its own."""
        del member
        return StaleMemberEpochError(detail)

    def check_offset_delete(self) -> None:
        """No check: the shard checks each topic for subscribers."""

    def check_group_delete(self) -> None:
        """Errors: NonEmptyGroupError."""
        if self.members:
            raise NonEmptyGroupError(f"group {self._group_id!r} has {len(self.members)} members")

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The commit time: members protect only the topics that they subscribe to."""
        return commit_ms

    def tombstones(self) -> list[Record]:
        """Members first, the group last: a partial append leaves a smaller group."""
        members = sorted(self.members)
        return [
            *(self.current_record(member_id, None) for member_id in members),
            *(self.target_record(member_id, None) for member_id in sorted(self.targets)),
            self._target_epoch_tombstone(),
            *(self.member_metadata_record(member_id, None) for member_id in members),
            *self._group_tombstones(),
        ]

    # --- records of this group ------------------------------------------------------------------------------

    @abstractmethod
    def member_metadata_record(self, member_id: str, metadata: Any) -> Record:
        """The member's metadata; None deletes it."""

    @abstractmethod
    def target_record(self, member_id: str, target: T | None) -> Record:
        """The member's target; None deletes it."""

    @abstractmethod
    def current_record(self, member_id: str, member: M | None) -> Record:
        """The member's current assignment; None deletes it."""

    @abstractmethod
    def _target_epoch_tombstone(self) -> Record:
        """Deletes the epoch of the target assignment."""

    @abstractmethod
    def _group_tombstones(self) -> list[Record]:
        """Delete what the group has besides its members, its metadata last."""
