"""ListOffsets: the special times, times of records, and nonsense."""

from __future__ import annotations

import pytest
from core_rig import CoreRig
from headrace.protocol.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    ThrottlingQuotaExceededError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest
from headrace.protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from headrace.storage_node.replica.list_offsets import MAX_LOOKUPS
from node_rig import batch


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()


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
def test_offsets_by_time(rig: CoreRig, topic_id: bytes, asked: int, timestamp: int, offset: int) -> None:
    """The first record at or after a time, and the three special times."""
    answer = rig.list_offsets(topic_id, asked).first
    assert (answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch) == (
        0,
        timestamp,
        offset,
        0,
    )


@pytest.mark.parametrize("asked", [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP])
def test_an_empty_log_starts_and_ends_at_0(rig: CoreRig, asked: int) -> None:
    """Both ends meet."""
    assert rig.list_offsets(rig.topic(), asked).first.offset == 0


@pytest.mark.parametrize("asked", [MAX_TIMESTAMP, 0])
def test_an_empty_log_has_no_times(rig: CoreRig, asked: int) -> None:
    """No record, no offset."""
    assert rig.list_offsets(rig.topic(), asked).first.offset == -1


@pytest.mark.parametrize("asked", [-4, -5, -(2**63)])
def test_other_negative_times_mean_nothing(rig: CoreRig, topic_id: bytes, asked: int) -> None:
    """Row 34 of the bad inputs."""
    assert rig.list_offsets(topic_id, asked).first.error_code == InvalidRequestError.code


def test_what_is_not_committed_has_no_offset(rig: CoreRig) -> None:
    """durability=fsync, before the flush: neither latest nor any time shows the record."""
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


def test_a_new_leader_does_not_go_back_in_time(rig: CoreRig) -> None:
    """KIP-207: until the watermark reaches the start of the epoch, the end of the log is not known; the
    start is."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"v", timestamp_ms=100))
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, 1)
    for asked in (LATEST_TIMESTAMP, 100, MAX_TIMESTAMP):
        assert rig.list_offsets(topic_id, asked).first.error_code == OffsetNotAvailableError.code
    assert rig.list_offsets(topic_id, EARLIEST_TIMESTAMP).first.offset == 0
    rig.flush()
    assert rig.list_offsets(topic_id, LATEST_TIMESTAMP).first.offset == 1


def test_partitions_and_epochs_are_checked(rig: CoreRig, topic_id: bytes) -> None:
    """Forged ids, foreign partitions, wrong epochs."""
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    assert rig.list_offsets(b"x" * 16, 0).first.error_code == UnknownTopicIdError.code
    assert rig.list_offsets(elsewhere, 0).first.error_code == NotLeaderOrFollowerError.code
    assert rig.list_offsets(topic_id, 0, epoch=9).first.error_code == UnknownLeaderEpochError.code
    rig.set_leader(topic_id, 1)
    assert rig.list_offsets(topic_id, 0, epoch=0).first.error_code == FencedLeaderEpochError.code


def test_the_request_is_bounded_and_its_isolation_checked(topic_id: bytes) -> None:
    """Too many partitions, or a level that does not exist, refuse the whole request."""
    rig = CoreRig(max_request_partitions=1)
    entry = ListOffsetsPartition(topic_id, 0, 0)
    for body in (ListOffsetsRequest(0, (entry, entry)), ListOffsetsRequest(2, (entry,))):
        assert isinstance(rig.ask(registry.LIST_OFFSETS, body).error, InvalidRequestError)


def test_a_read_error_takes_the_disk_offline(rig: CoreRig, topic_id: bytes) -> None:
    """The search for a time met EIO."""
    rig.files.fail("pread", ".log")
    assert rig.list_offsets(topic_id, 100).first.error_code == KafkaStorageError.code
    assert rig.ended()


def test_a_segment_deleted_under_a_search(rig: CoreRig, topic_id: bytes) -> None:
    """The search found it in the list before it went: no disk is blamed, the partition serves on."""
    log = rig.core.table.partitions[topic_id, 0].log
    log.roll(0)
    rig.produce(topic_id, batch(b"v", timestamp_ms=400))
    body = ListOffsetsRequest(0, (ListOffsetsPartition(topic_id, 0, 0),))
    request = rig.ask(registry.LIST_OFFSETS, body)
    next(iter(log.segments)).close()
    rig.look_up()
    assert request.first.error_code == KafkaStorageError.code
    log.delete_segments_below(3)
    assert rig.list_offsets(topic_id, 0).first.offset == 3
    assert rig.produce(topic_id).first.error_code == 0


def test_a_search_by_time_is_work_for_a_thread() -> None:
    """The request is answered when the search comes back, by what holds then: the topic may be gone."""
    rig = CoreRig()
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
    assert late.first.error_code == UnknownTopicIdError.code


def test_searches_under_way_are_bounded() -> None:
    """Each holds its request: beyond the limit they are refused, and come through again later."""
    rig = CoreRig()
    topic_id = rig.topic()
    rig.produce(topic_id)
    body = ListOffsetsRequest(0, (ListOffsetsPartition(topic_id, 0, 0),))
    asked = [rig.ask(registry.LIST_OFFSETS, body) for _ in range(MAX_LOOKUPS + 1)]
    assert isinstance(asked[-1].error, ThrottlingQuotaExceededError)
    rig.look_up()
    assert all(request.first.error_code == 0 for request in asked[:-1])
    assert rig.list_offsets(topic_id, 0).first.offset == 0


def test_a_partition_is_asked_for_once() -> None:
    """Twenty thousand times the same search in one small request is an attack."""
    rig = CoreRig()
    entry = ListOffsetsPartition(rig.topic(), 0, 0)
    request = rig.ask(registry.LIST_OFFSETS, ListOffsetsRequest(0, (entry, entry)))
    assert isinstance(request.error, InvalidRequestError)
