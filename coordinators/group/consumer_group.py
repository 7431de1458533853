"""A group of the new protocol (KIP-848): its members, the target assignment, and who has which partition now.

Everything here is what the records say; `apply` alone changes it. A member is on its way from what it has
(`assigned`, plus `pending` that it is to give back) to its target; reconciliation.py takes its steps. A
partition belongs to a member from the record that assigns it until the one that takes it out of `assigned`
and `pending`; `owner_of` tells whose it is, so that nobody else gets it before. Source: Kafka
ConsumerGroup.java, ConsumerGroupMember.java, ModernGroup.java.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...protocol.consumer_protocol import PROTOCOL_TYPE
from ...protocol.errors import (
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from ...protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ..runtime.ports import Record
from .consumer_member import (
    NO_EPOCH,
    Member,
    MemberState,
    as_partitions,
    as_since,
    as_topics,
    each_partition,
)
from .group import GroupType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .assignors.model import Partitions


class GroupState(Enum):
    """What the group is doing, read off its epochs and members; nothing stores it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group
    RECONCILING = "Reconciling"  # members are on their way to the target
    STABLE = "Stable"
    DEAD = "Dead"


_G = GroupState

GROUP_TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    _G.EMPTY: {
        _G.RECONCILING: "a member joins",
        _G.STABLE: "a member joins and has its target at once",
        _G.DEAD: "deleted",
    },
    _G.ASSIGNING: {
        _G.RECONCILING: "a target for the group's epoch",
        _G.STABLE: "a target that all members have already",
        _G.EMPTY: "the last member is gone",
        _G.DEAD: "a classic group now",
    },
    _G.RECONCILING: {
        _G.STABLE: "all members have their target",
        _G.ASSIGNING: "a member is gone",
        _G.EMPTY: "the last member is gone",
        _G.DEAD: "a classic group now",
    },
    _G.STABLE: {
        _G.ASSIGNING: "a member is gone",
        _G.RECONCILING: "a member joins or reads other topics, or topics changed",
        _G.EMPTY: "the last member is gone",
        _G.DEAD: "a classic group now",
    },
    _G.DEAD: {},
}


