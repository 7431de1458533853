"""A streams group (KIP-1071): topology, members, target assignment, and the current holders of each task.

All state comes from records; only `apply` changes it. A member reconciles from its current tasks (`assigned`,
plus `pending` that it has to revoke) to its target; reconciliation.py takes the steps. Source: Kafka
StreamsGroup.java.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...protocol.errors import NonEmptyGroupError, StaleMemberEpochError, UnknownMemberIdError
from ...protocol.records.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ..group.group import GroupType
from ..runtime.ports import Record
from .source_patterns import subtopology_of
from .streams_member import NO_EPOCH, Member, MemberState
from .tasks import Role, by_role, epochs_in, from_roles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..group.group import Place
    from .tasks import Task, Tasks

PROTOCOL_TYPE = "streams"
FIRST_ASSIGNMENT_EPOCH = 1  # of a group without a target assignment: members wait in this epoch


class GroupState(Enum):
    """Derived from epochs, members and the topology; not stored."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics of the topology are missing or incorrectly partitioned
    ASSIGNING = "Assigning"  # the target assignment is older than the group epoch
    RECONCILING = "Reconciling"  # members have not reached their targets yet
    STABLE = "Stable"
    DEAD = "Dead"


_G = GroupState
_LEFT = "the last member left"
_NOT_READY = "topics of the topology were deleted, or their partitions changed"

GROUP_TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    _G.EMPTY: {
        _G.NOT_READY: "a member joins, and topics are missing",
        _G.ASSIGNING: "a member joins, and the initial rebalance delay starts",
        _G.RECONCILING: "a member joins",
        _G.STABLE: "a member joins and reaches its target in one step",
        _G.DEAD: "deleted",
    },
    _G.NOT_READY: {
        _G.ASSIGNING: "all topics exist, and the assignment is delayed",
        _G.RECONCILING: "all topics exist",
        _G.STABLE: "all topics exist, and the only member reaches its target in one step",
        _G.EMPTY: _LEFT,
    },
    _G.ASSIGNING: {
        _G.NOT_READY: _NOT_READY,
        _G.RECONCILING: "the target assignment of the group epoch is computed",
        _G.STABLE: "the new target equals the members' assignments",
        _G.EMPTY: _LEFT,
    },
    _G.RECONCILING: {
        _G.NOT_READY: _NOT_READY,
        _G.STABLE: "all members reached their targets",
        _G.ASSIGNING: "a member joined or left, and the assignment is delayed",
        _G.EMPTY: _LEFT,
    },
    _G.STABLE: {
        _G.NOT_READY: _NOT_READY,
        _G.ASSIGNING: "a member joined or left, and the assignment is delayed",
        _G.RECONCILING: "a member joins or changes, or topics changed",
        _G.EMPTY: _LEFT,
    },
    _G.DEAD: {},
}


