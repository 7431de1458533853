"""CountRecords: what the leader answers, and what it does not do on its loop."""

from typing import Any

import pytest
from core_rig import CoreRig, FakeRequest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.lag import (
    MAX_COUNTED_OFFSETS,
    CountRecordsPartition,
    CountRecordsRequest,
    RecordCount,
)
from headrace.protocol.model import READ_COMMITTED
from headrace.storage_node import effects
from headrace.storage_node.log.visible_records import STEP_HEADERS
from headrace.storage_node.replica.count_records import MAX_COUNTED_LOGS, MAX_WAITING
from node_rig import WALL_MS, batch

MAGIC_POSITION = 16


@pytest.fixture
def topic_id(rig: CoreRig) -> bytes:
    """Records at 100, 200 and 300."""
    topic_id = rig.topic()
    for time_ms in (100, 200, 300):
        rig.produce(topic_id, batch(b"v", timestamp_ms=time_ms))
    return topic_id


def ask(
    rig: CoreRig,
    topic_id: bytes,
    *offsets: int,
    epoch: int = -1,
    partition: int = 0,
    isolation: int = READ_COMMITTED,
) -> FakeRequest:
    entry = CountRecordsPartition(topic_id, partition, offsets, epoch)
    return rig.ask(registry.COUNT_RECORDS, CountRecordsRequest((entry,), isolation))


def counted(rig: CoreRig, topic_id: bytes, *offsets: int, **more: Any) -> Any:
    """The response for one partition."""
    request = ask(rig, topic_id, *offsets, **more)
    rig.count()
    return request.first


def test_count_and_first_timestamp_of_each_offset(rig: CoreRig, topic_id: bytes) -> None:
    """In the order of the request; offsets before the start count from there, offsets past the end are
    not negative."""
    request = ask(rig, topic_id, 1, 0, 3, 99, -5)
    rig.count()
    assert request.answer.wall_ms == WALL_MS
    found = request.first
    assert (found.error_code, found.log_start_offset, found.end_offset) == (0, 0, 3)
    assert [(each.records, each.first_timestamp) for each in found.counts] == [
        (2, 200),
        (3, 100),
        (0, -1),
        (0, -1),
        (3, 100),
    ]


def test_caught_up_readers_need_no_thread(rig: CoreRig, topic_id: bytes) -> None:
    """Nor does an empty log."""
    assert ask(rig, topic_id, 3, 4).first.counts == (RecordCount(0), RecordCount(0))
    assert ask(rig, rig.topic("empty"), 0).first.counts == (RecordCount(0),)
    assert not rig.pop(effects.CountRecords)


def test_appended_records_are_counted_without_reading_them(rig: CoreRig, topic_id: bytes) -> None:
    """Their headers passed this process: damage between the offsets that are asked for is not met."""
    log = rig.core.table.partitions[topic_id, 0].log
    for _ in range(50):
        rig.produce(topic_id, batch(b"v", b"w", timestamp_ms=400))
    damaged = log.size_bytes
    for _ in range(50):
        rig.produce(topic_id, batch(b"v", b"w", timestamp_ms=400))
    (segment,) = log.segments
    segment.file.pwrite(damaged + MAGIC_POSITION, [b"\xff"])
    assert counted(rig, topic_id, 0, 153).counts == (RecordCount(203, 100), RecordCount(50, 400))


def test_uncommitted_records_do_not_count(rig: CoreRig) -> None:
    """durability=fsync, before the flush."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"v", timestamp_ms=100))
    assert counted(rig, topic_id, 0).counts == (RecordCount(0),)
    rig.flush()
    assert counted(rig, topic_id, 0).counts == (RecordCount(1, 100),)


def test_new_leader_counts_nothing_below_its_epoch_start(rig: CoreRig) -> None:
    """KIP-207: until its high watermark reaches the start of the leader epoch."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id)
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, 1)
    assert counted(rig, topic_id, 0).error_code == errors.OffsetNotAvailableError.code
    rig.flush()
    assert counted(rig, topic_id, 0).counts[0].records == 1


