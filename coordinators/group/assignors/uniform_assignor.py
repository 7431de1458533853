"""Uniform: partition counts of members differ as little as possible, and members keep their partitions where
that allows.

If all members subscribe to the same topics, each gets a quota: the quotient of partitions and members; the
remainder goes first to members that already have more than the quotient, so that the fewest partitions move.
Otherwise partitions stay with their owners, free ones go to the subscriber with the fewest partitions, and
partitions then move between subscribers of a topic while that makes their counts more equal; partitions that
are new to their member move first.

Racks are not considered, as in Kafka 4: they change only the group epoch (metadata hash). Source: Kafka
UniformHomogeneousAssignmentBuilder.java, UniformHeterogeneousAssignmentBuilder.java; KIP-848.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from .model import by_subscription

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .model import MemberSpec, Partitions

    PartitionLists = dict[bytes, list[int]]  # topic id -> partitions in any order


def assign_uniformly(members: Mapping[str, MemberSpec], topics: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Members with the same topics differ by at most one partition; with different topics, no partition can
    move to a subscriber that has at least two partitions fewer than its owner."""
    alike = by_subscription(members)
    if len(alike) == 1:
        [(subscribed, member_ids)] = alike.items()
        return _assign_alike(member_ids, members, sorted(subscribed), topics)
    return _Balance(alike, members, topics).assign()


def _assign_alike(
    member_ids: list[str],
    members: Mapping[str, MemberSpec],
    subscribed: list[bytes],
    topics: Mapping[bytes, int],
) -> dict[str, Partitions]:
    """Quotas for members that all subscribe to `subscribed`."""
    kept = {member_id: _kept(members[member_id]) for member_id in member_ids}
    free = _drop_strays(kept, subscribed, topics)
    counts = {member_id: sum(map(len, held.values())) for member_id, held in kept.items()}
    total = sum(topics[topic] for topic in subscribed)
    each, more = divmod(total, len(member_ids))
    # Order: members above the quotient keep one partition more while the remainder lasts, then the first by
    # id
    larger = sorted(member_ids, key=lambda member_id: counts[member_id] <= each)[:more]
    quotas = dict.fromkeys(member_ids, each) | dict.fromkeys(larger, each + 1)
    changed: dict[str, PartitionLists] = {}
    for member_id in member_ids:
        surplus = counts[member_id] - quotas[member_id]
        if surplus > 0:
            changed[member_id] = held = {topic: list(each) for topic, each in kept[member_id].items()}
            free += _take(held, surplus)
    free.sort(reverse=True)
    for member_id in member_ids:
        missing = quotas[member_id] - counts[member_id]
        if missing > 0:
            held = {topic: list(each) for topic, each in kept[member_id].items()}
            changed[member_id] = held
            for topic, partition in reversed(free[-missing:]):
                held.setdefault(topic, []).append(partition)
            del free[-missing:]
    assert not free, "quotas add up to the number of partitions"
    done: dict[str, Partitions] = dict(kept)
    done.update((member_id, _in_order(held)) for member_id, held in changed.items())
    return done


def _kept(member: MemberSpec) -> Partitions:
    """The member's current partitions of subscribed topics."""
    if member.target.keys() <= member.subscribed:
        return member.target
    return {topic: each for topic, each in member.target.items() if topic in member.subscribed}


def _drop_strays(
    kept: dict[str, Partitions], subscribed: list[bytes], topics: Mapping[bytes, int]
) -> list[tuple[bytes, int]]:
    """Remove from `kept` partitions that do not exist and second claims to one partition (the first member
    keeps it); return all partitions without an owner."""
    taken: dict[bytes, set[int]] = {topic: set() for topic in subscribed}
    for member_id, held in kept.items():
        for topic, partitions in held.items():
            others = taken[topic]
            before = len(others)
            others.update(partitions)
            if len(others) != before + len(partitions) or partitions[-1] >= topics[topic]:
                kept[member_id] = _without_strays(kept, member_id, topics)
    return [
        (topic, partition)
        for topic in subscribed
        if len(taken[topic]) != topics[topic] or max(taken[topic], default=0) >= topics[topic]
        for partition in range(topics[topic])
        if partition not in taken[topic]
    ]


def _without_strays(kept: dict[str, Partitions], member_id: str, topics: Mapping[bytes, int]) -> Partitions:
    cleaned: dict[bytes, tuple[int, ...]] = {}
    for topic, partitions in kept[member_id].items():
        others: set[int] = set()
        for other_id, held in kept.items():
            if other_id == member_id:
                break
            others.update(held.get(topic, ()))
        rest = tuple(each for each in partitions if each < topics[topic] and each not in others)
        if rest:
            cleaned[topic] = rest
    return cleaned


