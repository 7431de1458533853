"""Sticky assignors: balanced as well as the subscriptions allow, with as few moves as that takes. Pure.

Members keep their partitions. Each unowned partition goes to the subscribed member with the fewest. Then
partitions move along chains from members with more to members with fewer, until no member has two more than
another one that could take a partition of it. Moves along the shortest chains reach the best balance: as long
as a better one exists, there is such a chain. Source of the guarantees: Kafka AbstractStickyAssignor.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.consumer_protocol import decode_claims, encode_claims
from ...protocol.errors import InvalidRequestError
from ...protocol.model import TopicPartition
from .assignors import MemberSubscription, PlainAssignor, Topic, in_order, members_by_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.consumer_protocol import Assignment


class StickyAssignor(PlainAssignor):
    """The sticky assignor of the eager protocol.

    An eager member owns nothing when it joins, so it sends its previous partitions and their generation as
    user data.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._had: tuple[TopicPartition, ...] = ()
        self._generation_id = -1

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """The partitions of the last assignment."""
        if not self._had:
            return None
        return encode_claims(self._had, self._generation_id)

    def on_assigned(self, assignment: Assignment, generation_id: int) -> None:
        """Keep it for `user_data`."""
        self._had, self._generation_id = assignment.partitions, generation_id

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        previous = {member_id: _previous(member) for member_id, member in members.items()}
        return _Balancing(topics, members, previous).run()


class CooperativeStickyAssignor(PlainAssignor):
    """The sticky assignor of the cooperative protocol (KIP-429)."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        previous = {member_id: (member.generation_id, member.owned) for member_id, member in members.items()}
        return _Balancing(topics, members, previous).run()


def _previous(member: MemberSubscription) -> tuple[int, tuple[TopicPartition, ...]]:
    if not member.user_data:
        return -1, ()
    try:
        partitions, generation_id = decode_claims(member.user_data)
    except InvalidRequestError:
        return -1, ()  # the user data of another kind of client: the member owned nothing
    return generation_id, partitions


class _Balancing:
    def __init__(
        self,
        topics: Mapping[str, Topic],
        members: Mapping[str, MemberSubscription],
        previous: Mapping[str, tuple[int, tuple[TopicPartition, ...]]],
    ) -> None:
        self._topics, self._members, self._previous = topics, members, previous
        self._order = in_order(members)
        self._wanted = {member_id: frozenset(members[member_id].topics) for member_id in members}
        self._of_topic = members_by_topic(topics, members)
        self._shares: dict[str, dict[TopicPartition, None]] = {member_id: {} for member_id in members}
        self._had: dict[TopicPartition, str] = {}

    def run(self) -> dict[str, list[TopicPartition]]:
        """Keep owned partitions, assign the others, balance."""
        everything = [
            TopicPartition(topic, partition)
            for topic in self._of_topic
            for partition in range(self._topics[topic].partitions)
        ]
        self._keep(frozenset(everything))
        self._give([tp for tp in everything if tp not in self._had])
        self._level()
        return {member_id: sorted(assignment) for member_id, assignment in self._shares.items()}

    def _keep(self, everything: frozenset[TopicPartition]) -> None:
        """A partition stays with the one member that claims it for the newest generation."""
        claims: dict[TopicPartition, list[tuple[int, str]]] = {}
        for member_id in self._order:
            generation_id, partitions = self._previous[member_id]
            for tp in dict.fromkeys(partitions):
                if tp in everything and tp.topic in self._wanted[member_id]:
                    claims.setdefault(tp, []).append((generation_id, member_id))
        for tp, found in claims.items():
            newest = max(generation_id for generation_id, _ in found)
            holders = [member_id for generation_id, member_id in found if generation_id == newest]
            if len(holders) == 1:
                self._had[tp] = holders[0]
                self._shares[holders[0]][tp] = None

    def _give(self, free: list[TopicPartition]) -> None:
        """Assign unowned partitions, those with the fewest subscribers first, to the subscriber with the
        fewest partitions; of several to one in the rack of a replica."""
        for tp in sorted(free, key=lambda tp: (len(self._of_topic[tp.topic]), tp)):
            racks = self._topics[tp.topic].racks
            near = racks[tp.partition] if tp.partition < len(racks) else frozenset()
            able = self._of_topic[tp.topic]
            least = min(len(self._shares[member_id]) for member_id in able)
            most_free = [member_id for member_id in able if len(self._shares[member_id]) == least]
            local = [member_id for member_id in most_free if self._members[member_id].rack_id in near]
            self._shares[(local or most_free)[0]][tp] = None

    def _level(self) -> None:
        """Move partitions while a chain leads from a member to one that has at least two fewer."""
        while True:
            for member_id in sorted(self._order, key=lambda each: -len(self._shares[each])):
                chain = self._chain(member_id)
                if chain:
                    break
            else:
                return
            for source, tp, target in chain:
                del self._shares[source][tp]
                self._shares[target][tp] = None

    def _chain(self, source: str) -> list[tuple[str, TopicPartition, str]]:
        """The shortest chain of moves from `source` to a member with at least two partitions fewer, of those
        the one with the fewest; empty when there is none."""
        enough = len(self._shares[source]) - 2
        if enough < 0:
            return []
        came: dict[str, tuple[str, TopicPartition]] = {}
        level, seen = [source], {source}
        while level:
            following: list[str] = []
            for giver in level:
                for topic, tp in self._movable(giver).items():
                    for taker in self._of_topic[topic]:
                        if taker not in seen:
                            seen.add(taker)
                            came[taker] = (giver, tp)
                            following.append(taker)
            best = min(following, key=lambda each: len(self._shares[each]), default=None)
            if best is not None and len(self._shares[best]) <= enough:
                return self._moves(source, best, came)
            level = following
        return []

    def _movable(self, giver: str) -> dict[str, TopicPartition]:
        """Of each topic the partition to move: one that the member did not own before, if possible."""
        found: dict[str, TopicPartition] = {}
        for tp in sorted(self._shares[giver], key=lambda tp: (self._had.get(tp) == giver, tp)):
            found.setdefault(tp.topic, tp)
        return found

    @staticmethod
    def _moves(
        source: str, target: str, came: Mapping[str, tuple[str, TopicPartition]]
    ) -> list[tuple[str, TopicPartition, str]]:
        moves: list[tuple[str, TopicPartition, str]] = []
        taker = target
        while taker != source:
            giver, tp = came[taker]
            moves.insert(0, (giver, tp, taker))
            taker = giver
        return moves
