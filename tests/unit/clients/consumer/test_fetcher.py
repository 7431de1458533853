"""What a consumer requests, and how it processes responses."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.cluster.metadata import ClusterView
from headrace.clients.consumer.effects import (
    RefreshMetadata,
    Request,
    SendFetch,
    SendListOffsets,
    Truncated,
    UpdateLeader,
)
from headrace.clients.consumer.fetcher import Fetcher
from headrace.clients.consumer.requests import MAX_REQUESTS_PER_NODE, FetchLimits
from headrace.protocol import errors
from headrace.protocol.messages.data import (
    EpochAnswer,
    FetchPartitionResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from headrace.protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from producer_rig import TOPIC_ID, view_of

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def batch(base: int, count: int = 1, size: int = 1, **facts: Any) -> bytes:
    """`count` records of `size` bytes from offset `base` on."""
    builder = active_codec().builder(max_bytes=1 << 24, **facts)
    for number in range(count):
        builder.append(0, None, b"%d" % (base + number) + b"x" * size, ())
    made = builder.build()
    return assigned_prefix(base, read_batch_header(made).batch_length, 0) + made[CRC_POSITION:]


class Rig:
    """A fetcher with the test's metadata and time."""

    def __init__(self, *leaders: int, reset: int | None = LATEST_TIMESTAMP, **limits: int) -> None:
        wanted = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 50_000,
            "max_partition_bytes": 1000,
            **limits,
        }
        self.fetcher = Fetcher(FetchLimits(**wanted), Backoff(100, 1000, Random(1)), reset)
        self.view: ClusterView = view_of(*leaders)
        self.now_ms = 0
        self.other: list[Any] = []

    def start(self, *tps: TopicPartition, offset: int = 0) -> Rig:
        """Assign these partitions from an offset."""
        for tp in tps:
            self.fetcher.add(tp, LATEST_TIMESTAMP)
            self.fetcher.seek(tp, offset)
        return self

    def step(self, advance_ms: int = 0) -> list[Any]:
        """The requests of one poll."""
        self.now_ms += advance_ms
        return self._sends(self.fetcher.poll(self.view, self.now_ms))

    def fetched(self, sent: SendFetch, *answers: Any) -> None:
        """By partition: bytes of batches, an error code, or a response."""
        built, frames = [], []
        for answer in answers:
            if isinstance(answer, bytes):
                frames += [memoryview(answer)] if answer else []
                built.append(FetchPartitionResponse(0, 100, 100, 0, int(bool(answer))))
            else:
                built.append(FetchPartitionResponse(answer) if isinstance(answer, int) else answer)
        self._sends(self.fetcher.on_fetched(sent, FetchResponse(tuple(built)), frames, self.now_ms))

    def looked_up(self, sent: SendListOffsets, *answers: int | ListOffsetsPartitionResponse) -> None:
        """By partition: an offset or a response."""
        built = tuple(
            ListOffsetsPartitionResponse(0, -1, answer, 0) if isinstance(answer, int) else answer
            for answer in answers
        )
        self._sends(self.fetcher.on_offsets_listed(sent, ListOffsetsResponse(built), self.now_ms))

    def _sends(self, effects: tuple[Any, ...]) -> list[Any]:
        self.fetcher.check()
        self.other += effects
        return [effect for effect in effects if isinstance(effect, Request)]

    def consume(self, tp: TopicPartition, count: int = 1) -> None:
        for _ in range(count):
            self.fetcher.batch_consumed(self.fetcher.states[tp].batches[0])

    def offsets(self, sent: SendFetch) -> dict[int, int]:
        return {entry.partition: entry.fetch_offset for entry in sent.request.partitions}


def test_positions_are_looked_up_before_the_first_fetch() -> None:
    """Two partitions on one node: one ListOffsets request, then one fetch."""
    rig = Rig(0, 0, reset=EARLIEST_TIMESTAMP)
    rig.fetcher.add(T0, EARLIEST_TIMESTAMP)
    rig.fetcher.add(T1, EARLIEST_TIMESTAMP)
    (lookup,) = rig.step()
    assert [entry.timestamp for entry in lookup.request.partitions] == [-2, -2]
    assert rig.step() == [], "each partition is in one request at a time"
    rig.looked_up(lookup, 5, 7)
    (fetch,) = rig.step()
    assert rig.offsets(fetch) == {0: 5, 1: 7}
    assert fetch.request.partitions[0].topic_id == TOPIC_ID


