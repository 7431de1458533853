"""Bounds of what one client can use: memory, time and waiting requests."""

from core_rig import CoreRig
from headrace.protocol.errors import RequestTimedOutError, ThrottlingQuotaExceededError
from headrace.protocol.metadata.records import NoOpRecord
from headrace.protocol.metadata.replay import replay
from headrace.storage_node.log import names
from headrace.storage_node.log.checkpoints import parse_offsets
from node_rig import batch


def test_response_is_bounded_by_the_queue_space(rig: CoreRig) -> None:
    """queued.max.response.bytes: two of ten batches."""
    topic_id = rig.topic()
    size = len(batch(b"x" * 1000))
    for _ in range(10):
        rig.produce(topic_id, batch(b"x" * 1000))
    rig.room = 2 * size + size // 2
    assert sum(len(frame) for frame in rig.fetch(topic_id).answer_frames) == 2 * size
    rig.room = 1
    assert sum(len(frame) for frame in rig.fetch(topic_id).answer_frames) == size, (
        "at least one batch, or the consumer makes no progress"
    )


def test_produce_wait_is_bounded() -> None:
    """A timeout of an hour ends at fetch.max.wait.ms."""
    rig = CoreRig(fetch_max_wait_ms=500)
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id, timeout_ms=3_600_000)
    rig.pass_time(499)
    assert not request.is_answered
    rig.pass_time(1)
    assert request.first.error_code == RequestTimedOutError.code


def test_acks_0_is_appended_with_a_full_purgatory() -> None:
    rig = CoreRig(purgatory_max_requests=1)
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id)
    assert isinstance(rig.produce(topic_id).error, ThrottlingQuotaExceededError)
    assert rig.produce(topic_id, acks=0).is_dropped
    rig.flush()
    rig.flush()
    assert len(rig.values(topic_id)) == 2


def test_response_waiting_for_metadata_is_sent_with_its_step(rig: CoreRig) -> None:
    answers: list[int] = []
    rig.core.when_metadata_reaches(
        rig.image.offset + 1, lambda: answers.append(rig.core.image.offset), 4_000, rig.now_ms
    )
    rig.metadata(NoOpRecord())
    assert answers == [rig.image.offset]


def test_flush_ms_counts_from_the_oldest_unflushed_record(rig: CoreRig) -> None:
    """A record after a flush has its whole flush.ms."""
    topic_id = rig.topic(flush_ms="1000")
    rig.produce(topic_id)
    rig.core.tick(0, 0)  # seen
    rig.core.flush_all()
    rig.check()
    rig.produce(topic_id)  # while that flush runs
    rig.effects, asked = [], rig.effects
    rig.effects = asked[:1]
    (partition,) = rig.core.table.partitions.values()
    work = partition.log.start_flush()
    assert work is not None
    rig.effects.clear()
    # only the first record was in the flush: say so by its end offset
    work.sync()
    partition.log.finish_flush(work)
    rig.core.flushed(partition, 1, rig.now_ms)
    rig.core.tick(1_500, 0)
    rig.check()
    assert rig.effects == [], "the second record is seen for the first time now"
    rig.core.tick(2_500, 0)
    rig.check()
    assert len(rig.effects) == 1


def test_log_of_a_pending_removal_is_no_stray(rig: CoreRig) -> None:
    """A flush uses it when a whole image is applied: it is deleted afterwards."""
    topic_id = rig.topic("t", durability="fsync")
    rig.produce(topic_id)
    rig.remove(topic_id)
    rig.snapshot(replay(rig.image, rig.image.offset + 1, (NoOpRecord(),))[0])
    assert "stray" not in rig.notes()
    assert rig.flush() == 1
    rig.purge()
    assert [name for name in rig.files.listdir("/d") if rig.files.is_directory(f"/d/{name}")] == []


def test_removed_partition_leaves_the_checkpoints_at_once(rig: CoreRig) -> None:
    """After a crash the old recovery point must not hold for a recreated topic."""
    topic_id = rig.topic("t", durability="fsync")
    rig.produce(topic_id)
    rig.flush()
    rig.manager.checkpoint()
    rig.produce(topic_id)
    rig.remove(topic_id)
    assert parse_offsets(rig.files.content(f"/d/{names.RECOVERY_POINTS}")) == {}
    rig.manager.checkpoint()
    assert parse_offsets(rig.files.content(f"/d/{names.RECOVERY_POINTS}")) == {}


def test_partition_counts_for_min_bytes_up_to_its_own_limit(rig: CoreRig) -> None:
    """10 kB are available, partition_max_bytes is 1 kB: a fetch with min_bytes 5 kB waits."""
    topic_id = rig.topic()
    for _ in range(10):
        rig.produce(topic_id, batch(b"x" * 1000))
    waiting = rig.fetch(topic_id, min_bytes=5_000, partition_max_bytes=1_000, max_wait_ms=100)
    assert not waiting.is_answered
    rig.pass_time(100)
    assert waiting.is_answered
