"""The decision on one request to a streams group. Source: Kafka GroupMetadataManager.java,
TargetAssignmentBuilder.java."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.records.streams_group_records import KeyValue
from ..group.modern_draft import ModernDraft
from .reconciliation import next_step
from .sticky_assignor import MemberSpec
from .streams_group import GROUP_TRANSITIONS, StreamsGroup
from .streams_member import MEMBER_TRANSITIONS, Member
from .tasks import NO_TASKS, Role
from .warmups import assign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.records.streams_group_records import (
        StreamsGroupMemberMetadataValue,
        TopologyDescription,
    )
    from ..runtime.ports import Record
    from .configured_topology import ConfiguredTopology
    from .tasks import Task, Tasks
    from .warmups import AssignmentConfigs

    Lags = Mapping[str, Mapping[Task, int]]  # of the members that report offsets

# Kafka's keys in the records
STANDBY_REPLICAS = "num.standby.replicas"
WARMUP_REPLICAS = "num.warmup.replicas"
ACCEPTABLE_LAG = "acceptable.recovery.lag"
NO_TOPOLOGY = -1
FIRST_GROUP_EPOCH = 2  # epoch 1 is that of members which wait for the first assignment


class StreamsDraft(ModernDraft[StreamsGroup, Member]):
    """A draft of a streams group."""

    def __init__(self, group: StreamsGroup, records: list[Record] | None = None) -> None:
        super().__init__(group, GROUP_TRANSITIONS, MEMBER_TRANSITIONS, records)

    # --- members --------------------------------------------------------------------------------------------

    def write_member_metadata(self, member_id: str, metadata: StreamsGroupMemberMetadataValue) -> bool:
        """Write the member's metadata if it changed; True if it did."""
        before = self.group.members.get(member_id)
        if before is not None and before.metadata == metadata:
            return False
        self.write(self.group.member_metadata_record(member_id, metadata))
        return True

    def replace(self, before: Member, member_id: str) -> None:
        """A static member rejoined under another member id."""
        self._rejoin(before, Member(member_id, before.metadata, assigned=before.assigned))

    def write_description(self, sent: TopologyDescription | None, *, is_kept: bool) -> None:
        """Write the description of the topology that a joining member sent, if it is another one. Without one
        the old one stays if it `is_kept`. The group epoch stays: no task depends on it."""
        after = self.group.description if sent is None and is_kept else sent
        if after != self.group.description:
            self.write(self.group.description_record(after))

    def remove(self, member_ids: Iterable[str]) -> None:
        """Remove members and start the next group epoch."""
        for member_id in member_ids:
            self.forget(member_id)
        self.bump()

    # --- the group ------------------------------------------------------------------------------------------

    def bump(self) -> None:
        """Start the next group epoch, for which a new target assignment is needed."""
        metadata = self.group.metadata
        self.write(self.group.group_metadata_record(metadata._replace(epoch=_next_epoch(metadata.epoch))))

    def update(
        self,
        configured: ConfiguredTopology,
        metadata_hash: int,
        configs: AssignmentConfigs,
        *,
        has_changed: bool,
    ) -> None:
        """Start the next group epoch if the members or the topology changed (`has_changed`), if the topics or
        the assignment configs changed, or if the topology became ready or is not any more."""
        metadata = self.group.metadata
        after = metadata._replace(
            metadata_hash=metadata_hash,
            validated_topology_epoch=configured.epoch if configured.is_ready else NO_TOPOLOGY,
            last_assignment_configs=(
                KeyValue(STANDBY_REPLICAS, str(configs.standby_replicas)),
                KeyValue(WARMUP_REPLICAS, str(configs.warmup_replicas)),
                KeyValue(ACCEPTABLE_LAG, str(configs.acceptable_lag)),
            ),
        )
        if has_changed or after != metadata:
            self.write(self.group.group_metadata_record(after._replace(epoch=_next_epoch(metadata.epoch))))

    # --- assignments ----------------------------------------------------------------------------------------

    @property
    def needs_assignment(self) -> bool:
        """Whether the target assignment is older than the group epoch."""
        return self.group.epoch > self.group.assignment_epoch

    def assign(
        self, configured: ConfiguredTopology, configs: AssignmentConfigs, lags: Lags, wall_ms: int
    ) -> None:
        """Compute the target assignment of the group epoch; write changed targets only. While topics are
        missing, members have no tasks."""
        group = self.group
        targets = self._targets(configured, configs, lags)
        for member_id in sorted(targets):
            if targets[member_id] != group.targets.get(member_id):
                self.write(group.target_record(member_id, targets[member_id]))
        self.write(group.target_epoch_record(group.epoch, wall_ms))

    def _targets(
        self, configured: ConfiguredTopology, configs: AssignmentConfigs, lags: Lags
    ) -> dict[str, Tasks]:
        group = self.group
        if not configured.is_ready or configured.tasks is None:
            return dict.fromkeys(group.members, NO_TASKS)
        specs = {
            member_id: _spec(member, group.targets.get(member_id, NO_TASKS), lags.get(member_id))
            for member_id, member in group.members.items()
        }
        return assign(specs, configured.tasks, configs)

    def bump_if_caught_up(
        self, configured: ConfiguredTopology, configs: AssignmentConfigs, lags: Lags
    ) -> None:
        """Start the next group epoch if the reported offsets let a task move, or another one begin to."""
        targets = self.group.targets
        if self.needs_assignment or not configured.is_ready:
            return
        is_moving = any(Role.WARMUP in tasks.values() for tasks in targets.values())
        if is_moving and _without_standbys(self._targets(configured, configs, lags)) != _without_standbys(
            targets
        ):
            self.bump()

    def reconcile(self, member_id: str, target: Tasks, owned: Tasks | None, known_epoch: int) -> None:
        """The member's next reconciliation step. `known_epoch`: the epoch that the member's request proved
        that it knows.

        Errors: FencedMemberEpochError.
        """
        group, member = self.group, self.group.members[member_id]
        after = next_step(member, group.assignment_epoch, target, group.holders_of, owned)
        if after != member:
            self.write_assignment(replace(after, previous_epoch=min(known_epoch, after.epoch)))


def _next_epoch(epoch: int) -> int:
    return FIRST_GROUP_EPOCH if epoch == 0 else epoch + 1


def _without_standbys(targets: Mapping[str, Tasks]) -> dict[str, Tasks]:
    return {
        member_id: {task: role for task, role in tasks.items() if role is not Role.STANDBY}
        for member_id, tasks in targets.items()
    }


def _spec(member: Member, target: Tasks, lags: Mapping[Task, int] | None) -> MemberSpec:
    """Only a member that reports offsets has warm-up tasks: after a fail-over its report is on its way."""
    if lags is None and Role.WARMUP in target.values():
        lags = {}
    return MemberSpec(member.process_id, target, _domains(member), lags)


def _domains(member: Member) -> frozenset[tuple[str, str]]:
    """The failure domains of the member's process. Client tags cannot have an empty key."""
    rack = member.metadata.rack_id
    tags = frozenset((tag.key, tag.value) for tag in member.metadata.client_tags)
    return tags if rack is None else tags | {("", rack)}
