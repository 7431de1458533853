"""Fetches that need cold reads, and their effect on other requests."""

import errno

import pytest
from cleaner_rig import clean
from core_rig import CoreRig, FakePeer, FakeRequest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest, MetadataRequest
from headrace.storage_node.effects import ReadCold
from headrace.storage_node.replica.fetch import COLD_WAIT_MS
from node_rig import batch, values_of

LOG_FILE = "/d/t-0/" + "0" * 20 + ".log"


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig(log_tail_cache_bytes=0)


def cold_topic(rig: CoreRig, name: str = "t", batches: int = 3, size: int = 100) -> bytes:
    """A topic of which nothing is in memory."""
    topic_id = rig.topic(name)
    for number in range(batches):
        rig.produce(topic_id, batch(b"%d" % number + b"v" * size))
    rig.core.flush_all()
    rig.check()
    rig.flush()
    rig.files.evict(f"{name}-0/")
    return topic_id


def values(request: FakeRequest) -> list[bytes | None]:
    assert request.first.error_code == 0, request.first
    return [value for _, value in values_of(request.answer_frames)]


def both(
    rig: CoreRig, first: bytes, second: bytes, *, wait_ms: int = 500, offsets: tuple[int, int] = (0, 0)
) -> FakeRequest:
    entries = tuple(
        FetchPartition(topic_id, 0, offset, 1 << 20)
        for topic_id, offset in zip((first, second), offsets, strict=True)
    )
    return rig.ask(registry.FETCH, FetchRequest(wait_ms, 1, 1 << 20, 0, entries))


def test_cold_reads_delay_no_other_request() -> None:
    """All threads are busy with one client: fetches at the tail and from the page cache, produces and
    metadata requests complete in the event that brings them."""
    rig = CoreRig(fetch_cold_threads=2, log_tail_cache_bytes=1 << 20, log_tail_cache_partition_bytes=3_000)
    held = cold_topic(rig, "held", batches=100)
    other, warm = cold_topic(rig, "other", batches=100), rig.topic("warm")
    for number in range(50):
        rig.produce(warm, batch(b"%d" % number))
    reader = FakePeer(session=5)
    cold = [rig.fetch(topic_id, offset, peer=reader) for topic_id in (held, other) for offset in (0, 7)]
    assert len(rig.pop(ReadCold)) == 2, "all threads are busy"
    assert not any(request.is_answered for request in cold)
    waiting = rig.fetch(held, 100, max_wait_ms=500)
    for topic_id, end in ((held, 100), (other, 100), (warm, 50)):
        assert rig.produce(topic_id, batch(b"new")).first.base_offset == end
        assert values(rig.fetch(topic_id, end)) == [b"new"]
    assert values(waiting) == [b"new"]
    assert len(values(rig.fetch(warm, 0))) == 51, "from the page cache"
    metadata = rig.ask(registry.METADATA, MetadataRequest(None))
    assert len(metadata.answer.topics) == 3
    assert not any(request.is_answered for request in cold)


def test_cold_read_completes_the_waiting_fetch(rig: CoreRig) -> None:
    """With max_wait_ms 0 the response has the records all the same."""
    request = rig.fetch(cold_topic(rig), max_wait_ms=0)
    assert not request.is_answered
    assert rig.read_cold() == 1
    assert [value[:1] for value in values(request) if value] == [b"0", b"1", b"2"]
    assert rig.core.parked == 0
    assert rig.core.cold_reads.held_bytes == 0


def test_cached_partition_is_returned_at_once_and_the_cold_one_next_time(rig: CoreRig) -> None:
    """The next fetch takes the finished read, even if the pages were evicted again."""
    cold, hot = cold_topic(rig, "t"), rig.topic("hot")
    rig.produce(hot, batch(b"a"))
    request = both(rig, cold, hot)
    assert values_of(request.answer_frames) == [(0, b"a")]
    assert [answer.frame_count for answer in request.answer.partitions] == [0, 1]
    assert request.first.high_watermark == 3
    rig.produce(hot, batch(b"b"))
    assert values_of(both(rig, cold, hot, offsets=(0, 1)).answer_frames) == [(1, b"b")]
    assert rig.read_cold() == 1, "asked for once"
    rig.files.evict("t-0/")
    rig.produce(hot, batch(b"c"))
    request = both(rig, cold, hot, offsets=(0, 2))
    assert [answer.frame_count for answer in request.answer.partitions] == [1, 1]
    assert len(values_of(request.answer_frames)) == 4


