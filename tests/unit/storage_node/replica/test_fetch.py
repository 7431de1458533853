"""Fetch: what may be read, how much of it, and when the answer comes."""

import pytest
from core_rig import CoreRig, FakePeer
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from node_rig import batch, values_of


def sizes(frames: list[bytes]) -> list[int]:
    return [len(frame) for frame in frames]


def test_empty_response_has_high_watermark_and_log_start(rig: CoreRig) -> None:
    """max_wait_ms 0 and no records."""
    answer = rig.fetch(rig.topic()).first
    assert (answer.error_code, answer.frame_count, answer.high_watermark, answer.log_start_offset) == (
        0,
        0,
        0,
        0,
    )
    assert answer.last_stable_offset == 0


def test_offset_outside_of_the_log_is_out_of_range(rig: CoreRig) -> None:
    """The log end itself is not."""
    topic_id = rig.topic()
    rig.produce(topic_id)
    for offset in (-1, -5, 2, 2**63 - 1, -(2**63)):
        answer = rig.fetch(topic_id, offset).first
        assert answer.error_code == errors.OffsetOutOfRangeError.code
        assert answer.log_start_offset == 0
    assert rig.fetch(topic_id, 1).first.error_code == 0


def test_offset_inside_a_batch_returns_the_whole_batch(rig: CoreRig) -> None:
    topic_id = rig.topic()
    rig.produce(topic_id, batch(b"a", b"b", b"c"))
    request = rig.fetch(topic_id, 2)
    assert values_of(request.answer_frames) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_each_invalid_partition_has_its_error(rig: CoreRig) -> None:
    """A wrong leader epoch is fenced."""
    topic_id = rig.topic()
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    assert rig.fetch(b"x" * 16).first.error_code == errors.UnknownTopicIdError.code
    assert rig.fetch(topic_id, partition=7).first.error_code == errors.UnknownTopicOrPartitionError.code
    assert rig.fetch(elsewhere).first.error_code == errors.NotLeaderOrFollowerError.code
    assert rig.fetch(elsewhere).first.leader_id == 2
    rig.set_leader(topic_id, 1)
    assert rig.fetch(topic_id, epoch=0).first.error_code == errors.FencedLeaderEpochError.code
    assert rig.fetch(topic_id, epoch=1).first.error_code == 0


@pytest.mark.parametrize("isolation", [-1, 2, 127])
def test_unknown_isolation_level_is_refused(rig: CoreRig, isolation: int) -> None:
    assert isinstance(rig.fetch(rig.topic(), isolation=isolation).error, errors.InvalidRequestError)


# --- limits -------------------------------------------------------------------------------------------


def test_partition_limit_returns_at_least_the_first_batch(rig: CoreRig) -> None:
    """Whole batches up to partition_max_bytes."""
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    for _ in range(5):
        rig.produce(topic_id, one)
    for limit, expected in ((3 * len(one), 3), (3 * len(one) - 1, 2), (1, 1), (0, 1), (-1, 1), (-(2**63), 1)):
        request = rig.fetch(topic_id, partition_max_bytes=limit)
        assert len(values_of(request.answer_frames)) == expected, limit
        request = rig.fetch(topic_id, max_bytes=limit)
        assert len(values_of(request.answer_frames)) == expected, limit
    assert len(values_of(rig.fetch(topic_id, max_bytes=2**62, partition_max_bytes=2**62).answer_frames)) == 5


def test_response_is_bounded_by_fetch_max_bytes() -> None:
    rig = CoreRig(fetch_max_bytes=1_024)
    topic_id = rig.topic()
    for _ in range(10):
        rig.produce(topic_id, batch(b"v" * 300))
    request = rig.fetch(topic_id, max_bytes=2**40, partition_max_bytes=2**40)
    assert 0 < sum(sizes(request.answer_frames)) <= 1_024


def test_max_bytes_is_shared_by_partitions(rig: CoreRig) -> None:
    """The first partition fills the response; all others have only their high watermarks."""
    topic_id = rig.topic(partitions=3)
    one = batch(b"v" * 100)
    for partition in range(3):
        rig.produce(topic_id, one, one, partition=partition)
    entries = tuple(FetchPartition(topic_id, partition, 0, 1 << 20) for partition in range(3))
    request = rig.ask(registry.FETCH, FetchRequest(0, 1, 3 * len(one), 0, entries))
    answers = request.answer.partitions
    assert [answer.high_watermark for answer in answers] == [2, 2, 2]
    assert [answer.frame_count > 0 for answer in answers] == [True, True, False]
    assert sum(sizes(request.answer_frames)) == 3 * len(one)
    assert sum(answer.frame_count for answer in answers) == len(request.answer_frames)


