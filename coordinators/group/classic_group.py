"""A classic group: members, protocol, generation, and the checks of requests against them. Pure data.

rebalances.py has the timers, the waiting requests and the responses. Source: Kafka ClassicGroup.java.

Invariant: `static_members` are exactly the members with an instance id; the leader is a member; in state
Empty there are no members, in CompletingRebalance and Stable there are some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ...protocol.errors import (
    IllegalGenerationError,
    InvalidRequestError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ...protocol.messages.groups import GroupProtocol, JoinedMember
from ...protocol.model import NO_TIMESTAMP, TopicPartition
from ...protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from ..runtime.ports import Record
from .classic_member import ClassicMember
from .classic_states import CLASSIC_TRANSITIONS, ClassicState
from .group import GroupType, fenced_instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.metadata.image import TopicImage
    from .group import Place

MAX_GENERATION = 2**31 - 1  # the record stores it in four bytes


class ClassicGroup:
    """One group of the classic protocol. Implements Group.

    A group without protocol type is a simple one: offsets were committed without membership.
    """

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, state_since_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_since_ms = state_since_ms  # wall time; NO_TIMESTAMP: unknown
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None  # the assignor of this generation
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # member id by instance id
        # member ids that were handed out and have not joined yet; never iterated
        self.pending_joins: set[str] = set()
        # members that have not sent SyncGroup in this generation, ordered
        self.pending_syncs: dict[str, None] = {}
        self.member_was_added = False  # during the initial rebalance delay
        # downgraded from the consumer protocol: no leader has assigned this generation, and members that lag
        # still use an older one
        self.has_no_leader = False
        self._topics: frozenset[str] | None = None  # subscribed topics of all members; None: unknown

    # --- Group ----------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        """Excludes member ids that have not joined yet."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def reads_topics(self) -> bool:
        """Whether the members are consumers."""
        return self.protocol_type == PROTOCOL_TYPE

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; True if a consumer's subscription cannot be decoded."""
        return self.reads_topics if self._topics is None else topic in self._topics

    def has_unassigned_partitions(self, topics: Mapping[str, TopicImage]) -> bool:
        """Whether a partition of the subscribed topics is assigned to no member; False if the assignments or
        the subscriptions cannot be decoded."""
        assigned: set[TopicPartition] = set()
        try:
            for member in self.members.values():
                assigned.update(decode_assignment(member.assignment).partitions)
        except InvalidRequestError:
            return False
        return any(
            TopicPartition(name, index) not in assigned
            for name in self._topics or ()
            if name in topics
            for index in range(len(topics[name].partitions))
        )

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member with this id. Errors: UnknownMemberIdError; FencedInstanceIdError if another member has
        its instance id."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise UnknownMemberIdError(
                    f"group {self.group_id!r} has no member with group.instance.id {group_instance_id!r}"
                )
            if holder != member_id:
                raise fenced_instance(group_instance_id, holder)
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"group {self.group_id!r} has no member {member_id!r}")
        return member

    def check_generation(self, generation: int) -> None:
        """Check the generation of a member's request.

        In a consumer-protocol group each member has an epoch of its own, and one that lags behind the group
        epoch owns its partitions until it rejoins. A downgrade takes the group epoch as generation, so until
        all members have rejoined an older generation is valid, too: in Kafka the member gets
        ILLEGAL_GENERATION and loses its partitions. Errors: IllegalGenerationError.
        """
        is_lagging = self.has_no_leader and 0 <= generation < self.generation
        if generation != self.generation and not is_lagging:
            raise IllegalGenerationError(
                f"group {self.group_id!r} is at generation {self.generation}, the request says {generation}"
            )

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Commits without membership are allowed to an empty group and, inside a transaction, to any group:
        older producers send no member id."""
        claims = bool(member_id) or group_instance_id is not None or generation_id_or_member_epoch >= 0
        if self.is_empty and generation_id_or_member_epoch < 0:
            return
        if claims:
            self.check_member(member_id, group_instance_id)
            self.check_generation(generation_id_or_member_epoch)
        elif not is_transactional:
            raise UnknownMemberIdError(f"group {self.group_id!r} has members: only members may commit")
        if self.state is ClassicState.COMPLETING_REBALANCE and not is_transactional:
            raise RebalanceInProgressError(
                f"group {self.group_id!r} is rebalancing: commit after the assignment"
            )

    def has_had_since(self, member_id: str, epoch: int, places: Iterable[Place]) -> bool:
        """False: generations have no such rule."""
        del member_id, epoch, places
        return False

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """The group must be empty, unless its members are consumers, whose subscriptions are known."""
        if not self.is_empty and not self.reads_topics:
            raise NonEmptyGroupError(
                f"group {self.group_id!r} has members of protocol type {self.protocol_type!r}, whose"
                " subscriptions are unknown"
            )

    def check_group_delete(self) -> None:
        """Errors: NonEmptyGroupError."""
        if not self.is_empty:
            raise NonEmptyGroupError(f"group {self.group_id!r} has {len(self.members)} members")

    def tombstones(self) -> list[Record]:
        """One tombstone; the shard also drops a group without a record by replaying it."""
        return [Record(GroupMetadataKey(self.group_id), None)]

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """The commit time for a simple group, else the time since which the group is empty. None during a
        rebalance: the next subscriptions are unknown."""
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.state_since_ms == NO_TIMESTAMP else self.state_since_ms
        reads_known_topics = self.reads_topics and self._topics is not None
        return commit_ms if reads_known_topics and self.state is ClassicState.STABLE else None

    # --- members -----------------------------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joining_count(self) -> int:
        """Members with a waiting JoinGroup."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """All members have joined, and all member ids that were handed out."""
        return not self.pending_joins and self.joining_count == len(self.members)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and becomes leader."""
        assert member.group_instance_id not in self.static_members
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id; if it led, the longest-standing member becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.pop(member_id, None)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Replace the static member's id in all its roles."""
        assert member.group_instance_id is not None
        old, member.member_id = member.member_id, member_id
        self.members = {each.member_id: each for each in self.members.values()}  # its position stays the same
        self.static_members[member.group_instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.pending_syncs:
            self.pending_syncs = {member_id if each == old else each: None for each in self.pending_syncs}

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether the members have one of these assignors in common."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(each.name in common for each in protocols)

    def vote(self) -> str:
        """The assignor with the most votes among those that all members support."""
        common = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _common_protocols(self) -> frozenset[str]:
        names = [{each.name for each in member.protocols} for member in self.members.values()]
        return frozenset(set.intersection(*names)) if names else frozenset()

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else take the first member that has. False: no member has
        joined."""
        joined = [member for member in self.members.values() if member.joining is not None]
        if joined and self.leader not in {member.member_id for member in joined}:
            self.leader = joined[0].member_id
        return bool(joined)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Members with their subscriptions, for the leader's JoinGroup response."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    # --- states and generations --------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        return ClassicState.PREPARING_REBALANCE in CLASSIC_TRANSITIONS[self.state]

    def become(self, state: ClassicState, wall_ms: int) -> None:
        assert state in CLASSIC_TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = wall_ms

    def next_generation(self, wall_ms: int) -> None:
        """Start the next generation; without members it is an empty one. Generations wrap to 1 after the
        largest."""
        self.generation = self.generation + 1 if self.generation < MAX_GENERATION else 1
        self.protocol = self.vote() if self.members else None
        self.has_no_leader = False
        self.pending_syncs = {}
        self.note_topics()
        self.become(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, wall_ms)

    def note_topics(self) -> None:
        """Cache the subscribed topics from the members' metadata, if the members are consumers."""
        self._topics = None
        if not self.reads_topics or (self.members and self.protocol is None):
            return
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(decode_subscription(member.metadata(self.protocol)).topics)
            except InvalidRequestError:
                return
        self._topics = frozenset(topics)

    # --- the log -----------------------------------------------------------------------------------------

    def as_record(self, assignments: Mapping[str, bytes]) -> Record:
        """The GroupMetadata record of this generation; `assignments` by member id."""
        members = tuple(
            member.as_record(self.protocol, assignments.get(member.member_id, b""))
            for member in self.members.values()
        )
        value = GroupMetadataValue(
            self.protocol_type, self.generation, self.protocol, self.leader, self.state_since_ms, members
        )
        return Record(GroupMetadataKey(self.group_id), value)

    def apply(self, value: GroupMetadataValue) -> bool:
        """Apply the group's own record after its append. If it holds the assignments of the current rebalance
        they take effect; True if this completed the rebalance."""
        if value.generation != self.generation or not value.members:
            return False
        for saved in value.members:
            if saved.member_id in self.members:
                self.members[saved.member_id].assignment = saved.assignment
        self.note_topics()
        if self.state is not ClassicState.COMPLETING_REBALANCE:
            return False
        self.become(ClassicState.STABLE, value.current_state_ms)
        return True


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as the record describes it, without waiting requests."""
    group = ClassicGroup(group_id, value.current_state_ms)
    group.protocol_type, group.generation = value.protocol_type, value.generation
    group.protocol = value.protocol
    for saved in value.members:
        rebalance_ms = saved.rebalance_timeout_ms
        member = ClassicMember(
            saved.member_id,
            saved.group_instance_id,
            saved.client_id,
            saved.client_host,
            saved.session_timeout_ms if rebalance_ms == -1 else rebalance_ms,
            saved.session_timeout_ms,
            (GroupProtocol(value.protocol or "", saved.subscription),),
            saved.assignment,
        )
        group.add(member, value.protocol_type)
    if group.members:
        group.state = group.previous_state = ClassicState.STABLE
        if value.leader in group.members:
            group.leader = value.leader
        group.has_no_leader = value.leader is None
    group.note_topics()
    return group
