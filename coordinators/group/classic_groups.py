"""All classic groups of a shard: their requests, their records, and what becomes of them on a load. Pure.

What is hard is the last complete generation of each group (GroupMetadata); all else is soft, and stands in
the group's own fields. Source: Kafka GroupMetadataManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import UnknownMemberIdError
from ...protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup, group_from_record
from .classic_states import ClassicState
from .joining import Joining
from .leaving import Leaving
from .member_ids import MemberIds
from .rebalances import Rebalances
from .syncing import Syncing

if TYPE_CHECKING:
    from ...protocol.messages.groups import (
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
    )
    from ..runtime.ports import Now, Record, Surroundings, Token
    from .facts import GroupFacts
    from .group import Group
    from .group_state_counts import GroupStateCounts


class ClassicGroups:
    """The classic groups among `groups`."""

    def __init__(
        self,
        groups: dict[str, Group],
        around: Surroundings,
        partition: int,
        facts: GroupFacts,
        state_counts: GroupStateCounts,
    ) -> None:
        self.rebalances = Rebalances(groups, around, state_counts)
        self._groups = groups
        self._around = around
        self._facts = facts
        self.ids = MemberIds(partition, around)
        self._joining = Joining(groups, around, self.rebalances, self.ids)
        self._syncing = Syncing(self.rebalances)
        self._leaving = Leaving(self.rebalances)
        self._is_loaded = False

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """JoinGroup; it makes the group if there is none, or an empty one of the new protocol."""
        return self._joining.join(body, token, now)

    def sync(self, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        """SyncGroup."""
        return self._syncing.sync(self._group(body.group_id), body, token, now)

    def heartbeat(self, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Heartbeat."""
        return self._leaving.heartbeat(self._group(body.group_id), body, token, now)

    def leave(self, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        """LeaveGroup."""
        return self._leaving.leave(self._group(body.group_id), body, token, now)

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberIdError(f"there is no group {group_id}")
        return group

    def has_committed(self, group: ClassicGroup, member_id: str, now: Now) -> None:
        """A member that commits lives."""
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self.rebalances.begin_session(group, member, now)

    # --- the log -----------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """A generation is written; or the group is gone, or is one of the new protocol from now on."""
        key, value = record
        assert isinstance(key, GroupMetadataKey)
        group = self._groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                group.become(ClassicState.DEAD, group.state_since_ms)
                del self._groups[key.group]
            return
        assert isinstance(value, GroupMetadataValue)
        founded = self._joining.founded(key.group)
        if founded is not None:
            self._groups[key.group] = founded
        elif isinstance(group, ClassicGroup) and self._is_loaded:
            self._facts.completed_rebalances += group.apply(value)
        else:
            self._groups[key.group] = group_from_record(key.group, value)

    def on_loaded(self, now: Now) -> Outcome:
        """Every member gets a fresh session. If the limit was lowered meanwhile, who is too many finds out
        when all join again."""
        self._is_loaded = True
        outcome = Outcome()
        limit = self._around.config.now.group_max_size
        for group in list(self._groups.values()):
            if isinstance(group, ClassicGroup):
                self._begin_sessions(group, now)
                if group.member_count > limit or group.has_no_leader:
                    self.rebalances.prepare(group, now, outcome)
        return outcome

    def adopt(self, group_id: str, now: Now) -> None:
        """The outcome that is being decided makes this a classic group, with members that are in another one
        now. Once it is applied, they get a session and are to join again."""
        self._around.timers.set(("adopt", group_id), now.ms, lambda then: self._adopted(group_id, then))

    def _adopted(self, group_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty:
            self._begin_sessions(group, now)
            self.rebalances.prepare_or_complete(group, now, outcome)
        return outcome

    def _begin_sessions(self, group: ClassicGroup, now: Now) -> None:
        for member in group.members.values():
            self.rebalances.begin_session(group, member, now)

    def close(self) -> list[Token]:
        """All whose JoinGroup or SyncGroup waits."""
        groups = [group for group in self._groups.values() if isinstance(group, ClassicGroup)]
        return [token for group in groups for member in group.members.values() for token in member.waiting]
