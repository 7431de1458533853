"""Calls between the node core and the embedded coordinators."""

from typing import Any

import pytest
from core_rig import NODE, CoreRig, FakePeer
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import HeartbeatRequest
from headrace.protocol.metadata.records import FenceBrokerRecord, PartitionChangeRecord, RegisterBrokerRecord
from headrace.protocol.model import CONSUMER_OFFSETS, NO_NODE, TopicPartition
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix
from headrace.runtime.files.file_layer import DiskFullError, FileGoneError
from headrace.storage_node.effects import AskPeer, ReadCoordinatorLog
from headrace.storage_node.embedded.contract import CoordinatorHost, LogPiece, Now, PartitionKey
from node_rig import WALL_MS, batch, values_of


class RecordingCoordinators:
    """EmbeddedCoordinators that record their calls."""

    def __init__(self, host: CoordinatorHost) -> None:
        self.host = host
        self.calls: list[Any] = []
        self.deadline_ms: int | None = None
        self.pieces: list[LogPiece] = []

    def handle(self, request: Any, now: Now) -> None:
        self.calls.append(("asked", request.api.name, *now))
        if not request.body.group_id:
            raise errors.InvalidGroupIdError("nameless")
        self.host.replies.no_reply(request)

    def end_turn(self, now: Now) -> None:
        self.calls.append(("turn", now.ms))

    def elected(self, key: PartitionKey, name: TopicPartition, leader_epoch: int, now: Now) -> None:
        self.calls.append(("elected", str(name), leader_epoch))

    def resigned(self, key: PartitionKey) -> None:
        self.calls.append(("resigned", key[1]))

    def committed(self, key: PartitionKey, now: Now) -> None:
        self.calls.append(("committed", self.host.high_watermark(key)))

    def metadata_changed(self, image: Any, delta: Any, now: Now) -> None:
        self.calls.append(("metadata", image.offset))

    def ended_transaction(self, key: PartitionKey, *producer: int, is_commit: bool, offset: int) -> None:
        self.calls.append(("ended", *producer, is_commit, offset))

    def connection_gone(self, session: int, now: Now) -> None:
        self.calls.append(("gone", session))

    def expire(self, now: Now) -> None:
        self.calls.append(("expired", *now))
        self.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def status(self) -> dict[str, Any]:
        return {}

    def take(self, *kinds: str) -> list[Any]:
        """The recorded calls of these kinds since the last `take`."""
        found, self.calls = [each for each in self.calls if each[0] in kinds], []
        return found

    def read(self, key: PartitionKey, offset: int = 0, max_bytes: int = 1 << 20) -> None:
        """Its values."""
        self.host.read(
            LogPiece(
                key,
                offset,
                max_bytes,
                lambda data: [value for _, value in values_of(data)],
                lambda piece, _now: self.pieces.append(piece),
            )
        )


class Rig(CoreRig):
    """A node with recording coordinators, and the offsets topic."""

    def __init__(self, **facts: Any) -> None:
        made: list[RecordingCoordinators] = []

        def make(host: CoordinatorHost, _now_ms: int) -> Any:
            made.append(RecordingCoordinators(host))
            return made[0]

        super().__init__(coordinators=make, **facts.pop("config", {}))
        self.coordinators = made[0]
        self.topic_id = self.topic(CONSUMER_OFFSETS, **facts)
        self.key = (self.topic_id, 0)

    def append(self, *values: bytes, epoch: int = 0) -> int:
        """As a coordinator does, inside an event."""
        base = []
        data = batch(*values)
        host = self.coordinators.host
        self.core.answered(
            lambda: base.append(host.append(self.key, epoch, data, Now(self.now_ms, WALL_MS))), self.now_ms
        )
        self.check()
        return base[0]

    def partition(self) -> Any:
        return self.core.table.partitions[self.key]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_coordinators_learn_of_their_own_topics_only() -> None:
    """`elected` of their partitions comes before `metadata_changed` of the image."""
    rig = Rig(partitions=2)
    assert rig.coordinators.take("elected", "resigned", "committed", "metadata")[-3:] == [
        ("elected", "__consumer_offsets-0", 0),
        ("elected", "__consumer_offsets-1", 0),
        ("metadata", rig.image.offset),
    ]
    rig.topic("other")
    assert rig.coordinators.take("elected", "resigned", "committed") == []