class StreamsGroup:
    """Implements Group."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.metadata = StreamsGroupMetadataValue(0)
        self.topology: StreamsGroupTopologyValue | None = None
        self.assignment_epoch = FIRST_ASSIGNMENT_EPOCH
        self.assignment_ms = 0  # wall time of the target assignment, 0 unknown
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Tasks] = {}
        self._holders: dict[Task, dict[str, Role]] = {}  # by member id; replaced, not changed
        self._instances: dict[str, str] = {}  # instance id -> member id

    def copy(self) -> StreamsGroup:
        """A copy with containers of its own."""
        other = StreamsGroup(self._group_id)
        other.metadata, other.topology = self.metadata, self.topology
        other.assignment_epoch, other.assignment_ms = self.assignment_epoch, self.assignment_ms
        other.members, other.targets = dict(self.members), dict(self.targets)
        other._holders, other._instances = dict(self._holders), dict(self._instances)
        return other

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Apply a record of this group. Deletions of missing entries are ignored: compaction leaves such
        records."""
        key, value = record
        match key:
            case StreamsGroupMetadataKey():
                self.metadata = self.metadata if value is None else value
            case StreamsGroupTopologyKey():
                self.topology = value
            case StreamsGroupMemberMetadataKey(member_id=member_id):
                self._apply_member_metadata(member_id, value)
            case StreamsGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
                self.assignment_ms = 0 if value is None else value.assignment_ms
            case StreamsGroupTargetAssignmentMemberKey(member_id=member_id):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = from_roles(*value)
            case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, value)
            case _:
                raise AssertionError(f"not a record of a streams group: {key}")

    def _apply_member_metadata(
        self, member_id: str, metadata: StreamsGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        old_instance = None if before is None else before.instance_id
        if old_instance is not None and self._instances.get(old_instance) == member_id:
            del self._instances[old_instance]
        if metadata is not None:
            if metadata.instance_id is not None:
                self._instances[metadata.instance_id] = member_id
            self.members[member_id] = replace(before or Member(member_id), metadata=metadata)
        elif before is not None:
            self._release(before)
            del self.members[member_id]

    def _apply_current(self, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._release(before)
        if value is None:
            if before is not None:
                self.members[member_id] = Member(member_id, before.metadata, NO_EPOCH, NO_EPOCH)
            return
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        after = self.members[member_id] = replace(
            before or Member(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=from_roles(value.active, value.standby, value.warmup),
            pending=from_roles(
                value.active_pending_revocation,
                value.standby_pending_revocation,
                value.warmup_pending_revocation,
            ),
            since=epochs_in((*value.active, *value.active_pending_revocation)),
        )
        for held in (after.assigned, after.pending):
            for task, role in held.items():
                self._holders[task] = {**self._holders.get(task, {}), member_id: role}

    def _release(self, member: Member) -> None:
        for task in (*member.assigned, *member.pending):
            left = {
                each: role for each, role in self._holders.get(task, {}).items() if each != member.member_id
            }
            if left:
                self._holders[task] = left
            else:
                self._holders.pop(task, None)

    # --- queries --------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.metadata.epoch

    def holders_of(self, task: Task) -> list[tuple[str, str, Role]]:
        """The members that have the task assigned or have yet to revoke it: member id, process id, role."""
        return [
            (member_id, self.members[member_id].process_id, role)
            for member_id, role in self._holders.get(task, {}).items()
        ]

    def member(self, member_id: str) -> Member:
        """Errors: UnknownMemberIdError."""
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberIdError(f"group {self._group_id!r} has no member {member_id!r}")
        return found

    def static_member(self, instance_id: str) -> Member | None:
        """The member with this instance id."""
        return self.members.get(self._instances.get(instance_id, ""))

    @property
    def state(self) -> GroupState:
        """The current state."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def check(self) -> None:
        """Assert the invariants of the members."""
        active: dict[Task, str] = {}
        by_process: dict[tuple[Task, str], str] = {}
        holders: dict[Task, dict[str, Role]] = {}
        for member_id, member in self.members.items():
            for task in member.assigned.keys() & member.pending.keys():
                is_demoted = member.pending[task] is Role.ACTIVE is not member.assigned[task]
                assert is_demoted, f"{member_id} has a task twice"
            for task, role in {**member.assigned, **member.pending}.items():
                holders.setdefault(task, {})[member_id] = role
                place = (task, member.process_id)
                assert place not in by_process, f"{task} is with {by_process[place]} and {member_id}"
                by_process[place] = member_id
                if role is Role.ACTIVE:
                    assert task not in active, f"{task} is active at {active[task]} and {member_id}"
                    active[task] = member_id
        assert holders == self._holders, "the index of holders differs from the members' tasks"
        assert self.targets.keys() <= self.members.keys()
        assert all(self.static_member(instance) for instance in self._instances)

    # --- Group ----------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self._group_id

    @property
    def group_type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self._subtopology_of(topic) is not None

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Errors: UnknownMemberIdError, StaleMemberEpochError."""
        epoch = generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch == NO_EPOCH and not member_id and group_instance_id is None:
            return  # TxnOffsetCommit without member fields: only its producer is checked
        self._check_epoch(self.member(member_id), epoch)

    def has_had_since(self, member_id: str, epoch: int, places: Iterable[Place]) -> bool:
        """By topic names: a source topic belongs to one subtopology."""
        member = self.members.get(member_id)
        if member is None or epoch > member.epoch:
            return False
        return all(
            member.since.get((self._subtopology_of(topic) or "", partition), member.epoch + 1) <= epoch
            for topic, _, partition in places
        )

    def _subtopology_of(self, topic: str) -> str | None:
        topology = self.topology
        return None if topology is None else subtopology_of(topology, self._group_id, topic)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Errors: UnknownMemberIdError, StaleMemberEpochError."""
        if not member_id and member_epoch < 0:
            return
        self._check_epoch(self.member(member_id or ""), member_epoch)

    def _check_epoch(self, member: Member, epoch: int) -> None:
        if epoch != member.epoch:
            raise StaleMemberEpochError(
                f"member {member.member_id!r} is at epoch {member.epoch}, not {epoch}"
            )

    def check_offset_delete(self) -> None:
        """No check: the shard checks each topic for subscribers."""

    def check_group_delete(self) -> None:
        """Errors: NonEmptyGroupError."""
        if self.members:
            raise NonEmptyGroupError(f"group {self._group_id!r} has {len(self.members)} members")

    def tombstones(self) -> list[Record]:
        """Members first, the group last: a partial append leaves a smaller group."""
        group = self._group_id
        keys: list[Any] = [
            StreamsGroupCurrentMemberAssignmentKey(group, member_id) for member_id in sorted(self.members)
        ]
        keys += [
            StreamsGroupTargetAssignmentMemberKey(group, member_id) for member_id in sorted(self.targets)
        ]
        keys.append(StreamsGroupTargetAssignmentMetadataKey(group))
        keys += [StreamsGroupMemberMetadataKey(group, member_id) for member_id in sorted(self.members)]
        keys += [StreamsGroupTopologyKey(group), StreamsGroupMetadataKey(group)]
        return [Record(key, None) for key in keys]

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The commit time: a group with members protects only its source topics."""
        return commit_ms

    # --- records of this group ------------------------------------------------------------------------------

    def group_metadata_record(self, metadata: StreamsGroupMetadataValue) -> Record:
        """The group's epoch, metadata hash, validated topology and assignment configs."""
        return Record(StreamsGroupMetadataKey(self._group_id), metadata)

    def topology_record(self, topology: StreamsGroupTopologyValue) -> Record:
        """The topology."""
        return Record(StreamsGroupTopologyKey(self._group_id), topology)

    def member_metadata_record(
        self, member_id: str, metadata: StreamsGroupMemberMetadataValue | None
    ) -> Record:
        """The member's metadata; None deletes it."""
        return Record(StreamsGroupMemberMetadataKey(self._group_id, member_id), metadata)

    def target_epoch_record(self, epoch: int, wall_ms: int) -> Record:
        """The epoch of the target assignment, and the time at which it was computed."""
        key = StreamsGroupTargetAssignmentMetadataKey(self._group_id)
        return Record(key, StreamsGroupTargetAssignmentMetadataValue(epoch, wall_ms))

    def target_record(self, member_id: str, target: Tasks | None) -> Record:
        """The member's target; None deletes it."""
        key = StreamsGroupTargetAssignmentMemberKey(self._group_id, member_id)
        return Record(
            key, None if target is None else StreamsGroupTargetAssignmentMemberValue(*by_role(target))
        )

    def current_record(self, member_id: str, member: Member | None) -> Record:
        """The member's current assignment; None deletes it."""
        key = StreamsGroupCurrentMemberAssignmentKey(self._group_id, member_id)
        if member is None:
            return Record(key, None)
        value = StreamsGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous_epoch,
            member.state.value,
            *by_role(member.assigned, member.since),
            *by_role(member.pending, member.since),
        )
        return Record(key, value)
