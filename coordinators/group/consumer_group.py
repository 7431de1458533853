"""A consumer-protocol group (KIP-848): members, target assignment, and the current owner of each partition.

All state comes from records; only `apply` changes it. A member reconciles from its current partitions
(`assigned`, plus `pending` that it has to revoke) to its target; reconciliation.py takes the steps. A member
owns a partition from the record that assigns it until the record that removes it from `assigned` and
`pending`; `owner_of` keeps it from being assigned to another member before. Source: Kafka ConsumerGroup.java,
ConsumerGroupMember.java, ModernGroup.java.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.consumer_protocol import PROTOCOL_TYPE
from ...protocol.errors import IllegalGenerationError
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
from .consumer_member import Member, MemberState, as_partitions, as_since, as_topics, each_partition
from .group import GroupType
from .modern_group import ModernGroup
from .modern_member import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.errors import KafkaError
    from .assignors.model import Partitions
    from .group import Place


class GroupState(Enum):
    """Derived from epochs and members; not stored."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target assignment is older than the group epoch
    RECONCILING = "Reconciling"  # members have not reached their targets yet
    STABLE = "Stable"
    DEAD = "Dead"


_G = GroupState

GROUP_TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    _G.EMPTY: {
        _G.RECONCILING: "a member joins",
        _G.STABLE: "a member joins and reaches its target in one step",
        _G.DEAD: "deleted",
    },
    _G.ASSIGNING: {
        _G.RECONCILING: "the target assignment of the group epoch is computed",
        _G.STABLE: "the new target equals the members' assignments",
        _G.EMPTY: "the last member left",
        _G.DEAD: "downgraded to a classic group",
    },
    _G.RECONCILING: {
        _G.STABLE: "all members reached their targets",
        _G.ASSIGNING: "a member left, or the assignment waits for its interval",
        _G.EMPTY: "the last member left",
        _G.DEAD: "downgraded to a classic group",
    },
    _G.STABLE: {
        _G.ASSIGNING: "a member left, or the assignment waits for its interval",
        _G.RECONCILING: "a member joins or changes its subscription, or topics changed",
        _G.EMPTY: "the last member left",
        _G.DEAD: "downgraded to a classic group",
    },
    _G.DEAD: {},
}


