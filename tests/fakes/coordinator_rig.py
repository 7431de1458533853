"""Coordinators over a host in memory: partitions are lists of batches, the test sets the clock, and reads and
requests to other nodes stay pending until the test completes them."""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.coordinators.runtime.coordinators import Coordinators
from headrace.coordinators.runtime.hosted_shard import RecordCodec
from headrace.coordinators.runtime.ports import (
    Outcome,
    ProducerIdAndEpoch,
    Record,
    ShardContext,
    ShardMetrics,
    Token,
)
from headrace.protocol.errors import KafkaError, NotLeaderOrFollowerError, UnsupportedVersionError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from headrace.protocol.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from headrace.protocol.model import CONSUMER_OFFSETS, TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, encode_control
from headrace.protocol.records.coordinator_records import decode_record, encode_record
from headrace.protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.embedded.contract import LogPiece, Now

TOPIC_ID = b"o" * 16
NODE = 1
WALL_SHIFT_MS = 1_700_000_000_000
CODEC = RecordCodec(encode_record, decode_record)


@dataclass(eq=False)
class Peer:
    """A connection."""

    session: int
    is_connected: bool = True
    client_id: str = "test"
    address: str = "10.0.0.9:4711"


@dataclass(eq=False)
class Request:
    """A request with the interface of the transport's; `answers` has its response."""

    peer: Peer
    api: Any
    body: Any
    frames: tuple[Any, ...] = ()
    answers: list[Any] = field(default_factory=list)

    @property
    def answer(self) -> Any:
        """The only response."""
        (answer,) = self.answers
        return answer

    @property
    def is_waiting(self) -> bool:
        return not self.answers


