"""Heartbeats of the new protocol (KIP-848): in comes what a member reads and owns, out goes what it shall
have.

Each one is decided in three steps: the member's own facts move the group's epoch when they change what is
read; a group epoch without a target gets one; the member goes one step towards its target.

An answer can be lost, and the same heartbeat come again: it finds the member at a newer epoch, is accepted,
and answered with everything. So is a second join of the same member id. Pure. Source: Kafka
GroupMetadataManager.java consumerGroupHeartbeat; KIP-848; KAFKA-19222, KAFKA-19233, KAFKA-20442.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from .consumer_draft import left_for_now
from .consumer_group import ConsumerGroup
from .consumer_member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Member
from .consumer_requests import check_request, is_full, is_leaving, owned_by
from .group import fenced_instance
from .heartbeat_pacing import HeartbeatPacing
from .migration import check_upgrade, upgrade
from .reconciliation import is_part_of

if TYPE_CHECKING:
    from ...protocol.messages.groups import ConsumerGroupHeartbeatRequest
    from ..runtime.ports import Now, Token
    from .assignors.model import Partitions
    from .consumer_draft import ConsumerDraft
    from .consumer_members import ConsumerMembers


class ConsumerHeartbeats:
    """Joining, going on and leaving."""

    def __init__(self, members: ConsumerMembers) -> None:
        self._members = members
        self._around = members.around
        self.topics_changed_at = members.around.image.offset  # metadata offset: topics came or went
        self._pacing = HeartbeatPacing()
        self._checked: dict[str, tuple[int, int]] = {}  # soft: group -> image and epoch whose topics agree

    def heartbeat(self, body: ConsumerGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Join, go on, or leave. Errors: KafkaErrors; nothing was changed then."""
        check_request(body, self._members.assignor_names)
        if is_leaving(body):
            return self._leave(body, token, now)
        draft = self._draft_for(body)
        epoch_before = draft.group.epoch
        member_id, known_epoch = body.member_id, body.member_epoch
        owned = owned_by(body)
        before = self._member_for(draft, body, owned)
        self.update_member(draft, before, member_id, _told(before, body, token), now)
        draft.assign(self._members.assignor_names)
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
        has_all_told = reported == after.assigned and not after.pending
        is_told = is_full(body) or known_epoch != after.epoch or not has_all_told
        outcome = Outcome(draft.decided())
        self._members.end_classic_waits(draft.group, outcome, now)
        outcome.answer(
            token,
            ConsumerGroupHeartbeatResponse(
                0,
                member_id,
                after.epoch,
                interval_ms,
                _in_message(after.assigned) if is_told else None,
            ),
        )
        return outcome

    # --- joining and going on ---------------------------------------------------------------------------

    def _draft_for(self, body: ConsumerGroupHeartbeatRequest) -> ConsumerDraft:
        """The group; new if a member joins one that is not there, upgraded if it joins a classic one.

        Errors: GroupIdNotFoundError.
        """
        group = self._members.groups.get(body.group_id)
        if isinstance(group, ConsumerGroup):
            return self._members.draft(group)
        if body.member_epoch == JOIN_EPOCH:
            records = [] if group is None else group.tombstones()
            draft = self._members.draft(ConsumerGroup(body.group_id), records)
            if isinstance(group, ClassicGroup) and not group.is_empty:
                check_upgrade(group, self._around.config.now)
                upgrade(draft, group, self._members.topics)
            return draft
        raise GroupIdNotFoundError(f"there is no consumer group {body.group_id!r}")

    def _member_for(
        self, draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest, owned: Partitions | None
    ) -> Member | None:
        """The member as it is before this heartbeat; None: it is new."""
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
        """Whoever has the instance id, as this member: a member that has left for a while is taken over."""
        found = draft.group.static_member(body.instance_id)
        if body.member_epoch != JOIN_EPOCH:
            return _own_static_member(found, body)
        if found is None or found.member_id == body.member_id:
            return found
        if found.epoch != STATIC_LEAVE_EPOCH and found.classic is None:
            raise UnreleasedInstanceIdError(
                f"group.instance.id {body.instance_id!r} is taken by member {found.member_id!r}:"
                " close that one first, or wait for the end of its session"
            )
        draft.replace(found, body.member_id)
        return draft.group.members[body.member_id]

    def _check_size(self, group: ConsumerGroup) -> None:
        limit = self._around.config.now.group_consumer_max_size
        if group.member_count >= limit:
            raise GroupMaxSizeReachedError(f"group {group.group_id!r} has {limit} members already")

    def update_member(
        self,
        draft: ConsumerDraft,
        before: Member | None,
        member_id: str,
        told: ConsumerGroupMemberMetadataValue,
        now: Now,
    ) -> None:
        """What the member says of itself, and what follows for the group's epoch."""
        has_changed = draft.tell(member_id, told)
        old_regex, new_regex = "" if before is None else before.regex, told.subscribed_topic_regex or ""
        if old_regex != new_regex:
            draft.forget_regex(old_regex)
            if new_regex not in draft.group.regexes and new_regex:
                draft.resolve_regex(new_regex, self._around.image.offset, now.wall_ms)
            has_changed = True
        offset = self._around.image.offset
        has_changed |= draft.refresh_regexes(self.topics_changed_at, offset, now.wall_ms)
        if has_changed or draft.group.epoch == 0:
            draft.bump()
        else:
            self._look_for_changed_topics(draft)
        if before is None or before.epoch == STATIC_LEAVE_EPOCH:
            joined = draft.group.members[member_id]
            draft.move(Member(member_id, told, state=joined.state, assigned=joined.assigned))

    def _look_for_changed_topics(self, draft: ConsumerDraft) -> None:
        """Once per image and epoch: it takes a look at every topic that the group reads."""
        group = draft.group
        seen = (self._around.image.offset, group.epoch)
        if self._checked.get(group.group_id) != seen and not draft.bump_if_topics_changed():
            self._checked[group.group_id] = seen

    # --- leaving ----------------------------------------------------------------------------------------

    def _leave(self, body: ConsumerGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        group = self._members.group(body.group_id)
        if body.instance_id is None:
            member = group.member(body.member_id)
        else:
            member = _own_static_member(group.static_member(body.instance_id), body)
        if body.member_epoch == STATIC_LEAVE_EPOCH:
            draft = self._members.draft(group)
            draft.move(left_for_now(member, STATIC_LEAVE_EPOCH))
            self._members.begin_session(body.group_id, draft.group.members[member.member_id], now)
            outcome = Outcome(draft.decided())
        else:
            outcome = self._members.take_out(group, [member.member_id], now)
        outcome.answer(token, ConsumerGroupHeartbeatResponse(0, body.member_id, body.member_epoch))
        return outcome

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._checked.pop(group_id, None)
        self._pacing.forget(group_id)


def _own_static_member(found: Member | None, body: ConsumerGroupHeartbeatRequest) -> Member:
    """Errors: UnknownMemberIdError, FencedInstanceIdError."""
    if found is None:
        raise UnknownMemberIdError(f"nobody has the instance id {body.instance_id!r}")
    if found.member_id != body.member_id:
        raise fenced_instance(body.instance_id, found.member_id)
    return found


def _check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """The member's epoch, or the one before as long as it does not claim what it has not.

    Errors: FencedMemberEpochError.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and (owned is None or is_part_of(owned, member)):
        return
    raise FencedMemberEpochError(
        f"member {member.member_id!r} is at epoch {member.epoch}, not {epoch}: it must give up all and join"
    )


def _told(
    before: Member | None, body: ConsumerGroupHeartbeatRequest, token: Token
) -> ConsumerGroupMemberMetadataValue:
    """What the member says of itself with this heartbeat; what it leaves out stays."""
    old = Member("").told if before is None else before.told
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
