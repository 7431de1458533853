"""A group shard with a log, a clock and timers: it decides, appends, replays and responds. A test can load it
from the bytes of its log at any time."""

import heapq
import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.coordinators.group.shard import GroupShard
from headrace.coordinators.runtime.client_errors import client_error
from headrace.coordinators.runtime.ports import Outcome, ProducerIdAndEpoch, Record
from headrace.protocol.errors import KafkaError, NotCoordinatorError
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry
from headrace.protocol.messages.envelope import Api
from headrace.protocol.messages.transactions import TxnOffsetCommitRequest
from headrace.protocol.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration, TopicImage
from headrace.protocol.records.coordinator_records import decode_record, encode_record
from headrace.protocol.security.acls import Authorizer
from headrace.storage_node.configs.coordinator_config import CoordinatorConfig
from headrace.storage_node.embedded.contract import Now

RANGE = (m.GroupProtocol("range", b"r"),)
CONSUMER = "consumer"
START_MS = 1_000_000
WALL_AHEAD_MS = 1_700_000_000_000


@dataclass(eq=False)
class Asked:
    """A request with its response; implements Token."""

    name: str
    session: int = 1
    client_id: str = "client"
    client_host: str = "/10.0.0.1"
    answers: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.answers}>"

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        (body,) = self.answers
        return body

    @property
    def code(self) -> int:
        """The error code of the response or of its error."""
        body = self.answer
        return body.code if isinstance(body, KafkaError) else body.error_code

    def deliver(self, body: Any) -> None:
        assert not self.answers, f"{self} is answered again with {body}"
        self.answers.append(body)


class Entry(NamedTuple):
    """One encoded record of the log; without bytes, a transaction marker."""

    producer: ProducerIdAndEpoch
    data: tuple[bytes, bytes | None] | None
    is_commit: bool = False


class Sent(NamedTuple):
    """A request of the shard to another coordinator."""

    node_id: int
    api: Api
    body: Any
    answered: Callable[[Any, Now], Outcome]


class LiveConfig:
    """Implements LiveCoordinatorConfig."""

    def __init__(self, **keys: Any) -> None:
        self.now = CoordinatorConfig(**keys)


def topic_image(name: str, topic_id: int, partitions: int = 4) -> TopicImage:
    one = PartitionRegistration((1,), (1,), 1, 0, 0)
    return TopicImage(name, topic_id.to_bytes(16, "big"), (one,) * partitions)


def image_of(*topics: TopicImage, offset: int = 1) -> MetadataImage:
    return MetadataImage(
        offset=offset,
        topics={topic.name: topic for topic in topics},
        topic_names={topic.topic_id: topic.name for topic in topics},
    )


