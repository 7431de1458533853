"""A classic group: its members, what they have in common, and what may be asked of it now. Pure data.

Who waits, timers and answers are rebalances.py's. Source: Kafka ClassicGroup.java.

Invariant: `static_members` are exactly the members with an instance id; the leader is a member; in state
Empty there are no members, in CompletingRebalance and Stable there are some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from ...protocol.errors import (
    IllegalGenerationError,
    InvalidRequestError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ...protocol.messages.groups import GroupProtocol, JoinedMember
from ...protocol.model import NO_TIMESTAMP
from ...protocol.records.group_records import GroupMetadataKey, GroupMetadataValue
from ..runtime.ports import Record
from .classic_member import ClassicMember
from .classic_states import CLASSIC_TRANSITIONS, ClassicState
from .group import GroupType, fenced_instance

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_GENERATION = 2**31 - 1  # it is four bytes in the record


class ClassicGroup:
    """One group of the classic protocol. Fulfils Group.

    A group without protocol type is a simple one: somebody has committed offsets without any membership.
    """

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, state_since_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_since_ms = state_since_ms  # wall time; NO_TIMESTAMP: nobody knows
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None  # the assignor of this generation
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # member id by instance id
        self.pending_joins: set[str] = set()  # ids that were given away, not joined yet; never iterated
        self.pending_syncs: dict[str, None] = {}  # members that have not synced in this generation, in order
        self.member_was_added = False  # while the first rebalance waits for more
        self.has_no_leader = False  # it comes from the new protocol: nobody has assigned this generation
        self._topics: frozenset[str] | None = None  # that its members read; None: that cannot be told

    # --- the face of all groups --------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return self.state.value

    @property
    def member_count(self) -> int:
        """Members, without those that are to join yet."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """No members."""
        return self.state is ClassicState.EMPTY

    @property
    def reads_topics(self) -> bool:
        """Its members are consumers."""
        return self.protocol_type == PROTOCOL_TYPE

    def has_member(self, member_id: str) -> bool:
        """Is this id a member now?"""
        return member_id in self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member read it? Of consumers whose subscriptions cannot be read, yes."""
        return self.reads_topics if self._topics is None else topic in self._topics

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member. Errors: UnknownMemberIdError; FencedInstanceIdError if another one has its place."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise UnknownMemberIdError(f"{self.group_id} has no member {group_instance_id}")
            if holder != member_id:
                raise fenced_instance(group_instance_id, holder)
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"{self.group_id} has no member {member_id}")
        return member

    def check_generation(self, generation: int) -> None:
        """Errors: IllegalGenerationError if it is not the group's."""
        if generation != self.generation:
            raise IllegalGenerationError(f"the generation is {self.generation}, not {generation}")

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id_or_member_epoch: int,
        *,
        is_transactional: bool,
    ) -> None:
        """May this commit be taken? Who claims no membership may commit to an empty group; in a transaction
        to any group, as old producers name none."""
        claims = bool(member_id) or group_instance_id is not None or generation_id_or_member_epoch >= 0
        if self.is_empty and generation_id_or_member_epoch < 0:
            return
        if claims:
            self.check_member(member_id, group_instance_id)
            self.check_generation(generation_id_or_member_epoch)
        elif not is_transactional:
            raise UnknownMemberIdError(f"{self.group_id} has members: only they commit")
        if self.state is ClassicState.COMPLETING_REBALANCE and not is_transactional:
            raise RebalanceInProgressError(f"{self.group_id} has no assignments yet")

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anyone may read offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Of consumers it is known what they read; any other group must be empty."""
        if not self.is_empty and not self.reads_topics:
            raise NonEmptyGroupError(f"{self.group_id} has members, and what they read is not known")

    def check_group_delete(self) -> None:
        """It must be empty."""
        if not self.is_empty:
            raise NonEmptyGroupError(f"{self.group_id} has {len(self.members)} members")

    def tombstones(self) -> list[Record]:
        """One; it is also how the shard itself forgets a group that no record tells of."""
        return [Record(GroupMetadataKey(self.group_id), None)]

    def offsets_expire_since(self, commit_ms: int) -> int | None:
        """Of a simple group the commit counts; else the time since which it is empty. While it rebalances
        nothing expires: what its members will read is not known."""
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.state_since_ms == NO_TIMESTAMP else self.state_since_ms
        reads_known_topics = self.reads_topics and self._topics is not None
        return commit_ms if reads_known_topics and self.state is ClassicState.STABLE else None

    # --- members -----------------------------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joining_count(self) -> int:
        """Members whose JoinGroup waits."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Nobody is missing, also of those that were given an id."""
        return not self.pending_joins and self.joining_count == len(self.members)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """One more member; the first one says what the group is for, and leads."""
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
        """It is no member, and not about to become one; if it led, the one that is here longest does."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.pop(member_id, None)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """The static member goes on under another id, in all its roles."""
        assert member.group_instance_id is not None
        old, member.member_id = member.member_id, member_id
        self.members = {each.member_id: each for each in self.members.values()}  # its turn stays the same
        self.static_members[member.group_instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.pending_syncs:
            self.pending_syncs = {member_id if each == old else each: None for each in self.pending_syncs}

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Is there an assignor among these that all members have?"""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(each.name in common for each in protocols)

    def vote(self) -> str:
        """The assignor that most members like best, of those that all have."""
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
        """If the leader has not joined again, the first one that did leads. False: nobody has joined."""
        joined = [member for member in self.members.values() if member.joining is not None]
        if joined and self.leader not in {member.member_id for member in joined}:
            self.leader = joined[0].member_id
        return bool(joined)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader gets to see."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    # --- states and generations --------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        """May it begin to prepare a rebalance?"""
        return ClassicState.PREPARING_REBALANCE in CLASSIC_TRANSITIONS[self.state]

    def become(self, state: ClassicState, wall_ms: int) -> None:
        """Go to another state."""
        assert state in CLASSIC_TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = wall_ms

    def next_generation(self, wall_ms: int) -> None:
        """All that will be in it have joined; without members it is an empty one. The numbers start again
        at 1 after the largest."""
        self.generation = self.generation + 1 if self.generation < MAX_GENERATION else 1
        self.protocol = self.vote() if self.members else None
        self.pending_syncs = {}
        self.note_topics()
        self.become(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, wall_ms)

    def note_topics(self) -> None:
        """Read from the members' metadata which topics they read, if they are consumers."""
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
        """The generation as the log remembers it, with the members' assignments by member id."""
        members = tuple(
            member.as_record(self.protocol, assignments.get(member.member_id, b""))
            for member in self.members.values()
        )
        value = GroupMetadataValue(
            self.protocol_type, self.generation, self.protocol, self.leader, self.state_since_ms, members
        )
        return Record(GroupMetadataKey(self.group_id), value)

    def apply(self, value: GroupMetadataValue) -> bool:
        """What it has just written is in the log: if that are the assignments that its members wait for, they
        count from now on. True if this has ended a rebalance."""
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
    """The group as it was when the record was written; nobody waits."""
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
