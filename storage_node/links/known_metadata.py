"""The time up to which a node knows the metadata of its cluster. Pure.

A heartbeat that is answered with a metadata offset proves, once that offset is applied, that the node's image
has everything that was decided before the heartbeat was *sent*. Not covered: a controller that was replaced
and does not know it yet; it resigns within controller.quorum.fetch.timeout.ms without a majority.
"""

from __future__ import annotations

from collections import deque

_MAX_PENDING = 100  # Bound: responses whose metadata is not applied yet; the oldest are dropped
NEVER_MS = -(1 << 62)


class KnownMetadata:
    """`until_ms`: everything that was decided before is in the node's image. Times are monotonic."""

    def __init__(self) -> None:
        self.until_ms = NEVER_MS
        self._applied_offset = -1
        self._pending: deque[tuple[int, int]] = deque(maxlen=_MAX_PENDING)  # metadata offset, sent_ms

    def answered(self, sent_ms: int, metadata_offset: int) -> None:
        """The heartbeat sent at `sent_ms` was answered, by a controller that had decided the metadata up to
        `offset`."""
        self._pending.append((metadata_offset, sent_ms))
        self.applied(self._applied_offset)

    def applied(self, metadata_offset: int) -> None:
        """The node has applied the metadata up to `offset`."""
        self._applied_offset = metadata_offset
        while self._pending and self._pending[0][0] <= metadata_offset:
            self.until_ms = max(self.until_ms, self._pending.popleft()[1])