def test_coordinators_learn_of_lost_and_gained_leadership(rig: Rig) -> None:
    """A new epoch of the same leader is a loss and a gain; deleting the topic is a loss."""
    rig.coordinators.take()
    rig.set_leader(rig.topic_id, NO_NODE)
    assert rig.coordinators.take("elected", "resigned") == [("resigned", 0)]
    rig.set_leader(rig.topic_id, NODE)
    assert rig.coordinators.take("elected", "resigned") == [("elected", "__consumer_offsets-0", 2)]
    both = [PartitionChangeRecord(rig.topic_id, 0, leader=leader) for leader in (NO_NODE, NODE)]
    rig.metadata(*both)
    assert rig.coordinators.take("elected", "resigned") == [
        ("resigned", 0),
        ("elected", "__consumer_offsets-0", 4),
    ]
    rig.remove(rig.topic_id)
    assert rig.coordinators.take("elected", "resigned") == [("resigned", 0)]


def test_failed_disk_ends_leadership() -> None:
    """`resigned` is called: nothing can be appended there."""
    rig = Rig(config={"dirs": "/d,/e"})
    rig.coordinators.take()
    error = errors.KafkaStorageError("gone")
    rig.core.answered(lambda: rig.core.replicas.disks.failed(rig.partition(), error, rig.now_ms), rig.now_ms)
    rig.check()
    assert rig.coordinators.take("resigned") == [("resigned", 0)]


def test_append_follows_acks_all(rig: Rig) -> None:
    """Offsets in order; `committed` is called; an older leader epoch is refused."""
    rig.coordinators.take()
    assert [rig.append(b"a", b"b"), rig.append(b"c")] == [0, 2]
    assert rig.coordinators.take("committed") == [("committed", 2), ("committed", 3)]
    assert rig.values(rig.topic_id) == [b"a", b"b", b"c"]
    rig.set_leader(rig.topic_id, NO_NODE)
    with pytest.raises(errors.NotLeaderOrFollowerError):
        rig.append(b"d")
    rig.set_leader(rig.topic_id, NODE)
    with pytest.raises(errors.FencedLeaderEpochError):
        rig.append(b"d", epoch=0)
    assert rig.append(b"d", epoch=2) == 3


def test_append_below_min_isr_is_refused() -> None:
    """NotEnoughReplicasError, as for a producer with acks=all."""
    rig = Rig(replicas=(NODE, 2), min_insync_replicas="2")
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, isr=(NODE,)))
    with pytest.raises(errors.NotEnoughReplicasError):
        rig.append(b"a", epoch=rig.partition().leader_epoch)
    assert rig.coordinators.host.bounds(rig.key) == (0, 0)


def test_committed_after_the_flush_with_durability_fsync() -> None:
    """`committed` comes with the end of the flush."""
    rig = Rig(durability="fsync")
    rig.coordinators.take()
    rig.append(b"a")
    assert rig.coordinators.take("committed") == []
    rig.flush()
    assert rig.coordinators.take("committed") == [("committed", 1)]


def test_append_inside_a_call_completes_waiting_fetches(rig: Rig) -> None:
    """What a coordinator appends in `committed` wakes a parked fetch in the same event."""
    waiting = rig.fetch(rig.topic_id, offset=0, max_wait_ms=10_000)
    rig.coordinators.metadata_changed = lambda _image, _delta, now: rig.coordinators.host.append(
        rig.key, 0, batch(b"a"), now
    )  # type: ignore[method-assign]
    rig.topic("other")
    assert waiting.is_answered


def test_log_is_read_on_a_thread(rig: Rig) -> None:
    """Whole batches, up to the log end offset at the time of the request."""
    rig.append(b"a", b"b")
    rig.append(b"c")
    rig.coordinators.read(rig.key, 0, 10)
    rig.check()
    rig.append(b"d")
    rig.read_coordinator_logs()
    (piece,) = rig.coordinators.pieces
    assert (piece.found, piece.next_offset, piece.error) == ([b"a", b"b"], 2, None)
    rig.coordinators.read(rig.key, 2)
    rig.check()
    rig.read_coordinator_logs()
    piece = rig.coordinators.pieces[1]
    assert (piece.found, piece.next_offset) == ([b"c", b"d"], 4)


def test_read_skips_gaps_of_compaction(rig: Rig) -> None:
    """Gaps in the middle and at the end; piece by piece up to the log end offset."""
    log = rig.partition().log
    for offset, value in ((3, b"a"), (9, b"b")):
        data = batch(value)
        log.append_as_follower(assigned_prefix(offset, len(data) - 12, 0) + data[CRC_POSITION:])
    log.roll()
    offset, found = 0, []
    while offset < log.log_end_offset:
        rig.coordinators.read(rig.key, offset, 10)
        rig.check()
        rig.read_coordinator_logs()
        piece = rig.coordinators.pieces.pop()
        assert piece.next_offset > offset
        found += piece.found
        offset = piece.next_offset
    assert found == [b"a", b"b"]
    assert offset == 10