def test_batch_above_the_limit_is_returned_only_as_the_first(rig: CoreRig) -> None:
    """In the second partition it waits for the next fetch."""
    topic_id = rig.topic(partitions=2)
    rig.produce(topic_id, batch(b"small"), partition=0)
    rig.produce(topic_id, batch(b"large" * 1_000), partition=1)
    for order, counts in (((0, 1), [1, 0]), ((1, 0), [1, 0])):
        entries = tuple(FetchPartition(topic_id, partition, 0, 1_000) for partition in order)
        request = rig.ask(registry.FETCH, FetchRequest(0, 1, 1_000, 0, entries))
        assert [answer.frame_count for answer in request.answer.partitions] == counts


def test_fetch_is_refused_when_too_many_response_bytes_are_queued(rig: CoreRig) -> None:
    topic_id = rig.topic()
    rig.produce(topic_id)
    rig.room = 0
    assert isinstance(rig.fetch(topic_id).error, errors.ThrottlingQuotaExceededError)


def test_partitions_per_request_are_bounded(rig: CoreRig) -> None:
    """Bound: max.request.partitions."""
    entries = (FetchPartition(rig.topic(), 0, 0, 1),) * 100_000
    request = rig.ask(registry.FETCH, FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, 0, entries))
    assert isinstance(request.error, errors.InvalidRequestError)
    assert rig.core.parked == 0


# --- waiting ------------------------------------------------------------------------------------------


def test_fetch_at_the_log_end_waits_for_the_next_batch(rig: CoreRig) -> None:
    topic_id = rig.topic()
    request = rig.fetch(topic_id, max_wait_ms=500)
    assert not request.is_answered
    rig.produce(topic_id, batch(b"now"))
    assert values_of(request.answer_frames) == [(0, b"now")]
    assert rig.core.parked == 0


def test_fetch_waits_for_min_bytes(rig: CoreRig) -> None:
    """Two small batches are not enough, the third completes it."""
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    request = rig.fetch(topic_id, max_wait_ms=500, min_bytes=3 * len(one))
    rig.produce(topic_id, one, one)
    assert not request.is_answered
    rig.produce(topic_id, one)
    assert len(values_of(request.answer_frames)) == 3


def test_min_bytes_counts_all_partitions(rig: CoreRig) -> None:
    """One batch in each of two partitions is enough."""
    topic_id = rig.topic(partitions=2)
    one = batch(b"v" * 100)
    entries = tuple(FetchPartition(topic_id, partition, 0, 1 << 20) for partition in range(2))
    request = rig.ask(registry.FETCH, FetchRequest(500, 2 * len(one), 1 << 20, 0, entries))
    rig.produce(topic_id, one, partition=0)
    assert not request.is_answered
    rig.produce(topic_id, one, partition=1)
    assert [answer.frame_count for answer in request.answer.partitions] == [1, 1]


def test_min_bytes_is_limited_to_max_bytes(rig: CoreRig) -> None:
    """What fits into max_bytes is enough."""
    topic_id = rig.topic()
    rig.produce(topic_id, batch(b"v" * 100))
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=2**31 - 1, max_bytes=50).is_answered


def test_fetch_returns_available_records_after_max_wait(rig: CoreRig) -> None:
    topic_id = rig.topic()
    request = rig.fetch(topic_id, max_wait_ms=500, min_bytes=10_000)
    rig.produce(topic_id, batch(b"few"))
    rig.pass_time(499)
    assert not request.is_answered
    rig.pass_time(1)
    assert values_of(request.answer_frames) == [(0, b"few")]


def test_wait_is_bounded_by_fetch_max_wait_ms() -> None:
    rig = CoreRig(fetch_max_wait_ms=200)
    request = rig.fetch(rig.topic(), max_wait_ms=2**31 - 1)
    rig.pass_time(200)
    assert request.is_answered


def test_zero_or_negative_wait_or_min_bytes_returns_at_once(rig: CoreRig) -> None:
    topic_id = rig.topic()
    assert rig.fetch(topic_id, max_wait_ms=-5).is_answered
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=0).is_answered
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=-1).is_answered
    assert rig.ask(registry.FETCH, FetchRequest(500, 1, 1, 0, ())).answer.partitions == ()


