"""The decision on one request to a consumer-protocol group. Source: Kafka GroupMetadataManager.java,
TargetAssignmentBuilder.java."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRegularExpressionError
from ...runtime.regex import compile_regex
from .assignors import ASSIGNORS
from .assignors.model import MemberSpec
from .consumer_group import GROUP_TRANSITIONS
from .consumer_member import MEMBER_TRANSITIONS, Member, MemberState
from .modern_draft import ModernDraft
from .reconciliation import next_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...protocol.records.group_records import (
        ConsumerGroupMemberMetadataValue,
        ConsumerGroupRegularExpressionValue,
    )
    from ..runtime.ports import Record
    from .assignors.model import Partitions
    from .consumer_group import ConsumerGroup
    from .topic_index import TopicIndex

REGEX_REFRESH_MIN_INTERVAL_MS = 10_000  # Source: Kafka REGEX_BATCH_REFRESH_MIN_INTERVAL_MS


class ConsumerDraft(ModernDraft["ConsumerGroup", Member]):
    """A draft of a consumer-protocol group."""

    def __init__(self, group: ConsumerGroup, topics: TopicIndex, records: list[Record] | None = None) -> None:
        super().__init__(group, GROUP_TRANSITIONS, MEMBER_TRANSITIONS, records)
        self._topics = topics

    # --- members ----------------------------------------------------------------------------------------

    def write_member_metadata(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> bool:
        """Write the member's metadata if it changed. True: its subscription by topic names changed."""
        before = self.group.members.get(member_id)
        if before is not None and before.metadata == metadata:
            return False
        self.write(self.group.member_metadata_record(member_id, metadata))
        return before is None or before.topics != metadata.subscribed_topic_names

    def replace(self, before: Member, member_id: str) -> None:
        """A static member rejoined under a new member id."""
        after = Member(member_id, before.metadata, state=before.state, assigned=before.assigned)
        self._rejoin(before, after)

    def remove(self, member_ids: Iterable[str]) -> None:
        """Remove members and start the next group epoch."""
        for member_id in member_ids:
            self.forget(member_id)
        for expression in sorted(self.group.regexes):
            if not self.group.readers_by(expression):
                self.write(self.group.regex_record(expression, None))
        self.bump()
        if self.group.is_empty:
            self.write(self.group.target_epoch_record(self.group.epoch))

    # --- the group --------------------------------------------------------------------------------------

    def bump(self) -> None:
        """Start the next group epoch, for which a new target assignment is needed."""
        group = self.group
        self.write(group.group_metadata_record(group.epoch + 1, self._topics.hash_of(group.all_topics())))

    def bump_if_topics_changed(self) -> bool:
        """Start the next group epoch if the metadata hash of the subscribed topics has changed; True if it
        did."""
        if self._topics.hash_of(self.group.all_topics()) == self.group.metadata_hash:
            return False
        self.bump()
        return True

    def resolve_regex(
        self, expression: str, may_describe: Callable[[str], bool], version: int, wall_ms: int
    ) -> None:
        """Match a new expression against the topics that the member may describe. Errors:
        InvalidRegularExpressionError."""
        matched = compile_regex(expression).resolve(self._topics.names, version, wall_ms)
        self._write_regex(expression, matched, may_describe)

    def refresh_regex(
        self, expression: str, may_describe: Callable[[str], bool], version: int, wall_ms: int
    ) -> bool:
        """Match a known expression again. True: its topics changed."""
        before = self.group.regexes[expression]
        try:
            matched = compile_regex(expression).resolve(self._topics.names, version, wall_ms)
        except InvalidRegularExpressionError:  # too expensive to match by now: keep the last result
            matched = before._replace(version=version, timestamp_ms=wall_ms)
        self._write_regex(expression, matched, may_describe)
        return before.topics != self.group.regexes[expression].topics

    def _write_regex(
        self,
        expression: str,
        matched: ConsumerGroupRegularExpressionValue,
        may_describe: Callable[[str], bool],
    ) -> None:
        seen = matched._replace(topics=tuple(filter(may_describe, matched.topics)))
        self.write(self.group.regex_record(expression, seen))

    def forget_regex(self, expression: str) -> None:
        """Delete the expression if no member subscribes by it any more."""
        if expression in self.group.regexes and not self.group.readers_by(expression):
            self.write(self.group.regex_record(expression, None))

    def is_regex_due(self, expression: str, changed_at: int, interval_ms: int, wall_ms: int) -> bool:
        """Whether a known expression has to be matched again: it was resolved before topics were last created
        or deleted (metadata offset `changed_at`), or `interval_ms` ago; not within
        REGEX_REFRESH_MIN_INTERVAL_MS."""
        value = self.group.regexes.get(expression)
        if value is None:
            return False
        age_ms = wall_ms - value.timestamp_ms
        if age_ms < 0:  # the wall clock was set back
            return True
        least_ms = REGEX_REFRESH_MIN_INTERVAL_MS if value.version < changed_at else interval_ms
        return age_ms >= least_ms

    # --- assignments ------------------------------------------------------------------------------------

    @property
    def needs_assignment(self) -> bool:
        """Whether the target assignment is older than the group epoch."""
        return self.group.epoch > self.group.assignment_epoch

    def assign(self, assignor_names: Sequence[str], wall_ms: int) -> None:
        """Compute the target assignment of the group epoch unless it exists; write changed targets only."""
        group = self.group
        if not self.needs_assignment:
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
        # As in Kafka, the first assignment of partitions does not wait after one of nothing.
        self.write(group.target_epoch_record(group.epoch, wall_ms if counts else 0))

    def assignor_name(self, assignor_names: Sequence[str]) -> str:
        """The allowed assignor that most members name; without any vote the first allowed one."""
        votes = Counter(member.metadata.server_assignor for member in self.group.members.values())
        return max(assignor_names, key=lambda name: votes[name])  # a tie takes the first

    def reconcile(self, member_id: str, owned: Partitions | None, known_epoch: int) -> None:
        """The member's next reconciliation step. `known_epoch`: the epoch that the member's request proved
        that it knows.

        Errors: FencedMemberEpochError.
        """
        group, member = self.group, self.group.members[member_id]
        if self.is_settled(member):
            return
        target = group.targets.get(member_id, {})
        readable = self._topics.ids_of(group.topics_of(member))
        after = next_step(member, group.assignment_epoch, target, readable, group.owner_of, owned)
        if after != member:
            self.write_assignment(replace(after, previous_epoch=min(known_epoch, after.epoch)))

    def is_settled(self, member: Member) -> bool:
        """Whether it has its target and subscribes to all its topics."""
        if not member.is_reconciled_to(self.group.assignment_epoch):
            return False
        topics = self.group.topics_of(member)
        return all(self._topics.name_of(topic) in topics for topic in member.assigned)


def temporarily_left(member: Member, epoch: int) -> Member:
    """A static member that left temporarily (epoch -2): it keeps its partitions and revokes none until it
    rejoins."""
    return Member(member.member_id, member.metadata, epoch, epoch, MemberState.STABLE, member.assigned)