def test_append_completes_a_fetch_that_waits_for_a_cold_read(rig: CoreRig) -> None:
    """One cold and one idle partition."""
    cold, idle = cold_topic(rig), rig.topic("idle")
    request = both(rig, cold, idle)
    assert not request.is_answered
    rig.produce(idle, batch(b"now"))
    assert values_of(request.answer_frames) == [(0, b"now")]


def test_slow_disk_still_makes_progress(rig: CoreRig) -> None:
    """The request waits beyond its own wait, then returns empty; the next one takes the finished read."""
    topic_id = cold_topic(rig)
    request = rig.fetch(topic_id, max_wait_ms=500)
    rig.pass_time(500)
    assert not request.is_answered
    rig.pass_time(COLD_WAIT_MS - 500)
    assert request.first.frame_count == 0
    again = rig.fetch(topic_id, max_wait_ms=500)
    rig.pass_time(499)
    assert rig.read_cold() == 1, "still the first read"
    assert len(values(again)) == 3


def test_fetch_waits_for_min_bytes_then_for_the_disk(rig: CoreRig) -> None:
    """Too few bytes until the deadline, then those from the disk."""
    topic_id = cold_topic(rig)
    request = rig.fetch(topic_id, max_wait_ms=500, min_bytes=1 << 19)
    assert rig.pop(ReadCold) == []
    rig.pass_time(500)
    assert not request.is_answered
    assert rig.read_cold() == 1
    assert len(values(request)) == 3


def test_without_rwf_nowait_all_file_reads_are_cold() -> None:
    """Only the tail is read on the event loop."""
    rig = CoreRig(log_tail_cache_partition_bytes=3_000)
    rig.files.tells_what_is_cached = False
    topic_id = rig.topic()
    for number in range(20):
        rig.produce(topic_id, batch(b"%d" % number))
    assert values(rig.fetch(topic_id, 19)) == [b"19"]
    request = rig.fetch(topic_id)
    assert not request.is_answered
    assert rig.read_cold() == 1
    assert len(values(request)) == 20


# --- bounds -------------------------------------------------------------------------------------------


def test_cold_reads_are_bounded_and_fair() -> None:
    """A client with ten cold partitions does not delay another one until all are read."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_threads=1)
    topics = [cold_topic(rig, f"t{number}") for number in range(10)]
    greedy, modest = FakePeer(session=1), FakePeer(session=2)
    entries = tuple(FetchPartition(topic_id, 0, 0, 1 << 20) for topic_id in topics)
    rig.ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries), peer=greedy)
    request = rig.fetch(topics[0], peer=modest)
    assert rig.core.cold_reads.running == 1
    for _ in range(3):
        rig.read_cold(1)
    assert len(values(request)) == 3


def abandoned(rig: CoreRig, topic_id: bytes, offset: int) -> None:
    """A client is answered by a hot partition; what is read for it at `offset` stays."""
    hot = rig.topic("hot")
    rig.produce(hot, batch(b"hot"))
    both(rig, topic_id, hot, offsets=(offset, 0))
    rig.read_cold()


def test_unclaimed_results_are_bounded() -> None:
    """A client that seeks again and again: its old results are dropped at once."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_max_bytes=1 << 20)
    topic_id, hot = cold_topic(rig, batches=60, size=30_000), rig.topic("hot")
    rig.produce(hot, batch(b"hot"))
    for offset in range(40):
        rig.files.evict("t-0/")
        both(rig, topic_id, hot, offsets=(offset, 0))
        assert rig.read_cold() == 1, "a read does not wait for its own memory"
        assert rig.core.cold_reads.held_bytes <= (1 << 20) + 40_000


