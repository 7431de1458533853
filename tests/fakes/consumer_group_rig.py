"""Members of the new group protocol around a group shard, and the changing topics of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.consumer_group import GROUP_TRANSITIONS, ConsumerGroup, GroupState
from headrace.coordinators.runtime.ports import Outcome
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    GroupProtocol,
    LeavingMember,
    TopicIdPartitions,
)
from headrace.protocol.metadata import image
from headrace.protocol.model import TopicPartition

from tests.fakes.group_rig import Asked, GroupRig

GROUP = "readers"
SESSION_MS, REBALANCE_MS = 45_000, 60_000
Held = dict[str, set[int]]  # topic name -> partitions


class ConsumerGroupRig(GroupRig):
    """Asserts the invariants of its groups after every step."""

    def __init__(self, **keys: Any) -> None:
        self._topic_ids = 0
        self._states: dict[str, GroupState] = {}
        super().__init__(**{"group_consumer_assignment_interval_ms": 0, **keys})
        self.set_topics()

    def _carry_out(self, outcome: Outcome, request: Asked | None) -> None:
        super()._carry_out(outcome, request)
        self.check()

    def check(self) -> None:
        groups = [each for each in self.shard.groups.values() if isinstance(each, ConsumerGroup)]
        for group in groups:
            group.check()
            before = self._states.get(group.group_id, group.state)
            assert group.state is before or group.state in GROUP_TRANSITIONS[before], (
                f"{before} {group.state}"
            )
        self._states = {group.group_id: group.state for group in groups}

    def beat(self, body: ConsumerGroupHeartbeatRequest) -> Any:
        """Send a heartbeat. Errors: those of the coordinator."""
        answer = self.request(registry.CONSUMER_GROUP_HEARTBEAT, body).answer
        if isinstance(answer, errors.KafkaError):
            raise answer
        return answer

    def describe(self, *group_ids: str) -> Any:
        """The description of one group, or a list for several."""
        body = ConsumerGroupDescribeRequest(group_ids or (GROUP,))
        answer = self.request(registry.CONSUMER_GROUP_DESCRIBE, body).answer
        return answer.groups if group_ids else answer.groups[0]

    @property
    def group(self) -> ConsumerGroup:
        found = self.shard.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def compact(self) -> None:
        """Keep the last record of each key, tombstones included."""
        last = {entry.data[0]: at for at, entry in enumerate(self.log) if entry.data is not None}
        self.log = [entry for at, entry in enumerate(self.log) if entry.data and last[entry.data[0]] == at]

    def set_topics(self, rack: str | None = None, **counts: int) -> None:
        """Set the topics, by name and partition count; existing topics keep their ids."""
        topics = {}
        for name, count in counts.items():
            old = self.image.topics.get(name)
            if old is None:
                self._topic_ids += 1
            topic_id = self._topic_ids.to_bytes(16, "big") if old is None else old.topic_id
            partitions = (image.PartitionRegistration((1,), (1,), 1, 0, 0),) * count
            is_same = old is not None and old.partitions == partitions
            topics[name] = (
                old if old is not None and is_same else image.TopicImage(name, topic_id, partitions)
            )
        broker = image.BrokerRegistration(1, 1, bytes(16), "", 0, rack, (), is_fenced=False)
        self.image = image.MetadataImage(
            self.image.offset + 1,
            brokers={1: broker},
            topics=topics,
            topic_names={topic.topic_id: name for name, topic in topics.items()},
        )
        self._carry_out(self.shard.on_metadata(self.image, None, self.now), None)

    def ids(self, held: Held) -> tuple[TopicIdPartitions, ...]:
        """The ids of these partitions, without deleted topics."""
        return tuple(
            TopicIdPartitions(self.image.topics[name].topic_id, tuple(sorted(each)))
            for name, each in sorted(held.items())
            if each and name in self.image.topics
        )

    def names(self, partitions: tuple[TopicIdPartitions, ...]) -> Held:
        """The names of these partitions, without deleted topics."""
        named = ((self.image.topic_names.get(each.topic_id), set(each.partitions)) for each in partitions)
        return {name: each for name, each in named if name is not None}


@dataclass(eq=False)
class SimMember:
    """A consumer that revokes before it adopts, and reports `owned` when it changes."""

    rig: ConsumerGroupRig
    member_id: str
    topics: tuple[str, ...] | None = ()
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    group_id: str = GROUP
    rebalance_timeout_ms: int = REBALANCE_MS
    reader: tuple[str, str] | None = None  # principal and host, where an authorizer is
    epoch: int = 0
    owned: Held = field(default_factory=dict)
    wanted: Held = field(default_factory=dict)
    last_reported: Held | None = None
    last_sent: ConsumerGroupHeartbeatRequest | None = None

    def request(self, *, is_full: bool = False) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat; with all fields if it is full or a join."""
        is_full = is_full or self.epoch == 0
        owned = self.rig.ids(self.owned) if is_full or self.owned != self.last_reported else None
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
            reader=self.reader,
        )

    def send(self, *, is_full: bool = False) -> Any:
        """Send a heartbeat without processing its response. If it reports owned partitions, an assignment of
        an earlier response that the member has not adopted yet is void: it counts as revoked. Errors: those
        of the coordinator."""
        self.last_sent = self.request(is_full=is_full)
        if self.last_sent.owned is not None:
            self.wanted = {topic: set(each) for topic, each in self.owned.items()}
        return self.rig.beat(self.last_sent)

    def take(self, answer: Any) -> None:
        """Process a response: the member's epoch and target assignment."""
        self.epoch = answer.member_epoch
        if self.last_sent is not None and self.last_sent.owned is not None:
            self.last_reported = self.rig.names(self.last_sent.owned)
        if answer.assignment is not None:
            self.wanted = self.rig.names(answer.assignment)

    def settle(self) -> None:
        """Revoke partitions outside of the target assignment, adopt those in it."""
        self.owned = {topic: set(each) for topic, each in self.wanted.items()}

    def beat(self, *, is_full: bool = False) -> Any:
        """Send a heartbeat, process the response, and adopt the assignment."""
        answer = self.send(is_full=is_full)
        self.take(answer)
        self.settle()
        return answer

    def leave(self, epoch: int = -1) -> Any:
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, epoch, self.instance_id)
        answer = self.rig.beat(body)
        self.forget()
        return answer

    def forget(self) -> None:
        """Restart without any state."""
        self.epoch, self.owned, self.wanted, self.last_reported = 0, {}, {}, None

    def resend(self) -> Any:
        """Send the last heartbeat again."""
        assert self.last_sent is not None
        return self.rig.beat(self.last_sent)


