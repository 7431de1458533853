"""Long polls of the metadata: their duration, their bound, and closed connections."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from headrace.controller.metadata_feed import MetadataFeed
from headrace.controller.readers_io import MetadataReaders
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.protocol.messages.control import FetchMetadataRequest
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import FormatRecord
from headrace.protocol.metadata.replay import replay


@dataclass(eq=False)
class Peer:
    key: bytes = b"peer"


@dataclass(eq=False)
class Poll:
    body: FetchMetadataRequest
    peer: Peer = field(default_factory=Peer)
    is_answered: bool = False


class Router:
    """Counts responses; each request has one."""

    def __init__(self) -> None:
        self.dropped = 0

    def reply(self, request: Poll, _body: Any) -> None:
        assert not request.is_answered
        request.is_answered = True

    def no_reply(self, request: Poll) -> None:
        assert not request.is_answered
        request.is_answered = True
        self.dropped += 1


class Rig:
    """Readers of a feed with one record to publish."""

    def __init__(self, *, limit: int = 100, max_wait_ms: int = 500) -> None:
        self.router: Any = Router()
        self.feed = MetadataFeed(MetadataImage(), 100, 100)
        self.readers = MetadataReaders(
            self.feed, self.router, limit=limit, max_wait_ms=max_wait_ms, now_ms=1_000
        )

    def poll(self, wait_ms: int, peer: Peer | None = None, now_ms: int = 1_000) -> Poll:
        request: Any = Poll(FetchMetadataRequest(1, self.feed.image.offset, wait_ms), peer or Peer())
        self.readers.fetch(request, now_ms)
        return request

    def publish(self) -> None:
        records = (FormatRecord("c"),)
        self.feed.publish(replay(self.feed.image, 0, records)[0], (records,))
        self.readers.on_published(0)


@pytest.mark.parametrize("wait_ms", [501, 2**31 - 1])
def test_the_wait_is_bounded_by_the_server(wait_ms: int) -> None:
    """500 ms: at 1499 the reader waits, at 1500 it gets an empty response."""
    rig = Rig()
    poll = rig.poll(wait_ms)
    rig.readers.expire(1_499)
    assert not poll.is_answered
    rig.readers.expire(1_500)
    assert poll.is_answered


def test_a_negative_wait_ends_at_once() -> None:
    """The next tick answers it."""
    rig = Rig()
    poll = rig.poll(-5)
    rig.readers.expire(1_000)
    assert poll.is_answered


def test_new_records_answer_all_waiting_readers() -> None:
    rig = Rig()
    polls = [rig.poll(500), rig.poll(500, Peer(b"other"))]
    rig.publish()
    assert [poll.is_answered for poll in polls] == [True, True]
    assert len(rig.readers) == 0


def test_readers_are_bounded() -> None:
    """The third of two is refused, and accepted once another has gone."""
    rig = Rig(limit=2)
    first = Peer(b"1")
    rig.poll(500, first)
    rig.poll(500, Peer(b"2"))
    with pytest.raises(ThrottlingQuotaExceededError):
        rig.poll(500, Peer(b"3"))
    rig.readers.peer_gone(first)  # type: ignore[arg-type]
    assert not rig.poll(500, Peer(b"3")).is_answered


def test_a_closed_connection_drops_its_poll() -> None:
    """The request is released once, and earlier ones are left alone."""
    rig = Rig()
    peer: Any = Peer()
    rig.poll(10, peer)
    rig.readers.expire(1_010)
    rig.poll(500, peer, 1_010)
    rig.readers.peer_gone(peer)
    rig.readers.peer_gone(peer)
    assert rig.router.dropped == 1
    assert len(rig.readers) == 0


def test_polls_by_connection_are_bounded() -> None:
    """A thousand answered polls of one connection leave at most one entry."""
    rig = Rig()
    peer = Peer()
    for number in range(1_000):
        rig.poll(1, peer, 1_000 + number)
        rig.readers.expire(1_001 + number)
    assert len(rig.readers._polls[peer.key]) == 1
