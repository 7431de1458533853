"""The assignors of the classic protocol: which member of a group reads which partition. Pure.

The group leader runs an assignor that all members have. Source: Kafka RangeAssignor.java,
RoundRobinAssignor.java, ConsumerPartitionAssignor.java; KIP-881 for racks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...protocol.consumer_protocol import Assignment


class MemberSubscription(NamedTuple):
    """A member as an assignor sees it; it has owned the partitions `owned` since `generation_id`."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    group_instance_id: str | None = None
    rack_id: str | None = None
    user_data: bytes | None = None


class Topic(NamedTuple):
    """A topic as an assignor sees it: partition count, and for each partition the known racks of replicas."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


Assignments = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """An assignment strategy.

    With `is_cooperative` members keep their partitions over a rebalance: a partition is assigned to another
    member only after its owner has revoked it (the consumer ensures that, whatever `assign` returns).
    """

    @property
    def name(self) -> str:
        """The name of the strategy, which all members of a group have in common."""

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions over a rebalance (KIP-429)."""

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Bytes that the member sends to the assignor of the leader when it joins."""

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """The partitions of each member. Topics that are not in `topics` do not exist."""

    def assignment_data(self) -> bytes | None:
        """Bytes that each member receives with the assignment that `assign` has made."""

    def on_assigned(self, assignment: Assignment, generation_id: int) -> None:
        """The member has received its assignment."""


class PlainAssignor:
    """An assignor without user data and state."""

    name = ""
    is_cooperative = False

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """None."""
        return None

    def assignment_data(self) -> bytes | None:
        """None."""
        return None

    def on_assigned(self, assignment: Assignment, generation_id: int) -> None:
        """Keeps nothing."""


class RangeAssignor(PlainAssignor):
    """Topic by topic: members in their order have equal ranges of partitions, the first ones one more.

    Static members come first, by instance id, so that restarts change nothing. With racks, a partition goes
    to a member in the rack of one of its replicas as far as equal counts allow; topics with equal members and
    partition counts are assigned alike (co-partitioning), if their racks allow that for all of them.
    """

    name = "range"

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        assignments: Assignments = {member_id: [] for member_id in members}
        groups: dict[tuple[int, tuple[str, ...]], list[str]] = defaultdict(list)
        for topic, member_ids in members_by_topic(topics, members).items():
            groups[topics[topic].partitions, member_ids].append(topic)
        for (count, member_ids), names in groups.items():
            racks = {member_id: members[member_id].rack_id for member_id in member_ids}
            for together in self._alike(names, topics, racks):
                runs = _ranges(count, member_ids, racks, [topics[name] for name in together])
                for name in together:
                    for member_id, partitions in runs.items():
                        assignments[member_id] += [
                            TopicPartition(name, partition) for partition in partitions
                        ]
        return {member_id: sorted(assignment) for member_id, assignment in assignments.items()}

    def _alike(
        self, names: list[str], topics: Mapping[str, Topic], racks: Mapping[str, str | None]
    ) -> list[list[str]]:
        """Topics that are assigned alike: all, if each partition then has a rack that its topics share."""
        if not any(_uses_racks(topics[name], racks.values()) for name in names):
            return [names]
        joint = [
            frozenset.intersection(*(_rack_set(topics[name], number) for name in names))
            for number in range(topics[names[0]].partitions)
        ]
        return [names] if all(joint) else [[name] for name in names]


class RoundRobinAssignor(PlainAssignor):
    """All partitions of all topics, one after the other, to the members in turn that read the topic."""

    name = "roundrobin"

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        order = in_order(members)
        assignments: Assignments = {member_id: [] for member_id in members}
        turn = 0
        for topic in members_by_topic(topics, members):
            for partition in range(topics[topic].partitions):
                while topic not in members[order[turn]].topics:
                    turn = (turn + 1) % len(order)
                assignments[order[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(order)
        return assignments


def members_by_topic(
    topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
) -> dict[str, tuple[str, ...]]:
    """Existing topics with subscribers, sorted; the members in the order of `in_order`."""
    found: dict[str, list[str]] = defaultdict(list)
    for member_id in in_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            found[topic].append(member_id)
    return {topic: tuple(found[topic]) for topic in sorted(found) if topic in topics}


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Static members by instance id, then the others by member id."""

    def place(member_id: str) -> tuple[bool, str]:
        instance = members[member_id].group_instance_id
        return instance is None, member_id if instance is None else instance

    return sorted(members, key=place)


def _rack_set(topic: Topic, partition: int) -> frozenset[str]:
    return topic.racks[partition] if partition < len(topic.racks) else frozenset()


def _uses_racks(topic: Topic, racks: Iterable[str | None]) -> bool:
    """Whether racks matter: some partition has a replica in a member's rack, and not all have one in all."""
    known = {rack for rack in racks if rack}
    found = [_rack_set(topic, number) & known for number in range(topic.partitions)]
    return any(found) and any(each != known for each in found)


def _ranges(
    count: int, member_ids: tuple[str, ...], racks: Mapping[str, str | None], topics: list[Topic]
) -> dict[str, list[int]]:
    least, more = divmod(count, len(member_ids))
    room = {member_id: least + (index < more) for index, member_id in enumerate(member_ids)}
    runs: dict[str, list[int]] = {member_id: [] for member_id in member_ids}
    left = list(range(count))
    if any(_uses_racks(topic, racks.values()) for topic in topics):
        extra = more  # members that may have one more
        room = dict.fromkeys(member_ids, least)
        for member_id in member_ids:
            rack = racks[member_id]
            near = [
                number
                for number in left
                if rack and all(rack in _rack_set(topic, number) for topic in topics)
            ]
            if extra and len(near) > least:
                room[member_id], extra = least + 1, extra - 1
            runs[member_id] = near[: room[member_id]]
            left = [number for number in left if number not in set(runs[member_id])]
        for member_id in member_ids:
            if extra and room[member_id] == least:
                room[member_id], extra = least + 1, extra - 1
    for member_id in member_ids:
        missing = room[member_id] - len(runs[member_id])
        runs[member_id] += left[:missing]
        left = left[missing:]
    return runs
