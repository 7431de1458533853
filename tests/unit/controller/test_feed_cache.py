"""Answers that are encoded once and given to many: never the wrong one, never an old one."""

from __future__ import annotations

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


def told(feed: MetadataFeed, offset: int) -> FetchMetadataResponse:
    """What a reader at `offset` is told."""
    encoded = feed.encoded(offset)
    assert encoded is not None
    answer = msgspec.msgpack.decode(encoded, type=FetchMetadataResponse)
    plain = feed.answer(offset)
    assert plain is not None
    assert msgspec.to_builtins(answer) == msgspec.to_builtins(plain), f"a reader at {offset}"
    return answer


def test_readers_on_both_sides_of_the_tail_get_what_is_theirs() -> None:
    """In any order of asking: whoever stands before the tail gets the snapshot, whoever in it the tail."""
    feed = MetadataFeed(MetadataImage(), 3, 100)
    grown(feed, 7)
    first = feed._tail_start
    assert first > 1
    for offsets in ((first - 1, first - 2, first, -1), (-1, first - 2, first - 1, first)):
        assert [told(feed, offset).is_snapshot for offset in offsets] == [
            offset < first - 1 for offset in offsets
        ]
        feed._encoded.clear()


def test_a_new_decision_makes_all_of_them_old() -> None:
    """The same readers ask again after one more record: snapshot and news both end later."""
    feed = MetadataFeed(MetadataImage(), 3, 100)
    grown(feed, 7)
    before = [told(feed, -1).end_offset, told(feed, feed.image.offset - 1).end_offset]
    offset = feed.image.offset - 1
    grown(feed)
    assert [told(feed, -1).end_offset, told(feed, offset).end_offset] == [end + 1 for end in before]


def test_the_same_bytes_serve_everybody_at_one_place_and_few_places_are_kept() -> None:
    """Two readers share them; readers at a hundred places do not fill the memory."""
    feed = MetadataFeed(MetadataImage(), 200, 100)
    grown(feed, 100)
    assert feed.encoded(5) is feed.encoded(5)
    for offset in range(100):
        feed.encoded(offset)
        assert len(feed._encoded) <= MAX_ENCODED
