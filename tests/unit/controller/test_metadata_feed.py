"""Responses to readers of metadata: the tail, whole decisions, or a snapshot."""

import msgspec
import pytest
from headrace.controller.metadata_feed import MAX_ENCODED, MetadataFeed
from headrace.protocol.errors import OffsetOutOfRangeError
from headrace.protocol.messages.control import FetchMetadataResponse
from headrace.protocol.metadata.features import SECURITY_VERSION
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import (
    FeatureLevelRecord,
    FormatRecord,
    NextNodeIdRecord,
    NoOpRecord,
)
from headrace.protocol.metadata.replay import image_of, replay


def feed_of(*sizes: int, tail: int = 100, answer: int = 100) -> MetadataFeed:
    """A feed of decisions of these sizes, published one by one after a FormatRecord at offset 0."""
    image, _ = replay(MetadataImage(), 0, [FormatRecord("c")])
    feed = MetadataFeed(image, tail, answer)
    for size in sizes:
        records = [NoOpRecord() for _ in range(size - 1)] + [NextNodeIdRecord(image.offset + size)]
        image, _ = replay(image, image.offset + 1, records)
        feed.publish(image, [records])
    return feed


def test_a_reader_gets_the_following_records() -> None:
    """Decisions of 2 and 3 records after offset 0; readers at 0, in the middle, and at the end."""
    feed = feed_of(2, 3)
    assert [(a.base_offset, a.end_offset, len(a.records)) for a in map(feed.answer, (0, 1, 2))] == [
        (1, 6, 5),
        (2, 6, 4),
        (3, 6, 3),
    ]
    assert feed.answer(5) is None
    assert feed.nothing_new(5).end_offset == 6


def test_responses_end_between_decisions() -> None:
    """At most 4 records: one decision of 3, not half of the next; a larger decision comes whole."""
    feed = feed_of(3, 3, 9, answer=4)
    assert feed.answer(0).end_offset == 4
    assert feed.answer(3).end_offset == 7
    assert feed.answer(6).end_offset == 16
    assert feed.answer(8).end_offset == 16


def test_a_reader_behind_the_tail_gets_a_snapshot() -> None:
    """The feed began at a snapshot, or dropped records; the snapshot is made once per image."""
    feed = feed_of(1, 1)
    answer = feed.answer(-1)
    assert answer.is_snapshot
    assert image_of(answer.records, answer.end_offset - 1) == feed.image
    encoded = feed.encoded(-1)
    assert msgspec.msgpack.decode(encoded, type=FetchMetadataResponse) == answer
    assert feed.encoded(-7) is encoded


def test_a_lowered_level_ends_the_tail() -> None:
    """The records before may be of kinds that a node with the lower level does not know: it gets an image."""
    feed = feed_of(2)
    for level, lowered_at in ((2, -1), (1, 4), (1, 4), (2, 4), (0, 7)):
        records = [FeatureLevelRecord(SECURITY_VERSION, level)]
        image, _ = replay(feed.image, feed.image.offset + 1, records)
        feed.publish(image, [records])
        assert feed.lowered_at == lowered_at
        assert feed.answer(0).is_snapshot is (lowered_at >= 0)
    assert feed.answer(6).is_snapshot


def test_records_are_encoded_once_per_offset() -> None:
    """Readers at one offset get the same bytes; the next image invalidates them."""
    feed = feed_of(2, 3)
    news = feed.encoded(0)
    assert feed.encoded(0) is news
    assert msgspec.msgpack.decode(feed.encoded(3), type=FetchMetadataResponse) == feed.answer(3)
    assert feed.encoded(5) is None
    image, _ = replay(feed.image, 6, [NoOpRecord()])
    feed.publish(image, [[NoOpRecord()]])
    assert msgspec.msgpack.decode(feed.encoded(0), type=FetchMetadataResponse).end_offset == 7
    with pytest.raises(OffsetOutOfRangeError):
        feed.encoded(7)


def test_cached_responses_are_bounded() -> None:
    """A reader at every offset leaves few entries."""
    feed = feed_of(*[1] * 50)
    for offset in range(-1, 50):
        feed.encoded(offset)
    assert len(feed._encoded) <= MAX_ENCODED


def test_the_tail_is_bounded_and_keeps_the_newest() -> None:
    """Fifty decisions with a tail of ten records: readers slightly behind still get records."""
    feed = feed_of(*[1] * 50, tail=10)
    assert feed.answer(40).base_offset == 41
    assert not feed.answer(40).is_snapshot
    assert feed.answer(5).is_snapshot
    held = sum(not feed.answer(offset).is_snapshot for offset in range(50))
    assert 10 <= held <= 21


def test_one_decision_larger_than_the_tail() -> None:
    """It is dropped or kept whole, and readers lose nothing."""
    feed = feed_of(1, 500, tail=10)
    assert feed.answer(0).is_snapshot
    assert feed.answer(501) is None
    feed = feed_of(1, 500, 1, tail=10)
    for offset in range(-1, 502):
        answer = feed.answer(offset)
        assert answer.end_offset == 503
        assert answer.is_snapshot or answer.base_offset == offset + 1


def test_without_a_tail_all_readers_get_snapshots() -> None:
    feed = feed_of(1, 1, tail=0)
    assert feed.answer(1).is_snapshot
    assert feed.answer(2) is None


def test_a_reader_that_is_ahead_gets_an_error() -> None:
    """It has applied records that this log does not have."""
    with pytest.raises(OffsetOutOfRangeError):
        feed_of(1).answer(2)