def test_result_counts_with_all_its_memory() -> None:
    """Also the part of the read that is not used."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_max_bytes=1 << 20)
    topic_id, hot = cold_topic(rig, batches=300, size=500), rig.topic("hot")
    rig.produce(hot, batch(b"hot"))
    entries = (FetchPartition(topic_id, 0, 0, 1), FetchPartition(hot, 0, 0, 1 << 20))
    for session in range(100):
        rig.files.evict("t-0/")
        rig.ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries), (), FakePeer(session=session))
        rig.read_cold()
    cold = rig.core.cold_reads
    held = {id(read): memoryview(read.run_found.data.obj).nbytes for read in cold._done if read.run_found}
    assert sum(held.values()) <= cold.held_bytes <= (1 << 20) + 40_000


def test_small_response_does_not_keep_a_large_read() -> None:
    """It is copied: a slow peer counts only with the bytes that are sent."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = cold_topic(rig, batches=100, size=10_000)
    request = rig.fetch(topic_id, max_bytes=1)
    assert rig.read_cold() == 1
    (sent,) = request.sent
    assert values(request)[0][:1] == b"0"
    assert memoryview(memoryview(sent).obj).nbytes <= 2 * len(sent)


def test_result_of_an_abandoned_offset_is_dropped_first() -> None:
    """Its client has fetched another offset since."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_max_bytes=1 << 20)
    topic_id, other = cold_topic(rig, size=30_000), cold_topic(rig, "other")
    abandoned(rig, topic_id, 0)
    waiting = rig.fetch(other, peer=FakePeer(session=9), max_wait_ms=500)
    assert rig.read_cold() == 0, "no room: it may still come for it"
    rig.fetch(topic_id, 2)
    rig.core.cold_reads.start_waiting(rig.now_ms)
    rig.check()
    rig.read_cold()
    assert len(values(waiting)) == 3


def test_unclaimed_result_is_dropped_after_a_second() -> None:
    """By a timer: no other event may come."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_max_bytes=1 << 20)
    topic_id, other = cold_topic(rig, size=30_000), cold_topic(rig, "other")
    abandoned(rig, topic_id, 0)
    waiting = rig.fetch(other, peer=FakePeer(session=9), max_wait_ms=20_000)
    assert rig.read_cold() == 0
    rig.pass_time(1_000)
    assert rig.read_cold() == 1
    assert len(values(waiting)) == 3