def test_one_request_per_leader() -> None:
    """Three partitions on two nodes."""
    rig = Rig(0, 1, 0).start(T0, T1, T2)
    assert sorted((sent.node_id, sorted(rig.offsets(sent))) for sent in rig.step()) == [(0, [0, 2]), (1, [1])]


def test_next_fetch_starts_after_the_buffered_batches() -> None:
    """Batches of 3 and 2 records: offset 5, though none is consumed."""
    rig = Rig(0).start(T0)
    (first,) = rig.step()
    rig.fetched(first, batch(0, 3) + batch(3, 2))
    (second,) = rig.step()
    assert rig.offsets(second) == {0: 5}
    assert [batch.next_offset for batch in rig.fetcher.states[T0].batches] == [3, 5]
    assert rig.fetcher.states[T0].high_watermark == 100


def test_partition_is_fetched_below_half_of_its_limit() -> None:
    """Above half of max.partition.fetch.bytes nothing is fetched until a batch is consumed."""
    rig = Rig(0).start(T0)
    (first,) = rig.step()
    rig.fetched(first, batch(0, 1, 300) + batch(1, 1, 300))
    assert rig.step() == []
    rig.consume(T0)
    assert rig.fetcher.needs_poll
    (second,) = rig.step()
    assert rig.offsets(second) == {0: 2}


def test_fetch_max_bytes_bounds_all_partitions() -> None:
    """With 1200 of 1500 bytes buffered, the next request is limited to the rest."""
    rig = Rig(0, 1, 2, max_bytes=1500).start(T0, T1, T2)
    sends = rig.step()
    assert sum(sent.request.max_bytes for sent in sends) <= 1500
    for sent in sends:
        rig.fetched(sent, *[batch(0, 1, 500)] * len(sent.partitions))
    before = rig.fetcher.buffered_bytes
    assert sum(sent.request.max_bytes for sent in rig.step()) <= max(1500 - before, 0)


def test_busy_partition_does_not_wait_for_a_long_poll() -> None:
    """T1 is in a long poll; once T0 is consumed it is fetched by a second request."""
    rig = Rig(0, 0).start(T0)
    (busy,) = rig.step()
    rig.start(T1)
    (idle,) = rig.step()
    assert sorted(rig.offsets(idle)) == [1]
    rig.fetched(busy, batch(0))
    (again,) = rig.step()
    assert rig.offsets(again) == {0: 1}


def test_requests_per_node_are_bounded() -> None:
    """Partitions become fetchable one by one while all requests are in flight."""
    rig = Rig(*[0] * 20)
    sends = []
    for number in range(20):
        rig.start(TopicPartition("t", number))
        sends += rig.step()
    assert len(sends) == MAX_REQUESTS_PER_NODE
    rig.fetched(sends[0], b"")
    (more,) = rig.step()
    assert len(more.partitions) == 20 - MAX_REQUESTS_PER_NODE + 1


def test_seek_discards_the_fetch_in_flight() -> None:
    """Its response comes after the seek."""
    rig = Rig(0).start(T0)
    (old,) = rig.step()
    rig.fetcher.seek(T0, 50)
    (new,) = rig.step()
    assert rig.offsets(new) == {0: 50}
    rig.fetched(old, batch(0, 3))
    assert not rig.fetcher.states[T0].batches
    assert rig.step() == [], "the new request is still under way"
    rig.fetched(new, batch(50, 1))
    assert rig.fetcher.states[T0].fetch_offset == 51


def test_paused_partition_keeps_its_batches_and_is_not_fetched() -> None:
    """After `resume` it is fetched from their end."""
    rig = Rig(0).start(T0)
    (first,) = rig.step()
    rig.fetcher.pause([T0])
    rig.fetched(first, batch(0, 2))
    first_batch = rig.fetcher.states[T0].batches[0]
    assert not first_batch.is_active
    assert rig.step() == []
    rig.fetcher.resume([T0])
    assert first_batch.is_active
    (second,) = rig.step()
    assert rig.offsets(second) == {0: 2}


