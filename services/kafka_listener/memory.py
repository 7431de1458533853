"""What the requests of all connections may hold in memory together. Pure.

A request is charged for its bytes, and for what is made of them: an element of an array takes a byte on the
wire and hundreds in memory. While it is answered it takes more, but that is one request at a time.
"""

from __future__ import annotations

from typing import Protocol

# Measured: an element keeps 450 bytes where a Fetch waits for news of it, 250 where CreateTopics does.
ELEMENT_BYTES = 512
# Measured, for the dearest api: DescribeGroups of groups that do not exist, until its answer is written.
PEAK_ELEMENT_BYTES = 2_560


class Holder(Protocol):
    """A connection."""

    @property
    def is_within_frame(self) -> bool:
        """Whether it has begun a frame that has not come whole."""

    @property
    def is_idle(self) -> bool:
        """Whether no call of it is under way."""

    def go_on_reading(self) -> None:
        """There may be room for it now."""


class RequestMemory:
    """Who may read on, and who may begin.

    Bound: the limit, and beyond it one frame that may come whole and one request that may begin: else those
    that hold memory could wait for each other for ever.
    """

    def __init__(self, limit_bytes: int = 0) -> None:
        self.set_limit(limit_bytes)
        self.held_bytes = self._partial_bytes = 0
        self.hungry: dict[Holder, None] = {}  # they wait for room, the first comes first
        self._finishing: Holder | None = None  # it may finish its frame
        self._beginning: Holder | None = None  # it may begin its request

    def set_limit(self, limit_bytes: int) -> None:
        """It may change at any time."""
        self._limit_bytes = limit_bytes
        # of one request: what it takes at its peak is at most half of the limit
        self.max_elements = limit_bytes // 2 // PEAK_ELEMENT_BYTES

    def count(self, holder: Holder, more: int, more_partial: int) -> bool:
        """`holder` holds so many bytes more than before, or less; `more_partial` of them in frames that have
        not come whole. Whether others may have to stop reading now."""
        was_scarce = more > 0 and self._is_scarce()
        self.held_bytes += more
        self._partial_bytes += more_partial
        assert self.held_bytes >= self._partial_bytes >= 0, "nobody gives back what it has not"
        if self._finishing is holder and not holder.is_within_frame:
            self._finishing = None
        if self._beginning is holder and holder.is_idle:
            self._beginning = None
        return more > 0 and not was_scarce and self._is_scarce()

    def _is_scarce(self) -> bool:
        return self.held_bytes > self._limit_bytes or self._partial_bytes > self._limit_bytes // 2

    def has_room(self, holder: Holder) -> bool:
        """Whether it may read on. Frames that do not come whole get half of all alone: requests that come at
        once are served beside them."""
        is_within = holder.is_within_frame
        if not self._is_scarce() or (not is_within and self.held_bytes <= self._limit_bytes):
            self.hungry.pop(holder, None)
            return True
        if self._finishing is None and is_within:
            self._finishing = holder
        if self._finishing is holder:
            self.hungry.pop(holder, None)
            return True
        self.hungry[holder] = None
        return False

    def may_begin(self, holder: Holder, more: int) -> bool:
        """Whether something of `more` bytes may be made of its request."""
        if self.held_bytes + more > self._limit_bytes:
            if self._beginning not in (None, holder):
                self.hungry[holder] = None
                return False
            self._beginning = holder
        self.hungry.pop(holder, None)
        return True

    @property
    def excess_bytes(self) -> int:
        """What has to be given back before all may read on; not above 0 if nothing has."""
        return max(self.held_bytes - self._limit_bytes, self._partial_bytes - self._limit_bytes // 2)

    def is_in_the_way(self, holder: Holder) -> bool:
        """Whether others wait for it to finish its frame."""
        return bool(self.hungry) and holder is self._finishing

    def gone(self, holder: Holder) -> bool:
        """It has given everything back. Whether others may go on by that."""
        self.hungry.pop(holder, None)
        had_right = holder in (self._finishing, self._beginning)
        if self._finishing is holder:
            self._finishing = None
        if self._beginning is holder:
            self._beginning = None
        return had_right
