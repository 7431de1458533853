"""The memory of requests: of one connection, and the limit of all connections together. Pure.

A request is charged for its bytes, and for the objects it is decoded to: an array element takes a byte on the
wire and hundreds in memory. It takes more while its response is made, but that is one request at a time.
"""

from __future__ import annotations

from typing import Protocol

# Measured: an element keeps 450 bytes where a Fetch waits for records, 250 where CreateTopics does.
ELEMENT_BYTES = 512
# Measured, for the most expensive api: DescribeGroups of unknown groups, until the response is written.
PEAK_ELEMENT_BYTES = 2_560


class Holder(Protocol):
    """A connection."""

    @property
    def has_partial_frame(self) -> bool:
        """Whether it has received a part of a frame."""

    @property
    def is_idle(self) -> bool:
        """Whether none of its calls is in flight."""

    def resume_reading(self) -> None:
        """There may be memory for it now."""


class HeldRequests:
    """The memory of one connection's requests: the partial frame, waiting frames and calls in flight."""

    __slots__ = (
        "_counted_moves",
        "_counted_partial",
        "counted_bytes",
        "moves",
        "needed_bytes",
        "queued_bytes",
        "since_ms",
    )

    def __init__(self) -> None:
        self.queued_bytes = 0  # of calls in flight and of waiting frames
        self.counted_bytes = self._counted_partial = 0  # as last reported by `count`
        self.needed_bytes = 0  # of the first waiting frame, once decoded, if there was no memory for it
        self.moves = self._counted_moves = 0  # frames that were begun, queued or started
        self.since_ms = 0  # of the last move

    def count(self, partial_bytes: int, held_bytes: int, begun: int, now_ms: int) -> tuple[int, int]:
        """Take stock: the growth of all held bytes and of those in a partial frame since the last call.
        `begun` is the number of frames that were not received at once."""
        moves = self.moves + begun
        if moves != self._counted_moves:
            self._counted_moves, self.since_ms = moves, now_ms
        growth = held_bytes - self.counted_bytes, partial_bytes - self._counted_partial
        self.counted_bytes, self._counted_partial = held_bytes, partial_bytes
        return growth


class RequestMemory:
    """Decides which connections may be read, and which requests may start.

    Bound: the limit, and beyond it one partial frame that is read to its end and one request that is started:
    connections that hold memory could otherwise wait for each other for ever.
    """

    def __init__(self, limit_bytes: int = 0) -> None:
        self.set_limit(limit_bytes)
        self.held_bytes = self._partial_bytes = 0
        self.waiting: dict[Holder, None] = {}  # for memory, first come first served
        self._finishing: Holder | None = None  # may exceed the limit to finish its frame
        self._starting: Holder | None = None  # may exceed the limit to start its request

    def set_limit(self, limit_bytes: int) -> None:
        """Set queued.max.request.bytes; it may change at any time."""
        self._limit_bytes = limit_bytes
        # One request takes at most half of the limit at its peak.
        self.max_elements = limit_bytes // 2 // PEAK_ELEMENT_BYTES

    def count(self, holder: Holder, more: int, more_partial: int) -> bool:
        """`holder` holds `more` bytes than before, `more_partial` of them in a partial frame; both may be
        negative. True if the limit is reached by it: other connections may have to stop reading."""
        was_scarce = more > 0 and self._is_scarce()
        self.held_bytes += more
        self._partial_bytes += more_partial
        assert self.held_bytes >= self._partial_bytes >= 0, "a connection released more than it held"
        if self._finishing is holder and not holder.has_partial_frame:
            self._finishing = None
        if self._starting is holder and holder.is_idle:
            self._starting = None
        return more > 0 and not was_scarce and self._is_scarce()

    def _is_scarce(self) -> bool:
        return self.held_bytes > self._limit_bytes or self._partial_bytes > self._limit_bytes // 2

    def may_read(self, holder: Holder) -> bool:
        """Whether the connection may be read. Partial frames get at most half of the limit, so that requests
        which arrive whole are served beside them."""
        has_partial = holder.has_partial_frame
        if not self._is_scarce() or (not has_partial and self.held_bytes <= self._limit_bytes):
            self.waiting.pop(holder, None)
            return True
        if self._finishing is None and has_partial:
            self._finishing = holder
        if self._finishing is holder:
            self.waiting.pop(holder, None)
            return True
        self.waiting[holder] = None
        return False

    def may_start(self, holder: Holder, more: int) -> bool:
        """Whether a request that takes `more` bytes once decoded may start."""
        if self.held_bytes + more > self._limit_bytes:
            if self._starting not in (None, holder):
                self.waiting[holder] = None
                return False
            self._starting = holder
        self.waiting.pop(holder, None)
        return True

    @property
    def excess_bytes(self) -> int:
        """The bytes to be released before all connections may be read; 0 or less if there are none."""
        return max(self.held_bytes - self._limit_bytes, self._partial_bytes - self._limit_bytes // 2)

    def is_awaited(self, holder: Holder) -> bool:
        """Whether other connections wait until this one has sent the rest of its frame."""
        return bool(self.waiting) and holder is self._finishing

    def release(self, holder: Holder) -> bool:
        """The connection has closed and holds nothing any more. True if others may go on by that."""
        self.waiting.pop(holder, None)
        was_allowed = holder in (self._finishing, self._starting)
        if self._finishing is holder:
            self._finishing = None
        if self._starting is holder:
            self._starting = None
        return was_allowed