def test_partitions_and_epochs_are_checked(rig: CoreRig, topic_id: bytes) -> None:
    """Forged ids, unknown partitions, other leaders, wrong leader epochs."""
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    assert counted(rig, b"x" * 16, 0).error_code == errors.UnknownTopicIdError.code
    assert counted(rig, topic_id, 0, partition=7).error_code == errors.UnknownTopicOrPartitionError.code
    assert counted(rig, elsewhere, 0).error_code == errors.NotLeaderOrFollowerError.code
    assert counted(rig, topic_id, 0, epoch=9).error_code == errors.UnknownLeaderEpochError.code


def test_requests_are_bounded(rig: CoreRig, topic_id: bytes) -> None:
    """In their offsets, and in their number."""
    entry = CountRecordsPartition(topic_id, 0, (0,))
    for entries in ((entry, entry), (CountRecordsPartition(topic_id, 0, (0,) * (MAX_COUNTED_OFFSETS + 1)),)):
        request = rig.ask(registry.COUNT_RECORDS, CountRecordsRequest(entries))
        assert isinstance(request.error, errors.InvalidRequestError)
    asked = [ask(rig, topic_id, 0) for _ in range(MAX_WAITING + 1)]
    assert isinstance(asked[-1].error, errors.ThrottlingQuotaExceededError)
    rig.count()
    assert all(request.first.counts[0].records == 3 for request in asked[:-1])


def test_long_counts_run_in_steps(rig: CoreRig, topic_id: bytes) -> None:
    """After a restart the log has more batches than one step takes; another request is answered between."""
    log = rig.core.table.partitions[topic_id, 0].log
    for _ in range(STEP_HEADERS):
        rig.produce(topic_id, batch(b"v", timestamp_ms=400))
    log.visible.replaced_below(log.log_end_offset)  # as after a restart: nothing is known
    slow = ask(rig, topic_id, 0)
    assert rig.count(1) == 1
    assert not slow.is_answered
    assert ask(rig, topic_id, STEP_HEADERS + 3).is_answered
    assert rig.count() >= 1
    assert slow.first.counts == (RecordCount(STEP_HEADERS + 3, 100),)


def test_count_starts_again_after_a_truncation(rig: CoreRig, topic_id: bytes) -> None:
    """The records that were counted are gone."""
    log = rig.core.table.partitions[topic_id, 0].log
    request = ask(rig, topic_id, 0)
    log.high_watermark = rig.core.table.partitions[topic_id, 0].high_watermark = 1
    log.truncate_to(1)
    rig.count()
    assert request.first.counts == (RecordCount(1, 100),)


def test_topic_deleted_during_a_count(rig: CoreRig, topic_id: bytes) -> None:
    request = ask(rig, topic_id, 0)
    rig.remove(topic_id)
    rig.count()
    assert request.first.error_code == errors.UnknownTopicIdError.code


def test_damaged_batch_fails_its_partition_alone(rig: CoreRig, topic_id: bytes) -> None:
    """The other one of the request is counted."""
    other = rig.topic("other")
    rig.produce(other)
    log = rig.core.table.partitions[topic_id, 0].log
    log.visible.replaced_below(log.log_end_offset)
    (segment,) = log.segments
    segment.file.pwrite(MAGIC_POSITION, [b"\xff"])
    entries = tuple(CountRecordsPartition(each, 0, (0,)) for each in (topic_id, other))
    request = rig.ask(registry.COUNT_RECORDS, CountRecordsRequest(entries))
    rig.count()
    damaged, sound = request.answer.partitions
    assert (damaged.error_code, sound.error_code) == (errors.CorruptMessageError.code, 0)
    assert sound.counts[0].records == 1


def test_read_error_takes_the_log_dir_offline(rig: CoreRig, topic_id: bytes) -> None:
    rig.files.fail("pread", ".log")
    assert counted(rig, topic_id, 0).error_code == errors.KafkaStorageError.code
    assert rig.ended()


def test_counts_of_few_logs_are_kept(rig: CoreRig) -> None:
    """The least recently used ones are forgotten."""
    topic_id = rig.topic("many", MAX_COUNTED_LOGS + 1)
    for number in range(MAX_COUNTED_LOGS + 1):
        rig.produce(topic_id, partition=number)
        counted(rig, topic_id, 0, partition=number)
    logs = [rig.core.table.partitions[topic_id, n].log for n in range(MAX_COUNTED_LOGS + 1)]
    kept = [log.visible.kept[READ_COMMITTED].spans for log in logs]
    assert kept[0] is None
    assert None not in kept[1:]