class GroupRig:
    """Implements the shard's host and timers, and drives the shard."""

    node_id = 7

    def __init__(self, **keys: Any) -> None:
        self.config = LiveConfig(**{"group_initial_rebalance_delay_ms": 0, **keys})
        self.timers = self
        self.authorizer: Authorizer | None = None
        self.image = image_of(topic_image("t", 1), topic_image("u", 2))
        self.epoch = 0
        self.now_ms = START_MS
        self.log: list[Entry] = []
        self.sent: list[Sent] = []
        self.refuses: KafkaError | None = None  # the error of appends
        self.is_committing = True  # False: responses wait for commit()
        self.held: list[tuple[Asked, Any]] = []
        self.follow_ups: list[Callable[[Now], Outcome]] = []  # responses that wait for commit()
        self.committed_end = 0  # of the log
        self.asked: list[Asked] = []
        self._timers: dict[Hashable, tuple[int, int, Any]] = {}
        self._due: list[tuple[int, int, Hashable]] = []  # a heap; cancelled timers are skipped
        self._order = itertools.count()
        self.reload()

    # --- host and timers ---------------------------------------------------------------------------------

    def ask(self, node_id: int, api: Api, body: Any, timeout_ms: int, answered: Any) -> None:
        assert timeout_ms > 0
        self.sent.append(Sent(node_id, api, body, answered))

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        order = next(self._order)
        self._timers[key] = (deadline_ms, order, action)
        heapq.heappush(self._due, (deadline_ms, order, key))

    def cancel(self, key: Hashable) -> None:
        self._timers.pop(key, None)

    def deadline_of(self, key: Hashable) -> int | None:
        return self._timers[key][0] if key in self._timers else None

    def timer_keys(self) -> list[Any]:
        return list(self._timers)

    # --- events ------------------------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + WALL_AHEAD_MS)

    def reload(self) -> None:
        """Load the shard from the log, as after a move or restart of the coordinator."""
        if self.epoch:
            waiting = self.shard.close()
            assert len(waiting) == len(set(waiting))
            assert set(waiting) <= {token for token in self.asked if token.waits}
            for token in self.asked:
                if token.waits:
                    token.deliver(NotCoordinatorError("moved"))
        self.held.clear()
        self.follow_ups.clear()
        self._timers.clear()
        self.sent.clear()
        self.epoch += 1
        self.shard = GroupShard(3, self)
        for offset, entry in enumerate(self.log):
            self._replay(entry, offset)
        self._carry_out(self.shard.on_loaded(self.now), None)

    def lose_tail(self) -> None:
        """Move the coordinator to a node that has the committed records only."""
        del self.log[self.committed_end :]
        self.reload()

    def request(self, api: Api, body: Any, name: str = "", session: int = 1) -> Asked:
        """Send a request to the shard."""
        token = Asked(name or api.name, session)
        self.asked.append(token)
        try:
            outcome = self.shard.handle(api, body, token, self.now)
        except KafkaError as error:
            token.deliver(error)
        else:
            self._carry_out(outcome, token)
        return token

    def advance(self, by_ms: int) -> None:
        """Advance the clock, and fire timers in the order of their deadlines."""
        end_ms = self.now_ms + by_ms
        while self._due and self._due[0][0] <= end_ms:
            deadline_ms, order, key = heapq.heappop(self._due)
            if self._timers.get(key, (0, -1))[1] != order:
                continue  # the timer was cancelled or set again
            action = self._timers.pop(key)[2]
            self.now_ms = max(self.now_ms, deadline_ms)
            self._carry_out(action(self.now), None)
        self.now_ms = end_ms

    def commit(self) -> None:
        """Advance the high watermark to the log end."""
        self.committed_end = len(self.log)
        held, self.held = self.held, []
        for token, body in held:
            token.deliver(body)
        follow_ups, self.follow_ups = self.follow_ups, []
        for follow_up in follow_ups:
            self._carry_out(follow_up(self.now), None)

    def end_transaction(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Append the marker of a transaction."""
        entry = Entry(producer, None, is_commit)
        self.log.append(entry)
        self._replay(entry, len(self.log) - 1)

    def reply(self, body: Any) -> None:
        """Respond to the oldest request to another coordinator."""
        self._carry_out(self.sent.pop(0).answered(body, self.now), None)

    def change_topics(self, *topics: TopicImage, with_delta: bool = True) -> None:
        """Set the topics of the cluster."""
        old, self.image = self.image, image_of(*topics, offset=self.image.offset + 1)
        gone = tuple(topic for topic in old.topics.values() if topic.topic_id not in self.image.topic_names)
        made = tuple(topic.topic_id for topic in topics if topic.topic_id not in old.topic_names)
        delta = MetadataDelta(topics_created=made, topics_removed=gone) if with_delta else None
        self._carry_out(self.shard.on_metadata(self.image, delta, self.now), None)

    def _carry_out(self, outcome: Outcome, request: Asked | None) -> None:
        if outcome.records and self.refuses is not None:
            self._refuse(outcome, self.refuses, request)
            return
        for record in outcome.records:
            entry = Entry(outcome.producer, encode_record(*record))
            self.log.append(entry)
            self._replay(entry, len(self.log) - 1)
        if self.is_committing:
            self.committed_end = len(self.log)
        for token, body, waits in outcome.answers:
            if self.is_committing or not waits:
                token.deliver(body)
            else:
                self.held.append((token, body))
        if outcome.on_committed is not None and self.is_committing:
            self._carry_out(outcome.on_committed(self.now), None)
        elif outcome.on_committed is not None:
            self.follow_ups.append(outcome.on_committed)

    def _refuse(self, outcome: Outcome, error: KafkaError, request: Asked | None) -> None:
        response = Outcome() if outcome.on_failed is None else outcome.on_failed(error, self.now)
        assert not response.records
        self._carry_out(response, None)
        unanswered = [answer.token for answer in outcome.answers]
        unanswered += [request] if outcome.on_failed is None and request is not None else []
        received = {answer.token for answer in response.answers}
        for token in dict.fromkeys(unanswered):
            if token not in received:
                token.deliver(client_error(error))

    def _replay(self, entry: Entry, offset: int) -> None:
        if entry.data is None:
            self.shard.replay_marker(entry.producer, is_commit=entry.is_commit, offset=offset)
            return
        record = decode_record(*entry.data)
        assert record is not None
        self.shard.replay(Record(*record), offset, entry.producer)

    # --- requests of members -----------------------------------------------------------------------------

    def join(self, member_id: str = "", group: str = "g", **more: Any) -> Asked:
        asked = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": CONSUMER,
            "protocols": RANGE,
            **more,
        }
        body = m.JoinGroupRequest(group_id=group, member_id=member_id, **asked)
        return self.request(registry.JOIN_GROUP, body, f"join {member_id}")

    def new_member(self, group: str = "g", **more: Any) -> Asked:
        """Join a dynamic member with the id from MEMBER_ID_REQUIRED."""
        given = self.join(group=group, **more)
        assert given.code == 79, given
        return self.join(given.answer.member_id, group, **more)

    def sync(self, member_id: str, generation: int, group: str = "g", **more: Any) -> Asked:
        given = more.pop("assignments", {})
        assignments = tuple(m.MemberAssignment(each, data) for each, data in given.items())
        body = m.SyncGroupRequest(group, generation, member_id, assignments=assignments, **more)
        return self.request(registry.SYNC_GROUP, body, f"sync {member_id}")

    def heartbeat(
        self, member_id: str, generation: int, group: str = "g", instance_id: str | None = None
    ) -> Asked:
        body = m.HeartbeatRequest(group, generation, member_id, instance_id)
        return self.request(registry.HEARTBEAT, body)

    def leave(self, *members: m.LeavingMember, group: str = "g") -> Asked:
        return self.request(registry.LEAVE_GROUP, m.LeaveGroupRequest(group, members))

    def commit_offset(
        self,
        offset: int = 5,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        tp: tuple[str, int] = ("t", 0),
        **more: Any,
    ) -> Asked:
        request = {
            name: more.pop(name) for name in ("retention_time_ms", "group_instance_id") if name in more
        }
        offsets = (m.CommittedOffset(*tp, offset, **more),)
        body = m.OffsetCommitRequest(group, generation, member_id, offsets, **request)
        return self.request(registry.OFFSET_COMMIT, body)

    def txn_commit_offset(
        self,
        offset: int,
        producer: ProducerIdAndEpoch,
        group: str = "g",
        tp: tuple[str, int] = ("t", 0),
        **more: Any,
    ) -> Asked:
        """Send TxnOffsetCommit; by default without verification of the partition."""
        more = {"adds_partition": False, **more}
        offsets = (m.CommittedOffset(*tp, offset),)
        body = TxnOffsetCommitRequest("txn", group, *producer, offsets, **more)
        return self.request(registry.TXN_OFFSET_COMMIT, body)

    def offsets(self, group: str = "g", *, require_stable: bool = False) -> dict[tuple[str, int], int]:
        """All committed offsets by partition; an error code as a negative number below -1."""
        body = m.OffsetFetchRequest((m.OffsetFetchGroup(group),), require_stable)
        (found,) = self.request(registry.OFFSET_FETCH, body).answer.groups
        return {
            (each.topic, each.partition): -each.error_code if each.error_code else each.offset
            for each in found.offsets
        }

    def stable_group(self, count: int = 1, group: str = "g", **more: Any) -> list[str]:
        """A group in which all members have an assignment; the member ids, the leader first."""
        joins = [self.join(group=group, requires_member_id=False, **more)]
        self.advance(0)
        generation = joins[0].answer.generation_id
        for _ in range(count - 1):
            joins.append(self.join(group=group, requires_member_id=False, **more))
        if count > 1:
            joins[0] = self.join(joins[0].answer.member_id, group, **more)
            generation += 1
        ids = [each.answer.member_id for each in joins]
        given = {member_id: b"a%d" % number for number, member_id in enumerate(ids)}
        syncs = [self.sync(each, generation, group) for each in ids[1:]]
        syncs.append(self.sync(ids[0], generation, group, assignments=given))
        assert not [each for each in syncs if each.code]
        return ids
