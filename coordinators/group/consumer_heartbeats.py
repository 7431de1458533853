"""ConsumerGroupHeartbeat (KIP-848): the request has a member's subscription and owned partitions, the
response its assignment. Pure.

Each heartbeat is decided in three steps: changed metadata of the member bumps the group epoch if it changes
the subscription; a group epoch without a target assignment gets one; the member takes one reconciliation
step.

A response can be lost and the heartbeat repeated with the previous epoch: it is accepted and answered in
full. So is a second join with the same member id. Source: Kafka GroupMetadataManager.java
consumerGroupHeartbeat; KIP-848; KAFKA-19222, KAFKA-19233, KAFKA-20442.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.coordinator_errors import CoordinatorNotAvailableError
from ...protocol.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from ...protocol.messages.groups import ConsumerGroupHeartbeatResponse, TopicIdPartitions
from ...protocol.records.group_records import ConsumerGroupMemberMetadataValue
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup
from .consumer_draft import temporarily_left
from .consumer_group import ConsumerGroup
from .consumer_member import Member
from .consumer_requests import check_request, is_full, is_leaving, owned_by
from .group import fenced_instance
from .heartbeat_pacing import HeartbeatPacing
from .migration import check_upgrade, upgrade
from .modern_member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from .reconciliation import is_part_of
from .topic_rights import topic_filter

if TYPE_CHECKING:
    from ...protocol.messages.groups import ConsumerGroupHeartbeatRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Token
    from .assignors.model import Partitions
    from .consumer_draft import ConsumerDraft
    from .consumer_members import ConsumerMembers
    from .topic_rights import Client


class ConsumerHeartbeats:
    """Joins, heartbeats and leaves of consumer-protocol members."""

    def __init__(self, members: ConsumerMembers) -> None:
        self._members = members
        self._context = members.context
        # metadata offset of the last created or deleted topic
        self.topics_changed_at = members.context.image.offset
        self._pacing = HeartbeatPacing()
        # soft: group -> image offset and group epoch of the last metadata hash check
        self._checked: dict[str, tuple[int, int]] = {}

    def heartbeat(self, body: ConsumerGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Join, heartbeat or leave. Errors: KafkaErrors, which change nothing."""
        check_request(body, self._members.assignor_names)
        if is_leaving(body):
            return self._leave(body, token, now)
        draft = self._draft_for(body)
        epoch_before = draft.group.epoch
        member_id, known_epoch = body.member_id, body.member_epoch
        owned = owned_by(body)
        before = self._member_for(draft, body, owned)
        self.update_member(draft, before, member_id, _member_metadata(before, body, token), now, body.reader)
        self._members.assign(draft, now)
        draft.reconcile(member_id, owned, known_epoch)
        after = draft.group.members[member_id]
        interval_ms = self._pacing.interval_ms(
            body.group_id,
            before=epoch_before,
            epoch=draft.group.epoch,
            members=draft.group.member_count,
            longest_ms=self._members.times_of(body.group_id).heartbeat_interval_ms,
            now_ms=now.ms,
        )
        if owned is not None:
            self._members.report(body.group_id, after, owned)
        self._members.begin_session(body.group_id, after, now)
        reported = self._members.reported.get((body.group_id, member_id), {})
        is_reconciled = reported == after.assigned and not after.pending
        sends_assignment = is_full(body) or known_epoch != after.epoch or not is_reconciled
        outcome = Outcome(draft.decided())
        self._members.end_classic_waits(draft.group, outcome, now)
        outcome.answer(
            token,
            ConsumerGroupHeartbeatResponse(
                0,
                member_id,
                after.epoch,
                interval_ms,
                _in_message(after.assigned) if sends_assignment else None,
            ),
        )
        return outcome

    # --- join and heartbeat ---------------------------------------------------------------------------------

    def _draft_for(self, body: ConsumerGroupHeartbeatRequest) -> ConsumerDraft:
        """The group; created, or upgraded from a classic group, if a member joins.

        Errors: GroupIdNotFoundError.
        """
        group = self._members.groups.get(body.group_id)
        if isinstance(group, ConsumerGroup):
            return self._members.draft(group)
        if body.member_epoch == JOIN_EPOCH:
            if group is not None and not isinstance(group, ClassicGroup):
                raise GroupIdNotFoundError(f"group {body.group_id!r} is a {group.group_type.value} group")
            records = [] if group is None else group.tombstones()
            draft = self._members.draft(ConsumerGroup(body.group_id), records)
            if group is not None and not group.is_empty:
                check_upgrade(group, self._context.config.now)
                upgrade(draft, group, self._members.topics)
            return draft
        raise GroupIdNotFoundError(f"consumer group {body.group_id!r} does not exist")

    def _member_for(
        self, draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest, owned: Partitions | None
    ) -> Member | None:
        """The member before this heartbeat; None: it is new."""
        is_joining = body.member_epoch == JOIN_EPOCH
        if body.instance_id is None:
            found = (
                draft.group.members.get(body.member_id) if is_joining else draft.group.member(body.member_id)
            )
        else:
            found = self._static_member_for(draft, body)
        if found is None:
            self._check_size(draft.group)
        elif not is_joining:
            _check_epoch(found, body.member_epoch, owned)
        return found

    def _static_member_for(self, draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest) -> Member | None:
        """The static member with this instance id under the request's member id; one that left temporarily is
        replaced."""
        found = draft.group.static_member(body.instance_id)
        if body.member_epoch != JOIN_EPOCH:
            return _own_static_member(found, body)
        if found is None or found.member_id == body.member_id:
            return found
        if found.epoch != STATIC_LEAVE_EPOCH and found.classic is None:
            raise UnreleasedInstanceIdError(
                f"group.instance.id {body.instance_id!r} is taken by member {found.member_id!r}:"
                " close that member, or wait until its session expires"
            )
        draft.replace(found, body.member_id)
        return draft.group.members[body.member_id]

    def _check_size(self, group: ConsumerGroup) -> None:
        limit = self._context.config.now.group_consumer_max_size
        if group.member_count >= limit:
            raise GroupMaxSizeReachedError(
                f"group {group.group_id!r} has group.consumer.max.size = {limit} members"
            )

    def update_member(
        self,
        draft: ConsumerDraft,
        before: Member | None,
        member_id: str,
        metadata: ConsumerGroupMemberMetadataValue,
        now: Now,
        reader: Client | None = None,
    ) -> None:
        """Write the member's metadata, and bump the group epoch if the subscription changed. Errors:
        CoordinatorNotAvailableError for a new expression while this node does not know the rules."""
        has_changed = draft.write_member_metadata(member_id, metadata)
        old_regex, new_regex = "" if before is None else before.regex, metadata.subscribed_topic_regex or ""
        if old_regex != new_regex:
            draft.forget_regex(old_regex)
            if new_regex not in draft.group.regexes and new_regex:
                may_describe = topic_filter(self._context.authorizer, reader)
                draft.resolve_regex(new_regex, may_describe, self._context.image.offset, now.wall_ms)
            has_changed = True
        has_changed |= self._refresh_regex(draft, new_regex, reader, now)
        if has_changed or draft.group.epoch == 0:
            draft.bump()
        else:
            self._look_for_changed_topics(draft)
        if before is None or before.epoch == STATIC_LEAVE_EPOCH:
            joined = draft.group.members[member_id]
            draft.write_assignment(Member(member_id, metadata, state=joined.state, assigned=joined.assigned))

    def _refresh_regex(self, draft: ConsumerDraft, expression: str, reader: Client | None, now: Now) -> bool:
        """Match the member's expression again if it is time to. Unlike in Kafka, a heartbeat does not refresh
        expressions of other members, which may have other rights."""
        interval_ms = self._context.config.now.group_consumer_regex_refresh_interval_ms
        if not draft.is_regex_due(expression, self.topics_changed_at, interval_ms, now.wall_ms):
            return False
        try:
            may_describe = topic_filter(self._context.authorizer, reader)
        except CoordinatorNotAvailableError:
            return False  # one of the next heartbeats refreshes it
        return draft.refresh_regex(expression, may_describe, self._context.image.offset, now.wall_ms)

    def _look_for_changed_topics(self, draft: ConsumerDraft) -> None:
        """Compare the metadata hash once per image and group epoch: it covers every subscribed topic."""
        group = draft.group
        seen = (self._context.image.offset, group.epoch)
        if self._checked.get(group.group_id) != seen and not draft.bump_if_topics_changed():
            self._checked[group.group_id] = seen

    # --- leave ----------------------------------------------------------------------------------------------

    def _leave(self, body: ConsumerGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        group = self._members.group(body.group_id)
        if body.instance_id is None:
            member = group.member(body.member_id)
        else:
            member = _own_static_member(group.static_member(body.instance_id), body)
        if body.member_epoch == STATIC_LEAVE_EPOCH:
            draft = self._members.draft(group)
            draft.write_assignment(temporarily_left(member, STATIC_LEAVE_EPOCH))
            self._members.begin_session(body.group_id, draft.group.members[member.member_id], now)
            outcome = Outcome(draft.decided())
        else:
            outcome = self._members.take_out(group, [member.member_id], now)
        outcome.answer(token, ConsumerGroupHeartbeatResponse(0, body.member_id, body.member_epoch))
        return outcome

    def forget(self, group_id: str) -> None:
        """Drop the soft state of a deleted group."""
        self._checked.pop(group_id, None)
        self._pacing.forget(group_id)


def _own_static_member(found: Member | None, body: ConsumerGroupHeartbeatRequest) -> Member:
    """Errors: UnknownMemberIdError, FencedInstanceIdError."""
    if found is None:
        raise UnknownMemberIdError(f"the group has no member with group.instance.id {body.instance_id!r}")
    if found.member_id != body.member_id:
        raise fenced_instance(body.instance_id, found.member_id)
    return found


def _check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """Accept the current epoch, and the previous one if `owned` is part of the member's partitions.

    Errors: FencedMemberEpochError.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and (owned is None or is_part_of(owned, member)):
        return
    raise FencedMemberEpochError(
        f"member {member.member_id!r} is at epoch {member.epoch}, the request says {epoch}: revoke all and"
        " rejoin"
    )


def _member_metadata(
    before: Member | None, body: ConsumerGroupHeartbeatRequest, token: Token
) -> ConsumerGroupMemberMetadataValue:
    """The member's metadata after this heartbeat; omitted fields keep their values."""
    old = Member("").metadata if before is None else before.metadata
    names, regex = body.subscribed_topic_names, body.subscribed_topic_regex
    return ConsumerGroupMemberMetadataValue(
        old.instance_id if body.instance_id is None else body.instance_id,
        old.rack_id if body.rack_id is None else body.rack_id,
        body.client_id or token.client_id,
        body.client_host or token.client_host,
        old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        old.subscribed_topic_regex if regex is None else regex,
        old.rebalance_timeout_ms if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        old.server_assignor if body.server_assignor is None else body.server_assignor,
    )


def _in_message(partitions: Partitions) -> tuple[TopicIdPartitions, ...]:
    return tuple(TopicIdPartitions(topic, each) for topic, each in sorted(partitions.items()))