class ConsumerGroup(ModernGroup[Member, "Partitions"]):
    """Implements Group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_ms = 0  # wall time of the target assignment, 0 unknown
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        self._owners: dict[bytes, dict[int, str]] = {}

    def unshare(self) -> None:
        super().unshare()
        self.regexes = dict(self.regexes)
        self._owners = {topic: dict(owners) for topic, owners in self._owners.items()}

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        key, value = record
        match key:
            case ConsumerGroupMetadataKey():
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey(member_id=member_id):
                self._apply_member_metadata(member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
                self.assignment_ms = 0 if value is None else value.assignment_ms
            case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                self._set_target(member_id, None if value is None else as_partitions(value.topics))
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, value)
            case ConsumerGroupRegularExpressionKey(regular_expression=expression):
                if value is None:
                    self.regexes.pop(expression, None)
                else:
                    self.regexes[expression] = value
            case _:
                raise AssertionError(f"not a record of a consumer group: {key}")

    def _apply_member_metadata(
        self, member_id: str, metadata: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        if metadata is not None:
            self._put(replace(before or Member(member_id), metadata=metadata))
        elif before is not None:
            self._remove_owner(before)
            self._drop(member_id)

    def _apply_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._remove_owner(before)
        if value is None:
            if before is not None:
                fresh = Member(member_id, before.metadata, NO_EPOCH, NO_EPOCH)
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

    def _remove_owner(self, member: Member) -> None:
        for held in (member.assigned, member.pending):
            for topic, partitions in held.items():
                owners = self._owners.get(topic, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic, None)

    # --- queries --------------------------------------------------------------------------------------------

    def owner_of(self, topic_id: bytes, partition: int) -> str | None:
        """The member that has the partition assigned or has yet to revoke it."""
        return self._owners.get(topic_id, {}).get(partition)

    def topics_of(self, member: Member) -> frozenset[str]:
        """Its subscribed topics, by name and expression; an expression that is not resolved yet matches
        nothing."""
        matched = self.regexes.get(member.regex)
        return frozenset(member.topics) if matched is None else frozenset(member.topics).union(matched.topics)

    def all_topics(self) -> frozenset[str]:
        """The subscribed topics of all members."""
        named = {member.topics for member in self.members.values()}
        used = {member.regex for member in self.members.values()}
        named |= {value.topics for expression, value in self.regexes.items() if expression in used}
        return frozenset().union(*named)

    def readers_by(self, expression: str) -> int:
        """The number of members that subscribe by this expression."""
        return sum(member.regex == expression for member in self.members.values())

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def check(self) -> None:
        super().check()
        owners: dict[tuple[bytes, int], str] = {}
        for member in self.members.values():
            for held in (member.assigned, member.pending):
                for place in each_partition(held):
                    assert place not in owners, f"{place} is with {owners[place]} and {member.member_id}"
                    owners[place] = member.member_id
            assert member.previous_epoch <= member.epoch or member.epoch < 0
        kept = {(topic, number): ref for topic, each in self._owners.items() for number, ref in each.items()}
        assert kept == owners, "the index of owners differs from the members' partitions"

    # --- Group ------------------------------------------------------------------------------------------

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.all_topics()

    def has_had_since(self, member_id: str, epoch: int, places: Iterable[Place]) -> bool:
        member = self.members.get(member_id)
        if member is None or member.classic is not None or epoch > member.epoch:
            return False
        return all(
            member.since.get((topic_id, partition), member.epoch + 1) <= epoch
            for _, topic_id, partition in places
        )

    def _stale_epoch(self, member: Member, detail: str) -> KafkaError:
        """StaleMemberEpochError, of classic members IllegalGenerationError."""
        return (
            super()._stale_epoch(member, detail) if member.classic is None else IllegalGenerationError(detail)
        )

    # --- records of this group ----------------------------------------------------------------------------

    def group_metadata_record(self, epoch: int, metadata_hash: int) -> Record:
        """The group's epoch and metadata hash."""
        return Record(
            ConsumerGroupMetadataKey(self._group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)
        )

    def member_metadata_record(
        self, member_id: str, metadata: ConsumerGroupMemberMetadataValue | None
    ) -> Record:
        """The member's metadata; None deletes it."""
        return Record(ConsumerGroupMemberMetadataKey(self._group_id, member_id), metadata)

    def target_epoch_record(self, epoch: int, wall_ms: int = 0) -> Record:
        """The epoch of the target assignment, and the time at which it was computed."""
        key = ConsumerGroupTargetAssignmentMetadataKey(self._group_id)
        return Record(key, ConsumerGroupTargetAssignmentMetadataValue(epoch, wall_ms))

    def target_record(self, member_id: str, target: Partitions | None) -> Record:
        """The member's target; None deletes it."""
        key = ConsumerGroupTargetAssignmentMemberKey(self._group_id, member_id)
        return Record(
            key, None if target is None else ConsumerGroupTargetAssignmentMemberValue(as_topics(target))
        )

    def current_record(self, member_id: str, member: Member | None) -> Record:
        """The member's current assignment; None deletes it."""
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
        """The topics that an expression matches; None deletes it."""
        return Record(ConsumerGroupRegularExpressionKey(self._group_id, expression), matched)

    def _target_epoch_tombstone(self) -> Record:
        return Record(ConsumerGroupTargetAssignmentMetadataKey(self._group_id), None)

    def _group_tombstones(self) -> list[Record]:
        expressions = [self.regex_record(expression, None) for expression in sorted(self.regexes)]
        return [*expressions, Record(ConsumerGroupMetadataKey(self._group_id), None)]
