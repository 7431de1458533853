"""What a node core tells its guest, and what it does for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from core_rig import NODE, CoreRig, FakePeer
from headrace.protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    InvalidGroupIdError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnsupportedVersionError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import HeartbeatRequest
from headrace.protocol.metadata.records import FenceBrokerRecord, PartitionChangeRecord, RegisterBrokerRecord
from headrace.protocol.model import CONSUMER_OFFSETS, NO_NODE
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix
from headrace.runtime.files.file_layer import DiskFullError, FileGoneError
from headrace.storage_node.effects import AskPeer, ReadForGuest
from headrace.storage_node.embedded.contract import LogPiece
from node_rig import WALL_MS, batch, values_of

if TYPE_CHECKING:
    from headrace.protocol.model import TopicPartition
    from headrace.storage_node.embedded.contract import GuestHost, PartitionKey


class Visitor:
    """A guest that writes down what it hears."""

    def __init__(self, host: GuestHost) -> None:
        self.host = host
        self.heard: list[Any] = []
        self.deadline_ms: int | None = None
        self.pieces: list[LogPiece] = []

    def handle(self, request: Any) -> None:
        self.heard.append(("asked", request.api.name, self.host.now_ms, self.host.wall_ms))
        if not request.body.group_id:
            raise InvalidGroupIdError("nameless")
        self.host.replies.no_reply(request)

    def end_turn(self) -> None:
        self.heard.append(("turn", self.host.now_ms))

    def led(self, key: PartitionKey, name: TopicPartition, leader_epoch: int) -> None:
        self.heard.append(("led", str(name), leader_epoch))

    def left(self, key: PartitionKey) -> None:
        self.heard.append(("left", key[1]))

    def committed(self, key: PartitionKey) -> None:
        self.heard.append(("committed", self.host.high_watermark(key)))

    def followed(self, image: Any, delta: Any) -> None:
        self.heard.append(("followed", image.offset))

    def ended_transaction(self, key: PartitionKey, *who: int, is_commit: bool, offset: int) -> None:
        self.heard.append(("ended", *who, is_commit, offset))

    def connection_gone(self, session: int) -> None:
        self.heard.append(("gone", session))

    def expire(self) -> None:
        self.heard.append(("expired", self.host.now_ms))
        self.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def status(self) -> dict[str, Any]:
        return {}

    def take(self, *kinds: str) -> list[Any]:
        """What was heard of these kinds since the last call."""
        found, self.heard = [each for each in self.heard if each[0] in kinds], []
        return found

    def read(self, key: PartitionKey, offset: int = 0, max_bytes: int = 1 << 20) -> None:
        """Its values."""
        self.host.read(
            LogPiece(
                key,
                offset,
                max_bytes,
                lambda data: [value for _, value in values_of(data)],
                self.pieces.append,
            )
        )


class Rig(CoreRig):
    """A node with a visitor, and the offsets topic."""

    def __init__(self, **facts: Any) -> None:
        visitors: list[Visitor] = []

        def make(host: GuestHost) -> Any:
            visitors.append(Visitor(host))
            return visitors[0]

        super().__init__(guest=make, **facts.pop("config", {}))
        self.visitor = visitors[0]
        self.topic_id = self.topic(CONSUMER_OFFSETS, **facts)
        self.key = (self.topic_id, 0)

    def append(self, *values: bytes, epoch: int = 0) -> int:
        """As the guest does, from inside an event."""
        base = []
        data = batch(*values)
        host = self.visitor.host
        self.core.answered(lambda: base.append(host.append(self.key, epoch, data)), self.now_ms)
        self.check()
        return base[0]

    def partition(self) -> Any:
        return self.core.table.partitions[self.key]


def test_the_guest_hears_of_its_own_topics_alone() -> None:
    """And first of the partitions, then of the metadata."""
    rig = Rig(partitions=2)
    assert rig.visitor.take("led", "left", "committed", "followed")[-3:] == [
        ("led", "__consumer_offsets-0", 0),
        ("led", "__consumer_offsets-1", 0),
        ("followed", rig.image.offset),
    ]
    rig.topic("other")
    assert rig.visitor.take("led", "left", "committed") == []


def test_the_guest_hears_when_leadership_goes_and_comes() -> None:
    """Both at once counts as both; so does the end of the topic."""
    rig = Rig()
    rig.visitor.take()
    rig.set_leader(rig.topic_id, NO_NODE)
    assert rig.visitor.take("led", "left") == [("left", 0)]
    rig.set_leader(rig.topic_id, NODE)
    assert rig.visitor.take("led", "left") == [("led", "__consumer_offsets-0", 2)]
    both = [PartitionChangeRecord(rig.topic_id, 0, leader=leader) for leader in (NO_NODE, NODE)]
    rig.metadata(*both)
    assert rig.visitor.take("led", "left") == [("left", 0), ("led", "__consumer_offsets-0", 4)]
    rig.remove(rig.topic_id)
    assert rig.visitor.take("led", "left") == [("left", 0)]


def test_the_guest_hears_of_a_lost_disk() -> None:
    """As of lost leadership: it could write nothing there."""
    rig = Rig(config={"dirs": "/d,/e"})
    rig.visitor.take()
    error = KafkaStorageError("gone")
    rig.core.answered(lambda: rig.core.replicas.disks.failed(rig.partition(), error, rig.now_ms), rig.now_ms)
    rig.check()
    assert rig.visitor.take("left") == [("left", 0)]


def test_appends_go_by_the_rules_of_acks_all() -> None:
    """Offsets in order; what is committed is told; an older epoch and too few replicas are refused."""
    rig = Rig()
    rig.visitor.take()
    assert [rig.append(b"a", b"b"), rig.append(b"c")] == [0, 2]
    assert rig.visitor.take("committed") == [("committed", 2), ("committed", 3)]
    assert rig.values(rig.topic_id) == [b"a", b"b", b"c"]
    rig.set_leader(rig.topic_id, NO_NODE)
    with pytest.raises(NotLeaderOrFollowerError):
        rig.append(b"d")
    rig.set_leader(rig.topic_id, NODE)
    with pytest.raises(FencedLeaderEpochError):
        rig.append(b"d", epoch=0)
    assert rig.append(b"d", epoch=2) == 3


def test_too_few_replicas_refuse_an_append() -> None:
    """As they do with acks=all."""
    rig = Rig(replicas=(NODE, 2), min_insync_replicas="2")
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, isr=(NODE,)))
    with pytest.raises(NotEnoughReplicasError):
        rig.append(b"a", epoch=rig.partition().leader_epoch)
    assert rig.visitor.host.bounds(rig.key) == (0, 0)


def test_records_that_must_be_flushed_are_committed_when_they_are() -> None:
    """With durability=fsync, too, the guest hears of it."""
    rig = Rig(durability="fsync")
    rig.visitor.take()
    rig.append(b"a")
    assert rig.visitor.take("committed") == []
    rig.flush()
    assert rig.visitor.take("committed") == [("committed", 1)]


def test_what_the_guest_appends_when_it_hears_of_something_is_seen_at_once() -> None:
    """Also by those who wait for it."""
    rig = Rig()
    waiting = rig.fetch(rig.topic_id, offset=0, max_wait_ms=10_000)
    rig.visitor.followed = lambda _image, _delta: rig.visitor.host.append(rig.key, 0, batch(b"a"))  # type: ignore[method-assign]
    rig.topic("other")
    assert waiting.is_answered


def test_a_piece_of_the_log_is_read_on_a_thread() -> None:
    """Whole batches up to the end as it was then."""
    rig = Rig()
    rig.append(b"a", b"b")
    rig.append(b"c")
    rig.visitor.read(rig.key, 0, 10)
    rig.check()
    rig.append(b"d")
    rig.read_for_guest()
    (piece,) = rig.visitor.pieces
    assert (piece.found, piece.next_offset, piece.error) == ([b"a", b"b"], 2, None)
    rig.visitor.read(rig.key, 2)
    rig.check()
    rig.read_for_guest()
    piece = rig.visitor.pieces[1]
    assert (piece.found, piece.next_offset) == ([b"c", b"d"], 4)


def test_a_log_with_gaps_is_read_over_them() -> None:
    """Compaction has left them, also before the end; whole batches, piece by piece, until the end."""
    rig = Rig()
    log = rig.partition().log
    for offset, value in ((3, b"a"), (9, b"b")):
        data = batch(value)
        log.append_as_follower(assigned_prefix(offset, len(data) - 12, 0) + data[CRC_POSITION:])
    log.roll()
    offset, found = 0, []
    while offset < log.log_end_offset:
        rig.visitor.read(rig.key, offset, 10)
        rig.check()
        rig.read_for_guest()
        piece = rig.visitor.pieces.pop()
        assert piece.next_offset > offset
        found += piece.found
        offset = piece.next_offset
    assert found == [b"a", b"b"]
    assert offset == 10


def test_a_piece_of_an_old_leadership_is_never_given() -> None:
    """What it says may not be in the log any more."""
    rig = Rig()
    rig.append(b"a")
    rig.visitor.read(rig.key)
    rig.check()
    rig.set_leader(rig.topic_id, NO_NODE)
    rig.set_leader(rig.topic_id, NODE)
    rig.read_for_guest()
    assert rig.visitor.pieces == []


def test_a_piece_whose_file_is_gone_is_read_again() -> None:
    """Compaction has replaced it."""
    rig = Rig()
    rig.append(b"a")
    rig.visitor.read(rig.key)
    rig.check()
    (effect,) = rig.pop(ReadForGuest)
    effect.read.piece.error = FileGoneError("it was cleaned")
    rig.core.guest_read(effect.read, rig.now_ms)
    rig.check()
    assert rig.visitor.pieces == []
    rig.read_for_guest()
    assert rig.visitor.pieces[0].found == [b"a"]


def test_a_damaged_piece_is_told_to_the_guest_and_the_operator() -> None:
    """The node goes on."""
    rig = Rig()
    rig.append(b"a")
    rig.visitor.read(rig.key)
    rig.check()
    (effect,) = rig.pop(ReadForGuest)
    effect.read.piece.error = CorruptMessageError("a wrong CRC")
    rig.core.guest_read(effect.read, rig.now_ms)
    rig.check()
    assert isinstance(rig.visitor.pieces[0].error, CorruptMessageError)
    assert "is damaged" in rig.notes()


def test_questions_of_the_guest_are_answered_within_the_event() -> None:
    """What it appends then is told at once; the times are those of the answer."""
    rig = Rig()
    rig.visitor.take()
    said = []

    def answered(outcome: Any) -> None:
        said.append((outcome, rig.visitor.host.now_ms, rig.visitor.host.wall_ms))
        rig.visitor.host.append(rig.key, 0, batch(b"a"))

    rig.visitor.host.ask(2, registry.METADATA, "body", 500, answered)
    rig.check()
    (effect,) = rig.pop(AskPeer)
    assert (effect.node_id, effect.api, effect.body, effect.timeout_ms) == (2, registry.METADATA, "body", 500)
    effect.answered(NetworkError("gone"), 5_000, 9_000)
    assert said[0][1:] == (5_000, 9_000)
    assert rig.visitor.take("committed") == [("committed", 1)]


def test_the_guest_answers_its_own_requests() -> None:
    """With the times of both clocks; an error that it raises is the answer."""
    rig = Rig()
    rig.visitor.take()
    assert rig.ask(registry.HEARTBEAT, HeartbeatRequest("g", 1, "m")).is_dropped
    assert rig.visitor.take("asked") == [("asked", "Heartbeat", rig.now_ms, WALL_MS)]
    assert isinstance(rig.ask(registry.HEARTBEAT, HeartbeatRequest("", 1, "m")).error, InvalidGroupIdError)


def test_without_a_guest_its_requests_are_refused() -> None:
    """And nothing else changes."""
    rig = CoreRig()
    topic_id = rig.topic(CONSUMER_OFFSETS)
    answer = rig.ask(registry.HEARTBEAT, HeartbeatRequest("g", 1, "m"))
    assert isinstance(answer.error, UnsupportedVersionError)
    assert rig.produce(topic_id).is_answered
    assert rig.core.guest.status() == {}


def test_the_guest_is_woken_when_it_asked_for_it() -> None:
    """The wall clock is as far from the other as when both were last known."""
    rig = Rig()
    rig.tick(WALL_MS)
    rig.visitor.deadline_ms = rig.now_ms + 50
    rig.core.connection_gone(1, rig.now_ms)  # of which the guest may have made a timer
    rig.check()
    rig.visitor.take()
    rig.pass_time(60)
    assert rig.visitor.take("expired") == [("expired", rig.now_ms - 10)]
    assert rig.visitor.host.wall_ms == WALL_MS + 50


def test_the_guest_hears_of_connections_and_markers() -> None:
    """Markers only of partitions that it was told of."""
    rig = Rig()
    rig.visitor.take()
    rig.core.connection_gone(FakePeer().session, rig.now_ms)
    rig.core.guest.ended_transaction(rig.key, 5, 1, rig.now_ms, is_commit=True, offset=7)
    rig.core.guest.ended_transaction((b"other topic's id", 0), 5, 1, rig.now_ms, is_commit=True, offset=7)
    assert rig.visitor.take("gone", "ended") == [("gone", 77), ("ended", 5, 1, True, 7)]


def test_ends_of_other_partitions_are_known_where_there_is_a_replica() -> None:
    """Whoever leads it; the guest compares what groups have read with them."""
    rig = Rig()
    other = rig.topic("other")
    rig.produce(other, batch(b"a", b"b"))
    assert rig.visitor.host.known_end((other, 0)) == 2
    assert rig.visitor.host.known_end((other, 1)) is None


def test_the_guest_knows_whether_it_has_a_lease() -> None:
    """By the time of the event, and only with the metadata that the lease is about."""
    rig = Rig()
    host, lease = rig.visitor.host, rig.core.guest.lease
    assert not host.holds_lease
    lease.length_ms = 10
    lease.granted(rig.now_ms, rig.image.offset + 1)
    assert not host.holds_lease
    rig.topic("other")
    assert host.holds_lease
    rig.pass_time(10)
    rig.core.expire(rig.now_ms)
    assert not host.holds_lease


def test_a_partition_that_nobody_led_is_handed_over_at_once() -> None:
    """A new one; one whose leader was fenced; one that this node has led before itself."""
    rig = Rig()
    rig.core.guest.lease.length_ms = 1_000
    assert rig.visitor.host.is_handed_over(rig.key)
    for leader in (NO_NODE, NODE):
        rig.set_leader(rig.topic_id, leader)
    assert rig.visitor.host.is_handed_over(rig.key)
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, leader=NODE))
    assert rig.partition().leader_epoch == 3
    assert rig.visitor.host.is_handed_over(rig.key)


class Takeover(Rig):
    """The other node has led, and now this one does."""

    def __init__(self) -> None:
        super().__init__(replicas=(NODE, 2))
        self.core.guest.lease.length_ms = 1_000
        self.metadata(RegisterBrokerRecord(2, bytes(16), "h", 9_092, None, (), 5, is_fenced=False))
        self.set_leader(self.topic_id, 2)
        self.set_leader(self.topic_id, NODE)

    @property
    def is_done(self) -> bool:
        return self.visitor.host.is_handed_over(self.key)


def test_the_one_before_may_believe_in_its_lease() -> None:
    """Until no lease of a heartbeat from before can hold any more. It is the same in later epochs of the same
    leader."""
    rig = Takeover()
    assert not rig.is_done
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, leader=NODE))
    rig.pass_time(999)
    rig.core.expire(rig.now_ms)
    assert not rig.is_done
    rig.pass_time(1)
    rig.core.expire(rig.now_ms)
    assert rig.is_done


def test_the_one_before_has_heard_of_it_when_it_follows() -> None:
    """Its fetch is of the new epoch."""
    rig = Takeover()
    in_sync = rig.partition().in_sync
    in_sync.fetched(2, 0, 0, broker_epoch=1, now_ms=rig.now_ms)
    assert rig.is_done


def test_the_one_before_has_no_lease_when_it_is_fenced() -> None:
    """Nor when it is removed."""
    rig = Takeover()
    rig.metadata(FenceBrokerRecord(2, 5))
    assert rig.is_done


def test_who_has_led_before_may_be_unknown() -> None:
    """Two epochs were passed over: only time tells."""
    rig = Takeover()
    rig.metadata(*(PartitionChangeRecord(rig.topic_id, 0, leader=leader) for leader in (2, NODE)))
    rig.partition().in_sync.fetched(2, 0, 0, broker_epoch=1, now_ms=rig.now_ms)
    assert not rig.is_done
    rig.pass_time(1_000)
    rig.core.expire(rig.now_ms)
    assert rig.is_done


def test_the_guest_can_know_before_whether_it_may_append() -> None:
    """Leadership, replicas in sync, and a disk that is known to be full."""
    rig = Rig(replicas=(NODE, 2), min_insync_replicas="2")
    host = rig.visitor.host
    host.check_append(rig.key, 0)
    with pytest.raises(FencedLeaderEpochError):
        host.check_append(rig.key, -7)
    room = rig.partition().log.folder.files.room
    room.full = "the disk is full"
    with pytest.raises(DiskFullError):
        host.check_append(rig.key, 0)
    room.full = None
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, isr=(NODE,)))
    with pytest.raises(NotEnoughReplicasError):
        host.check_append(rig.key, rig.partition().leader_epoch)
    rig.set_leader(rig.topic_id, NO_NODE)
    with pytest.raises(NotLeaderOrFollowerError):
        host.check_append(rig.key, 0)


def test_the_guest_hears_of_the_end_of_a_turn_once() -> None:
    """However often it asked for it; then it may ask again."""
    rig = Rig()
    rig.visitor.take()
    for _ in range(2):
        rig.visitor.host.soon()
        rig.visitor.host.soon()
        rig.check()
        assert rig.visitor.take("turn") == [("turn", rig.now_ms)]
