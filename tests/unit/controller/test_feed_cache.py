"""Cached responses of the metadata feed: the right one for each reader, and never an old one."""

import msgspec
from headrace.controller.metadata_feed import MAX_ENCODED, MetadataFeed
from headrace.protocol.messages.control import FetchMetadataResponse
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import NoOpRecord
from headrace.protocol.metadata.replay import replay


def grown(feed: MetadataFeed, count: int = 1) -> None:
    """`count` more decisions of one record."""
    for _ in range(count):
        records = (NoOpRecord(),)
        feed.publish(replay(feed.image, feed.image.offset + 1, records)[0], (records,))


def response_at(feed: MetadataFeed, offset: int) -> FetchMetadataResponse:
    """The decoded response to a reader at `offset`."""
    encoded = feed.encoded(offset)
    assert encoded is not None
    answer = msgspec.msgpack.decode(encoded, type=FetchMetadataResponse)
    plain = feed.answer(offset)
    assert plain is not None
    assert msgspec.to_builtins(answer) == msgspec.to_builtins(plain), f"a reader at {offset}"
    return answer


def test_snapshot_and_tail_have_separate_entries() -> None:
    """In any order: readers before the tail get the snapshot, readers within it records."""
    feed = MetadataFeed(MetadataImage(), 3, 100)
    grown(feed, 7)
    first = feed._tail_start
    assert first > 1
    for offsets in ((first - 1, first - 2, first, -1), (-1, first - 2, first - 1, first)):
        assert [response_at(feed, offset).is_snapshot for offset in offsets] == [
            offset < first - 1 for offset in offsets
        ]
        feed._encoded.clear()


def test_a_new_decision_invalidates_the_cache() -> None:
    """After one more record the snapshot and the records end later."""
    feed = MetadataFeed(MetadataImage(), 3, 100)
    grown(feed, 7)
    before = [response_at(feed, -1).end_offset, response_at(feed, feed.image.offset - 1).end_offset]
    offset = feed.image.offset - 1
    grown(feed)
    assert [response_at(feed, -1).end_offset, response_at(feed, offset).end_offset] == [
        end + 1 for end in before
    ]


def test_readers_at_one_offset_share_the_bytes() -> None:
    """Readers at a hundred offsets do not fill the memory."""
    feed = MetadataFeed(MetadataImage(), 200, 100)
    grown(feed, 100)
    assert feed.encoded(5) is feed.encoded(5)
    for offset in range(100):
        feed.encoded(offset)
        assert len(feed._encoded) <= MAX_ENCODED