@dataclass
class Partition:
    """The log of one partition: whole batches with their offsets."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    high_watermark: int = 0
    leader_epoch: int = 0


class Host:
    """A CoordinatorHost. `commits_at_once`: the high watermark follows each append."""

    def __init__(self, partitions: int, config: dict[str, Any] | None = None) -> None:
        self.now_ms = 1_000
        self.node_id = NODE
        self.broker_epoch = 7
        self.authorizer = None
        self.is_caught_up = True
        self.commits_at_once = True
        self.has_lease = True
        self.handed_over: set[int] | None = None  # partitions that may be appended to; None: all
        self.refuses: KafkaError | None = None  # error of every append
        self.append_error: KafkaError | None = None  # error of an append that passed all checks
        self.logs = [Partition() for _ in range(partitions)]
        self.reads: list[LogPiece] = []
        self.asked: list[tuple[int, Any, Any, int, Callable[[Any, Now], None]]] = []
        self.notes: list[str] = []
        self.news: list[str] = []  # log lines at level INFO
        self.max_bytes = 1 << 20
        self.read_bytes: int | None = None
        self.image = MetadataImage()
        self._config = NodeConfig.of({"log.dirs": "d", **(config or {})})
        self.config = self
        self.replies = self
        self.changed: list[int] = []

    def at(self) -> Now:
        """The current time of both clocks."""
        return Now(self.now_ms, self.now_ms + WALL_SHIFT_MS)

    def holds_lease(self, now_ms: int) -> bool:
        return self.has_lease

    @property
    def now(self) -> NodeConfig:
        return self._config

    # replies

    def reply(self, request: Request, body: Any, frames: Any = ()) -> None:
        request.answers.append(body)

    def reply_error(self, request: Request, error: KafkaError) -> None:
        request.answers.append(error)

    def no_reply(self, request: Request) -> None:
        request.answers.append(None)

    # the log

    def bounds(self, key: Any) -> tuple[int, int]:
        return 0, self.logs[key[1]].end

    def high_watermark(self, key: Any) -> int:
        return self.logs[key[1]].high_watermark

    def schedule_end_turn(self) -> None:
        """Nothing to schedule: `ask` and `ask_together` end the turns."""

    def check_append(self, key: Any, leader_epoch: int) -> None:
        if self.refuses is not None:
            raise self.refuses
        if leader_epoch != self.logs[key[1]].leader_epoch:
            raise NotLeaderOrFollowerError("another epoch")

    def is_handed_over(self, key: Any, now_ms: int) -> bool:
        return self.handed_over is None or key[1] in self.handed_over

    def max_batch_bytes(self, key: Any) -> int:
        return self.max_bytes

    def append(self, key: Any, leader_epoch: int, batch: Any, now: Now) -> int:
        log = self.logs[key[1]]
        if self.append_error is not None:
            raise self.append_error
        if self.refuses is not None:
            raise self.refuses
        if leader_epoch != log.leader_epoch:
            raise NotLeaderOrFollowerError("another epoch")
        base = log.end
        self.put(key[1], bytes(batch))
        if self.commits_at_once:
            log.high_watermark = log.end
            self.changed.append(key[1])
        return base

    def put(self, index: int, batch: bytes) -> None:
        """Append a batch as another leader."""
        log = self.logs[index]
        header = read_batch_header(batch)
        log.batches.append(
            assigned_prefix(log.end, header.batch_length, log.leader_epoch) + batch[CRC_POSITION:]
        )
        log.end += header.last_offset_delta + 1

    def read(self, piece: LogPiece) -> None:
        self.reads.append(piece)

    def finish_read(self, batches: int = 1 << 30, error: KafkaError | None = None) -> None:
        """Complete the oldest read with at most this many batches."""
        piece = self.reads.pop(0)
        log = self.logs[piece.key[1]]
        found = [b for b in log.batches if read_batch_header(b).last_offset >= piece.offset][:batches]
        try:
            if error is not None:
                raise error
            piece.found = piece.digest(found)
            piece.next_offset = read_batch_header(found[-1]).next_offset if found else log.end
        except KafkaError as fault:
            piece.error = fault
        piece.done(piece, self.at())

    def ask(
        self, node_id: int, api: Any, body: Any, timeout_ms: int, answered: Callable[[Any, Now], None]
    ) -> None:
        self.asked.append((node_id, api, body, timeout_ms, answered))

    def note(self, level: int, text: str) -> None:
        (self.notes if level > logging.INFO else self.news).append(text)


class Counter:
    """The state machine of the tests: a number per group, which a heartbeat sets to its generation id.

    JoinGroup is answered by a timer after 10 ms, SyncGroup by the response of another node, LeaveGroup by the
    next heartbeat of the group; DescribeGroups and ListGroups return the state.
    """

    noop_record = Record(OffsetCommitKey("", "", 0), None)

    def __init__(self, partition: int, context: ShardContext) -> None:
        self.partition, self.context = partition, context
        self.refusal: KafkaError | None = None  # error of every request
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.ended: list[tuple[int, bool]] = []
        self.parked: dict[str, Token] = {}
        self.gone: list[int] = []
        self.seen: list[Any] = []
        self.is_loaded = self.is_closed = False
        self.commits = 0

    def handle(self, api: Any, body: Any, token: Token, now: Now) -> Outcome:
        if self.refusal is not None:
            raise self.refusal
        outcome = Outcome()
        if api == registry.HEARTBEAT:
            return self._set(body, token)
        if api == registry.JOIN_GROUP:
            self.context.timers.set(body.group_id, now.ms + 10, lambda _now: self._joined(token))
        elif api == registry.SYNC_GROUP:
            self.context.ask(2, registry.METADATA, body, 500, lambda said, _now: self._synced(token, said))
        elif api == registry.LEAVE_GROUP:
            self.parked[body.group_id] = token
        elif api == registry.DESCRIBE_GROUPS:
            found = tuple(DescribedGroup(0, name, str(self.numbers.get(name))) for name in body.group_ids)
            outcome.answer(token, DescribeGroupsResponse(found))
        elif api == registry.LIST_GROUPS:
            listed = tuple(ListedGroup(name, "", "", "") for name in sorted(self.numbers))
            outcome.answer(token, ListGroupsResponse(0, listed))
        else:
            raise UnsupportedVersionError(api.name)
        return outcome

    def _set(self, body: HeartbeatRequest, token: Token) -> Outcome:
        value = OffsetCommitValue(body.generation_id, -1, body.member_id, 0)
        outcome = Outcome([Record(OffsetCommitKey(body.group_id, "t", 0), value)])
        outcome.answer(token, HeartbeatResponse(0, str(body.generation_id)))
        parked = self.parked.pop(body.group_id, None)
        if parked is not None:
            outcome.answer(parked, LeaveGroupResponse(0))
        return outcome

    @staticmethod
    def _joined(token: Token) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, JoinGroupResponse(0))
        return outcome

    @staticmethod
    def _synced(token: Token, said: Any) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, SyncGroupResponse(0, error_detail=repr(said)))
        return outcome

    def replay(self, record: Record, offset: int, producer: ProducerIdAndEpoch) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        numbers = (
            self.numbers if producer.producer_id < 0 else self.pending.setdefault(producer.producer_id, {})
        )
        if record.value is None:
            numbers.pop(record.key.group, None)
        else:
            numbers[record.key.group] = record.value.offset
            self.commits += self.is_loaded

    def replay_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool, offset: int) -> None:
        self.ended.append((offset, is_commit))
        if is_commit:
            self.numbers.update(self.pending.get(producer.producer_id, {}))
        self.pending.pop(producer.producer_id, None)

    def on_loaded(self, now: Now) -> Outcome:
        self.is_loaded = True
        return Outcome()

    def on_metadata(self, image: Any, delta: Any, now: Now) -> Outcome:
        self.seen.append(delta)
        return Outcome()

    def on_peer_gone(self, session: int, now: Now) -> Outcome:
        self.gone.append(session)
        self.parked = {name: token for name, token in self.parked.items() if token.session != session}
        return Outcome()

    def metrics(self) -> ShardMetrics:
        return ShardMetrics({"NumGroups": len(self.numbers)}, {"offset-commit-count": self.commits})

    def offset_groups(self) -> list[str]:
        return list(self.numbers)

    def committed_offsets(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        return [(TopicPartition("t", 0), self.numbers[group_id])]

    def close(self) -> list[Token]:
        self.is_closed = True
        return list(self.parked.values())


class CoordinatorRig:
    """Coordinators of counters over `partitions` partitions of __consumer_offsets."""

    def __init__(
        self, partitions: int = 1, make: Any = Counter, codec: RecordCodec = CODEC, **config: Any
    ) -> None:
        self.host = Host(partitions, config)
        self.shards: list[Any] = []
        self.image_with(partitions)

        def make_shard(partition: int, context: ShardContext) -> Any:
            self.shards.append(make(partition, context))
            return self.shards[-1]

        self.all = Coordinators(self.host, {CONSUMER_OFFSETS: make_shard}, codec, self.host.now_ms)  # type: ignore[arg-type]
        self.sessions = itertools.count(1)

    def image_with(self, partitions: int, leader: int = NODE) -> None:
        """Set the host's image to one with this topic; with 0 partitions the topic does not exist."""
        one = PartitionRegistration((NODE,), (NODE,), leader, 0, 0)
        topic = TopicImage(CONSUMER_OFFSETS, TOPIC_ID, (one,) * partitions)
        broker = BrokerRegistration(NODE, 7, bytes(16), "h", 9092, None, (), is_fenced=False)
        self.host.image = MetadataImage(
            brokers={NODE: broker}, topics={CONSUMER_OFFSETS: topic} if partitions else {}
        )

    def lead(self, index: int = 0, epoch: int = 0) -> None:
        """Make this node the leader, which begins to load."""
        self.host.logs[index].leader_epoch = epoch
        self.all.elected((TOPIC_ID, index), TopicPartition(CONSUMER_OFFSETS, index), epoch, self.host.at())

    def leave(self, index: int = 0) -> None:
        """End this node's leadership."""
        self.all.resigned((TOPIC_ID, index))

    def load(self) -> None:
        """Complete all reads."""
        while self.host.reads:
            self.host.finish_read()
            self.pass_time(0)

    @property
    def shard(self) -> Counter:
        """The most recently loaded shard."""
        shard: Counter = self.shards[-1]
        return shard

    def commit(self, upto: int | None = None, index: int = 0) -> None:
        """Advance the high watermark."""
        log = self.host.logs[index]
        log.high_watermark = log.end if upto is None else upto
        self.all.committed((TOPIC_ID, index), self.host.at())

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock, and fire each timer at its deadline."""
        end_ms = self.host.now_ms + milliseconds
        while (due_ms := self.all.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.host.now_ms = max(self.host.now_ms, due_ms)
            self.all.expire(self.host.at())
            self.settle()
        self.host.now_ms = end_ms

    def settle(self) -> None:
        """Call the coordinator as the node does after each event."""
        changed, self.host.changed = self.host.changed, []
        for index in changed:
            self.all.committed((TOPIC_ID, index), self.host.at())

    def ask(self, api: Any, body: Any, session: int | None = None) -> Request:
        """Handle one request in one turn of the loop."""
        return self.ask_together((api, body), session=session)[0]

    def ask_together(self, *asked: tuple[Any, Any], session: int | None = None) -> list[Request]:
        """Handle requests within one turn of the loop."""
        requests = [Request(Peer(session or next(self.sessions)), api, body) for api, body in asked]
        for request in requests:
            try:
                self.all.handle(request, self.host.at())
            except KafkaError as error:
                self.host.reply_error(request, error)
        self.all.end_turn(self.host.at())
        self.settle()
        return requests

    def set(self, number: int, group: str = "g", **more: Any) -> Request:
        """Set a group's number."""
        return self.ask(registry.HEARTBEAT, HeartbeatRequest(group, number, more.pop("text", "")), **more)

    def join(self, group: str = "g", **more: Any) -> Request:
        return self.ask(registry.JOIN_GROUP, JoinGroupRequest(group, 1, 1, "", "", ()), **more)

    def sync(self, group: str = "g", **more: Any) -> Request:
        return self.ask(registry.SYNC_GROUP, SyncGroupRequest(group, 1, ""), **more)

    def park(self, group: str = "g", **more: Any) -> Request:
        return self.ask(registry.LEAVE_GROUP, LeaveGroupRequest(group, ()), **more)

    def describe(self, *groups: str) -> Request:
        return self.ask(registry.DESCRIBE_GROUPS, DescribeGroupsRequest(groups))


def batch_of(*pairs: tuple[str, int | None], producer_id: int = -1) -> bytes:
    """A batch that sets numbers, as written by another leader."""
    builder = active_codec().builder(
        max_bytes=1 << 20,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    for group, number in pairs:
        value = None if number is None else OffsetCommitValue(number, -1, "", 0)
        builder.append(1, *encode_record(OffsetCommitKey(group, "t", 0), value))
    return builder.build()


def marker_of(producer_id: int, *, is_commit: bool) -> bytes:
    """A transaction marker."""
    builder = active_codec().builder(
        max_bytes=1 << 20, producer_id=producer_id, producer_epoch=0, is_control=True, is_transactional=True
    )
    builder.append(1, *encode_control(EndTransaction(is_commit, 3)))
    return builder.build()