def test_waiting_fetch_takes_its_result_before_it_may_be_dropped() -> None:
    """Two readers of one partition share a connection: each marks the other's read as left, both progress."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_max_bytes=1 << 20, fetch_cold_threads=1)
    topic_id = cold_topic(rig, batches=60, size=30_000)
    rig.files.tells_what_is_cached = False
    first, second = rig.fetch(topic_id, 0, max_bytes=1 << 20), rig.fetch(topic_id, 40, max_bytes=1 << 20)
    assert rig.read_cold(1) == 1
    assert first.is_answered
    assert rig.read_cold(1) == 1
    assert second.is_answered


def test_reads_of_a_disconnected_client_are_dropped(rig: CoreRig) -> None:
    """Waiting ones at once, running ones when they end."""
    topics = [cold_topic(rig, f"t{number}") for number in range(8)]
    peer = FakePeer(session=5)
    requests = [rig.fetch(topic_id, peer=peer) for topic_id in topics]
    peer.is_connected = False
    rig.core.connection_gone(5, rig.now_ms)
    rig.check()
    assert all(request.is_dropped for request in requests)
    assert rig.read_cold() == 4, "those that ran"
    cold = rig.core.cold_reads
    assert (cold.held_bytes, cold.running, rig.core.parked) == (0, 0, 0)


def test_result_is_cut_to_a_smaller_limit_at_a_batch(rig: CoreRig) -> None:
    """The fetch that takes the result allows fewer bytes: whole batches, at least one."""
    topic_id, hot = cold_topic(rig), rig.topic("hot")
    rig.produce(hot, batch(b"a"))
    for limit, count in ((1, 1), (400, 2)):
        rig.files.evict("t-0/")
        both(rig, topic_id, hot)
        rig.read_cold()
        assert len(values(rig.fetch(topic_id, partition_max_bytes=limit))) == count
        rig.read_cold()


def test_cold_reads_of_one_connection_are_bounded() -> None:
    """The others are read when these are taken."""
    rig = CoreRig(log_tail_cache_bytes=0, fetch_cold_threads=1)
    topic_id = rig.topic(partitions=200)
    for partition in range(200):
        rig.produce(topic_id, partition=partition)
    rig.files.evict()
    offsets, seen = [0] * 200, 0
    for _ in range(400):
        entries = tuple(
            FetchPartition(topic_id, partition, offset, 1 << 20) for partition, offset in enumerate(offsets)
        )
        request = rig.ask(registry.FETCH, FetchRequest(10_000, 1, 1 << 20, 0, entries))
        assert sum(len(mine) for mine in rig.core.cold_reads._sessions.values()) <= 64
        while not request.is_answered and rig.read_cold(1):
            pass
        if not request.is_answered:
            break
        for partition, answer in enumerate(request.answer.partitions):
            if answer.frame_count:
                offsets[partition], seen = 1, seen + 1
    assert seen == 200


# --- what may have changed meanwhile ----------------------------------------------------------------------


def test_stale_result_is_not_returned(rig: CoreRig) -> None:
    """Leadership lost, topic deleted, records deleted."""
    moved, deleted = cold_topic(rig, "a"), cold_topic(rig, "b")
    shortened = cold_topic(rig, "c")
    requests = [rig.fetch(topic_id) for topic_id in (moved, deleted, shortened)]
    reads = rig.pop(ReadCold)
    for effect in reads:
        effect.read.run()
    rig.set_leader(moved, -1)
    rig.remove(deleted)
    rig.core.table.partitions[shortened, 0].log.advance_log_start_offset(2)
    for effect in reads:
        rig.core.cold_read(effect.read, rig.now_ms)
        rig.check()
    codes = [request.first.error_code for request in requests]
    assert codes == [
        errors.NotLeaderOrFollowerError.code,
        errors.UnknownTopicIdError.code,
        errors.OffsetOutOfRangeError.code,
    ]
    assert not any(request.answer_frames for request in requests)


def test_result_of_an_older_leader_epoch_is_read_again(rig: CoreRig) -> None:
    """The log may have been truncated in between."""
    topic_id = cold_topic(rig)
    waiting = rig.fetch(topic_id)
    (effect,) = rig.pop(ReadCold)
    effect.read.run()
    partition = rig.core.table.partitions[topic_id, 0]
    partition.log.truncate_to(1)
    partition.high_watermark = partition.flushed_offset = 1
    rig.files.evict("t-0/")
    rig.core.cold_read(effect.read, rig.now_ms)
    rig.check()
    assert not waiting.is_answered
    assert rig.read_cold() == 1
    assert len(values(waiting)) == 1


def test_result_from_before_a_compaction_is_read_again(rig: CoreRig) -> None:
    """It may have aborted records that the transaction index does not list any more."""
    topic_id = rig.topic(cleanup_policy="compact")
    for number in range(3):
        rig.produce(topic_id, batch(b"%d" % number, key=b"k"))
    log = rig.core.table.partitions[topic_id, 0].log
    log.roll(0)
    rig.core.flush_all()
    rig.check()
    rig.flush()
    rig.files.evict("t-0/")
    waiting = rig.fetch(topic_id)
    (effect,) = rig.pop(ReadCold)
    effect.read.run()
    clean(log)
    rig.core.cold_read(effect.read, rig.now_ms)
    rig.read_cold()
    assert values(waiting) == [b"2"]


def test_log_deleted_before_a_cold_read_runs(rig: CoreRig) -> None:
    """The file is closed: the disk does not count as failed, the client gets the topic's error."""
    topic_id = cold_topic(rig)
    other = cold_topic(rig, "other")
    request = rig.fetch(topic_id)
    rig.remove(topic_id)
    rig.purge()
    assert request.first.error_code == errors.UnknownTopicIdError.code
    rig.read_cold()
    request = rig.fetch(other)
    rig.read_cold()
    assert len(values(request)) == 3


