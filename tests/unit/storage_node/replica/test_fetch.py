"""Fetch: what may be read, how much of it, and when the answer comes."""

from __future__ import annotations

import pytest
from core_rig import CoreRig, FakePeer
from headrace.protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    InvalidRequestError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ThrottlingQuotaExceededError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from node_rig import batch, values_of


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()


def sizes(frames: list[bytes]) -> list[int]:
    return [len(frame) for frame in frames]


def test_nothing_there_is_an_empty_answer(rig: CoreRig) -> None:
    """No wait was asked for: the high watermark and the log start are told all the same."""
    answer = rig.fetch(rig.topic()).first
    assert (answer.error_code, answer.frame_count, answer.high_watermark, answer.log_start_offset) == (
        0,
        0,
        0,
        0,
    )
    assert answer.last_stable_offset == 0


def test_offsets_outside_the_log(rig: CoreRig) -> None:
    """Absurd numbers are out of range; the end itself is not."""
    topic_id = rig.topic()
    rig.produce(topic_id)
    for offset in (-1, -5, 2, 2**63 - 1, -(2**63)):
        answer = rig.fetch(topic_id, offset).first
        assert answer.error_code == OffsetOutOfRangeError.code
        assert answer.log_start_offset == 0
    assert rig.fetch(topic_id, 1).first.error_code == 0


def test_the_batch_that_holds_the_offset_comes_whole(rig: CoreRig) -> None:
    """An offset inside a batch gives that batch from its start: the client skips."""
    topic_id = rig.topic()
    rig.produce(topic_id, batch(b"a", b"b", b"c"))
    request = rig.fetch(topic_id, 2)
    assert values_of(request.answer_frames) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_forged_and_wrong_partitions(rig: CoreRig) -> None:
    """Each has its own error; a wrong epoch is fenced."""
    topic_id = rig.topic()
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    assert rig.fetch(b"x" * 16).first.error_code == UnknownTopicIdError.code
    assert rig.fetch(topic_id, partition=7).first.error_code == UnknownTopicOrPartitionError.code
    assert rig.fetch(elsewhere).first.error_code == NotLeaderOrFollowerError.code
    assert rig.fetch(elsewhere).first.leader_id == 2
    rig.set_leader(topic_id, 1)
    assert rig.fetch(topic_id, epoch=0).first.error_code == FencedLeaderEpochError.code
    assert rig.fetch(topic_id, epoch=1).first.error_code == 0


@pytest.mark.parametrize("isolation", [-1, 2, 127])
def test_only_two_isolation_levels_exist(rig: CoreRig, isolation: int) -> None:
    """A level that does not exist refuses the request."""
    assert isinstance(rig.fetch(rig.topic(), isolation=isolation).error, InvalidRequestError)


# --- limits -------------------------------------------------------------------------------------------


def test_the_partition_limit_and_the_first_batch(rig: CoreRig) -> None:
    """Whole batches up to the limit; the first one always, however absurd the limits."""
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


def test_the_nodes_own_limit_wins() -> None:
    """Bound: fetch.max.bytes, whatever was asked."""
    rig = CoreRig(fetch_max_bytes=1_024)
    topic_id = rig.topic()
    for _ in range(10):
        rig.produce(topic_id, batch(b"v" * 300))
    request = rig.fetch(topic_id, max_bytes=2**40, partition_max_bytes=2**40)
    assert 0 < sum(sizes(request.answer_frames)) <= 1_024


def test_the_request_limit_is_shared_by_partitions(rig: CoreRig) -> None:
    """The first partition fills the answer; the others come empty, but with their watermarks."""
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


def test_a_large_batch_is_taken_only_as_the_first(rig: CoreRig) -> None:
    """In the second partition a batch beyond the limit waits for the next fetch."""
    topic_id = rig.topic(partitions=2)
    rig.produce(topic_id, batch(b"small"), partition=0)
    rig.produce(topic_id, batch(b"large" * 1_000), partition=1)
    for order, counts in (((0, 1), [1, 0]), ((1, 0), [1, 0])):
        entries = tuple(FetchPartition(topic_id, partition, 0, 1_000) for partition in order)
        request = rig.ask(registry.FETCH, FetchRequest(0, 1, 1_000, 0, entries))
        assert [answer.frame_count for answer in request.answer.partitions] == counts


