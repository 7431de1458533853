"""The classic groups of a shard: requests, records and sessions after a load. Pure.

Hard state is the last complete generation of each group (GroupMetadata); everything else is soft and kept in
the fields of the group. Source: Kafka GroupMetadataManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import UnknownMemberIdError
from ...protocol.messages.groups import LeaveGroupResponse, LeftMember
from ...protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup, group_from_record
from .classic_states import ClassicState
from .join_group import JoinGroupHandler
from .leave_group import LeaveGroupHandler
from .member_ids import MemberIds
from .rebalances import Rebalances
from .sync_group import SyncGroupHandler

if TYPE_CHECKING:
    from ...protocol.messages.groups import (
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
    )
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Record, ShardContext, Token
    from .group import Group
    from .group_counters import GroupCounters
    from .group_state_counts import GroupStateCounts


class ClassicGroups:
    """Dispatches requests and records to the classic groups among `groups`."""

    def __init__(
        self,
        groups: dict[str, Group],
        context: ShardContext,
        partition: int,
        counters: GroupCounters,
        state_counts: GroupStateCounts,
    ) -> None:
        self.rebalances = Rebalances(groups, context, state_counts)
        self._groups = groups
        self._context = context
        self._counters = counters
        self.ids = MemberIds(partition, context)
        self._joining = JoinGroupHandler(groups, context, self.rebalances, self.ids)
        self._syncing = SyncGroupHandler(self.rebalances)
        self._leaving = LeaveGroupHandler(self.rebalances)
        self._is_loaded = False

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """JoinGroup; creates the group, or replaces an empty consumer-protocol group."""
        return self._joining.join(body, token, now)

    def sync(self, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        return self._syncing.sync(self._group(body.group_id), body, token, now)

    def heartbeat(self, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        return self._leaving.heartbeat(self._group(body.group_id), body, token, now)

    def leave(self, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        """LeaveGroup. Of a group that does not exist each member fails alone, as in Kafka."""
        group = self._groups.get(body.group_id)
        if isinstance(group, ClassicGroup):
            return self._leaving.leave(group, body, token, now)
        outcome, code = Outcome(), UnknownMemberIdError.code
        gone = (LeftMember(each.member_id, each.group_instance_id, code) for each in body.members)
        outcome.answer(token, LeaveGroupResponse(0, tuple(gone)))
        return outcome

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberIdError(f"group {group_id!r} does not exist")
        return group

    def on_commit(self, group: ClassicGroup, member_id: str, now: Now) -> None:
        """A commit renews the member's session."""
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self.rebalances.begin_session(group, member, now)

    # --- the log -----------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a GroupMetadata record, or drop a classic group that was deleted or upgraded."""
        key, value = record
        assert isinstance(key, GroupMetadataKey)
        group = self._groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                group.become(ClassicState.DEAD, group.state_since_ms)
                del self._groups[key.group]
            return
        assert isinstance(value, GroupMetadataValue)
        take_new_group = self._joining.take_new_group(key.group)
        if take_new_group is not None:
            self._groups[key.group] = take_new_group
        elif isinstance(group, ClassicGroup) and self._is_loaded:
            self._counters.completed_rebalances += group.apply(value)
        else:
            self._groups[key.group] = group_from_record(key.group, value)

    def on_loaded(self, now: Now) -> Outcome:
        """Start a new session for every member. If group.max.size was lowered, surplus members are rejected
        when all rejoin."""
        self._is_loaded = True
        outcome = Outcome()
        limit = self._context.config.now.group_max_size
        for group in list(self._groups.values()):
            if isinstance(group, ClassicGroup):
                self._begin_sessions(group, now)
                if group.member_count > limit or group.has_no_leader:
                    self.rebalances.prepare(group, now, outcome)
        return outcome

    def adopt(self, group_id: str, now: Now) -> None:
        """Register a group that the current outcome downgrades to the classic protocol. Once the outcome is
        applied, its members get sessions and have to rejoin."""
        self._context.timers.set(("adopt", group_id), now.ms, lambda then: self._adopted(group_id, then))

    def _adopted(self, group_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty:
            self._begin_sessions(group, now)
            self.rebalances.prepare_or_complete_rebalance(group, now, outcome)
        return outcome

    def _begin_sessions(self, group: ClassicGroup, now: Now) -> None:
        for member in group.members.values():
            self.rebalances.begin_session(group, member, now)

    def close(self) -> list[Token]:
        """All waiting JoinGroup and SyncGroup requests."""
        groups = [group for group in self._groups.values() if isinstance(group, ClassicGroup)]
        return [token for group in groups for member in group.members.values() for token in member.waiting]