def test_segment_deleted_before_a_cold_read_runs(rig: CoreRig) -> None:
    """Retention: OffsetOutOfRangeError; the disk does not count as failed."""
    topic_id = cold_topic(rig)
    log = rig.core.table.partitions[topic_id, 0].log
    log.roll(0)
    rig.produce(topic_id)
    request = rig.fetch(topic_id)
    log.delete_segments_below(3)
    rig.read_cold()
    assert request.first.error_code == errors.OffsetOutOfRangeError.code
    assert len(values(rig.fetch(topic_id, 3))) == 1


# --- bad disks --------------------------------------------------------------------------------------------


def test_disk_error_in_a_cold_read_takes_the_log_dir_offline(rig: CoreRig) -> None:
    """Nothing of it is served or acknowledged afterwards."""
    topic_id = cold_topic(rig)
    request = rig.fetch(topic_id)
    rig.files.fail("pread", ".log")
    rig.read_cold()
    assert request.first.error_code == errors.KafkaStorageError.code
    assert rig.produce(topic_id).first.error_code == errors.KafkaStorageError.code
    assert rig.ended()


def test_memory_error_in_a_cold_read_is_retriable(rig: CoreRig) -> None:
    """The log dir stays online."""
    topic_id = cold_topic(rig)
    request = rig.fetch(topic_id)
    rig.files.fail("pread", ".log", error=errno.ENOMEM)
    rig.read_cold()
    assert request.first.error_code == errors.ThrottlingQuotaExceededError.code
    again = rig.fetch(topic_id)
    rig.read_cold()
    assert len(values(again)) == 3
    assert rig.produce(topic_id).first.error_code == 0
    assert not rig.ended()


def test_corrupt_batch_in_a_cold_read(rig: CoreRig) -> None:
    """An error for the client, a log line, the rest is served."""
    topic_id = cold_topic(rig)
    rig.files.flip_bit(LOG_FILE, 80, 3)
    request = rig.fetch(topic_id)
    rig.read_cold()
    assert request.first.error_code == errors.CorruptMessageError.code
    assert request.answer_frames == []
    assert "corrupt records" in rig.notes()
    rig.files.evict("t-0/")
    request = rig.fetch(topic_id, 1)
    rig.read_cold()
    assert len(values(request)) == 2
    assert rig.produce(topic_id).first.error_code == 0


def test_check_detects_a_lost_result() -> None:
    """`ColdReads.check` is used by the tests above."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id, hot = cold_topic(rig), rig.topic("hot")
    rig.produce(hot)
    both(rig, topic_id, hot)
    rig.read_cold()
    cold = rig.core.cold_reads
    cold._done.clear()
    with pytest.raises(AssertionError):
        cold.check()


def test_file_bytes_per_response_are_bounded() -> None:
    """Records in memory are returned all the same, and a client that always fetches its partitions in the
    same order reads all of them."""
    rig = CoreRig(log_tail_cache_partition_bytes=600_000)
    topic_id, hot = rig.topic(partitions=6), rig.topic("hot")
    for partition in range(6):
        for _ in range(4):
            rig.produce(topic_id, batch(b"v" * 500_000), partition=partition)
    rig.produce(hot, batch(b"hot"))
    entries = tuple(FetchPartition(topic_id, partition, 0, 1 << 20) for partition in range(6))
    body = FetchRequest(0, 1, 1 << 30, 0, (*entries, FetchPartition(hot, 0, 0, 1 << 20)))
    for turn in range(12):
        request = rig.ask(registry.FETCH, body)
        counts = [answer.frame_count for answer in request.answer.partitions]
        assert counts == [int(number == turn % 6) for number in range(6)] + [1]
        assert sum(map(len, request.answer_frames)) < 600_000
    other = rig.ask(registry.FETCH, body, peer=FakePeer(session=9))
    assert other.answer.partitions[0].frame_count == 1, "each connection has its own turn"
