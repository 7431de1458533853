"""The new group protocol without a node: one shard's consumer groups over a log in memory, and their members.

`GroupsRig` does what the runtime does: it appends the records of an outcome and has them replayed one by one,
and fires timers as its clock is moved. `reload` makes a new shard from the log, as a fail-over does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.coordinators.group.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer_groups import ConsumerGroups
from headrace.coordinators.runtime.ports import Now, Outcome, Record
from headrace.protocol.errors import CoordinatorNotAvailableError
from headrace.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicIdPartitions,
)
from headrace.protocol.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from headrace.storage_node.coordinator_config import CoordinatorConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from headrace.coordinators.group.group import Group

GROUP = "readers"
SESSION_MS, REBALANCE_MS = 45_000, 60_000
Held = dict[str, set[int]]  # topic name -> partitions


class FakeTimers:
    """Fulfils Timers."""

    def __init__(self) -> None:
        self.due: dict[Hashable, tuple[int, Callable[[Now], Outcome]]] = {}

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        self.due[key] = (deadline_ms, action)

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)

    def deadline_of(self, key: Hashable) -> int | None:
        return self.due[key][0] if key in self.due else None


@dataclass(frozen=True)
class FakeToken:
    """Fulfils Token, all but the delivery."""

    number: int = 0
    session: int = 1
    client_id: str = "client"
    client_host: str = "/host"

    def deliver(self, body: Any) -> None:
        raise AssertionError(f"the runtime alone delivers: {body}")


@dataclass
class _Config:
    now: CoordinatorConfig


class GroupsRig:
    """One shard. Fulfils Surroundings."""

    def __init__(self, **config: Any) -> None:
        self.config = _Config(CoordinatorConfig(**config))
        self.timers = FakeTimers()
        self.image = MetadataImage(offset=0)
        self.node_id, self.epoch = 1, 1
        self.log: list[Record] = []
        self.clock = Now(1_000, 1_700_000_000_000)
        self.groups: dict[str, Group] = {}
        self.answers: list[Any] = []
        self._topic_ids = 0
        self.fails_next_append = False
        self.shard = ConsumerGroups(self.groups, self)

    def ask(self, *_: Any) -> None:
        raise AssertionError("groups ask nobody")

    def next_producer_id(self) -> int:
        raise AssertionError("groups need no producer ids")

    def perform(self, outcome: Outcome) -> list[Any]:
        """Append, replay, answer."""
        if self.fails_next_append and outcome.records:
            self.fails_next_append = False
            if outcome.on_failed is not None:
                outcome.on_failed(CoordinatorNotAvailableError("no"), self.clock)
            return []
        for record in outcome.records:
            self.log.append(record)
            self.shard.replay(record)
        self.check()
        bodies = [answer.body for answer in outcome.answers]
        self.answers += bodies
        return bodies

    def check(self) -> None:
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.check()

    def heartbeat(self, body: ConsumerGroupHeartbeatRequest) -> Any:
        [answer] = self.perform(self.shard.consumer_group_heartbeat(body, FakeToken(), self.clock))
        return answer

    def describe(self, *group_ids: str) -> Any:
        body = ConsumerGroupDescribeRequest(group_ids or (GROUP,))
        [answer] = self.perform(self.shard.consumer_group_describe(body, FakeToken(), self.clock))
        return answer.groups if group_ids else answer.groups[0]

    @property
    def group(self) -> ConsumerGroup:
        found = self.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    # --- the world --------------------------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Timers fire in order, each at its time."""
        end = self.clock.ms + ms
        while True:
            due = [
                (deadline, str(key), key) for key, (deadline, _) in self.timers.due.items() if deadline <= end
            ]
            if not due:
                break
            deadline, _, key = min(due)
            _, action = self.timers.due.pop(key)
            self._move_clock(max(0, deadline - self.clock.ms))
            self.perform(action(self.clock))
        self._move_clock(end - self.clock.ms)

    def _move_clock(self, ms: int) -> None:
        self.clock = Now(self.clock.ms + ms, self.clock.wall_ms + ms)

    def reload(self, *, is_compacted: bool = False) -> None:
        """A new shard from the log; compacted, of each key the last record is left, tombstones too."""
        if is_compacted:
            places = [(type(record.key), record.key) for record in self.log]
            last = {place: at for at, place in enumerate(places)}
            self.log = [record for at, record in enumerate(self.log) if last[places[at]] == at]
        self.groups = {}
        self.timers = FakeTimers()
        self.shard = ConsumerGroups(self.groups, self)
        for record in self.log:
            self.shard.replay(record)
        self.check()
        self.perform(self.shard.on_loaded(self.clock))

    def set_topics(self, rack: str | None = None, **counts: int) -> None:
        """Topics by name (dashes as underscores) with partition counts; those that stay keep their id."""
        topics = {}
        for name, count in counts.items():
            old = self.image.topics.get(name)
            if old is None:
                self._topic_ids += 1
            topic_id = self._topic_ids.to_bytes(16, "big") if old is None else old.topic_id
            partitions = (PartitionRegistration((1,), (1,), 1, 0, 0),) * count
            is_same = old is not None and old.partitions == partitions
            topics[name] = old if is_same else TopicImage(name, topic_id, partitions)
        broker = BrokerRegistration(1, 1, bytes(16), "", 0, rack, (), is_fenced=False)
        image = MetadataImage(
            self.image.offset + 1,
            brokers={1: broker},
            topics=topics,
            topic_names={topic.topic_id: name for name, topic in topics.items()},
        )
        self.image = image
        self.perform(self.shard.on_metadata(image, None, self.clock))

    def ids(self, held: Held) -> tuple[TopicIdPartitions, ...]:
        return tuple(
            TopicIdPartitions(self.image.topics[name].topic_id, tuple(sorted(each)))
            for name, each in sorted(held.items())
            if each and name in self.image.topics
        )

    def names(self, partitions: tuple[TopicIdPartitions, ...]) -> Held:
        """Of topics that still exist."""
        named = ((self.image.topic_names.get(each.topic_id), set(each.partitions)) for each in partitions)
        return {name: each for name, each in named if name is not None}