@pytest.mark.parametrize("code", [3, 5, 6, 56, 74, 75, 100, 7, 78, 89])
def test_retriable_error_is_retried_after_the_backoff(code: int) -> None:
    """The application gets no error; the metadata is refreshed where the error calls for it."""
    rig = Rig(0).start(T0)
    (sent,) = rig.step()
    rig.fetched(sent, code)
    assert rig.step() == []
    assert rig.fetcher.states[T0].error is None
    assert (RefreshMetadata() in rig.other) == errors.ERRORS_BY_CODE[code].refresh_metadata
    due_ms = rig.fetcher.next_due_ms()
    assert due_ms is not None
    (again,) = rig.step(due_ms)
    assert rig.offsets(again) == {0: 0}


def test_leader_in_an_error_response_is_used() -> None:
    """KIP-951."""
    rig = Rig(0).start(T0)
    (sent,) = rig.step()
    rig.fetched(sent, FetchPartitionResponse(6, leader_id=2, leader_epoch=9))
    assert UpdateLeader("t", 0, 2, 9) in rig.other


def test_failed_request_is_retried_for_every_partition() -> None:
    """The connection broke."""
    rig = Rig(0, 0).start(T0, T1)
    (sent,) = rig.step()
    rig._sends(rig.fetcher.on_failure(sent, errors.NetworkError("broken"), 0))
    (again,) = rig.step(200)
    assert rig.offsets(again) == {0: 0, 1: 0}


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    """Each retry waits for the backoff."""
    rig = Rig(-1).start(T0)
    assert rig.step() == []
    assert RefreshMetadata() in rig.other
    rig.other.clear()
    assert rig.step() == []
    assert rig.other == [], "backing off"
    rig.view = view_of(1, epoch=1)
    (sent,) = rig.step(200)
    assert sent.node_id == 1


def test_out_of_range_resets_the_position() -> None:
    """By ListOffsets, as auto.offset.reset says."""
    rig = Rig(0, reset=EARLIEST_TIMESTAMP).start(T0, offset=5)
    (sent,) = rig.step()
    rig.fetched(sent, 1)
    (lookup,) = rig.step()
    assert lookup.request.partitions[0].timestamp == EARLIEST_TIMESTAMP
    rig.looked_up(lookup, 30)
    assert rig.offsets(rig.step()[0]) == {0: 30}


def test_out_of_range_without_a_policy_is_raised() -> None:
    """With partition and offset; the partition is not fetched before that."""
    rig = Rig(0, reset=None).start(T0, offset=5)
    (sent,) = rig.step()
    rig.fetched(sent, 1)
    error = rig.fetcher.states[T0].error
    assert isinstance(error, errors.OffsetOutOfRangeError)
    assert "t-0 at offset 5" in str(error)
    assert rig.step(1000) == []


def test_out_of_range_waits_for_the_buffered_batches() -> None:
    """They are returned first; the fetch is retried meanwhile, after each backoff."""
    rig = Rig(0, reset=EARLIEST_TIMESTAMP).start(T0)
    (first,) = rig.step()
    rig.fetched(first, batch(0, 2))
    (second,) = rig.step()
    rig.fetched(second, 1)
    assert rig.step() == []
    assert len(rig.fetcher.states[T0].batches) == 1
    rig.consume(T0)
    (third,) = rig.step(200)
    rig.fetched(third, 1)
    assert isinstance(rig.step()[0], SendListOffsets)


def test_fatal_error_is_raised() -> None:
    """Corrupt data on the node's disk is not retried without end."""
    rig = Rig(0).start(T0)
    (sent,) = rig.step()
    rig.fetched(sent, errors.CorruptMessageError.code)
    assert isinstance(rig.fetcher.states[T0].error, errors.CorruptMessageError)
    assert rig.step(5000) == []


@pytest.mark.parametrize("data", [b"garbage", batch(0, 3)[:-1], batch(0)[:60], b"\0" * 61])
def test_malformed_frame_fails_its_partition_only(data: bytes) -> None:
    """The other partition of the response is read."""
    rig = Rig(0, 0).start(T0, T1)
    (sent,) = rig.step()
    order = [entry.partition for entry in sent.request.partitions]
    rig.fetched(sent, *[data if partition == 0 else batch(0) for partition in order])
    assert isinstance(rig.fetcher.states[T0].error, errors.CorruptMessageError)
    assert rig.fetcher.states[T1].batches


