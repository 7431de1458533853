"""A streams group (KIP-1071): topology, members, target assignment, and the current holders of each task.

All state comes from records; only `apply` changes it. A member reconciles from its current tasks (`assigned`,
plus `pending` that it has to revoke) to its target; reconciliation.py takes the steps. Source: Kafka
StreamsGroup.java.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

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
    StreamsGroupTopologyDescriptionKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TopologyDescription,
)
from ..group.group import GroupType
from ..group.modern_group import ModernGroup
from ..group.modern_member import NO_EPOCH
from ..runtime.ports import Record
from .source_patterns import subtopology_of
from .streams_member import Member, MemberState
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


class StreamsGroup(ModernGroup[Member, "Tasks"]):
    """Implements Group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata = StreamsGroupMetadataValue(0)
        self.topology: StreamsGroupTopologyValue | None = None
        self.description: TopologyDescription | None = None
        self.assignment_epoch = FIRST_ASSIGNMENT_EPOCH
        self.assignment_ms = 0  # wall time of the target assignment, 0 unknown
        self._holders: dict[Task, dict[str, Role]] = {}  # by member id; replaced, not changed

    def unshare(self) -> None:
        super().unshare()
        self._holders = dict(self._holders)

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        key, value = record
        match key:
            case StreamsGroupMetadataKey():
                self.metadata = self.metadata if value is None else value
            case StreamsGroupTopologyKey():
                self.topology = value
            case StreamsGroupTopologyDescriptionKey():
                self.description = value
            case StreamsGroupMemberMetadataKey(member_id=member_id):
                self._apply_member_metadata(member_id, value)
            case StreamsGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
                self.assignment_ms = 0 if value is None else value.assignment_ms
            case StreamsGroupTargetAssignmentMemberKey(member_id=member_id):
                self._set_target(member_id, None if value is None else from_roles(*value))
            case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, value)
            case _:
                raise AssertionError(f"not a record of a streams group: {key}")

    def _apply_member_metadata(
        self, member_id: str, metadata: StreamsGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        if metadata is not None:
            self._put(replace(before or Member(member_id), metadata=metadata))
        elif before is not None:
            self._release(before)
            self._drop(member_id)

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
        return self.metadata.epoch

    def holders_of(self, task: Task) -> list[tuple[str, str, Role]]:
        """The members that have the task assigned or have yet to revoke it: member id, process id, role."""
        return [
            (member_id, self.members[member_id].process_id, role)
            for member_id, role in self._holders.get(task, {}).items()
        ]

    @property
    def state(self) -> GroupState:
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
        super().check()
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

    # --- Group ----------------------------------------------------------------------------------------------

    @property
    def group_type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self._subtopology_of(topic) is not None

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

    # --- records of this group ------------------------------------------------------------------------------

    def group_metadata_record(self, metadata: StreamsGroupMetadataValue) -> Record:
        """The group's epoch, metadata hash, validated topology and assignment configs."""
        return Record(StreamsGroupMetadataKey(self._group_id), metadata)

    def topology_record(self, topology: StreamsGroupTopologyValue) -> Record:
        return Record(StreamsGroupTopologyKey(self._group_id), topology)

    def description_record(self, description: TopologyDescription | None) -> Record:
        """The processing graph; None deletes it."""
        return Record(StreamsGroupTopologyDescriptionKey(self._group_id), description)

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

    def _target_epoch_tombstone(self) -> Record:
        return Record(StreamsGroupTargetAssignmentMetadataKey(self._group_id), None)

    def _group_tombstones(self) -> list[Record]:
        graph = [] if self.description is None else [self.description_record(None)]
        keys = (StreamsGroupTopologyKey(self._group_id), StreamsGroupMetadataKey(self._group_id))
        return graph + [Record(key, None) for key in keys]
