"""Groups of the new protocol (KIP-848): heartbeats in, epochs and assignments out.

A heartbeat tells what the member reads and owns, and is answered with what it shall have. Each one is decided
in three steps: the member's own facts move the group's epoch when they change what is read; a group epoch
without a target gets one; the member goes one step towards its target. Members that are silent, or do not
give back in time, are taken out.

An answer can be lost, and the same heartbeat come again: it finds the member at a newer epoch, is accepted,
and answered with everything. So is a second join of the same member id. Pure. Source: Kafka
GroupMetadataManager.java consumerGroupHeartbeat; KIP-848; KAFKA-19222, KAFKA-19233, KAFKA-20442.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from ...protocol.messages.groups import ConsumerGroupHeartbeatResponse, TopicIdPartitions
from ...protocol.records.group_records import ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey
from ..runtime.ports import Outcome
from .assignors import ASSIGNORS
from .consumer_descriptions import describe_groups
from .consumer_draft import ConsumerDraft, left_for_now
from .consumer_group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    Member,
    MemberState,
)
from .consumer_requests import check_request, is_full, is_leaving, owned_by
from .reconciliation import is_part_of
from .topic_facts import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..runtime.ports import Now, Record, Surroundings
    from .assignors.model import Partitions
    from .group import Group


class ConsumerGroups:
    """Makes, changes and drops the groups of the new protocol in `groups`, which holds those of both."""

    def __init__(self, groups: dict[str, Group], around: Surroundings) -> None:
        self._groups = groups
        self._around = around
        self._topics = TopicFacts()
        self._topics_changed_at = around.image.offset  # metadata offset: topics came or went
        self._reported: dict[tuple[str, str], Partitions] = {}  # soft: what members last said they own
        self._checked: dict[str, tuple[int, int]] = {}  # soft: group -> image and epoch whose topics agree

    # --- requests ---------------------------------------------------------------------------------------

    def consumer_group_heartbeat(self, body: ConsumerGroupHeartbeatRequest, token: Any, now: Now) -> Outcome:
        """Join, go on, or leave. Errors: KafkaErrors; nothing was changed then."""
        check_request(body, self._assignor_names)
        self._topics.look_at(self._around.image)
        if is_leaving(body):
            return self._leave(body, token, now)
        draft = self._draft_for(body)
        member_id, known_epoch = body.member_id, body.member_epoch
        owned = owned_by(body)
        before = self._member_for(draft, body, owned)
        self._update_member(draft, before, body, now)
        draft.assign(self._assignor_names)
        draft.reconcile(member_id, owned, known_epoch)
        after = draft.group.members[member_id]
        if owned is not None:
            self._reported[body.group_id, member_id] = owned
        self._set_timers(body.group_id, after, now)
        has_all_told = self._reported.get((body.group_id, member_id)) == after.assigned
        is_told = is_full(body) or known_epoch != after.epoch or not has_all_told
        outcome = Outcome(draft.records)
        outcome.answer(
            token,
            ConsumerGroupHeartbeatResponse(
                0,
                member_id,
                after.epoch,
                self._around.config.now.group_consumer_heartbeat_interval_ms,
                _in_message(after.assigned) if is_told else None,
            ),
        )
        return outcome

    def consumer_group_describe(self, body: ConsumerGroupDescribeRequest, token: Any, now: Now) -> Outcome:
        """What the asked groups are and what their members have."""
        self._topics.look_at(self._around.image)
        outcome = Outcome()
        names = self._assignor_names
        outcome.answer(token, describe_groups(body, self._groups, self._topics, names))
        return outcome

    # --- joining and going on ---------------------------------------------------------------------------

    def _draft_for(self, body: ConsumerGroupHeartbeatRequest) -> ConsumerDraft:
        """The group, new if a member joins one that is not there. Errors: GroupIdNotFoundError."""
        group = self._groups.get(body.group_id)
        if isinstance(group, ConsumerGroup):
            return ConsumerDraft(group, self._topics)
        if body.member_epoch == JOIN_EPOCH and (group is None or group.is_empty):
            records = [] if group is None else group.tombstones()
            return ConsumerDraft(ConsumerGroup(body.group_id), self._topics, records)
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
            raise UnreleasedInstanceIdError(f"{body.instance_id!r} is member {found.member_id!r}")
        draft.replace(found, body.member_id)
        return draft.group.members[body.member_id]

    def _check_size(self, group: ConsumerGroup) -> None:
        limit = self._around.config.now.group_consumer_max_size
        if group.member_count >= limit:
            raise GroupMaxSizeReachedError(f"group {group.group_id!r} has {limit} members already")

    def _update_member(
        self, draft: ConsumerDraft, before: Member | None, body: ConsumerGroupHeartbeatRequest, now: Now
    ) -> None:
        """What the member says of itself, and what follows for the group's epoch."""
        told = _told(before, body)
        has_changed = draft.tell(body.member_id, told)
        old_regex, new_regex = "" if before is None else before.regex, told.subscribed_topic_regex or ""
        if old_regex != new_regex:
            draft.forget_regex(old_regex)
            if new_regex not in draft.group.regexes and new_regex:
                draft.resolve_regexes([new_regex], self._around.image.offset, now.wall_ms)
            has_changed = True
        has_changed |= self._refresh_regexes(draft, now)
        if has_changed or draft.group.epoch == 0:
            draft.bump()
        else:
            self._look_for_changed_topics(draft)
        if before is None or before.epoch == STATIC_LEAVE_EPOCH:
            joined = draft.group.members[body.member_id]
            draft.move(Member(body.member_id, told, state=joined.state, assigned=joined.assigned))

    def _look_for_changed_topics(self, draft: ConsumerDraft) -> None:
        """Once per image and epoch: it takes a look at every topic that the group reads."""
        group = draft.group
        seen = (self._around.image.offset, group.epoch)
        if self._checked.get(group.group_id) != seen and not draft.bump_if_topics_changed():
            self._checked[group.group_id] = seen

    def _refresh_regexes(self, draft: ConsumerDraft, now: Now) -> bool:
        expressions = draft.regexes_to_refresh(self._topics_changed_at, now.wall_ms)
        try:
            return draft.resolve_regexes(expressions, self._around.image.offset, now.wall_ms)
        except InvalidRegularExpressionError:
            return False  # too long to match by now: it stays what it was

    # --- leaving ----------------------------------------------------------------------------------------

    def _leave(self, body: ConsumerGroupHeartbeatRequest, token: Any, now: Now) -> Outcome:
        group = self._groups.get(body.group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"there is no consumer group {body.group_id!r}")
        if body.instance_id is None:
            member = group.member(body.member_id)
        else:
            member = _own_static_member(group.static_member(body.instance_id), body)
        draft = ConsumerDraft(group, self._topics)
        if body.member_epoch == STATIC_LEAVE_EPOCH:
            draft.move(left_for_now(member, STATIC_LEAVE_EPOCH))
            self._set_timers(body.group_id, draft.group.members[member.member_id], now)
        else:
            draft.remove([member.member_id])
            self._forget(body.group_id, member.member_id)
        outcome = Outcome(draft.records)
        outcome.answer(token, ConsumerGroupHeartbeatResponse(0, body.member_id, body.member_epoch))
        return outcome

    # --- timers -----------------------------------------------------------------------------------------

    def _set_timers(self, group_id: str, member: Member, now: Now) -> None:
        """The session begins anew; the time to give back runs from when it was told to."""
        timers, member_id = self._around.timers, member.member_id
        session_ms = self._around.config.now.group_consumer_session_timeout_ms
        timers.set(
            ("session", group_id, member_id),
            now.ms + session_ms,
            lambda then: self._on_session_over(group_id, member_id, then),
        )
        key = ("rebalance", group_id, member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.cancel(key)
        elif timers.deadline_of(key) is None:
            timers.set(
                key,
                now.ms + member.told.rebalance_timeout_ms,
                lambda then: self._on_rebalance_over(group_id, member_id, then),
            )

    def _forget(self, group_id: str, member_id: str) -> None:
        self._reported.pop((group_id, member_id), None)
        self._around.timers.cancel(("session", group_id, member_id))
        self._around.timers.cancel(("rebalance", group_id, member_id))

    def _on_session_over(self, group_id: str, member_id: str, now: Now) -> Outcome:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return Outcome()
        return self._take_out(group, member_id)

    def _on_rebalance_over(self, group_id: str, member_id: str, now: Now) -> Outcome:
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or member.state is not MemberState.UNREVOKED_PARTITIONS:
            return Outcome()
        assert isinstance(group, ConsumerGroup)
        return self._take_out(group, member_id)

    def _take_out(self, group: ConsumerGroup, member_id: str) -> Outcome:
        self._topics.look_at(self._around.image)
        draft = ConsumerDraft(group, self._topics)
        draft.remove([member_id])
        self._forget(group.group_id, member_id)
        return Outcome(draft.records)

    # --- records and events -----------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply one of the seven kinds of records of this protocol."""
        group = self._groups.get(record.key.group)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self._groups[record.key.group] = ConsumerGroup(record.key.group)
        group.apply(record)
        if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
            del self._groups[group.group_id]
            self._checked.pop(group.group_id, None)

    def on_loaded(self, now: Now) -> Outcome:
        """Every member gets a fresh session, and those that are to give back the full time for it."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self._set_timers(group.group_id, member, now)
        return Outcome()

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> Outcome:
        """Groups look at their topics with the next heartbeat of any member."""
        if delta is None or delta.topics_created or delta.topics_removed:
            self._topics_changed_at = image.offset
        return Outcome()

    @property
    def _assignor_names(self) -> Sequence[str]:
        names = self._around.config.now.group_consumer_assignors
        return [name for name in names if name in ASSIGNORS] or list(ASSIGNORS)


def _own_static_member(found: Member | None, body: ConsumerGroupHeartbeatRequest) -> Member:
    """Errors: UnknownMemberIdError, FencedInstanceIdError."""
    if found is None:
        raise UnknownMemberIdError(f"nobody has the instance id {body.instance_id!r}")
    if found.member_id != body.member_id:
        raise FencedInstanceIdError(f"{body.instance_id!r} is member {found.member_id!r} now")
    return found


def _check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """The member's epoch, or the one before as long as it does not claim what it has not.

    Errors: FencedMemberEpochError.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and (owned is None or is_part_of(owned, member.assigned)):
        return
    raise FencedMemberEpochError(
        f"member {member.member_id!r} is at epoch {member.epoch}, not {epoch}: it must give up all and join"
    )


def _told(before: Member | None, body: ConsumerGroupHeartbeatRequest) -> ConsumerGroupMemberMetadataValue:
    """What the member says of itself with this heartbeat; what it leaves out stays."""
    old = Member("").told if before is None else before.told
    names, regex = body.subscribed_topic_names, body.subscribed_topic_regex
    return ConsumerGroupMemberMetadataValue(
        old.instance_id if body.instance_id is None else body.instance_id,
        old.rack_id if body.rack_id is None else body.rack_id,
        body.client_id,
        body.client_host,
        old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        old.subscribed_topic_regex if regex is None else regex,
        old.rebalance_timeout_ms if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        old.server_assignor if body.server_assignor is None else body.server_assignor,
    )


def _in_message(partitions: Partitions) -> tuple[TopicIdPartitions, ...]:
    return tuple(TopicIdPartitions(topic, each) for topic, each in sorted(partitions.items()))
