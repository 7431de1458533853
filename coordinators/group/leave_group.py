"""Heartbeat and LeaveGroup of the classic protocol. Pure.

Source: Kafka GroupMetadataManager.java; KIP-345.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, RebalanceInProgressError, UnknownMemberIdError
from ...protocol.messages.groups import HeartbeatResponse, LeaveGroupResponse, LeavingMember, LeftMember
from ..runtime.ports import Outcome
from .classic_states import ClassicState

if TYPE_CHECKING:
    from ...protocol.messages.groups import HeartbeatRequest, LeaveGroupRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Token
    from .classic_group import ClassicGroup
    from .rebalances import Rebalances


class LeaveGroupHandler:
    """Heartbeats and departures of members of classic groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def heartbeat(self, group: ClassicGroup, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Renew the session; REBALANCE_IN_PROGRESS while the group waits for JoinGroup."""
        member = group.check_member(body.member_id, body.group_instance_id)
        group.check_generation(body.generation_id)
        self._rebalances.begin_session(group, member, now)
        outcome = Outcome()
        is_preparing = group.state is ClassicState.PREPARING_REBALANCE
        outcome.answer(token, HeartbeatResponse(RebalanceInProgressError.code if is_preparing else 0))
        return outcome

    def leave(self, group: ClassicGroup, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        """Remove the members, each with a result of its own, then rebalance once."""
        outcome = Outcome()
        left = tuple(
            LeftMember(each.member_id, each.group_instance_id, self._remove(group, each, outcome))
            for each in body.members
        )
        if any(each.error_code == 0 for each in left):
            if group.state is ClassicState.PREPARING_REBALANCE:
                self._rebalances.complete_if_all_joined(group, now, outcome)
            else:
                self._rebalances.on_member_removed(group, now, outcome)
        outcome.answer(token, LeaveGroupResponse(0, left))
        return outcome

    def _remove(self, group: ClassicGroup, leaving: LeavingMember, outcome: Outcome) -> int:
        """The error code. An admin removes a static member by instance id, without a member id."""
        member_id = leaving.member_id
        if not member_id:
            member_id = group.static_members.get(leaving.group_instance_id or "", "")
        if member_id in group.pending_joins:
            self._rebalances.end_session(group.group_id, member_id)
            group.remove(member_id)
            return 0
        if not member_id:
            return UnknownMemberIdError.code
        try:
            member = group.check_member(member_id, leaving.group_instance_id)
        except KafkaError as error:
            return error.code
        self._rebalances.remove(group, member, outcome)
        return 0