def test_read_of_an_ended_leadership_is_dropped(rig: Rig) -> None:
    """Its records may have been truncated."""
    rig.append(b"a")
    rig.coordinators.read(rig.key)
    rig.check()
    rig.set_leader(rig.topic_id, NO_NODE)
    rig.set_leader(rig.topic_id, NODE)
    rig.read_coordinator_logs()
    assert rig.coordinators.pieces == []


def test_read_of_a_replaced_segment_is_repeated(rig: Rig) -> None:
    """Compaction has replaced the file."""
    rig.append(b"a")
    rig.coordinators.read(rig.key)
    rig.check()
    (effect,) = rig.pop(ReadCoordinatorLog)
    effect.read.piece.error = FileGoneError("it was cleaned")
    rig.core.coordinator_log_read(effect.read, rig.now_ms)
    rig.check()
    assert rig.coordinators.pieces == []
    rig.read_coordinator_logs()
    assert rig.coordinators.pieces[0].found == [b"a"]


def test_corrupt_log_is_reported_to_coordinator_and_operator(rig: Rig) -> None:
    rig.append(b"a")
    rig.coordinators.read(rig.key)
    rig.check()
    (effect,) = rig.pop(ReadCoordinatorLog)
    effect.read.piece.error = errors.CorruptMessageError("a wrong CRC")
    rig.core.coordinator_log_read(effect.read, rig.now_ms)
    rig.check()
    assert isinstance(rig.coordinators.pieces[0].error, errors.CorruptMessageError)
    assert "corrupt records" in rig.notes()


def test_response_of_another_node_is_handled_as_an_event(rig: Rig) -> None:
    """Its appends complete waiting requests; the times are those of the response."""
    rig.coordinators.take()
    said = []

    def answered(outcome: Any, now: Now) -> None:
        said.append((outcome, *now))
        rig.coordinators.host.append(rig.key, 0, batch(b"a"), now)

    rig.coordinators.host.ask(2, registry.METADATA, "body", 500, answered)
    rig.check()
    (effect,) = rig.pop(AskPeer)
    assert (effect.node_id, effect.api, effect.body, effect.timeout_ms) == (2, registry.METADATA, "body", 500)
    effect.answered(errors.NetworkError("gone"), 5_000, 9_000)
    assert said[0][1:] == (5_000, 9_000)
    assert rig.coordinators.take("committed") == [("committed", 1)]


def test_coordinator_requests_reach_the_coordinators(rig: Rig) -> None:
    """With both clocks; a KafkaError that they raise is the response."""
    rig.coordinators.take()
    assert rig.ask(registry.HEARTBEAT, HeartbeatRequest("g", 1, "m")).is_dropped
    assert rig.coordinators.take("asked") == [("asked", "Heartbeat", rig.now_ms, WALL_MS)]
    assert isinstance(
        rig.ask(registry.HEARTBEAT, HeartbeatRequest("", 1, "m")).error, errors.InvalidGroupIdError
    )


def test_without_coordinators_their_requests_are_refused() -> None:
    """UnsupportedVersionError; the status has no coordinators."""
    rig = CoreRig()
    topic_id = rig.topic(CONSUMER_OFFSETS)
    answer = rig.ask(registry.HEARTBEAT, HeartbeatRequest("g", 1, "m"))
    assert isinstance(answer.error, errors.UnsupportedVersionError)
    assert rig.produce(topic_id).is_answered
    assert rig.core.coordinators.status() == {}


def test_expire_is_called_at_the_deadline(rig: Rig) -> None:
    """The wall clock is derived from the monotonic clock."""
    rig.tick(WALL_MS)
    rig.coordinators.deadline_ms = rig.now_ms + 50
    rig.core.connection_gone(1, rig.now_ms)  # a coordinator may have set a timer for it
    rig.check()
    rig.coordinators.take()
    rig.pass_time(60)
    assert rig.coordinators.take("expired") == [("expired", rig.now_ms - 10, WALL_MS + 50)]


def test_coordinators_learn_of_disconnects_and_markers(rig: Rig) -> None:
    """Markers only of partitions whose leadership they know."""
    rig.coordinators.take()
    rig.core.connection_gone(FakePeer().session, rig.now_ms)
    rig.core.coordinators.ended_transaction(rig.key, 5, 1, rig.now_ms, is_commit=True, offset=7)
    rig.core.coordinators.ended_transaction(
        (b"other topic's id", 0), 5, 1, rig.now_ms, is_commit=True, offset=7
    )
    assert rig.coordinators.take("gone", "ended") == [("gone", 77), ("ended", 5, 1, True, 7)]