def _take(held: PartitionLists, count: int) -> list[tuple[bytes, int]]:
    """Remove `count` partitions from `held`: the last ones of the last topics."""
    taken: list[tuple[bytes, int]] = []
    for topic in sorted(held, reverse=True):
        partitions = held[topic]
        while partitions and len(taken) < count:
            taken.append((topic, partitions.pop()))
        if len(taken) == count:
            break
    return taken


def _in_order(held: PartitionLists) -> Partitions:
    return {topic: tuple(sorted(partitions)) for topic, partitions in sorted(held.items()) if partitions}


class _Balance:
    """The assignment of members with different subscriptions."""

    def __init__(
        self,
        alike: dict[frozenset[bytes], list[str]],
        members: Mapping[str, MemberSpec],
        topics: Mapping[bytes, int],
    ) -> None:
        self._readers: dict[bytes, list[str]] = {}
        for subscribed, member_ids in alike.items():
            for topic in subscribed:
                self._readers.setdefault(topic, []).extend(member_ids)
        for readers in self._readers.values():
            readers.sort()
        self._counts = dict.fromkeys(sorted(members), 0)
        self._old: dict[bytes, dict[str, set[int]]] = {topic: {} for topic in self._readers}
        self._now: dict[bytes, dict[str, set[int]]] = {topic: {} for topic in self._readers}
        self._free: dict[bytes, list[int]] = {}
        self._keep(members, topics)
        # Order: topics with the fewest subscribers per partition go first, so that later topics even out the
        # counts
        ratios = {topic: topics[topic] / len(readers) for topic, readers in self._readers.items()}
        self._order = sorted(
            self._readers, key=lambda topic: (-ratios[topic], len(self._readers[topic]), topic)
        )

    def _keep(self, members: Mapping[str, MemberSpec], topics: Mapping[bytes, int]) -> None:
        free = {topic: set(range(topics[topic])) for topic in self._readers}
        for member_id in self._counts:
            for topic, partitions in _kept(members[member_id]).items():
                mine = free[topic].intersection(partitions)
                if mine:
                    free[topic] -= mine
                    self._old[topic][member_id] = mine
                    self._now[topic][member_id] = set(mine)
                    self._counts[member_id] += len(mine)
        self._free = {topic: sorted(partitions) for topic, partitions in free.items()}

    def assign(self) -> dict[str, Partitions]:
        """Assign free partitions, then move partitions until no move makes the counts more equal."""
        for topic in self._order:
            self._give(topic)
        moved = True
        while moved:  # Bound: each move makes the sum of the squares of the counts smaller
            moved = sum(self._even_out(topic) for topic in self._order) > 0
        done: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in self._counts}
        for topic in sorted(self._now):
            for member_id, partitions in self._now[topic].items():
                if partitions:
                    done[member_id][topic] = tuple(sorted(partitions))
        return dict(done)

    def _give(self, topic: bytes) -> None:
        if not self._free[topic]:
            return
        fewest = [(self._counts[member_id], member_id) for member_id in self._readers[topic]]
        heapify(fewest)
        for partition in self._free[topic]:
            count, member_id = heappop(fewest)
            self._now[topic].setdefault(member_id, set()).add(partition)
            self._counts[member_id] = count + 1
            heappush(fewest, (count + 1, member_id))

    def _even_out(self, topic: bytes) -> bool:
        """Move partitions of one topic from subscribers with many to subscribers with few; True if any
        moved."""
        held = self._now[topic]
        counts = self._counts
        most = [(-counts[member_id], member_id) for member_id in sorted(held) if held[member_id]]
        fewest = [(counts[member_id], member_id) for member_id in self._readers[topic]]
        heapify(most)
        heapify(fewest)
        moved = False
        while most:
            many, giver = most[0]
            few, taker = fewest[0]
            if counts[taker] != few:  # stale entry: the member has given a partition away since
                heappop(fewest)
                heappush(fewest, (counts[taker], taker))
                continue
            if -many != counts[giver]:  # stale entry: the member's count has changed since
                heappop(most)
                if held[giver]:
                    heappush(most, (-counts[giver], giver))
                continue
            if -many - few < 2:
                break
            self._move(topic, giver, taker)
            moved = True
            heappop(most)
            if held[giver]:
                heappush(most, (-counts[giver], giver))
            heappop(fewest)
            heappush(fewest, (counts[taker], taker))
            heappush(fewest, (counts[giver], giver))
        return moved

    def _move(self, topic: bytes, giver: str, taker: str) -> None:
        """Move one partition: preferably one that `taker` owned before, else one that is new to `giver`."""
        held, old = self._now[topic], self._old[topic]
        mine = held[giver]
        back = mine & old.get(taker, set())
        strange = mine - old.get(giver, set())
        partition = max(back or strange or mine)
        mine.discard(partition)
        held.setdefault(taker, set()).add(partition)
        self._counts[giver] -= 1
        self._counts[taker] += 1
