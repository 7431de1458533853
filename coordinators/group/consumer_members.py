"""Sessions and removal of consumer-protocol members, shared by heartbeats, classic members and timers. Pure.

Sessions and the members' last reported partitions are soft state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import GroupIdNotFoundError, RebalanceInProgressError
from ...storage_node.configs.group_config import times_of_group
from ..runtime.ports import Outcome
from .assignors import ASSIGNORS
from .classic_group import ClassicGroup
from .consumer_draft import ConsumerDraft
from .consumer_group import ConsumerGroup
from .consumer_member import MemberState
from .member_timers import MemberTimers
from .migration import can_downgrade, downgrade
from .rebalances import answer_join_error, answer_sync_error
from .reconciliation import is_part_of
from .topic_index import TopicIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.errors import KafkaError
    from ...storage_node.configs.group_config import GroupTimes
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Record, ShardContext
    from .assignors.model import Partitions
    from .consumer_member import Member
    from .group import Group


class ConsumerMembers:
    """Member state and timers that all parts of the consumer protocol share."""

    def __init__(
        self, groups: dict[str, Group], context: ShardContext, adopt: Callable[[str, Now], None]
    ) -> None:
        self.groups = groups
        self._adopt = adopt
        self.context = context
        self.reported: dict[tuple[str, str], Partitions] = {}  # soft: see `report`
        self._topics = TopicIndex()
        self._timers = MemberTimers(context.timers, self._on_expired)

    @property
    def topics(self) -> TopicIndex:
        """The topics of the current image."""
        self._topics.look_at(self.context.image)
        return self._topics

    @property
    def assignor_names(self) -> Sequence[str]:
        """Allowed assignors; the first one is the default."""
        names = self.context.config.now.group_consumer_assignors
        return [name for name in names if name in ASSIGNORS] or list(ASSIGNORS)

    def group(self, group_id: str) -> ConsumerGroup:
        """Errors: GroupIdNotFoundError."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"there is no consumer group {group_id!r}")
        return group

    def draft(self, group: ConsumerGroup, records: list[Record] | None = None) -> ConsumerDraft:
        """Start a decision on `group`."""
        return ConsumerDraft(group, self.topics, records)

    def classic_member(self, group_id: str, member_id: str) -> Member | None:
        """The member if it uses the classic protocol in a consumer-protocol group."""
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        return None if member is None or member.classic is None else member

    def report(self, group_id: str, member: Member, owned: Partitions) -> None:
        """Keep the partitions that the member says it owns. Bound: only those that are its own."""
        if owned and is_part_of(owned, member):
            self.reported[group_id, member.member_id] = owned
        else:
            self.reported.pop((group_id, member.member_id), None)

    def times_of(self, group_id: str) -> GroupTimes:
        """Heartbeat interval and session timeout of members that use the consumer protocol."""
        return times_of_group(self.context.image, group_id, self.context.config.now)

    # --- assignments ------------------------------------------------------------------------------------

    def assign(self, draft: ConsumerDraft, now: Now) -> None:
        """Compute the assignment of the group epoch, unless the interval since the last one has not passed:
        then it is computed when it has, without waiting for a heartbeat. Source: KIP-1263."""
        if not draft.needs_assignment:
            return
        left_ms = self._assignment_delay_ms(draft.group, now)
        if left_ms <= 0:
            draft.assign(self.assignor_names, now.wall_ms)
            return
        group_id = draft.group.group_id
        key = ("next assignment", group_id)
        if self.context.timers.deadline_of(key) is None:
            self.context.timers.set(key, now.ms + left_ms, lambda then: self._assign(group_id, then))

    def due_epoch(self, group: ConsumerGroup, now: Now) -> int:
        """The epoch to which a classic member can reconcile now: that of the group, or while the interval
        delays the next assignment that of the last one."""
        return group.assignment_epoch if self._assignment_delay_ms(group, now) > 0 else group.epoch

    def _assignment_delay_ms(self, group: ConsumerGroup, now: Now) -> int:
        """How long the interval since the last assignment lasts; not positive: it has passed."""
        age_ms = now.wall_ms - group.assignment_ms
        if age_ms < 0:  # the wall clock was set back
            return 0
        return self.times_of(group.group_id).assignment_interval_ms - age_ms

    def _assign(self, group_id: str, now: Now) -> Outcome:
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or group.is_empty:
            return Outcome()
        draft = self.draft(group)
        self.assign(draft, now)
        return Outcome(draft.decided())

    # --- sessions ---------------------------------------------------------------------------------------

    def begin_session(self, group_id: str, member: Member, now: Now) -> None:
        """Renew the member's session. Classic members have the session timeout that they asked for and no
        revocation timer: they revoke between requests (classic_consumers.py)."""
        member_id, classic = member.member_id, member.classic
        session_ms = self.times_of(group_id).session_timeout_ms
        self._timers.begin_session(
            group_id, member_id, session_ms if classic is None else classic.session_timeout_ms, now
        )
        if classic is None:
            group = self.groups.get(group_id)
            before = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            self._timers.expect_revocation(
                group_id,
                member_id,
                member.metadata.rebalance_timeout_ms,
                now,
                is_due=member.state is MemberState.UNREVOKED_PARTITIONS,
                has_changed=before is None or before.pending != member.pending,
            )

    def _on_expired(self, group_id: str, member_id: str, now: Now, missed_revocation: bool) -> Outcome:
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or (missed_revocation and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return Outcome()
        assert isinstance(group, ConsumerGroup)
        return self.take_out(group, [member_id], now)

    def take_out(self, group: ConsumerGroup, member_ids: Sequence[str], now: Now) -> Outcome:
        """Remove members; if all remaining ones use the classic protocol, downgrade the group. If the append
        fails, the members get another session."""
        if can_downgrade(group, member_ids, self.context.config.now):
            records = self.downgrade(group, member_ids, now)
        else:
            draft = self.draft(group)
            draft.remove(member_ids)
            records = draft.decided()
        members = [group.members[member_id] for member_id in member_ids]
        for member in members:
            self.forget(group.group_id, member.member_id)

        def failed(error: KafkaError, then: Now) -> Outcome:
            del error
            for member in members:
                self.begin_session(group.group_id, member, then)
            return Outcome()

        return Outcome(records, on_failed=failed)

    def downgrade(self, group: ConsumerGroup, leaving: Sequence[str], now: Now) -> list[Record]:
        """Records that downgrade it to a classic group; the classic part adopts it once they are applied."""
        self._adopt(group.group_id, now)
        return downgrade(group, leaving, self.topics, now.wall_ms)

    def end_classic_waits(self, group: ConsumerGroup, outcome: Outcome, now: Now) -> None:
        """If this outcome upgrades a classic group: its waiting JoinGroup and SyncGroup requests are answered
        REBALANCE_IN_PROGRESS; if the append fails, the members have to rejoin the classic group."""
        before = self.groups.get(group.group_id)
        if not isinstance(before, ClassicGroup):
            return
        again = RebalanceInProgressError(
            f"group {group.group_id!r} is upgraded to the consumer protocol: rejoin"
        )
        for member in before.members.values():
            answer_join_error(member, again, outcome)
            answer_sync_error(member, again, outcome)
        for each in group.members.values():
            self.begin_session(group.group_id, each, now)

        def failed(error: KafkaError, then: Now) -> Outcome:
            del error
            self._adopt(group.group_id, then)
            return Outcome()

        outcome.on_failed = failed

    def forget(self, group_id: str, member_id: str) -> None:
        """Drop the member's timers and reported partitions."""
        self._timers.forget(group_id, member_id)