def test_lease_holds_until_its_end(rig: Rig) -> None:
    """By the time of the event, and only once the metadata of the lease is applied."""
    host, lease = rig.coordinators.host, rig.core.coordinators.lease
    assert not host.holds_lease(rig.now_ms)
    lease.length_ms = 10
    lease.granted(rig.now_ms, rig.image.offset + 1)
    assert not host.holds_lease(rig.now_ms)
    rig.topic("other")
    assert host.holds_lease(rig.now_ms)
    rig.pass_time(10)
    rig.core.expire(rig.now_ms)
    assert not host.holds_lease(rig.now_ms)


def test_partition_without_previous_leader_is_handed_over_at_once(rig: Rig) -> None:
    """New partition; fenced previous leader; this node as previous leader."""
    rig.core.coordinators.lease.length_ms = 1_000
    assert rig.coordinators.host.is_handed_over(rig.key, rig.now_ms)
    for leader in (NO_NODE, NODE):
        rig.set_leader(rig.topic_id, leader)
    assert rig.coordinators.host.is_handed_over(rig.key, rig.now_ms)
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, leader=NODE))
    assert rig.partition().leader_epoch == 3
    assert rig.coordinators.host.is_handed_over(rig.key, rig.now_ms)


class Takeover(Rig):
    """The other node has led, and now this one does."""

    def __init__(self) -> None:
        super().__init__(replicas=(NODE, 2))
        self.core.coordinators.lease.length_ms = 1_000
        self.metadata(RegisterBrokerRecord(2, bytes(16), "h", 9_092, None, (), 5, is_fenced=False))
        self.set_leader(self.topic_id, 2)
        self.set_leader(self.topic_id, NODE)

    @property
    def is_done(self) -> bool:
        return self.coordinators.host.is_handed_over(self.key, self.now_ms)


def test_handover_waits_for_the_previous_lease() -> None:
    """Until every lease from before the change has ended; also in later epochs of the new leader."""
    rig = Takeover()
    assert not rig.is_done
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, leader=NODE))
    rig.pass_time(999)
    rig.core.expire(rig.now_ms)
    assert not rig.is_done
    rig.pass_time(1)
    rig.core.expire(rig.now_ms)
    assert rig.is_done


def test_handover_ends_when_the_previous_leader_fetches() -> None:
    """Its fetch carries the new leader epoch."""
    rig = Takeover()
    in_sync = rig.partition().in_sync
    in_sync.fetched(2, 0, 0, broker_epoch=1, now_ms=rig.now_ms)
    assert rig.is_done


def test_handover_ends_when_the_previous_leader_is_fenced() -> None:
    """Also when it is removed."""
    rig = Takeover()
    rig.metadata(FenceBrokerRecord(2, 5))
    assert rig.is_done


def test_handover_from_an_unknown_leader_waits_for_leases() -> None:
    """Two leader epochs were skipped: only time ends it."""
    rig = Takeover()
    rig.metadata(*(PartitionChangeRecord(rig.topic_id, 0, leader=leader) for leader in (2, NODE)))
    rig.partition().in_sync.fetched(2, 0, 0, broker_epoch=1, now_ms=rig.now_ms)
    assert not rig.is_done
    rig.pass_time(1_000)
    rig.core.expire(rig.now_ms)
    assert rig.is_done


def test_check_append_raises_as_append_would() -> None:
    """Leadership, min.insync.replicas, and a full disk."""
    rig = Rig(replicas=(NODE, 2), min_insync_replicas="2")
    host = rig.coordinators.host
    host.check_append(rig.key, 0)
    with pytest.raises(errors.FencedLeaderEpochError):
        host.check_append(rig.key, -7)
    room = rig.partition().log.folder.files.room
    room.full = "the disk is full"
    with pytest.raises(DiskFullError):
        host.check_append(rig.key, 0)
    room.full = None
    rig.metadata(PartitionChangeRecord(rig.topic_id, 0, isr=(NODE,)))
    with pytest.raises(errors.NotEnoughReplicasError):
        host.check_append(rig.key, rig.partition().leader_epoch)
    rig.set_leader(rig.topic_id, NO_NODE)
    with pytest.raises(errors.NotLeaderOrFollowerError):
        host.check_append(rig.key, 0)


def test_end_turn_is_called_once(rig: Rig) -> None:
    """However often it was requested; afterwards it can be requested again."""
    rig.coordinators.take()
    for _ in range(2):
        rig.coordinators.host.schedule_end_turn()
        rig.coordinators.host.schedule_end_turn()
        rig.check()
        assert rig.coordinators.take("turn") == [("turn", rig.now_ms)]
