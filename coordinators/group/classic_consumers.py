"""Members of a consumer-protocol group that still use the classic protocol (online migration). Pure.

Their member epoch is their generation. JoinGroup acts as a full heartbeat: it takes the member's next
reconciliation step and is answered at once with the member's epoch; SyncGroup returns the assignment.
Heartbeats return REBALANCE_IN_PROGRESS when there is a next step; while the assignment interval delays the
next assignment there is none, and JoinGroup and SyncGroup return the last one. A member that does not join
or sync within its rebalance timeout is removed. There is no group leader: the coordinator assigns.
Source: Kafka GroupMetadataManager.java classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from ...protocol.errors import (
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ...protocol.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeftMember,
    SyncGroupResponse,
)
from ...protocol.records.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ..runtime.ports import Outcome
from .consumer_member import MemberState
from .group import fenced_instance
from .join_group import check_join
from .migration import assignment_bytes, can_downgrade, partitions_by_id

if TYPE_CHECKING:
    from ...protocol.consumer_protocol import Subscription
    from ...protocol.messages.groups import (
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        LeavingMember,
        SyncGroupRequest,
    )
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Token
    from .consumer_draft import ConsumerDraft
    from .consumer_group import ConsumerGroup
    from .consumer_heartbeats import ConsumerHeartbeats
    from .consumer_member import Member
    from .consumer_members import ConsumerMembers
    from .member_ids import MemberIds


class _MemberRef(NamedTuple):
    """Member id and instance id of a request."""

    member_id: str
    instance_id: str | None


class ClassicConsumers:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup for consumer-protocol groups that have members."""

    def __init__(self, members: ConsumerMembers, heartbeats: ConsumerHeartbeats, ids: MemberIds) -> None:
        self._members = members
        self._context = members.context
        self._heartbeats = heartbeats
        self._ids = ids

    # --- joining ----------------------------------------------------------------------------------------

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """Add the member, or take its next reconciliation step."""
        group = self._members.group(body.group_id)
        check_join(body, token, self._context.config.now)
        if not _supports(group, body):
            raise InconsistentGroupProtocolError(
                f"group {body.group_id!r} and the member have no assignor in common"
            )
        member_id = body.member_id or self._ids.new(
            body.group_instance_id or body.client_id or token.client_id, now
        )
        outcome = Outcome()
        if not body.member_id and body.group_instance_id is None and body.requires_member_id:
            again = MemberIdRequiredError.code
            outcome.answer(token, JoinGroupResponse(again, member_id=member_id))
            return outcome
        subscription = decode_subscription(body.protocols[0].metadata)
        draft = self._members.draft(group)
        before = self._member_for(draft, body, member_id)
        metadata = _member_metadata(body, token, subscription)
        self._heartbeats.update_member(draft, before, member_id, metadata, now)
        owned = partitions_by_id(subscription.owned, self._members.topics)
        self._members.assign(draft, now)
        draft.reconcile(member_id, owned, draft.group.members[member_id].epoch)
        after = draft.group.members[member_id]
        outcome = Outcome(draft.decided())
        if can_downgrade(draft.group, (), self._context.config.now):
            outcome.records += self._members.downgrade(draft.group, (), now)
        outcome.answer(
            token,
            JoinGroupResponse(0, after.epoch, PROTOCOL_TYPE, body.protocols[0].name, "", member_id),
        )
        self._members.begin_session(body.group_id, after, now)
        self._context.timers.cancel(("classic_join", body.group_id, member_id))
        self._expect("classic_sync", body.group_id, after, now)
        return outcome

    def _member_for(self, draft: ConsumerDraft, body: JoinGroupRequest, member_id: str) -> Member | None:
        """The current state of the member; None if it is new. A static member without a member id replaces
        the one with its instance id: the classic protocol has no message for a temporary leave."""
        group = draft.group
        if body.group_instance_id is None:
            found = group.members.get(member_id)
        else:
            found = group.static_member(body.group_instance_id)
            if body.member_id:
                return _own(found, _MemberRef(body.member_id, body.group_instance_id))
            if found is not None:
                draft.replace(found, member_id)
                return draft.group.members[member_id]
        limit = self._context.config.now.group_consumer_max_size
        if found is None and group.member_count >= limit:
            raise GroupMaxSizeReachedError(f"group {group.group_id!r} has {limit} members already")
        return found

    # --- sync, heartbeat, leave -----------------------------------------------------------------------------

    def sync(self, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        """The member's assignment, without waiting."""
        group = self._members.group(body.group_id)
        member = _classic(group, _MemberRef(body.member_id, body.group_instance_id))
        _check_generation(member, body.generation_id)
        assert member.classic is not None
        name, _ = member.classic.supported_protocols[0]
        if body.protocol_type not in (None, PROTOCOL_TYPE) or body.protocol_name not in (None, name):
            raise InconsistentGroupProtocolError(
                f"member {member.member_id!r} uses protocol type {PROTOCOL_TYPE!r} with assignor {name!r}"
            )
        is_behind = member.epoch < self._members.due_epoch(group, now)
        if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_if_not_yet(body.group_id, member, now)
            raise RebalanceInProgressError(f"group {body.group_id!r} is rebalancing: rejoin")
        self._context.timers.cancel(("classic_sync", body.group_id, member.member_id))
        self._members.begin_session(body.group_id, member, now)
        outcome = Outcome()
        assignment = assignment_bytes(member, self._members.topics)
        outcome.answer(token, SyncGroupResponse(0, PROTOCOL_TYPE, name, assignment))
        return outcome

    def heartbeat(self, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Renew the session; REBALANCE_IN_PROGRESS if the member has a reconciliation step to take."""
        group = self._members.group(body.group_id)
        member = _classic(group, _MemberRef(body.member_id, body.group_instance_id))
        _check_generation(member, body.generation_id)
        self._members.begin_session(body.group_id, member, now)
        outcome = Outcome()
        if _has_next_step(group, member, self._members.due_epoch(group, now)):
            self._expect_if_not_yet(body.group_id, member, now)
            outcome.answer(token, HeartbeatResponse(RebalanceInProgressError.code))
        else:
            outcome.answer(token, HeartbeatResponse(0))
        return outcome

    def leave(self, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        """Remove members, each with a result of its own; admins may remove static members of either
        protocol."""
        group = self._members.group(body.group_id)
        left: dict[str, None] = {}
        answers = []
        for each in body.members:
            code = 0
            try:
                left[_leaving(group, each).member_id] = None
            except KafkaError as error:
                code = error.code
            answers.append(LeftMember(each.member_id, each.group_instance_id, code))
        outcome = self._members.take_out(group, list(left), now) if left else Outcome()
        outcome.answer(token, LeaveGroupResponse(0, tuple(answers)))
        return outcome

    # --- timers -----------------------------------------------------------------------------------------

    def _expect_if_not_yet(self, group_id: str, member: Member, now: Now) -> None:
        """The member was asked to rejoin: the timeout runs from the first such response."""
        if self._context.timers.deadline_of(("classic_join", group_id, member.member_id)) is None:
            self._expect("classic_join", group_id, member, now)

    def _expect(self, kind: str, group_id: str, member: Member, now: Now) -> None:
        member_id, epoch = member.member_id, member.epoch

        def over(then: Now) -> Outcome:
            found = self._members.classic_member(group_id, member_id)
            if found is None or found.epoch != epoch:
                return Outcome()
            return self._members.take_out(self._members.group(group_id), [member_id], then)

        self._context.timers.set(
            (kind, group_id, member_id), now.ms + member.metadata.rebalance_timeout_ms, over
        )


def _own(found: Member | None, ref: _MemberRef) -> Member:
    if found is None:
        raise UnknownMemberIdError(f"the group has no member {ref.instance_id or ref.member_id!r}")
    if found.member_id != ref.member_id:
        raise fenced_instance(ref.instance_id, found.member_id)
    return found


def _classic(group: ConsumerGroup, ref: _MemberRef) -> Member:
    """Errors: UnknownMemberIdError, FencedInstanceIdError."""
    is_static = ref.instance_id is not None
    found = group.static_member(ref.instance_id) if is_static else group.members.get(ref.member_id)
    member = _own(found, ref)
    if member.classic is None:
        raise UnknownMemberIdError(f"member {ref.member_id!r} uses the consumer protocol")
    return member


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> Member:
    instance_id = leaving.group_instance_id
    if leaving.member_id:
        return _classic(group, _MemberRef(leaving.member_id, instance_id))
    found = group.static_member(instance_id)
    if found is None:
        raise UnknownMemberIdError(f"the group has no member with group.instance.id {instance_id!r}")
    return found


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise IllegalGenerationError(
            f"member {member.member_id!r} is at generation {member.epoch}, the request says {generation}"
        )


def _has_next_step(group: ConsumerGroup, member: Member, due_epoch: int) -> bool:
    if member.epoch < due_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    target = group.targets.get(member.member_id, {})
    held = (group.owner_of(topic, each) for topic, partitions in target.items() for each in partitions)
    return all(owner in (None, member.member_id) for owner in held)


def _supports(group: ConsumerGroup, body: JoinGroupRequest) -> bool:
    """Whether the member supports an assignor that all classic members support."""
    if body.protocol_type != PROTOCOL_TYPE or not body.protocols:
        return False
    names = {each.name for each in body.protocols}
    others = [member.classic for member in group.members.values() if member.classic is not None]
    for other in others:
        names.intersection_update(name for name, _ in other.supported_protocols)
    return bool(names)


def _member_metadata(
    body: JoinGroupRequest, token: Token, subscription: Subscription
) -> ConsumerGroupMemberMetadataValue:
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in body.protocols)
    return ConsumerGroupMemberMetadataValue(
        body.group_instance_id,
        subscription.rack_id,
        body.client_id or token.client_id,
        body.client_host or token.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        body.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(body.session_timeout_ms, protocols),
    )