def test_response_with_a_wrong_number_of_frames_is_rejected() -> None:
    """Its frames could belong to another partition."""
    rig = Rig(0, 0).start(T0, T1)
    (sent,) = rig.step()
    answers = tuple(FetchPartitionResponse(0, 1, 1, 0, 1) for _ in range(2))
    rig._sends(rig.fetcher.on_fetched(sent, FetchResponse(answers), [memoryview(batch(0))], 0))
    assert not rig.fetcher.states[T0].batches
    assert not rig.fetcher.states[T1].batches
    assert rig.fetcher.states[T0].error is not None


def test_batch_before_the_fetch_offset_is_dropped() -> None:
    """A node responds with the batch that has the offset, so earlier batches do not count."""
    rig = Rig(0).start(T0, offset=3)
    (sent,) = rig.step()
    rig.fetched(sent, batch(0, 3) + batch(3, 2))
    assert [batch.next_offset for batch in rig.fetcher.states[T0].batches] == [5]


def test_timestamp_after_the_last_record_means_the_end() -> None:
    """The position is that of the next new record."""
    rig = Rig(0).start(T0)
    rig.fetcher.seek(T0, None, 123_456)
    (lookup,) = rig.step()
    assert lookup.request.partitions[0].timestamp == 123_456
    rig.looked_up(lookup, -1)
    (again,) = rig.step()
    assert again.request.partitions[0].timestamp == LATEST_TIMESTAMP


def test_recreated_topic_is_read_from_its_start() -> None:
    """The topic id changed, so the old offsets mean nothing (KAFKA-12257)."""
    rig = Rig(0).start(T0, offset=500)
    (sent,) = rig.step()
    rig.fetched(sent, 100)
    topic = rig.view.topics["t"]
    again = type(topic)("t", b"n" * 16, False, topic.partitions)
    rig.view = ClusterView("c", 0, 9, rig.view.nodes, {"t": again}, {})
    (lookup,) = rig.step(500)
    assert lookup.request.partitions[0].timestamp == EARLIEST_TIMESTAMP
    assert lookup.request.partitions[0].topic_id == b"n" * 16


def test_no_position_without_a_policy_is_raised() -> None:
    """NoOffsetError until a seek."""
    rig = Rig(0, reset=None)
    rig.fetcher.add(T0, None)
    assert isinstance(rig.fetcher.states[T0].error, errors.NoOffsetError)
    assert rig.step() == []
    rig.fetcher.seek(T0, 3)
    assert rig.offsets(rig.step()[0]) == {0: 3}


def test_partitions_take_turns_in_requests() -> None:
    """Partitions that did not fit into fetch.max.bytes are first in the next request."""
    rig = Rig(0, 0, 0).start(T0, T1, T2)
    (first,) = rig.step()
    assert [entry.partition for entry in first.request.partitions] == [0, 1, 2]
    rig.fetched(first, batch(0), b"", b"")
    rig.fetcher.pause([T0])
    (second,) = rig.step()
    rig.fetched(second, b"", b"")
    rig.fetcher.resume([T0])
    (third,) = rig.step()
    assert third.request.partitions[0].partition == 0


def test_partition_omitted_from_a_poll_is_fetched_first() -> None:
    """An idle partition's long poll reserves all of fetch.max.bytes: the other node is fetched after it."""
    rig = Rig(0, 1, max_bytes=800).start(T0, T1)
    (first,) = rig.step()
    assert rig.offsets(first) == {0: 0}
    rig.fetched(first, b"")
    (second,) = rig.step()
    assert rig.offsets(second) == {1: 0}


def test_removed_partition_frees_its_bytes() -> None:
    """The response to its fetch is ignored."""
    rig = Rig(0, 0).start(T0, T1)
    (sent,) = rig.step()
    rig.fetched(sent, batch(0), batch(0))
    (again,) = rig.step()
    rig.fetcher.remove(T0)
    rig.fetched(again, batch(1), batch(1))
    assert list(rig.fetcher.states) == [T1]
    rig.fetcher.check()


