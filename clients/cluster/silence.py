"""Notices requests that stay unanswered, and those of them that no answer can help any more. Pure.

It counts ticks of a timer, not milliseconds: a client that stood still itself sees a single tick when it goes
on, and reads the answers that came meanwhile before it blames a node.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol.errors import KafkaError
    from .metadata import ClusterView
    from .network import Address

TICK_MS = 500
# Whole ticks beyond what the answer may take by the request's own wish. Below the session of a node, so that
# the metadata is asked when the controller gives the node up; far above what a healthy node needs.
SILENT_TICKS = 2


class Stake(NamedTuple):
    """One partition of a request, under the leader epoch in which it was asked about."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int


class Pending:
    """One request under way; `tell` is how its asker hears the error when it is given up."""

    __slots__ = ("address", "node_id", "silent_at", "stakes", "tell")

    def __init__(
        self,
        node_id: int,
        address: Address,
        stakes: Callable[[], Iterable[Stake]],
        tell: Callable[[KafkaError], None],
    ) -> None:
        self.node_id, self.address, self.stakes, self.tell = node_id, address, stakes, tell
        self.silent_at = 0  # the tick from which on it counts as unanswered


class Silence:
    """The requests of one client that are under way."""

    def __init__(self) -> None:
        self._pending: dict[Pending, None] = {}  # an ordered set
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._pending)

    def started(self, pending: Pending, wait_ms: int) -> None:
        """A request whose answer may take `wait_ms` because it says so itself."""
        # One more: the tick that is due may come at once.
        pending.silent_at = self._ticks + 1 + SILENT_TICKS + math.ceil(wait_ms / TICK_MS)
        self._pending[pending] = None

    def ended(self, pending: Pending) -> bool:
        """It has its outcome; False if it had one before."""
        if pending not in self._pending:
            return False
        del self._pending[pending]
        return True

    def tick(self) -> frozenset[Address]:
        """TICK_MS have passed; the addresses that owe an answer for too long."""
        self._ticks += 1
        return frozenset(pending.address for pending in self._pending if self._is_silent(pending))

    def hopeless(self, view: ClusterView) -> list[Pending]:
        """Unanswered ones to nodes that left the cluster, or that lead none of the partitions any more.

        While one partition is still led there, the request stays: after its retry it could be executed for
        that one a second time. For the others it cannot, because it names the leader epoch of the past.
        """
        return [
            pending
            for pending in self._pending
            if self._is_silent(pending) and (pending.node_id not in view.nodes or _is_past(pending, view))
        ]

    def is_waiting_for(self, address: Address) -> bool:
        """Whether a request to this address is under way."""
        return any(pending.address == address for pending in self._pending)

    def _is_silent(self, pending: Pending) -> bool:
        return self._ticks >= pending.silent_at


def _is_past(pending: Pending, view: ClusterView) -> bool:
    stakes = list(pending.stakes())
    return bool(stakes) and all(view.has_moved_from(pending.node_id, *stake) for stake in stakes)
