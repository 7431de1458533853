"""Requests that wait on a client connection: in order, and bounded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .peers import MIB, Response

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ..errors import KafkaError
    from ..messages.envelope import Api
    from ..records.header import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Limits of one client connection."""

    max_frame_bytes: int = 128 * MIB  # per frame of a response
    max_body_bytes: int = 96 * MIB
    max_frames: int = 65_536  # per response
    max_backlog_requests: int = 10_000
    max_backlog_bytes: int = 256 * MIB
    heartbeat_interval_ms: int = 2_000
    heartbeat_timeout_ms: int = 6_000


class Recipient(Protocol):
    """The recipient of a response: an `asyncio.Future[Response]`, or a callback."""

    def done(self) -> bool:
        """Whether it has its outcome or was cancelled."""

    def set_result(self, result: Response, /) -> None:
        """Deliver the response. Called once, unless it is done."""

    def set_exception(self, exception: KafkaError, /) -> None:
        """Deliver the error. Called once, unless it is done."""


@dataclass(slots=True, eq=False)
class ConnectionRequest:
    """A request: its frames until it is sent, its recipient until it is answered."""

    recipient: Recipient
    api: Api
    correlation_id: int
    parts: Sequence[Buffer]
    size: int
    expect_reply: bool


class Backlog:
    """The queue before the socket.

    Bound: full at `max_backlog_requests` or `max_backlog_bytes`; the last request may exceed the bytes, so
    that a request above the limit can still be sent.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, options: ConnectionOptions) -> None:
        self._loop = loop
        self._options = options
        self._queue: deque[ConnectionRequest] = deque()
        self._bytes = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether further requests are rejected."""
        options = self._options
        return len(self._queue) >= options.max_backlog_requests or self._bytes >= options.max_backlog_bytes

    def append(self, request: ConnectionRequest) -> bool:
        """Queue a request; False if the backlog is full."""
        if self.is_full:
            return False
        self._queue.append(request)
        self._bytes += request.size
        return True

    def flush(self, transmit: Callable[[ConnectionRequest], bool]) -> None:
        """Send requests in order until `transmit` returns False."""
        while self._queue:
            request = self._queue[0]
            # a cancelled request need not be sent
            if not request.recipient.done() and not transmit(request):
                break
            self._queue.popleft()
            self._bytes -= request.size
        if not self.is_full:
            self._wake()

    async def has_room(self) -> None:
        """Wait until the backlog is not full, or is cleared."""
        while self.is_full:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def clear(self) -> list[ConnectionRequest]:
        """Empty the backlog permanently; returns its requests."""
        left = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        self._wake()
        return left

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
