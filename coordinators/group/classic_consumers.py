"""Members of a group of the new protocol that still speak the classic one (online migration). Pure.

Their epoch is their generation. JoinGroup is a heartbeat that tells everything: it moves the member one step,
and is answered at once with the member's epoch; SyncGroup tells the assignment. Heartbeats tell them to join
again when there is a next step. Who does not, or does not sync, within its rebalance timeout, is taken out.
Nobody leads: the coordinator assigns. Source: Kafka GroupMetadataManager.java
classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup.
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
from .joining import check_join
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
    from ..runtime.ports import Now, Token
    from .consumer_draft import ConsumerDraft
    from .consumer_group import ConsumerGroup
    from .consumer_heartbeats import ConsumerHeartbeats
    from .consumer_member import Member
    from .consumer_members import ConsumerMembers
    from .member_ids import MemberIds


class _Who(NamedTuple):
    """What every request says of its member."""

    member_id: str
    instance_id: str | None


class ClassicConsumers:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup to groups of the new protocol that have members."""

    def __init__(self, members: ConsumerMembers, heartbeats: ConsumerHeartbeats, ids: MemberIds) -> None:
        self._members = members
        self._around = members.around
        self._heartbeats = heartbeats
        self._ids = ids

    # --- joining ----------------------------------------------------------------------------------------

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """Join, or take the next step."""
        group = self._members.group(body.group_id)
        check_join(body, token, self._around.config.now)
        if not _supports(group, body):
            raise InconsistentGroupProtocolError(f"{body.group_id} shares no assignor with the member")
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
        told = _told(body, token, subscription)
        self._heartbeats.update_member(draft, before, member_id, told, now)
        owned = partitions_by_id(subscription.owned, self._members.topics)
        draft.assign(self._members.assignor_names)
        draft.reconcile(member_id, owned, draft.group.members[member_id].epoch)
        after = draft.group.members[member_id]
        outcome = Outcome(draft.decided())
        if can_downgrade(draft.group, (), self._around.config.now):
            outcome.records += self._members.downgrade(draft.group, (), now)
        outcome.answer(
            token,
            JoinGroupResponse(0, after.epoch, PROTOCOL_TYPE, body.protocols[0].name, "", member_id),
        )
        self._members.begin_session(body.group_id, after, now)
        self._around.timers.cancel(("classic_join", body.group_id, member_id))
        self._expect("classic_sync", body.group_id, after, now)
        return outcome

    def _member_for(self, draft: ConsumerDraft, body: JoinGroupRequest, member_id: str) -> Member | None:
        """The member as it is; None: it is new. A static member without a member id takes over whoever has
        its instance id: in the classic protocol nobody says that it has left."""
        group = draft.group
        if body.group_instance_id is None:
            found = group.members.get(member_id)
        else:
            found = group.static_member(body.group_instance_id)
            if body.member_id:
                return _own(found, _Who(body.member_id, body.group_instance_id))
            if found is not None:
                draft.replace(found, member_id)
                return draft.group.members[member_id]
        limit = self._around.config.now.group_consumer_max_size
        if found is None and group.member_count >= limit:
            raise GroupMaxSizeReachedError(f"group {group.group_id!r} has {limit} members already")
        return found

    # --- going on ---------------------------------------------------------------------------------------

    def sync(self, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        """The member's assignment, at once."""
        group = self._members.group(body.group_id)
        member = _classic(group, _Who(body.member_id, body.group_instance_id))
        _check_generation(member, body.generation_id)
        assert member.classic is not None
        name, _ = member.classic.supported_protocols[0]
        if body.protocol_type not in (None, PROTOCOL_TYPE) or body.protocol_name not in (None, name):
            raise InconsistentGroupProtocolError(f"the member's protocol is {PROTOCOL_TYPE} with {name}")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_if_not_yet(body.group_id, member, now)
            raise RebalanceInProgressError(f"{body.group_id} rebalances: join again")
        self._around.timers.cancel(("classic_sync", body.group_id, member.member_id))
        self._members.begin_session(body.group_id, member, now)
        outcome = Outcome()
        assignment = assignment_bytes(member, self._members.topics)
        outcome.answer(token, SyncGroupResponse(0, PROTOCOL_TYPE, name, assignment))
        return outcome

    def heartbeat(self, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        """The member lives, and is told to join again if it has a next step to take."""
        group = self._members.group(body.group_id)
        member = _classic(group, _Who(body.member_id, body.group_instance_id))
        _check_generation(member, body.generation_id)
        self._members.begin_session(body.group_id, member, now)
        outcome = Outcome()
        if _has_next_step(group, member):
            self._expect_if_not_yet(body.group_id, member, now)
            outcome.answer(token, HeartbeatResponse(RebalanceInProgressError.code))
        else:
            outcome.answer(token, HeartbeatResponse(0))
        return outcome

    def leave(self, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        """Members go, each for itself; admins take out static members of either protocol."""
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
        """It is told to join again: the time runs from the first time on."""
        if self._around.timers.deadline_of(("classic_join", group_id, member.member_id)) is None:
            self._expect("classic_join", group_id, member, now)

    def _expect(self, kind: str, group_id: str, member: Member, now: Now) -> None:
        member_id, epoch = member.member_id, member.epoch

        def over(then: Now) -> Outcome:
            found = self._members.classic_member(group_id, member_id)
            if found is None or found.epoch != epoch:
                return Outcome()
            return self._members.take_out(self._members.group(group_id), [member_id], then)

        self._around.timers.set((kind, group_id, member_id), now.ms + member.told.rebalance_timeout_ms, over)


def _own(found: Member | None, who: _Who) -> Member:
    if found is None:
        raise UnknownMemberIdError(f"there is no member {who.instance_id or who.member_id!r}")
    if found.member_id != who.member_id:
        raise fenced_instance(who.instance_id, found.member_id)
    return found


def _classic(group: ConsumerGroup, who: _Who) -> Member:
    """Errors: UnknownMemberIdError, FencedInstanceIdError."""
    is_static = who.instance_id is not None
    found = group.static_member(who.instance_id) if is_static else group.members.get(who.member_id)
    member = _own(found, who)
    if member.classic is None:
        raise UnknownMemberIdError(f"{who.member_id!r} does not speak the classic protocol")
    return member


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> Member:
    instance_id = leaving.group_instance_id
    if leaving.member_id:
        return _classic(group, _Who(leaving.member_id, instance_id))
    found = group.static_member(instance_id)
    if found is None:
        raise UnknownMemberIdError(f"nobody has the instance id {instance_id!r}")
    return found


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise IllegalGenerationError(f"{member.member_id!r} is at {member.epoch}, not {generation}")


def _has_next_step(group: ConsumerGroup, member: Member) -> bool:
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    target = group.targets.get(member.member_id, {})
    held = (group.owner_of(topic, each) for topic, partitions in target.items() for each in partitions)
    return all(owner in (None, member.member_id) for owner in held)


def _supports(group: ConsumerGroup, body: JoinGroupRequest) -> bool:
    """Has the member an assignor that all classic members have?"""
    if body.protocol_type != PROTOCOL_TYPE or not body.protocols:
        return False
    names = {each.name for each in body.protocols}
    others = [member.classic for member in group.members.values() if member.classic is not None]
    for other in others:
        names.intersection_update(name for name, _ in other.supported_protocols)
    return bool(names)


def _told(
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
