"""StreamsGroupHeartbeat (KIP-1071): the request has a member's topology and tasks, the response its
assignment. Pure.

Each heartbeat is decided in four steps: changed metadata of the member, a new topology, and changed topics
or assignment configs bump the group epoch; missing internal topics are created; a group epoch without a
target assignment gets one, unless it is delayed; the member takes one reconciliation step.

A response can be lost and the heartbeat repeated with the previous epoch: it is accepted and answered in
full. Source: Kafka GroupMetadataManager.java streamsGroupHeartbeat; KIP-1071, KIP-1263.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnreleasedInstanceIdError,
)
from ...protocol.messages.streams_groups import Status, StatusCode, StreamsGroupHeartbeatResponse
from ...protocol.records.streams_group_records import StreamsGroupMemberMetadataValue
from ..group.classic_group import ClassicGroup
from ..group.group import fenced_instance
from ..group.heartbeat_pacing import HeartbeatPacing
from ..group.modern_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ..runtime.ports import Outcome
from .configured_topology import named
from .endpoints import partitions_by_endpoint
from .streams_draft import StreamsDraft
from .streams_group import StreamsGroup
from .streams_member import NO_METADATA, Member
from .streams_requests import check_owned, check_request, is_full, owned_by
from .tasks import NO_TASKS, by_role
from .topology import keeps_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.streams_groups import StreamsGroupHeartbeatRequest
    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Token
    from .configured_topology import ConfiguredTopology
    from .streams_members import StreamsMembers
    from .tasks import Tasks

# Reassigned tasks pause until the next heartbeat of their new member: at most 20 heartbeats/s per shard
STEADY_MS, STEADY_MS_PER_MEMBER = 1_000, 50


class StreamsHeartbeats:
    """Joins, heartbeats and leaves of members of streams groups."""

    def __init__(self, members: StreamsMembers) -> None:
        self._members = members
        self._context = members.context
        self._pacing = HeartbeatPacing(STEADY_MS, STEADY_MS_PER_MEMBER)

    def heartbeat(self, body: StreamsGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Join, heartbeat or leave. Errors: KafkaErrors, which change nothing."""
        check_request(body)
        if body.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(body, token, now)
        draft = self._draft_for(body)
        was_empty, epoch_before = draft.group.is_empty, draft.group.epoch
        owned = owned_by(body)
        before = self._member_for(draft, body, owned)
        configured = self._update(draft, before, body, owned, token, was_empty=was_empty)
        refused = self._members.internal_topics.refused(configured.missing, body.client)
        if was_empty:
            self._members.delay_first_assignment(body.group_id, now)
        statuses = self._statuses(draft, body, configured, refused)
        target = self._target(draft, configured, body.member_id, statuses, now)
        draft.reconcile(body.member_id, target, owned, body.member_epoch)
        after = draft.group.members[body.member_id]
        self._note(body, before, after, owned, now)
        outcome = Outcome(draft.decided())
        if configured.missing and not refused:
            create = self._members.internal_topics.create
            outcome.on_committed = lambda then: create(body.group_id, configured.missing, then)
        interval_ms = self._pacing.interval_ms(
            body.group_id,
            before=epoch_before,
            epoch=draft.group.epoch,
            members=draft.group.member_count,
            longest_ms=self._members.settings_of(body.group_id).heartbeat_interval_ms,
            now_ms=now.ms,
        )
        if body.instance_id is None:
            self._members.connections.note(body.group_id, body.member_id, token.session, interval_ms)
        outcome.answer(token, self._response(draft.group, after, body, interval_ms, tuple(statuses)))
        return outcome

    # --- the group and the member ---------------------------------------------------------------------------

    def _draft_for(self, body: StreamsGroupHeartbeatRequest) -> StreamsDraft:
        """The group; created, or in place of an empty classic group, if a member joins.

        Errors: GroupIdNotFoundError.
        """
        group = self._members.groups.get(body.group_id)
        if isinstance(group, StreamsGroup):
            return StreamsDraft(group)
        if body.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFoundError(f"streams group {body.group_id!r} does not exist")
        if group is None:
            return StreamsDraft(StreamsGroup(body.group_id))
        if isinstance(group, ClassicGroup) and group.is_empty:
            return StreamsDraft(StreamsGroup(body.group_id), group.tombstones())
        raise GroupIdNotFoundError(
            f"group {body.group_id!r} is a {group.group_type.value} group: only an empty classic group can"
            " become a streams group"
        )

    def _member_for(
        self, draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, owned: Tasks | None
    ) -> Member | None:
        """The member before this heartbeat; None: it is new."""
        if body.member_epoch != JOIN_EPOCH:
            found = _known_member(draft.group, body)
            _check_epoch(found, body.member_epoch, owned)
            return found
        if body.instance_id is not None:
            self._take_place(draft, body.instance_id, body.member_id)
        limit = self._context.config.now.group_streams_max_size
        if not draft.group.has_member(body.member_id) and draft.group.member_count >= limit:
            raise GroupMaxSizeReachedError(
                f"group {body.group_id!r} has group.streams.max.size = {limit} members"
            )
        return draft.group.members.get(body.member_id)

    def _take_place(self, draft: StreamsDraft, instance_id: str, member_id: str) -> None:
        """Replace the static member with this instance id that left temporarily, under any member id.

        Errors: UnreleasedInstanceIdError.
        """
        found = draft.group.static_member(instance_id)
        if found is None or (found.member_id == member_id and found.epoch != STATIC_LEAVE_EPOCH):
            return
        if found.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceIdError(
                f"group.instance.id {instance_id!r} is taken by member {found.member_id!r}: close that"
                " member, or wait until its session expires"
            )
        draft.replace(found, member_id)
        self._members.member_replaced(draft.group.group_id, found.member_id)

    def _update(
        self,
        draft: StreamsDraft,
        before: Member | None,
        body: StreamsGroupHeartbeatRequest,
        owned: Tasks | None,
        token: Token,
        *,
        was_empty: bool,
    ) -> ConfiguredTopology:
        """Write the member's metadata, the topology, and the next group epoch if anything changed.

        Errors: InvalidRequestError, StreamsInvalidTopologyError, InvalidRegularExpressionError,
        CoordinatorNotAvailableError.
        """
        metadata = _member_metadata(before, body, token)
        if before is not None and before.process_id != metadata.process_id:
            if body.member_epoch != JOIN_EPOCH:
                raise InvalidRequestError("the process id of the member has changed: rejoin with epoch 0")
            draft.write_assignment(Member(body.member_id, before.metadata))  # its tasks were the process's
        has_changed = draft.write_member_metadata(body.member_id, metadata)
        topology = _topology_for(None if was_empty else draft.group.topology, body)
        is_another = topology != draft.group.topology
        if is_another:
            draft.write(draft.group.topology_record(topology))
            has_changed = True
        if body.member_epoch == JOIN_EPOCH:
            draft.write_description(body.topology_description, is_kept=not (is_another or was_empty))
        current = self._members.current_topology(body.group_id, topology, body.client)
        configured = current.configured
        if configured.is_ready and configured.tasks is not None:
            check_owned(owned, configured.tasks)
        configs = self._members.assignment_configs(body.group_id)
        draft.update(configured, current.metadata_hash, configs, has_changed=has_changed)
        if body.task_offsets is not None:
            self._use_offsets(draft, body, configured)
        return configured

    def _use_offsets(
        self, draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, configured: ConfiguredTopology
    ) -> None:
        """The member reports the offsets of its stores: a warm-up task may have caught up."""
        group_id, found = body.group_id, self._members.task_offsets
        known = (
            (name, each) for name, it in (configured.tasks or {}).items() for each in range(it.task_count)
        )
        found.report(group_id, body.member_id, body.task_offsets or (), body.task_end_offsets or (), known)
        draft.bump_if_caught_up(configured, self._members.assignment_configs(group_id), found.lags(group_id))

    def _target(
        self,
        draft: StreamsDraft,
        configured: ConfiguredTopology,
        member_id: str,
        statuses: list[Status],
        now: Now,
    ) -> Tasks:
        """The member's target tasks, of a new assignment if the group epoch needs one and it is due."""
        group_id, delayed = draft.group.group_id, StatusCode.ASSIGNMENT_DELAYED.value
        if draft.needs_assignment:
            if self._members.is_first_assignment_delayed(group_id):
                detail = "Assignment delayed due to the configured initial rebalance delay."
                statuses.append(Status(delayed, detail))
                return NO_TASKS
            if self._members.is_too_early(draft.group, now):
                detail = "Assignment delayed due to the configured assignment interval."
                statuses.append(Status(delayed, detail))
            else:
                configs = self._members.assignment_configs(group_id)
                draft.assign(configured, configs, self._members.task_offsets.lags(group_id), now.wall_ms)
        return draft.group.targets.get(member_id, NO_TASKS)

    def _note(
        self,
        body: StreamsGroupHeartbeatRequest,
        before: Member | None,
        after: Member,
        owned: Tasks | None,
        now: Now,
    ) -> None:
        """Update the soft state."""
        if owned is not None:
            self._members.report(body.group_id, after, owned)
        self._members.note_client(body.group_id, after.member_id, body.client)
        self._members.endpoint_epochs.changed(body.group_id, before, after)
        self._members.begin_session(body.group_id, after, now)
        if body.shutdown_application:
            self._members.shutdowns.setdefault(body.group_id, body.member_id)

    # --- the response ---------------------------------------------------------------------------------------

    def _statuses(
        self,
        draft: StreamsDraft,
        body: StreamsGroupHeartbeatRequest,
        configured: ConfiguredTopology,
        refused: Sequence[str],
    ) -> list[Status]:
        group, statuses = draft.group, []
        of_member = group.members[body.member_id].metadata.topology_epoch
        if group.topology is not None and of_member < group.topology.epoch:
            detail = (
                f"The member's topology epoch {of_member} is behind the group's topology epoch"
                f" {group.topology.epoch}."
            )
            statuses.append(Status(StatusCode.STALE_TOPOLOGY.value, detail))
        if configured.problem is not None:
            code, detail = configured.problem
            fault = self._members.internal_topics.fault_of(body.group_id)
            if code is StatusCode.MISSING_INTERNAL_TOPICS and fault:
                detail = f"{detail}; Creation failed: {fault}"
            if refused:
                detail = f"{detail}; Unauthorized to CREATE on topics {named(refused)}."
            statuses.append(Status(code.value, detail))
        requester = self._members.shutdowns.get(body.group_id)
        if requester is None and body.shutdown_application:
            requester = body.member_id
        if requester is not None:
            detail = (
                f"Streams group member {requester} encountered a fatal error and requested a shutdown for the"
                " entire application."
            )
            statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION.value, detail))
        return statuses

    def _response(
        self,
        group: StreamsGroup,
        after: Member,
        body: StreamsGroupHeartbeatRequest,
        interval_ms: int,
        statuses: tuple[Status, ...],
    ) -> StreamsGroupHeartbeatResponse:
        reported = self._members.reported.get((body.group_id, after.member_id), NO_TASKS)
        is_reconciled = reported == after.assigned and not after.pending
        sends_assignment = is_full(body) or body.member_epoch != after.epoch or not is_reconciled
        active, standby, warmup = by_role(after.assigned) if sends_assignment else (None, None, None)
        endpoint_epoch = self._members.endpoint_epochs.epoch_of(body.group_id)
        endpoints = None
        if endpoint_epoch != body.endpoint_information_epoch:
            assert group.topology is not None
            current = self._members.current_topology(body.group_id, group.topology)
            endpoints = partitions_by_endpoint(group, current.resolved, self._members.partition_count)
        settings = self._members.settings_of(body.group_id)
        return StreamsGroupHeartbeatResponse(
            0,
            after.member_id,
            after.epoch,
            interval_ms,
            settings.acceptable_recovery_lag,
            settings.task_offset_interval_ms,
            status=statuses,
            active=active,
            standby=standby,
            warmup=warmup,
            endpoint_information_epoch=endpoint_epoch,
            partitions_by_user_endpoint=endpoints,
        )

    # --- leave ----------------------------------------------------------------------------------------------

    def _leave(self, body: StreamsGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        group = self._members.group(body.group_id)
        member = _known_member(group, body)
        if body.shutdown_application:
            self._members.shutdowns.setdefault(body.group_id, body.member_id)
        if body.member_epoch == STATIC_LEAVE_EPOCH:
            draft = StreamsDraft(group)
            draft.write_assignment(member.temporarily_left())
            self._members.begin_session(body.group_id, draft.group.members[member.member_id], now)
            outcome = Outcome(draft.decided())
        else:
            outcome = self._members.take_out(group, [member.member_id], now)
        outcome.answer(token, StreamsGroupHeartbeatResponse(0, body.member_id, body.member_epoch))
        return outcome

    def forget(self, group_id: str) -> None:
        """Drop the soft state of a deleted group."""
        self._pacing.forget(group_id)


def _known_member(group: StreamsGroup, body: StreamsGroupHeartbeatRequest) -> Member:
    """Errors: UnknownMemberIdError; FencedInstanceIdError: another member has its instance id now."""
    holder = None if body.instance_id is None else group.static_member(body.instance_id)
    if holder is not None and holder.member_id != body.member_id:
        raise fenced_instance(body.instance_id, holder.member_id)
    return group.member(body.member_id)


def _check_epoch(member: Member, epoch: int, owned: Tasks | None) -> None:
    """Accept the current epoch, and the previous one if `owned` is part of the member's tasks.

    Errors: FencedMemberEpochError.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and (owned is None or member.has_all(owned)):
        return
    raise FencedMemberEpochError(
        f"member {member.member_id!r} is at epoch {member.epoch}, the request says {epoch}: close all tasks"
        " and rejoin"
    )


def _topology_for(
    known: StreamsGroupTopologyValue | None, body: StreamsGroupHeartbeatRequest
) -> StreamsGroupTopologyValue:
    """The group's topology; that of the first member if there is none, or if the group was empty. The next
    topology epoch takes its place while there are members if the tasks stay the same. Errors:
    InvalidRequestError."""
    sent = body.topology
    if known is None:
        if sent is None:
            raise InvalidRequestError(f"streams group {body.group_id!r} has no topology: rejoin")
        return sent
    if sent is not None and sent.epoch == known.epoch + 1 and keeps_tasks(known, sent):
        return sent
    if sent is not None and sent.epoch >= known.epoch and not _are_equal(known, sent):
        raise InvalidRequestError(
            f"the topology differs from that of streams group {body.group_id!r}, which its members keep while"
            " there are any: stop all instances of the application before one with another topology starts"
        )
    return known


def _are_equal(known: StreamsGroupTopologyValue, sent: StreamsGroupTopologyValue) -> bool:
    """In any order of the subtopologies."""
    return known.epoch == sent.epoch and {each.subtopology_id: each for each in known.subtopologies} == {
        each.subtopology_id: each for each in sent.subtopologies
    }


def _member_metadata(
    before: Member | None, body: StreamsGroupHeartbeatRequest, token: Token
) -> StreamsGroupMemberMetadataValue:
    """The member's metadata after this heartbeat; omitted fields keep their values."""
    old = NO_METADATA if before is None else before.metadata
    tags = body.client_tags
    return StreamsGroupMemberMetadataValue(
        old.instance_id if body.instance_id is None else body.instance_id,
        old.rack_id if body.rack_id is None else body.rack_id,
        body.client_id or token.client_id,
        body.client_host or token.client_host,
        old.rebalance_timeout_ms if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        old.topology_epoch if body.topology is None else body.topology.epoch,
        old.process_id if body.process_id is None else body.process_id,
        old.user_endpoint if body.user_endpoint is None else body.user_endpoint,
        old.client_tags if tags is None else tuple(sorted(set(tags))),
    )