class ConsumerGroup:
    """Fulfils Group."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        self._instances: dict[str, str] = {}  # instance id -> member id
        self._owners: dict[bytes, dict[int, str]] = {}
        self._is_recorded = False

    def copy(self) -> ConsumerGroup:
        """Another one that can be changed without changing this one."""
        other = ConsumerGroup(self._group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch = self.assignment_epoch
        other.members, other.targets = dict(self.members), dict(self.targets)
        other.regexes, other._instances = dict(self.regexes), dict(self._instances)
        other._owners = {topic: dict(owners) for topic, owners in self._owners.items()}
        other._is_recorded = self._is_recorded
        return other

    # --- what records change ----------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Any record of this group. Deletions of what is not there are nothing: compaction leaves such."""
        key, value = record
        match key:
            case ConsumerGroupMetadataKey():
                self._is_recorded = value is not None
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey(member_id=member_id):
                self._apply_told(member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
            case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = as_partitions(value.topics)
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, value)
            case ConsumerGroupRegularExpressionKey(regular_expression=expression):
                if value is None:
                    self.regexes.pop(expression, None)
                else:
                    self.regexes[expression] = value
            case _:
                raise AssertionError(f"no record of a consumer group: {key}")

    def _apply_told(self, member_id: str, told: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        old_instance = None if before is None else before.instance_id
        if old_instance is not None and self._instances.get(old_instance) == member_id:
            del self._instances[old_instance]
        if told is None:
            if before is not None:
                self._disown(before)
                del self.members[member_id]
            return
        self.members[member_id] = replace(before or Member(member_id), told=told)
        if told.instance_id is not None:
            self._instances[told.instance_id] = member_id

    def _apply_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._disown(before)
        if value is None:
            if before is not None:
                fresh = Member(member_id, before.told, NO_EPOCH, NO_EPOCH)
                self.members[member_id] = fresh
            return
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        after = replace(
            before or Member(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=as_partitions(value.assigned),
            pending=as_partitions(value.pending_revocation),
            since=as_since((*value.assigned, *value.pending_revocation)),
        )
        self.members[member_id] = after
        for held in (after.assigned, after.pending):
            for topic, partitions in held.items():
                self._owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, member: Member) -> None:
        for held in (member.assigned, member.pending):
            for topic, partitions in held.items():
                owners = self._owners.get(topic, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic, None)

    # --- what is read off -------------------------------------------------------------------------------

    def owner_of(self, topic_id: bytes, partition: int) -> str | None:
        """The member that has it, or is to give it back."""
        return self._owners.get(topic_id, {}).get(partition)

    def member(self, member_id: str) -> Member:
        """Errors: UnknownMemberIdError."""
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberIdError(f"group {self._group_id!r} has no member {member_id!r}")
        return found

    def static_member(self, instance_id: str | None) -> Member | None:
        """Who has this instance id."""
        return None if instance_id is None else self.members.get(self._instances.get(instance_id, ""))

    def topics_of(self, member: Member) -> frozenset[str]:
        """All that it reads, by name or expression; an expression that is not resolved matches nothing
        yet."""
        matched = self.regexes.get(member.regex)
        return frozenset(member.topics) if matched is None else frozenset(member.topics).union(matched.topics)

    def all_topics(self) -> frozenset[str]:
        """What any member reads."""
        named = {member.topics for member in self.members.values()}
        used = {member.regex for member in self.members.values()}
        named |= {value.topics for expression, value in self.regexes.items() if expression in used}
        return frozenset().union(*named)

    def readers_by(self, expression: str) -> int:
        """How many members read by this expression."""
        return sum(member.regex == expression for member in self.members.values())

    @property
    def state(self) -> GroupState:
        """Now."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def check(self) -> None:
        """Assert the invariants."""
        owners: dict[tuple[bytes, int], str] = {}
        for member in self.members.values():
            for held in (member.assigned, member.pending):
                for place in each_partition(held):
                    assert place not in owners, f"{place} is with {owners[place]} and {member.member_id}"
                    owners[place] = member.member_id
            assert member.previous_epoch <= member.epoch or member.epoch < 0
        kept = {(topic, number): who for topic, each in self._owners.items() for number, who in each.items()}
        assert kept == owners, "the index of owners is not what the members have"
        assert all(self.static_member(instance) for instance in self._instances)
        assert self.targets.keys() <= self.members.keys()

    # --- Group ------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        """Its name."""
        return self._group_id

    @property
    def group_type(self) -> GroupType:
        """Of the new protocol."""
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        """As classic groups of consumers have it."""
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """As ListGroups says it."""
        return self.state.value

    @property
    def member_count(self) -> int:
        """Members of either protocol, static ones that are away included."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """No members."""
        return not self.members

    def has_member(self, member_id: str) -> bool:
        """Is this id a member now?"""
        return member_id in self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read it?"""
        return topic in self.all_topics()

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Errors: UnknownMemberIdError, StaleMemberEpochError, IllegalGenerationError (classic members)."""
        epoch = generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch == NO_EPOCH and not member_id and group_instance_id is None:
            return  # TxnOffsetCommit may say nothing of members; then its producer alone is checked
        self._check_epoch(self.member(member_id), epoch)

    def has_had_since(self, member_id: str, epoch: int, partitions: Iterable[tuple[bytes, int]]) -> bool:
        """Has the member had all of these ever since it was at this epoch? Then nobody else can have
        committed for them meanwhile, and its commit is good although it does not know its newer epoch yet
        (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or member.classic is not None or epoch > member.epoch:
            return False
        return all(member.since.get(place, member.epoch + 1) <= epoch for place in partitions)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Errors: UnknownMemberIdError, StaleMemberEpochError, IllegalGenerationError (classic members)."""
        if not member_id and member_epoch < 0:
            return
        self._check_epoch(self.member(member_id or ""), member_epoch)

    def _check_epoch(self, member: Member, epoch: int) -> None:
        if epoch == member.epoch:
            return
        detail = f"member {member.member_id!r} is at epoch {member.epoch}, not {epoch}"
        raise StaleMemberEpochError(detail) if member.classic is None else IllegalGenerationError(detail)

    def check_offset_delete(self) -> None:
        """Always: the shard asks topic by topic who reads it."""

    def check_group_delete(self) -> None:
        """Errors: NonEmptyGroupError."""
        if self.members:
            raise NonEmptyGroupError(f"group {self._group_id!r} has {len(self.members)} members")

    def tombstones(self) -> list[Record]:
        """Members first, the group last: what a reader of half of them sees is a group that shrinks."""
        group = self._group_id
        keys: list[Any] = [
            ConsumerGroupCurrentMemberAssignmentKey(group, member_id) for member_id in sorted(self.members)
        ]
        keys += [
            ConsumerGroupTargetAssignmentMemberKey(group, member_id) for member_id in sorted(self.targets)
        ]
        keys.append(ConsumerGroupTargetAssignmentMetadataKey(group))
        keys += [ConsumerGroupMemberMetadataKey(group, member_id) for member_id in sorted(self.members)]
        keys += [ConsumerGroupRegularExpressionKey(group, expression) for expression in sorted(self.regexes)]
        keys.append(ConsumerGroupMetadataKey(group))
        return [Record(key, None) for key in keys]

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The commit: members protect only the topics that they read."""
        return commit_ms

    # --- records of this group ----------------------------------------------------------------------------

    def metadata_record(self, epoch: int, metadata_hash: int) -> Record:
        """The group is at `epoch`."""
        return Record(
            ConsumerGroupMetadataKey(self._group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)
        )

    def told_record(self, member_id: str, told: ConsumerGroupMemberMetadataValue | None) -> Record:
        """What a member told; None: it is gone."""
        return Record(ConsumerGroupMemberMetadataKey(self._group_id, member_id), told)

    def target_epoch_record(self, epoch: int) -> Record:
        """The targets are those of `epoch`."""
        key = ConsumerGroupTargetAssignmentMetadataKey(self._group_id)
        return Record(key, ConsumerGroupTargetAssignmentMetadataValue(epoch))

    def target_record(self, member_id: str, target: Partitions | None) -> Record:
        """What a member shall have; None: it is gone."""
        key = ConsumerGroupTargetAssignmentMemberKey(self._group_id, member_id)
        return Record(
            key, None if target is None else ConsumerGroupTargetAssignmentMemberValue(as_topics(target))
        )

    def current_record(self, member_id: str, member: Member | None) -> Record:
        """Where a member is on its way; None: it is gone."""
        key = ConsumerGroupCurrentMemberAssignmentKey(self._group_id, member_id)
        if member is None:
            return Record(key, None)
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous_epoch,
            member.state.value,
            as_topics(member.assigned, member.since),
            as_topics(member.pending, member.since),
        )
        return Record(key, value)

    def regex_record(self, expression: str, matched: ConsumerGroupRegularExpressionValue | None) -> Record:
        """What an expression matches; None: nobody reads by it any more."""
        return Record(ConsumerGroupRegularExpressionKey(self._group_id, expression), matched)