def held_by(*members: SimMember | SimClassicMember) -> dict[tuple[str, int], list[str]]:
    """Members that read from each partition."""
    found: dict[tuple[str, int], list[str]] = {}
    for member in members:
        for topic, each in member.owned.items():
            for partition in each:
                found.setdefault((topic, partition), []).append(member.member_id)
    return found


def with_config(rig: ConsumerGroupRig, **changes: Any) -> None:
    """Change the node's dynamic configuration."""
    rig.config.now = replace(rig.config.now, **changes)


@dataclass(eq=False)
class SimClassicMember:
    """A consumer of the classic protocol that revokes before it adopts (cooperative), or revokes all
    partitions before it joins (eager). As leader it assigns evenly."""

    rig: ConsumerGroupRig
    topics: tuple[str, ...] = ("events",)
    instance_id: str | None = None
    is_eager: bool = False
    group_id: str = GROUP
    member_id: str = ""
    generation: int = -1
    owned: Held = field(default_factory=dict)
    joining: Asked | None = None
    syncing: Asked | None = None
    must_join: bool = True

    def protocols(self) -> tuple[GroupProtocol, ...]:
        owned = tuple(TopicPartition(topic, each) for topic in self.owned for each in self.owned[topic])
        subscription = Subscription(3, self.topics, None, owned, self.generation)
        return (GroupProtocol("range", encode_subscription(subscription)),)

    def step(self) -> None:
        """The member's next action: process a response, sync, join, or heartbeat."""
        if self.joining is not None:
            self._on_joined()
        elif self.syncing is not None:
            self._on_synced()
        elif self.must_join:
            if self.is_eager:
                self.owned = {}
            self._join()
            self._on_joined()
        else:
            self.heartbeat()

    def _join(self) -> None:
        self.joining = self.rig.join(
            self.member_id, self.group_id, protocols=self.protocols(), group_instance_id=self.instance_id
        )

    def _on_joined(self) -> None:
        assert self.joining is not None
        if self.joining.waits:
            return
        answer, self.joining = self.joining.answer, None
        if isinstance(answer, errors.KafkaError) or answer.error_code:
            self._on_error(answer)
            return
        self.member_id, self.generation, self.must_join = answer.member_id, answer.generation_id, False
        assignments = self._assign(answer) if answer.leader == self.member_id else {}
        self.syncing = self.rig.sync(
            self.member_id,
            self.generation,
            self.group_id,
            assignments=assignments,
            group_instance_id=self.instance_id,
        )
        self._on_synced()

    def _assign(self, answer: Any) -> dict[str, bytes]:
        """Assign partitions evenly, leaving out those that another member still owns."""
        subscriptions = {each.member_id: decode_subscription(each.metadata) for each in answer.members}
        ids = sorted(subscriptions)
        owners = {tp: each for each in ids for tp in subscriptions[each].owned}
        given: dict[str, list[TopicPartition]] = {each: [] for each in ids}
        place = 0
        for topic in sorted({topic for each in subscriptions.values() for topic in each.topics}):
            for partition in range(len(self.rig.image.topics[topic].partitions)):
                target = ids[place % len(ids)]
                place += 1
                tp = TopicPartition(topic, partition)
                if owners.get(tp, target) == target:
                    given[target].append(tp)
        return {each: encode_assignment(Assignment(1, tuple(tps))) for each, tps in given.items()}

    def _on_synced(self) -> None:
        assert self.syncing is not None
        if self.syncing.waits:
            return
        answer, self.syncing = self.syncing.answer, None
        if isinstance(answer, errors.KafkaError) or answer.error_code:
            self._on_error(answer)
            return
        before = self.owned
        self.owned = {}
        for topic, partition in decode_assignment(answer.assignment).partitions:
            self.owned.setdefault(topic, set()).add(partition)
        self.must_join = any(each - self.owned.get(topic, set()) for topic, each in before.items())

    def heartbeat(self) -> None:
        answer = self.rig.heartbeat(self.member_id, self.generation, self.group_id, self.instance_id).answer
        if isinstance(answer, errors.KafkaError) or answer.error_code:
            self._on_error(answer)

    def _on_error(self, answer: Any) -> None:
        code = answer.code if isinstance(answer, errors.KafkaError) else answer.error_code
        self.must_join = True
        if code == errors.MemberIdRequiredError.code:
            self.member_id = answer.member_id
        elif code in (errors.UnknownMemberIdError.code, errors.FencedInstanceIdError.code):
            # fenced: a coordinator that moved in a rebalance may have only the static member's previous id
            self.member_id, self.generation, self.owned = "", -1, {}
        elif code == errors.IllegalGenerationError.code:
            # a coordinator that moved in a rebalance may not have this generation, but has the earlier ones
            generation = self._generation_of_group()
            assert self.generation > generation, f"generation {self.generation} is known, up to {generation}"
            self.generation, self.owned = -1, {}
        else:
            assert code in (errors.RebalanceInProgressError.code, errors.NotCoordinatorError.code), answer

    def _generation_of_group(self) -> int:
        """The generation that the coordinator has for this member."""
        group = self.rig.shard.groups[self.group_id]
        if isinstance(group, ConsumerGroup):
            return group.members[self.member_id].epoch
        assert isinstance(group, ClassicGroup)
        return group.generation

    def leave(self) -> Asked:
        self.owned, self.must_join, self.generation = {}, True, -1
        return self.rig.leave(LeavingMember(self.member_id, self.instance_id), group=self.group_id)


def run(*members: SimMember | SimClassicMember, rounds: int = 12) -> None:
    """Let each member act, in turn."""
    for _ in range(rounds):
        for member in members:
            if isinstance(member, SimMember):
                member.beat()
            else:
                member.step()
        members[0].rig.advance(0)
