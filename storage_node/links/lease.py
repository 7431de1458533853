"""Until when nobody else leads what this node leads, as far as it knows. Pure.

A node that stood still, or was cut off, may have lost its leadership without knowing it. What it appends then
is never committed, but what it only remembers could be shown. So it keeps a lease: the controller has not
fenced it before the session is over that began when its last heartbeat was *sent*, and had moved nothing away
by what had been decided when it was heard. The lease is a part of the session, and holds only once the
metadata up to there is applied.

Leadership also moves while the node lives (preferred leaders, reassignment, drain). Whoever gets it then
waits until the one before has followed it in the new epoch, is fenced, or has no lease any more: handover.py.
Not promised: a node and a controller that are both cut off from a majority which has elected another
controller; with Kafka's ratio of timeouts the lease ends before the other controller fences anybody.
"""

from __future__ import annotations

from collections import deque

_MAX_PENDING = 100  # Bound: of answers that wait for their metadata; the older ones are over by then
_NEVER_MS = -(1 << 62)


class Lease:
    """Of one node. Times are monotonic."""

    def __init__(self) -> None:
        self.length_ms = 0  # anybody's in this cluster, from the heartbeat on; 0 before the registration
        self._until_ms = _NEVER_MS
        self._learned_offset = -1
        self._pending: deque[tuple[int, int]] = deque(maxlen=_MAX_PENDING)  # metadata offset, until_ms

    def granted(self, sent_ms: int, metadata_offset: int) -> None:
        """The controller has heard the heartbeat that was sent then, and had decided the metadata up to this
        offset."""
        self._pending.append((metadata_offset, sent_ms + self.length_ms))
        self.learned(self._learned_offset)

    def learned(self, metadata_offset: int) -> None:
        """The node acts by the metadata up to this offset."""
        self._learned_offset = metadata_offset
        while self._pending and self._pending[0][0] <= metadata_offset:
            self._until_ms = max(self._until_ms, self._pending.popleft()[1])

    def holds(self, now_ms: int) -> bool:
        """Whether nobody else can lead yet."""
        return now_ms < self._until_ms
