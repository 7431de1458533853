"""A decision about a group of the new protocol while it is made: its records, and the group as they make it.

Each record is applied to a copy at once, so that the next part of the same decision sees what the ones before
did; the group itself changes when the records are replayed. Without records nothing is copied.
Source: Kafka GroupMetadataManager.java, TargetAssignmentBuilder.java.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRegularExpressionError
from ...runtime.regex import MAX_WORK, compile_regex
from .assignors import ASSIGNORS
from .assignors.model import MemberSpec
from .consumer_group import GROUP_TRANSITIONS
from .consumer_member import MEMBER_TRANSITIONS, Member, MemberState
from .reconciliation import next_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.group_records import ConsumerGroupMemberMetadataValue
    from ..runtime.ports import Record
    from .assignors.model import Partitions
    from .consumer_group import ConsumerGroup
    from .topic_facts import TopicFacts

REGEX_REFRESH_MIN_INTERVAL_MS = 10_000  # Source: Kafka REGEX_BATCH_REFRESH_MIN_INTERVAL_MS


class ConsumerDraft:
    """One decision. `group` is the group as the records so far make it."""

    def __init__(self, group: ConsumerGroup, topics: TopicFacts, records: list[Record] | None = None) -> None:
        self.group = group
        self.records: list[Record] = records or []
        self._topics = topics
        self._before = group
        self._is_copy = False

    def write(self, record: Record) -> None:
        """One more record."""
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.records.append(record)
        self.group.apply(record)

    def decided(self) -> list[Record]:
        """The records, once the decision is whole; by them the group takes a step of GROUP_TRANSITIONS."""
        before, after = self._before.state, self.group.state
        assert after is before or after in GROUP_TRANSITIONS[before], f"{after} does not follow {before}"
        return self.records

    # --- members ----------------------------------------------------------------------------------------

    def tell(self, member_id: str, told: ConsumerGroupMemberMetadataValue) -> bool:
        """The member said this of itself. True: it reads other topics now, as far as they are named."""
        before = self.group.members.get(member_id)
        if before is not None and before.told == told:
            return False
        self.write(self.group.told_record(member_id, told))
        return before is None or before.topics != told.subscribed_topic_names

    def move(self, after: Member) -> None:
        """The member is there now."""
        before = self.group.members[after.member_id]
        assert after.state is before.state or after.state in MEMBER_TRANSITIONS[before.state]
        if before != after:
            self.write(self.group.current_record(after.member_id, after))

    def replace(self, before: Member, member_id: str) -> None:
        """A static member is back under another member id: it takes over what its predecessor had."""
        group = self.group
        target = group.targets.get(before.member_id)
        self._forget(before.member_id)
        self.write(group.told_record(member_id, before.told))
        if target is not None:
            self.write(group.target_record(member_id, target))
        self.write(
            group.current_record(
                member_id, Member(member_id, before.told, state=before.state, assigned=before.assigned)
            )
        )

    def remove(self, member_ids: Iterable[str]) -> None:
        """Members are gone; the group moves on."""
        for member_id in member_ids:
            self._forget(member_id)
        for expression in sorted(self.group.regexes):
            if not self.group.readers_by(expression):
                self.write(self.group.regex_record(expression, None))
        self.bump()
        if self.group.is_empty:
            self.write(self.group.target_epoch_record(self.group.epoch))

    def _forget(self, member_id: str) -> None:
        group = self.group
        self.write(group.current_record(member_id, None))
        self.write(group.target_record(member_id, None))
        self.write(group.told_record(member_id, None))

    # --- the group --------------------------------------------------------------------------------------

    def bump(self) -> None:
        """The next group epoch: there is need of a new target."""
        group = self.group
        self.write(group.metadata_record(group.epoch + 1, self._topics.hash_of(group.all_topics())))

    def bump_if_topics_changed(self) -> bool:
        """Topics that the group reads are not what they were when its epoch was last moved."""
        if self._topics.hash_of(self.group.all_topics()) == self.group.metadata_hash:
            return False
        self.bump()
        return True

    def resolve_regex(self, expression: str, version: int, wall_ms: int) -> None:
        """Match a new one against all topics. Errors: InvalidRegularExpressionError."""
        matched = compile_regex(expression).resolve(self._topics.names, version, wall_ms)
        self.write(self.group.regex_record(expression, matched))

    def refresh_regexes(self, changed_at: int, version: int, wall_ms: int) -> bool:
        """Match again those that were resolved before topics came or went (the last time at the metadata
        offset `changed_at`), as far as there is time in one step. True: what the group reads has changed."""
        has_changed, work = False, 0
        for expression in self._regexes_to_refresh(changed_at, wall_ms):
            if work >= MAX_WORK:
                break  # the next heartbeat goes on
            before = self.group.regexes[expression]
            try:
                regex = compile_regex(expression)
                matched = regex.resolve(self._topics.names, version, wall_ms)
                work += regex.work
            except InvalidRegularExpressionError:  # too long to match by now: it stays what it was
                matched = before._replace(version=version, timestamp_ms=wall_ms)
                work += MAX_WORK
            has_changed |= before.topics != matched.topics
            self.write(self.group.regex_record(expression, matched))
        return has_changed

    def forget_regex(self, expression: str) -> None:
        """If nobody reads by it any more."""
        if expression in self.group.regexes and not self.group.readers_by(expression):
            self.write(self.group.regex_record(expression, None))

    def _regexes_to_refresh(self, changed_at: int, wall_ms: int) -> list[str]:
        """Not those that were resolved a short while ago."""
        return sorted(
            expression
            for expression, value in self.group.regexes.items()
            if value.version < changed_at
            # a negative age: the wall clock was turned back
            and not 0 <= wall_ms - value.timestamp_ms < REGEX_REFRESH_MIN_INTERVAL_MS
        )

    # --- assignments ------------------------------------------------------------------------------------

    def assign(self, assignor_names: Sequence[str]) -> None:
        """A target for the group's epoch, if it has none. Only what differs is written."""
        group = self.group
        if group.epoch <= group.assignment_epoch:
            return
        ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in group.members.items():
            what = (member.topics, member.regex)
            if what not in ids:
                ids[what] = self._topics.ids_of(group.topics_of(member))
            specs[member_id] = MemberSpec(ids[what], group.targets.get(member_id, {}), member.instance_id)
        counts = self._topics.partition_counts(frozenset().union(*ids.values()))
        targets = ASSIGNORS[self.assignor_name(assignor_names)](specs, counts) if specs else {}
        for member_id in sorted(specs):
            if targets[member_id] != group.targets.get(member_id):
                self.write(group.target_record(member_id, targets[member_id]))
        self.write(group.target_epoch_record(group.epoch))

    def assignor_name(self, assignor_names: Sequence[str]) -> str:
        """The one that most members name, of those that are allowed; the first if none does."""
        votes = Counter(member.told.server_assignor for member in self.group.members.values())
        return max(assignor_names, key=lambda name: votes[name])  # of equals the first

    def reconcile(self, member_id: str, owned: Partitions | None, known_epoch: int) -> None:
        """The member's next step. `known_epoch` is the epoch that it is known to have heard of.

        Errors: FencedMemberEpochError.
        """
        group, member = self.group, self.group.members[member_id]
        if self.is_settled(member):
            return
        target = group.targets.get(member_id, {})
        readable = self._topics.ids_of(group.topics_of(member))
        after = next_step(member, group.assignment_epoch, target, readable, group.owner_of, owned)
        if after != member:
            self.move(replace(after, previous_epoch=min(known_epoch, after.epoch)))

    def is_settled(self, member: Member) -> bool:
        """It has its target, and reads all that it has."""
        if not member.is_reconciled_to(self.group.assignment_epoch):
            return False
        topics = self.group.topics_of(member)
        return all(self._topics.name_of(topic) in topics for topic in member.assigned)


def left_for_now(member: Member, epoch: int) -> Member:
    """A static member that comes back: it keeps its partitions, and is not to give any back meanwhile."""
    return Member(member.member_id, member.told, epoch, epoch, MemberState.STABLE, member.assigned)
