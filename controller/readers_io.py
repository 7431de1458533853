"""Long polls of the metadata log: answered at once when there is news, or parked until there is.

Time and sockets come from the owner; this holds the requests and their purgatory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.purgatory import Purgatory
from ..runtime.timing_wheel import TimingWheel

if TYPE_CHECKING:
    from ..protocol.errors import KafkaError
    from ..protocol.messages.control import FetchMetadataRequest
    from ..protocol.transport.router_io import Peer, Request, Router
    from .metadata_feed import MetadataFeed

_NEWS = "metadata"  # the one watch key: every reader waits for the same


class _Poll:
    """One long poll. Errors of its answer: OffsetOutOfRangeError, raised where it is tried first."""

    __slots__ = ("_feed", "_offset", "_router", "request")

    def __init__(self, request: Request, feed: MetadataFeed, router: Router) -> None:
        body: FetchMetadataRequest = request.body
        self.request, self._offset, self._feed, self._router = request, body.offset, feed, router

    def try_complete(self, _now_ms: int) -> bool:
        answer = self._feed.encoded(self._offset)
        if answer is None:
            return False
        self._router.reply(self.request, answer)
        return True

    def refuse(self, error: KafkaError) -> None:
        self._router.reply_error(self.request, error)

    def on_expire(self, _now_ms: int) -> None:
        self._router.reply(self.request, self._feed.nothing_new(self._offset))


class MetadataReaders:
    """All readers that wait. Bound: `limit` of them; further ones are told to slow down."""

    def __init__(
        self, feed: MetadataFeed, router: Router, *, limit: int, max_wait_ms: int, now_ms: int
    ) -> None:
        self._feed, self._router, self._max_wait_ms = feed, router, max_wait_ms
        self._purgatory = Purgatory(TimingWheel(now_ms=now_ms), limit)
        self._polls: dict[bytes, list[_Poll]] = {}  # of each peer, to let go of them when it is gone

    def __len__(self) -> int:
        return len(self._purgatory)

    def fetch(self, request: Request, now_ms: int) -> None:
        """Answer or park. Errors: OffsetOutOfRangeError, ThrottlingQuotaExceededError."""
        poll = _Poll(request, self._feed, self._router)
        wait_ms = min(max(0, request.body.max_wait_ms), self._max_wait_ms)
        if not self._purgatory.park(poll, (_NEWS,), now_ms + wait_ms, now_ms):
            polls = self._polls.setdefault(request.peer.key, [])
            polls[:] = [each for each in polls if not each.request.is_answered]
            polls.append(poll)

    def on_news(self, now_ms: int) -> None:
        """There are new committed records."""
        self._purgatory.check(_NEWS, now_ms)

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is up."""
        self._purgatory.expire(now_ms)

    def refuse_all(self, error: KafkaError) -> None:
        """This controller is not the one to ask any more."""
        polls = [poll for each in self._polls.values() for poll in each]
        self._polls.clear()
        for poll in polls:
            if self._purgatory.cancel(poll):
                poll.refuse(error)

    def peer_gone(self, peer: Peer) -> None:
        """Let go of the polls of a peer that will not read their answers."""
        for poll in self._polls.pop(peer.key, ()):
            if self._purgatory.cancel(poll):
                self._router.no_reply(poll.request)
