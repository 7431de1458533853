"""Counts the lag of all groups that this node coordinates, round after round. Pure.

A round asks the leaders of the partitions (CountRecords) about the committed offsets of one group after the
other, at most STEP_OFFSETS at a time, and begins `group.lag.interval.ms` after the end of the one before.
Its figures replace those of the round before when it has ended.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.messages.lag import CountRecordsPartition, CountRecordsRequest
from ...protocol.messages.registry import COUNT_RECORDS
from ...protocol.model import NO_NODE, TopicPartition
from .lag_figures import LagFigures
from .ports import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...storage_node.embedded.contract import CoordinatorHost, Now, PartitionKey
    from .hosted_shard import HostedShard
    from .timers import ShardTimers

ANSWER_TIMEOUT_MS = 10_000
STEP_OFFSETS = 250  # Bound: offsets asked for at a time, half a millisecond of the loop
FIRST_ROUND_MS = 1_000  # after an election; many come together
DISABLED_CHECK_MS = 5_000  # how often to look whether it was enabled
_TIMER = "lag"


class _Place(NamedTuple):
    """A committed offset of a group."""

    group: _Group
    tp: TopicPartition
    offset: int


class _Group:
    """A group that is being counted: it is complete when no place is left."""

    __slots__ = ("counted", "group_id", "left", "shard")

    def __init__(self, shard: PartitionKey, group_id: str) -> None:
        self.shard = shard
        self.group_id = group_id
        self.left = 0
        self.counted: dict[TopicPartition, tuple[int, float]] = {}


class LagCollector:
    """`figures` are those of the last round that has ended.

    Invariant: while there are shards, either the timer is set or requests are under way.
    """

    def __init__(
        self, host: CoordinatorHost, shards: Mapping[PartitionKey, HostedShard], timers: ShardTimers
    ) -> None:
        """`shards`: those of the node, at any time."""
        self._host = host
        self._shards = shards
        self._timers = timers
        self.figures = LagFigures(0)
        self._next = LagFigures(0)  # of the round under way
        self._groups: deque[tuple[PartitionKey, str]] = deque()  # not looked at yet
        self._places: deque[_Place] = deque()  # not asked for yet
        self._asked = 0  # requests without an answer

    def elected(self, now: Now) -> None:
        """There is a new shard: the next round begins soon, so that the lag of its groups is not unknown for
        an interval, unless one is under way."""
        self._wait(now, min(self._interval_ms, FIRST_ROUND_MS))

    def _wait(self, now: Now, wait_ms: int) -> None:
        due_ms = self._timers.deadline_of(_TIMER)
        if not self._asked and (due_ms is None or due_ms > now.ms + wait_ms):
            self._timers.set(_TIMER, now.ms + wait_ms, self._begin)

    @property
    def _interval_ms(self) -> int:
        return self._host.config.now.group_lag_interval_ms or DISABLED_CHECK_MS

    def resigned(self, key: PartitionKey) -> None:
        """Another node coordinates the groups of this shard. Order: it has left the shards."""
        self.figures.drop(key)
        if not self._shards:
            self._timers.cancel(_TIMER)

    # --- a round ----------------------------------------------------------------------------------------

    def _begin(self, now: Now) -> Outcome:
        config = self._host.config.now
        if self._shards and not config.group_lag_interval_ms:
            self.figures = LagFigures(0)  # it was disabled; it may be enabled again
            self._wait(now, self._interval_ms)
        elif self._shards:
            self._next = LagFigures(config.group_lag_max_series)
            self._groups.extend(
                (key, group_id) for key, shard in self._shards.items() for group_id in shard.offset_groups()
            )
            self._step(now)
        return Outcome()

    def _step(self, now: Now) -> None:
        """Ask for the next offsets, or end the round."""
        batch = self._take()
        if not batch:
            self.figures = self._next
            for key in {each.shard for each in self.figures.groups} - self._shards.keys():
                self.figures.drop(key)
            if self._shards:
                self._wait(now, self._interval_ms)
            return
        by_leader: dict[int, dict[PartitionKey, list[_Place]]] = {}
        unknown: list[_Place] = []
        for place in batch:
            leader, key = self._leader_of(place.tp)
            if leader == NO_NODE:
                unknown.append(place)
            else:
                by_leader.setdefault(leader, {}).setdefault(key, []).append(place)
        self._asked = len(by_leader)
        for node_id, places in by_leader.items():
            entries = tuple(
                CountRecordsPartition(*key, tuple(place.offset for place in some))
                for key, some in places.items()
            )
            answered = partial(self._answered, list(places.values()))
            self._host.ask(node_id, COUNT_RECORDS, CountRecordsRequest(entries), ANSWER_TIMEOUT_MS, answered)
        self._finish(unknown)
        if not by_leader:
            self._timers.set(_TIMER, now.ms, self._again)

    def _again(self, now: Now) -> Outcome:
        self._step(now)
        return Outcome()

    def _take(self) -> list[_Place]:
        """The next offsets, of as many groups as fit."""
        while self._groups and len(self._places) < STEP_OFFSETS:
            key, group_id = self._groups.popleft()
            shard = self._shards.get(key)
            offsets = [] if shard is None else shard.committed_offsets(group_id)
            if offsets:
                group = _Group(key, group_id)
                group.left = len(offsets)
                self._places.extend(_Place(group, tp, offset) for tp, offset in offsets)
        return [self._places.popleft() for _ in range(min(len(self._places), STEP_OFFSETS))]

    def _leader_of(self, tp: TopicPartition) -> tuple[int, PartitionKey]:
        topic = self._host.image.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return NO_NODE, (b"", -1)
        return topic.partitions[tp.partition].leader, (topic.topic_id, tp.partition)

    def _answered(self, asked: Iterable[list[_Place]], answer: Any, now: Now) -> None:
        """A partition whose leader did not count is left out of this round."""
        if not isinstance(answer, KafkaError):
            for places, part in zip(asked, answer.partitions, strict=False):
                for place, count in zip(places, part.counts, strict=False):
                    age_ms = answer.wall_ms - count.first_timestamp if count.first_timestamp >= 0 else 0
                    place.group.counted[place.tp] = count.records, max(age_ms, 0) / 1000
        for places in asked:
            self._finish(places)
        self._asked -= 1
        if not self._asked:
            self._step(now)

    def _finish(self, places: Iterable[_Place]) -> None:
        for place in places:
            group = place.group
            group.left -= 1
            if not group.left and group.counted:
                self._next.add(group.shard, group.group_id, group.counted)