@dataclass
class SimMember:
    """A consumer that follows the protocol: it gives back before it takes, and tells what it owns when that
    changes. `owned` is what it reads from now."""

    rig: GroupsRig
    member_id: str
    topics: tuple[str, ...] | None = ()
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    group_id: str = GROUP
    rebalance_timeout_ms: int = REBALANCE_MS
    epoch: int = 0
    owned: Held = field(default_factory=dict)
    wanted: Held = field(default_factory=dict)
    last_told: Held | None = None
    last_sent: ConsumerGroupHeartbeatRequest | None = None

    def request(self, *, is_full: bool = False) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat, everything in it if it is to be full or to join."""
        is_full = is_full or self.epoch == 0
        owned = self.rig.ids(self.owned) if is_full or self.owned != self.last_told else None
        return ConsumerGroupHeartbeatRequest(
            self.group_id,
            self.member_id,
            self.epoch,
            self.instance_id,
            None,
            self.rebalance_timeout_ms if is_full else -1,
            self.topics if is_full else None,
            self.regex if is_full else None,
            self.assignor if is_full else None,
            owned,
        )

    def send(self, *, is_full: bool = False) -> Any:
        """One heartbeat; its answer is not looked at. Errors: as the coordinator says."""
        self.last_sent = self.request(is_full=is_full)
        return self.rig.heartbeat(self.last_sent)

    def take(self, answer: Any) -> None:
        """Look at an answer: it is at this epoch, and wants this."""
        self.epoch = answer.member_epoch
        if self.last_sent is not None and self.last_sent.owned is not None:
            self.last_told = self.rig.names(self.last_sent.owned)
        if answer.assignment is not None:
            self.wanted = self.rig.names(answer.assignment)

    def settle(self) -> None:
        """Give back what is not wanted, take what is."""
        self.owned = {topic: set(each) for topic, each in self.wanted.items()}

    def beat(self, *, is_full: bool = False) -> Any:
        """Heartbeat, answer, and what it asks for, all at once."""
        answer = self.send(is_full=is_full)
        self.take(answer)
        self.settle()
        return answer

    def leave(self, epoch: int = -1) -> Any:
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, epoch, self.instance_id)
        answer = self.rig.heartbeat(body)
        self.epoch, self.owned, self.wanted, self.last_told = 0, {}, {}, None
        return answer

    def resend(self, **changes: Any) -> Any:
        """The last heartbeat once more."""
        assert self.last_sent is not None
        body = self.last_sent
        if changes:
            facts = {name: getattr(body, name) for name in body.__struct_fields__} | changes
            body = ConsumerGroupHeartbeatRequest(**facts)
        return self.rig.heartbeat(body)


def settle(*members: SimMember, rounds: int = 12) -> None:
    """Heartbeats of all in turn until nothing changes."""
    for _ in range(rounds):
        for member in members:
            member.beat()


def held_by(members: list[SimMember]) -> dict[tuple[str, int], list[str]]:
    """Partition -> members that read from it."""
    found: dict[tuple[str, int], list[str]] = {}
    for member in members:
        for topic, each in member.owned.items():
            for partition in each:
                found.setdefault((topic, partition), []).append(member.member_id)
    return found


def with_config(rig: GroupsRig, **changes: Any) -> None:
    """A live change of the node's configuration."""
    rig.config.now = replace(rig.config.now, **changes)