def test_a_full_node_refuses_readers(rig: CoreRig) -> None:
    """Too many response bytes wait for slow readers: no more are made."""
    topic_id = rig.topic()
    rig.produce(topic_id)
    rig.room = 0
    assert isinstance(rig.fetch(topic_id).error, ThrottlingQuotaExceededError)


def test_a_hundred_thousand_partitions_are_refused(rig: CoreRig) -> None:
    """Bound: max.request.partitions; work per request stays bounded."""
    entries = (FetchPartition(rig.topic(), 0, 0, 1),) * 100_000
    request = rig.ask(registry.FETCH, FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, 0, entries))
    assert isinstance(request.error, InvalidRequestError)
    assert rig.core.parked == 0


# --- waiting ------------------------------------------------------------------------------------------


def test_a_reader_at_the_end_waits_for_the_next_batch(rig: CoreRig) -> None:
    """The long poll: parked until an append, then answered with it."""
    topic_id = rig.topic()
    request = rig.fetch(topic_id, max_wait_ms=500)
    assert not request.is_answered
    rig.produce(topic_id, batch(b"now"))
    assert values_of(request.answer_frames) == [(0, b"now")]
    assert rig.core.parked == 0


def test_min_bytes_are_waited_for(rig: CoreRig) -> None:
    """Two small batches are not enough, the third completes it: all three come."""
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    request = rig.fetch(topic_id, max_wait_ms=500, min_bytes=3 * len(one))
    rig.produce(topic_id, one, one)
    assert not request.is_answered
    rig.produce(topic_id, one)
    assert len(values_of(request.answer_frames)) == 3


def test_min_bytes_count_over_all_partitions(rig: CoreRig) -> None:
    """One batch in each of two partitions makes enough together."""
    topic_id = rig.topic(partitions=2)
    one = batch(b"v" * 100)
    entries = tuple(FetchPartition(topic_id, partition, 0, 1 << 20) for partition in range(2))
    request = rig.ask(registry.FETCH, FetchRequest(500, 2 * len(one), 1 << 20, 0, entries))
    rig.produce(topic_id, one, partition=0)
    assert not request.is_answered
    rig.produce(topic_id, one, partition=1)
    assert [answer.frame_count for answer in request.answer.partitions] == [1, 1]


def test_min_bytes_beyond_max_bytes_do_not_block(rig: CoreRig) -> None:
    """A contradiction: what fits into max_bytes is enough."""
    topic_id = rig.topic()
    rig.produce(topic_id, batch(b"v" * 100))
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=2**31 - 1, max_bytes=50).is_answered


def test_the_wait_ends_with_what_there_is(rig: CoreRig) -> None:
    """After max_wait_ms the few bytes that came are given."""
    topic_id = rig.topic()
    request = rig.fetch(topic_id, max_wait_ms=500, min_bytes=10_000)
    rig.produce(topic_id, batch(b"few"))
    rig.pass_time(499)
    assert not request.is_answered
    rig.pass_time(1)
    assert values_of(request.answer_frames) == [(0, b"few")]


def test_the_longest_wait_is_the_nodes() -> None:
    """Bound: fetch.max.wait.ms, whatever was asked."""
    rig = CoreRig(fetch_max_wait_ms=200)
    request = rig.fetch(rig.topic(), max_wait_ms=2**31 - 1)
    rig.pass_time(200)
    assert request.is_answered


def test_zero_or_negative_waits_and_bytes_answer_at_once(rig: CoreRig) -> None:
    """No wait, no bytes needed, or nothing asked for."""
    topic_id = rig.topic()
    assert rig.fetch(topic_id, max_wait_ms=-5).is_answered
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=0).is_answered
    assert rig.fetch(topic_id, max_wait_ms=500, min_bytes=-1).is_answered
    assert rig.ask(registry.FETCH, FetchRequest(500, 1, 1, 0, ())).answer.partitions == ()


