"""Long polls of the metadata log: answered at once when there are new records, else parked in purgatory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.purgatory import Purgatory
from ..runtime.timing_wheel import TimingWheel

if TYPE_CHECKING:
    from ..protocol.errors import KafkaError
    from ..protocol.messages.control import FetchMetadataRequest
    from ..protocol.transport.router_io import Peer, Request, Router
    from .metadata_feed import MetadataFeed

_NEWS = "metadata"  # the one watch key: all readers wait for the same records


class _Poll:
    """One long poll. Errors: OffsetOutOfRangeError, raised by the first try."""

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
    """All waiting readers. Bound: `limit`; more are refused."""

    def __init__(
        self, feed: MetadataFeed, router: Router, *, limit: int, max_wait_ms: int, now_ms: int
    ) -> None:
        self._feed, self._router, self._max_wait_ms = feed, router, max_wait_ms
        self._purgatory = Purgatory(TimingWheel(now_ms=now_ms), limit)
        self._polls: dict[bytes, list[_Poll]] = {}  # by connection, to drop them when it closes

    def __len__(self) -> int:
        return len(self._purgatory)

    def fetch(self, request: Request, now_ms: int) -> None:
        """Answer or park the request. Errors: OffsetOutOfRangeError, ThrottlingQuotaExceededError."""
        poll = _Poll(request, self._feed, self._router)
        wait_ms = min(max(0, request.body.max_wait_ms), self._max_wait_ms)
        if not self._purgatory.park(poll, (_NEWS,), now_ms + wait_ms, now_ms):
            polls = self._polls.setdefault(request.peer.key, [])
            polls[:] = [each for each in polls if not each.request.is_answered]
            polls.append(poll)

    def on_published(self, now_ms: int) -> None:
        """Answer the readers of newly committed records."""
        self._purgatory.check(_NEWS, now_ms)

    def expire(self, now_ms: int) -> None:
        """Answer the requests whose wait is over."""
        self._purgatory.expire(now_ms)

    def refuse_all(self, error: KafkaError) -> None:
        """Answer all requests with this error: the controller is not active any more."""
        polls = [poll for each in self._polls.values() for poll in each]
        self._polls.clear()
        for poll in polls:
            if self._purgatory.cancel(poll):
                poll.refuse(error)

    def peer_gone(self, peer: Peer) -> None:
        """Drop the polls of a closed connection."""
        for poll in self._polls.pop(peer.key, ()):
            if self._purgatory.cancel(poll):
                self._router.no_reply(poll.request)
