"""The time until which no other node can lead the partitions of this node. Pure.

A stalled or isolated node may have lost its leaderships without knowing it. What it appends then is never
committed, but state that is only in memory could be served. The lease is based on the session: the controller
does not fence the node before the session ends that began when the last answered heartbeat was *sent*, and
has moved no leadership up to the metadata offset in the response. The lease is a part of the session timeout,
and holds only once that metadata is applied. Leaderships also move while the node is alive (preferred
leaders, reassignment, drain): the new leader waits until the old one follows it in the new epoch, is fenced,
or has no lease (handover.py). Not covered: a node and a controller that are both isolated from a majority
with another controller; with Kafka's ratio of timeouts the lease ends before the other controller fences the
node.
"""

from __future__ import annotations

from .known_metadata import KnownMetadata


class Lease:
    """The lease of one node. Times are monotonic."""

    def __init__(self) -> None:
        self.length_ms = 0  # of all nodes of the cluster, from the heartbeat on; 0 before the registration
        self._known = KnownMetadata()

    def granted(self, sent_ms: int, metadata_offset: int) -> None:
        """The heartbeat sent at `sent_ms` was answered for an unfenced node, by a controller that had decided
        the metadata up to `offset`."""
        self._known.answered(sent_ms, metadata_offset)

    def applied(self, metadata_offset: int) -> None:
        """The node has applied the metadata up to `offset`."""
        self._known.applied(metadata_offset)

    def holds(self, now_ms: int) -> bool:
        """Whether no other node can lead yet."""
        return now_ms < self._known.until_ms + self.length_ms