def test_an_error_in_one_partition_is_told_at_once(rig: CoreRig) -> None:
    """A deleted topic among others must not wait for the long poll to end."""
    topic_id = rig.topic()
    entries = (FetchPartition(topic_id, 0, 0, 1 << 20), FetchPartition(b"x" * 16, 0, 0, 1 << 20))
    request = rig.ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries))
    assert [answer.error_code for answer in request.answer.partitions] == [0, UnknownTopicIdError.code]


def test_waiting_readers_hear_of_every_change(rig: CoreRig) -> None:
    """Leadership lost, topic deleted, disk lost: each wakes the reader with its error."""
    moved, deleted, broken = rig.topic("a"), rig.topic("b"), rig.topic("c")
    requests = [rig.fetch(topic_id, max_wait_ms=60_000) for topic_id in (moved, deleted, broken)]
    rig.set_leader(moved, -1)
    assert requests[0].first.error_code == NotLeaderOrFollowerError.code
    rig.remove(deleted)
    assert requests[1].first.error_code == UnknownTopicIdError.code
    rig.files.fail("pwrite", "c-0")
    rig.produce(broken)
    assert requests[2].first.error_code == KafkaStorageError.code
    assert rig.core.parked == 0


def test_a_gone_reader_makes_room(rig: CoreRig) -> None:
    """Its connection broke while it waited."""
    peer = FakePeer(session=5)
    request = rig.fetch(rig.topic(), max_wait_ms=60_000, peer=peer)
    peer.is_connected = False
    rig.core.connection_gone(5, rig.now_ms)
    assert request.is_dropped
    assert rig.core.parked == 0


def test_a_flood_of_waiting_readers_is_bounded() -> None:
    """Row 33 of the bad inputs: huge min_bytes, endless waits. Full means an error, not growth."""
    rig = CoreRig(purgatory_max_requests=100)
    topic_id = rig.topic()
    flood = [
        rig.fetch(topic_id, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, max_bytes=2**31 - 1)
        for _ in range(1_000)
    ]
    assert rig.core.parked == 100
    refused = [request for request in flood if request.is_answered]
    assert len(refused) == 900
    assert all(isinstance(request.error, ThrottlingQuotaExceededError) for request in refused)
    assert rig.produce(topic_id).first.error_code == 0, "producers are not touched by the flood"


# --- what must never be shown -------------------------------------------------------------------------


def test_reads_never_pass_the_high_watermark(rig: CoreRig) -> None:
    """With durability=fsync the tail is in the log but not committed: not a byte of it is given."""
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
def test_a_rotten_header_is_not_served(byte: int) -> None:
    """A bit flipped where the CRC does not reach: an error for the reader, a word to the operator, the rest
    is served."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    rig.produce(topic_id, one, one)
    rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
    for _ in range(2):
        request = rig.fetch(topic_id)
        assert request.first.error_code == CorruptMessageError.code
        assert request.answer_frames == []
    assert rig.notes().count("corrupt records") == 1
    assert values_of(rig.fetch(topic_id, 1).answer_frames) == [(1, b"v" * 100)]
    assert rig.produce(topic_id).first.base_offset == 2


def test_a_rotten_record_in_the_page_cache_meets_the_check_of_its_reader() -> None:
    """The node trusts what it checked and holds in memory; whoever checks what it gets sees the damage."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    one = batch(b"v" * 100)
    rig.produce(topic_id, one, one)
    for byte in range(17, len(one)):  # from the CRC itself on
        rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
        request = rig.fetch(topic_id)
        if request.first.error_code == 0:
            with pytest.raises(CorruptMessageError):
                values_of(request.answer_frames)
        else:
            assert request.first.error_code == CorruptMessageError.code
        rig.files.flip_bit("/d/t-0/" + "0" * 20 + ".log", byte, 3)
    assert len(values_of(rig.fetch(topic_id).answer_frames)) == 2


def test_a_read_error_takes_the_disk_offline() -> None:
    """EIO on a read: the disk is not trusted any more."""
    rig = CoreRig(log_tail_cache_bytes=0)
    topic_id = rig.topic()
    rig.produce(topic_id)
    rig.files.fail("pread", ".log")
    assert rig.fetch(topic_id).first.error_code == KafkaStorageError.code
    assert rig.produce(topic_id).first.error_code == KafkaStorageError.code
    assert rig.ended()
