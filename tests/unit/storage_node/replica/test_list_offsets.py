"""ListOffsets: the special times, times of records, and nonsense."""

import pytest
from core_rig import CoreRig
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest
from headrace.protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from headrace.storage_node.replica.list_offsets import MAX_LOOKUPS
from node_rig import batch


@pytest.fixture
def topic_id(rig: CoreRig) -> bytes:
    """Records at 100, 300 (offsets 0, 1), and 200 (offset 2)."""
    topic_id = rig.topic()
    for time_ms in (100, 300, 200):
        rig.produce(topic_id, batch(b"v", timestamp_ms=time_ms))
    return topic_id


@pytest.mark.parametrize(
    ("asked", "timestamp", "offset"),
    [
        (EARLIEST_TIMESTAMP, -1, 0),
        (LATEST_TIMESTAMP, -1, 3),
        (MAX_TIMESTAMP, 300, 1),
        (0, 100, 0),
        (100, 100, 0),
        (101, 300, 1),
        (301, -1, -1),
        (2**63 - 1, -1, -1),
    ],
)
def test_offsets_by_timestamp(rig: CoreRig, topic_id: bytes, asked: int, timestamp: int, offset: int) -> None:
    """The first record at or after a timestamp, and the three special timestamps."""
    answer = rig.list_offsets(topic_id, asked).first
    assert (answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch) == (
        0,
        timestamp,
        offset,
        0,
    )


@pytest.mark.parametrize("asked", [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP])
def test_earliest_and_latest_of_an_empty_log(rig: CoreRig, asked: int) -> None:
    assert rig.list_offsets(rig.topic(), asked).first.offset == 0


@pytest.mark.parametrize("asked", [MAX_TIMESTAMP, 0])
def test_empty_log_has_no_offset_by_timestamp(rig: CoreRig, asked: int) -> None:
    assert rig.list_offsets(rig.topic(), asked).first.offset == -1


@pytest.mark.parametrize("asked", [-4, -5, -(2**63)])
def test_other_negative_timestamps_are_refused(rig: CoreRig, topic_id: bytes, asked: int) -> None:
    assert rig.list_offsets(topic_id, asked).first.error_code == errors.InvalidRequestError.code


def test_uncommitted_records_are_not_found(rig: CoreRig) -> None:
    """durability=fsync, before the flush: neither by latest nor by timestamp."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"v", timestamp_ms=100))
    offsets = [
        rig.list_offsets(topic_id, asked).first.offset for asked in (LATEST_TIMESTAMP, 100, MAX_TIMESTAMP)
    ]
    assert offsets == [0, -1, -1]
    rig.flush()
    offsets = [
        rig.list_offsets(topic_id, asked).first.offset for asked in (LATEST_TIMESTAMP, 100, MAX_TIMESTAMP)
    ]
    assert offsets == [1, 0, 0]


def test_new_leader_returns_no_latest_offset_below_its_epoch_start(rig: CoreRig) -> None:
    """KIP-207: until the high watermark reaches the start of the leader epoch; earliest is known."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"v", timestamp_ms=100))
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, 1)
    for asked in (LATEST_TIMESTAMP, 100, MAX_TIMESTAMP):
        assert rig.list_offsets(topic_id, asked).first.error_code == errors.OffsetNotAvailableError.code
    assert rig.list_offsets(topic_id, EARLIEST_TIMESTAMP).first.offset == 0
    rig.flush()
    assert rig.list_offsets(topic_id, LATEST_TIMESTAMP).first.offset == 1


def test_partitions_and_epochs_are_checked(rig: CoreRig, topic_id: bytes) -> None:
    """Forged ids, other leaders, wrong leader epochs."""
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    assert rig.list_offsets(b"x" * 16, 0).first.error_code == errors.UnknownTopicIdError.code
    assert rig.list_offsets(elsewhere, 0).first.error_code == errors.NotLeaderOrFollowerError.code
    assert rig.list_offsets(topic_id, 0, epoch=9).first.error_code == errors.UnknownLeaderEpochError.code
    rig.set_leader(topic_id, 1)
    assert rig.list_offsets(topic_id, 0, epoch=0).first.error_code == errors.FencedLeaderEpochError.code


def test_invalid_requests_are_refused(topic_id: bytes) -> None:
    """Too many partitions, or an unknown isolation level."""
    rig = CoreRig(max_request_partitions=1)
    entry = ListOffsetsPartition(topic_id, 0, 0)
    for body in (ListOffsetsRequest(0, (entry, entry)), ListOffsetsRequest(2, (entry,))):
        assert isinstance(rig.ask(registry.LIST_OFFSETS, body).error, errors.InvalidRequestError)


def test_read_error_in_a_search_takes_the_log_dir_offline(rig: CoreRig, topic_id: bytes) -> None:
    rig.files.fail("pread", ".log")
    assert rig.list_offsets(topic_id, 100).first.error_code == errors.KafkaStorageError.code
    assert rig.ended()


def test_segment_deleted_during_a_search(rig: CoreRig, topic_id: bytes) -> None:
    """The disk does not count as failed; the partition continues."""
    log = rig.core.table.partitions[topic_id, 0].log
    log.roll(0)
    rig.produce(topic_id, batch(b"v", timestamp_ms=400))
    body = ListOffsetsRequest(0, (ListOffsetsPartition(topic_id, 0, 0),))
    request = rig.ask(registry.LIST_OFFSETS, body)
    next(iter(log.segments)).close()
    rig.look_up()
    assert request.first.error_code == errors.KafkaStorageError.code
    log.delete_segments_below(3)
    assert rig.list_offsets(topic_id, 0).first.offset == 3
    assert rig.produce(topic_id).first.error_code == 0


def test_search_by_timestamp_runs_on_a_thread(rig: CoreRig) -> None:
    """The response follows the state at its end: the topic may be deleted."""
    topic_id = rig.topic()
    rig.produce(topic_id)
    entries = tuple(ListOffsetsPartition(topic_id, index, 0) for index in (0, 1))
    request = rig.ask(registry.LIST_OFFSETS, ListOffsetsRequest(0, entries))
    assert not request.is_answered
    rig.look_up()
    assert [answer.error_code for answer in request.answer.partitions] == [0, 3]
    late = rig.ask(registry.LIST_OFFSETS, ListOffsetsRequest(0, entries[:1]))
    rig.remove(topic_id)
    rig.look_up()
    assert late.first.error_code == errors.UnknownTopicIdError.code


def test_running_searches_are_bounded(rig: CoreRig) -> None:
    """Further ones are refused until some have ended."""
    topic_id = rig.topic()
    rig.produce(topic_id)
    body = ListOffsetsRequest(0, (ListOffsetsPartition(topic_id, 0, 0),))
    asked = [rig.ask(registry.LIST_OFFSETS, body) for _ in range(MAX_LOOKUPS + 1)]
    assert isinstance(asked[-1].error, errors.ThrottlingQuotaExceededError)
    rig.look_up()
    assert all(request.first.error_code == 0 for request in asked[:-1])
    assert rig.list_offsets(topic_id, 0).first.offset == 0


def test_duplicate_partition_is_refused(rig: CoreRig) -> None:
    """One small request must not cause many searches."""
    entry = ListOffsetsPartition(rig.topic(), 0, 0)
    request = rig.ask(registry.LIST_OFFSETS, ListOffsetsRequest(0, (entry, entry)))
    assert isinstance(request.error, errors.InvalidRequestError)