def test_partition_error_ends_the_wait(rig: CoreRig) -> None:
    """A deleted topic among others."""
    topic_id = rig.topic()
    entries = (FetchPartition(topic_id, 0, 0, 1 << 20), FetchPartition(b"x" * 16, 0, 0, 1 << 20))
    request = rig.ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries))
    assert [answer.error_code for answer in request.answer.partitions] == [0, errors.UnknownTopicIdError.code]


def test_waiting_fetch_is_completed_by_each_kind_of_error(rig: CoreRig) -> None:
    """Leadership lost, topic deleted, disk failed."""
    moved, deleted, broken = rig.topic("a"), rig.topic("b"), rig.topic("c")
    requests = [rig.fetch(topic_id, max_wait_ms=60_000) for topic_id in (moved, deleted, broken)]
    rig.set_leader(moved, -1)
    assert requests[0].first.error_code == errors.NotLeaderOrFollowerError.code
    rig.remove(deleted)
    assert requests[1].first.error_code == errors.UnknownTopicIdError.code
    rig.files.fail("pwrite", "c-0")
    rig.produce(broken)
    assert requests[2].first.error_code == errors.KafkaStorageError.code
    assert rig.core.parked == 0


def test_disconnected_consumer_leaves_purgatory(rig: CoreRig) -> None:
    peer = FakePeer(session=5)
    request = rig.fetch(rig.topic(), max_wait_ms=60_000, peer=peer)
    peer.is_connected = False
    rig.core.connection_gone(5, rig.now_ms)
    assert request.is_dropped
    assert rig.core.parked == 0


def test_waiting_fetches_are_bounded() -> None:
    """Huge min_bytes and long waits: an error instead of growth."""
    rig = CoreRig(purgatory_max_requests=100)
    topic_id = rig.topic()
    flood = [
        rig.fetch(topic_id, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, max_bytes=2**31 - 1)
        for _ in range(1_000)
    ]
    assert rig.core.parked == 100
    refused = [request for request in flood if request.is_answered]
    assert len(refused) == 900
    assert all(isinstance(request.error, errors.ThrottlingQuotaExceededError) for request in refused)
    assert rig.produce(topic_id).first.error_code == 0, "producers are not touched by the flood"


# --- what must never be shown -------------------------------------------------------------------------


def test_fetch_never_passes_the_high_watermark(rig: CoreRig) -> None:
    """durability=fsync: unflushed records are not returned."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"safe"))
    rig.flush()
    rig.produce(topic_id, batch(b"unsafe"))
    request = rig.fetch(topic_id)
    assert values_of(request.answer_frames) == [(0, b"safe")]
    assert request.first.high_watermark == 1
    waiting = rig.fetch(topic_id, 1, max_wait_ms=500)
    assert not waiting.is_answered
    rig.flush()
    assert values_of(waiting.answer_frames) == [(1, b"unsafe")]


@pytest.mark.parametrize("byte", [0, 7, 12, 15, 16, 8, 9])
def test_corrupt_batch_header_is_not_served(byte: int) -> None:
    """A flipped bit outside of the CRC: an error for the client, a log line, the rest is served."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    rig.produce(topic_id, one, one)
    rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
    for _ in range(2):
        request = rig.fetch(topic_id)
        assert request.first.error_code == errors.CorruptMessageError.code
        assert request.answer_frames == []
    assert rig.notes().count("corrupt records") == 1
    assert values_of(rig.fetch(topic_id, 1).answer_frames) == [(1, b"v" * 100)]
    assert rig.produce(topic_id).first.base_offset == 2


def test_corrupt_cached_record_is_detected_by_the_consumer() -> None:
    """The node trusts batches that it has checked and cached; consumers check the CRC."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    rig.produce(topic_id, one, one)
    for byte in range(17, len(one)):  # from the CRC itself on
        rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
        request = rig.fetch(topic_id)
        if request.first.error_code == 0:
            with pytest.raises(errors.CorruptMessageError):
                values_of(request.answer_frames)
        else:
            assert request.first.error_code == errors.CorruptMessageError.code
        rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
    assert len(values_of(rig.fetch(topic_id).answer_frames)) == 2


def test_read_error_takes_the_log_dir_offline() -> None:
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    rig.produce(topic_id)
    rig.files.fail("pread", ".log")
    assert rig.fetch(topic_id).first.error_code == errors.KafkaStorageError.code
    assert rig.produce(topic_id).first.error_code == errors.KafkaStorageError.code
    assert rig.ended()
