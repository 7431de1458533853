"""Members of groups of the new protocol, for those parts that hear of them: sessions, and how one is taken
out.

Sessions and what members last said they own are soft. Pure.
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
from .migration import can_downgrade, downgrade
from .rebalances import answer_join_error, answer_sync_error
from .reconciliation import is_part_of
from .topic_facts import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.errors import KafkaError
    from ...storage_node.configs.group_config import GroupTimes
    from ..runtime.ports import Now, Record, Surroundings
    from .assignors.model import Partitions
    from .consumer_member import Member
    from .group import Group

# Members may ask for next to no time: the group would try to take them out, and again at once, while that
# cannot be written.
MIN_REVOCATION_MS = 1_000


class ConsumerMembers:
    """What all parts of the new protocol share."""

    def __init__(
        self, groups: dict[str, Group], around: Surroundings, adopt: Callable[[str, Now], None]
    ) -> None:
        self.groups = groups
        self._adopt = adopt
        self.around = around
        self.reported: dict[tuple[str, str], Partitions] = {}  # soft, of members: see `report`
        self._topics = TopicFacts()

    @property
    def topics(self) -> TopicFacts:
        """As the image is now."""
        self._topics.look_at(self.around.image)
        return self._topics

    @property
    def assignor_names(self) -> Sequence[str]:
        """Those that are allowed, the first where members name none."""
        names = self.around.config.now.group_consumer_assignors
        return [name for name in names if name in ASSIGNORS] or list(ASSIGNORS)

    def group(self, group_id: str) -> ConsumerGroup:
        """Errors: GroupIdNotFoundError."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"there is no consumer group {group_id!r}")
        return group

    def draft(self, group: ConsumerGroup, records: list[Record] | None = None) -> ConsumerDraft:
        """Begin to decide."""
        return ConsumerDraft(group, self.topics, records)

    def classic_member(self, group_id: str, member_id: str) -> Member | None:
        """A member of a group of the new protocol that speaks the classic one."""
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        return None if member is None or member.classic is None else member

    def report(self, group_id: str, member: Member, owned: Partitions) -> None:
        """The member says what it owns. Bound: kept as far as it has that."""
        if owned and is_part_of(owned, member):
            self.reported[group_id, member.member_id] = owned
        else:
            self.reported.pop((group_id, member.member_id), None)

    def times_of(self, group_id: str) -> GroupTimes:
        """What its members that speak the new protocol keep to."""
        return times_of_group(self.around.image, group_id, self.around.config.now)

    # --- sessions ---------------------------------------------------------------------------------------

    def begin_session(self, group_id: str, member: Member, now: Now) -> None:
        """The member was heard. Classic members have the session that they asked for, and no other timer
        here: they give back between their requests (classic_consumers.py)."""
        member_id, classic = member.member_id, member.classic
        session_ms = self.times_of(group_id).session_timeout_ms
        self.around.timers.set(
            ("session", group_id, member_id),
            now.ms + (session_ms if classic is None else classic.session_timeout_ms),
            lambda then: self._session_over(group_id, member_id, then),
        )
        if classic is None:
            self._expect_revocation(group_id, member, now)

    def _expect_revocation(self, group_id: str, member: Member, now: Now) -> None:
        """The time to give back runs from when there was more to give back."""
        key = ("rebalance", group_id, member.member_id)
        timers = self.around.timers
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.cancel(key)
            return
        group = self.groups.get(group_id)
        before = group.members.get(member.member_id) if isinstance(group, ConsumerGroup) else None
        if timers.deadline_of(key) is None or before is None or before.pending != member.pending:
            timers.set(
                key,
                now.ms + max(member.told.rebalance_timeout_ms, MIN_REVOCATION_MS),
                lambda then: self._revocation_over(group_id, member.member_id, then),
            )

    def _session_over(self, group_id: str, member_id: str, now: Now) -> Outcome:
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return Outcome()
        return self.take_out(group, [member_id], now)

    def _revocation_over(self, group_id: str, member_id: str, now: Now) -> Outcome:
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or member.state is not MemberState.UNREVOKED_PARTITIONS:
            return Outcome()
        assert isinstance(group, ConsumerGroup)
        return self.take_out(group, [member_id], now)

    def take_out(self, group: ConsumerGroup, member_ids: Sequence[str], now: Now) -> Outcome:
        """They are members no more; if all others speak the classic protocol, the group is a classic one
        then. If that cannot be written, they have another session."""
        if can_downgrade(group, member_ids, self.around.config.now):
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
        """Records that make it a classic group; the classic part takes over once they are applied."""
        self._adopt(group.group_id, now)
        return downgrade(group, leaving, self.topics, now.wall_ms)

    def end_classic_waits(self, group: ConsumerGroup, outcome: Outcome, now: Now) -> None:
        """If the group was a classic one before this outcome: requests that wait there are to come again, to
        the group as it is then; if the outcome cannot be written, its members are to join the classic one
        again."""
        before = self.groups.get(group.group_id)
        if not isinstance(before, ClassicGroup):
            return
        again = RebalanceInProgressError(f"{group.group_id} changes to the new protocol: join again")
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
        """Nobody waits for it any more."""
        self.around.timers.cancel(("session", group_id, member_id))
        self.around.timers.cancel(("rebalance", group_id, member_id))
