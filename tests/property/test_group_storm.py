"""Clients send any requests, to groups of both protocols, while the coordinator moves and cannot write.

No request ends the coordinator, at once or when a timer fires; its state follows from its log; and when all
clients are silent nothing is left: no group, no pending request, no timer but the one of offset expiration.
"""

from random import Random
from typing import Any

import pytest
from headrace.coordinators.group.classic_states import ClassicState
from headrace.coordinators.group.consumer_group import ConsumerGroup
from headrace.coordinators.group.shard import GroupShard
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch, Record
from headrace.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.protocol.errors import NotEnoughReplicasError
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.coordinator_records import decode_record
from recount import committed_offsets

from tests.fakes.consumer_group_rig import ConsumerGroupRig

GROUPS = ("g", "h")
TOPICS = ("t", "u", "v")
INSTANCES = (None, None, None, "i", "j")
GARBAGE = (b"", b"?", b"\x00\x01", b"\xff\xff")
LONG_MS = 3_000_000


class Storm:
    """One seed. `known`: the member ids in any response."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rig = ConsumerGroupRig(
            group_initial_rebalance_delay_ms=self.one_of(0, 0, 3_000),
            group_max_size=self.one_of(2, 3, 100),
            group_consumer_max_size=self.one_of(2, 3, 100),
            offsets_retention_minutes=2,
            offsets_retention_check_interval_ms=30_000,
            transaction_partition_verification_enable=False,
        )
        self.rig.set_topics(t=3, u=2)
        self.known: dict[str, None] = {}

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def some(self, choices: tuple[str, ...], least: int = 0) -> tuple[str, ...]:
        return tuple(self.random.sample(choices, self.random.randint(least, len(choices))))

    def member(self) -> str:
        if self.known and self.random.random() < 0.75:
            return self.one_of(*self.known)
        return self.one_of("", "x", "y")

    def epoch(self, group_id: str) -> int:
        group = self.rig.shard.groups.get(group_id)
        if group is None or self.random.random() < 0.3:
            return self.one_of(-2, -1, 0, 1, 2, 3)
        if isinstance(group, ConsumerGroup):
            return self.one_of(group.epoch, *(member.epoch for member in group.members.values()))
        return group.generation  # type: ignore[attr-defined, no-any-return]

    def place(self) -> tuple[str, int]:
        return self.one_of(*TOPICS), self.random.randint(0, 3)

    def places(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(*self.place()) for _ in range(self.random.randint(0, 3)))

    # --- requests of any client ---------------------------------------------------------------------------

    def join(self, group_id: str) -> None:
        def response(name: str) -> bytes:
            if self.random.random() < (0.5 if name == "mine" else 0.03):
                return self.one_of(*GARBAGE)  # type: ignore[no-any-return]
            version, generation = self.random.randint(0, 3), self.one_of(-1, 1, 2)
            return encode_subscription(
                Subscription(version, self.some(TOPICS), None, self.places(), generation)
            )

        asked = self.rig.join(
            self.member(),
            group_id,
            protocols=tuple(
                m.GroupProtocol(name, response(name)) for name in self.some(("range", "rr", "mine"), 1)
            ),
            protocol_type=self.one_of(*["consumer"] * 9, "connect"),
            group_instance_id=self.one_of(*INSTANCES),
            requires_member_id=self.one_of(True, False),
            session_timeout_ms=self.one_of(6_000, 60_000, 60_000),
            rebalance_timeout_ms=self.one_of(0, 1_000, 60_000),
        )
        if not asked.waits and getattr(asked.answer, "member_id", ""):
            self.known[asked.answer.member_id] = None

    def sync(self, group_id: str) -> None:
        group: Any = self.rig.shard.groups.get(group_id)
        leader = getattr(group, "leader", None)
        member_id = leader if leader and self.random.random() < 0.6 else self.member()
        shares = {
            each: self.one_of(self.one_of(*GARBAGE), *[encode_assignment(Assignment(1, self.places()))] * 20)
            for each in self.known
        }
        instance_id = self.one_of(*INSTANCES)
        self.rig.sync(
            member_id, self.epoch(group_id), group_id, assignments=shares, group_instance_id=instance_id
        )

    def beat_classic(self, group_id: str) -> None:
        self.rig.heartbeat(self.member(), self.epoch(group_id), group_id, self.one_of(*INSTANCES))

    def leave(self, group_id: str) -> None:
        leaving = [
            m.LeavingMember(self.member(), self.one_of(*INSTANCES)) for _ in range(self.one_of(0, 1, 2))
        ]
        self.rig.leave(*leaving, group=group_id)

    def beat(self, group_id: str) -> None:
        epoch = self.one_of(0, -1, -2, self.epoch(group_id), self.epoch(group_id))
        owned = tuple(
            m.TopicIdPartitions(topic.topic_id, tuple(sorted({self.random.randint(0, 2), 0})))
            for topic in self.rig.image.topics.values()
            if self.random.random() < 0.5
        )
        member_id = self.member() or "z"
        self.known[member_id] = None
        body = m.ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            epoch,
            self.one_of(*INSTANCES),
            None,
            self.one_of(1, 60_000) if epoch == 0 else self.one_of(-1, 60_000),
            self.some(TOPICS, 1) if epoch == 0 else self.one_of(None, self.some(TOPICS)),
            self.one_of(None, None, "", "t|u", ".*", "["),
            self.one_of(None, "uniform", "range"),
            () if epoch == 0 else self.one_of(None, owned),
        )
        self.rig.request(registry.CONSUMER_GROUP_HEARTBEAT, body)

    def commit(self, group_id: str) -> None:
        self.rig.commit_offset(
            self.random.randint(0, 9),
            self.member(),
            self.epoch(group_id),
            group_id,
            self.place(),
            retention_time_ms=self.one_of(-1, -1, 0, 60_000),
        )

    def commit_in_transaction(self, group_id: str) -> None:
        producer = ProducerIdAndEpoch(self.random.randint(1, 3), 0)
        fields = {"generation_id": self.epoch(group_id), "member_id": self.member()}
        self.rig.txn_commit_offset(self.random.randint(0, 9), producer, group_id, self.place(), **fields)

    def administrate(self, group_id: str) -> None:
        self.rig.describe(group_id, "none")
        self.rig.offsets(group_id, require_stable=self.one_of(True, False))
        self.rig.request(registry.DESCRIBE_GROUPS, m.DescribeGroupsRequest((group_id,)))
        self.rig.request(registry.LIST_GROUPS, m.ListGroupsRequest())
        topics = (m.TopicNamePartitions("t", (0, 1)),)
        self.rig.request(registry.OFFSET_DELETE, m.OffsetDeleteRequest(group_id, topics))
        if self.random.random() < 0.3:
            self.rig.request(registry.DELETE_GROUPS, m.DeleteGroupsRequest((group_id, group_id)))

    def trouble(self, group_id: str) -> None:
        del group_id
        rig = self.rig
        what = self.one_of("reload", "marker", "topics", "disk", "time", "time", "time")
        if what == "reload":
            rig.reload()
        elif what == "marker":
            rig.end_transaction(
                ProducerIdAndEpoch(self.random.randint(1, 3), 0), is_commit=self.one_of(True, False)
            )
        elif what == "topics":
            rig.set_topics(**{name: self.random.randint(1, 4) for name in self.some(TOPICS, 1)})
        elif what == "disk":
            rig.refuses = NotEnoughReplicasError("no") if rig.refuses is None else None
        else:
            rig.advance(self.one_of(1, 100, 1_000, 7_000, 46_000, 130_000))

    # --- what must hold ------------------------------------------------------------------------------------

    def step(self) -> None:
        doings = [self.join] * 5 + [self.sync] * 3 + [self.beat] * 5 + [self.commit, self.trouble] * 2
        doings += [self.beat_classic, self.leave, self.commit_in_transaction, self.administrate]
        self.one_of(*doings)(self.one_of(*GROUPS))
        self.check_log()

    def check_log(self) -> None:
        """A shard loaded from the log has the same state; of a rebalancing classic group it has the previous
        generation."""
        shard, other = self.rig.shard, GroupShard(3, _ShardContext(self.rig))  # type: ignore[arg-type]
        for offset, entry in enumerate(self.rig.log):
            if entry.data is None:
                other.replay_marker(entry.producer, is_commit=entry.is_commit, offset=offset)
                continue
            record = decode_record(*entry.data)
            assert record is not None
            other.replay(Record(*record), offset, entry.producer)
        assert shard.groups.keys() == other.groups.keys()
        assert committed_offsets(shard) == committed_offsets(other)
        for group_id, group in shard.groups.items():
            found: Any = other.groups[group_id]
            assert type(found) is type(group)
            assert shard.store.pending(group_id) == other.store.pending(group_id)
            if isinstance(group, ConsumerGroup):
                assert vars(found) == vars(group)
            elif group.state is ClassicState.STABLE:  # type: ignore[attr-defined]
                assert _classic_facts(found) == _classic_facts(group)

    def end(self) -> None:
        self.rig.refuses = None
        for producer_id in (1, 2, 3):
            self.rig.end_transaction(ProducerIdAndEpoch(producer_id, 0), is_commit=True)
        self.rig.advance(LONG_MS)
        assert not self.rig.shard.groups
        assert not [token for token in self.rig.asked if token.waits]
        assert self.rig.timer_keys() == ["expiry"]
        assert not self.rig.shard._consumer._members.reported


class _ShardContext:
    """The host of a shard that only replays."""

    node_id, epoch = 7, 1

    def __init__(self, rig: ConsumerGroupRig) -> None:
        self.config, self.image, self.timers = rig.config, rig.image, self

    def cancel(self, key: object) -> None:
        del key


def _classic_facts(group: Any) -> Any:
    members = {each.member_id: (each.group_instance_id, each.assignment) for each in group.members.values()}
    return group.generation, group.protocol, group.leader, group._topics, members


@pytest.mark.parametrize("seed", range(40))
def test_no_request_ends_the_coordinator(seed: int) -> None:
    """See the module's docstring."""
    storm = Storm(seed)
    for _ in range(100):
        storm.step()
    storm.end()