def test_partition_is_fetched_once_its_leader_is_known() -> None:
    """Without waiting for the backoff, which applies only while the metadata names no leader."""
    rig = Rig(-1).start(T0)
    assert rig.step() == []
    assert RefreshMetadata() in rig.other
    assert rig.step(1) == [], "backing off, not asking at every step"
    rig.view = view_of(0, epoch=1)
    (sent,) = rig.step(1)
    rig.fetched(sent, errors.NotLeaderOrFollowerError.code)
    assert rig.step(1) == [], "an error of the leader is waited out"


def test_wait_for_a_leader_ends_with_the_first_request() -> None:
    """The fetch after the ListOffsets lookup does not wait for the backoff either."""
    rig = Rig(-1)
    rig.fetcher.add(T0, EARLIEST_TIMESTAMP)
    assert rig.step() == []
    rig.view = view_of(0, epoch=1)
    (lookup,) = rig.step(1)
    rig.looked_up(lookup, 5)
    (fetch,) = rig.step(1)
    assert rig.offsets(fetch) == {0: 5}
    rig.fetched(fetch, batch(5))
    (again,) = rig.step(1)
    assert rig.offsets(again) == {0: 6}


def test_paused_partitions_do_not_starve_the_others() -> None:
    """Two paused partitions buffer all of fetch.max.bytes: the third is fetched nevertheless."""
    rig = Rig(0, 0, 0, max_bytes=1700).start(T0, T1)
    while sends := rig.step():
        for sent in sends:
            rig.fetched(sent, *(batch(entry.fetch_offset, size=800) for entry in sent.request.partitions))
    assert rig.fetcher.buffered_bytes >= 1700
    rig.fetcher.pause([T0, T1])
    rig.start(T2)
    (sent,) = rig.step()
    assert rig.offsets(sent) == {2: 0}
    rig.fetched(sent, batch(0, size=400))
    rig.fetcher.resume([T0, T1])
    assert rig.step() == [], "with these it is too much again"
    rig.consume(T0)
    rig.consume(T1)
    assert rig.step()


def test_batches_of_a_deleted_topic_are_returned_before_the_recreated_one_is_read() -> None:
    """A fetch at the old position would mix two logs."""
    rig = Rig(0).start(T0)
    (fetch,) = rig.step()
    rig.fetched(fetch, batch(0))
    topic = rig.view.topics["t"]
    rig.view = replace(rig.view, topics={"t": replace(topic, topic_id=b"n" * 16)})
    assert rig.step() == []
    rig.consume(T0)
    (lookup,) = rig.step()
    assert isinstance(lookup, SendListOffsets)
    assert lookup.request.partitions[0].timestamp == EARLIEST_TIMESTAMP


def test_diverging_fetch_response_rewinds() -> None:
    """As an OffsetForLeaderEpoch response does; buffered batches are returned first."""
    rig = Rig(0, reset=EARLIEST_TIMESTAMP).start(T0)
    (fetch,) = rig.step()
    rig.fetched(fetch, batch(0, 2) + batch(2, 2))
    (fetch,) = rig.step()
    rig.fetched(fetch, FetchPartitionResponse(0, 100, 100, 0, diverging_epoch=0, diverging_end_offset=3))
    assert rig.step(200) == [], "two batches come first"
    rig.consume(T0, 2)
    (fetch,) = rig.step()
    assert rig.offsets(fetch) == {0: 3}
    assert Truncated(T0, 4, 3) in rig.other


def test_rewind_after_a_truncation_stays_in_one_log() -> None:
    """Records 0 to 3 were taken but not returned when 2 and 3 were truncated: reading continues at 0."""
    for start, expected in ((0, 0), (3, 2)):
        rig = Rig(0, reset=EARLIEST_TIMESTAMP).start(T0)
        (fetch,) = rig.step()
        rig.fetched(fetch, batch(0, 4))
        rig.consume(T0)
        rig.view = view_of(1, epoch=1)
        (question,) = rig.step()
        answer = OffsetForLeaderEpochResponse((EpochAnswer(0, 0, 2),))
        rig._sends(rig.fetcher.on_epoch_ends(question, answer, rig.now_ms))
        rig.step()
        rig.fetcher.rewind(T0, start)
        assert rig.fetcher.states[T0].position == expected
