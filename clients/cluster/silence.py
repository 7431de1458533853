"""Finds overdue requests, and those that should fail because leadership has moved. Pure.

It counts ticks of a timer, not milliseconds: a client that was stopped sees a single tick when it continues,
and reads pending responses before it takes a node for silent.
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
# Whole ticks after the `wait_ms` of the request. Below broker.session.timeout.ms, so that the metadata is
# refreshed when the controller fences the node; far above the response time of a healthy node.
SILENT_TICKS = 2


class ExpectedLeader(NamedTuple):
    """One partition of a request, with the leader epoch under which it was sent."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int


class Pending:
    """One request in flight; `tell` is called with the error when it is cancelled."""

    __slots__ = ("address", "leaders", "node_id", "silent_at", "tell")

    def __init__(
        self,
        node_id: int,
        address: Address,
        leaders: Callable[[], Iterable[ExpectedLeader]],
        tell: Callable[[KafkaError], None],
    ) -> None:
        self.node_id, self.address, self.leaders, self.tell = (
            node_id,
            address,
            leaders,
            tell,
        )
        self.silent_at = 0  # the tick from which it is overdue


class Silence:
    """The requests of one client in flight."""

    def __init__(self) -> None:
        self._pending: dict[Pending, None] = {}  # an ordered set
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._pending)

    def started(self, pending: Pending, wait_ms: int) -> None:
        """A request was sent that the node may hold for `wait_ms`."""
        # One more tick, because the current one may end at once.
        pending.silent_at = self._ticks + 1 + SILENT_TICKS + math.ceil(wait_ms / TICK_MS)
        self._pending[pending] = None

    def ended(self, pending: Pending) -> bool:
        """The request has its outcome; False if it had one before."""
        if pending not in self._pending:
            return False
        del self._pending[pending]
        pending.tell = _ignore  # a reference cycle would keep the frames of the request
        return True

    def tick(self) -> frozenset[Address]:
        """TICK_MS have passed. Gives the addresses with overdue requests."""
        self._ticks += 1
        return frozenset(pending.address for pending in self._pending if self._is_silent(pending))

    def obsolete(self, view: ClusterView) -> list[Pending]:
        """Overdue requests to nodes that left the cluster, or that lead none of the partitions any more.

        While the node leads one partition, the request stays: the node could execute it for that partition
        after the retry. For the others it cannot, because the request has an old leader epoch.
        """
        return [
            pending
            for pending in self._pending
            if self._is_silent(pending) and (pending.node_id not in view.nodes or _is_past(pending, view))
        ]

    def is_waiting_for(self, address: Address) -> bool:
        """Whether a request to this address is in flight."""
        return any(pending.address == address for pending in self._pending)

    def _is_silent(self, pending: Pending) -> bool:
        return self._ticks >= pending.silent_at


def _ignore(_error: KafkaError) -> None:
    """The request has its outcome."""


def _is_past(pending: Pending, view: ClusterView) -> bool:
    leaders = list(pending.leaders())
    return bool(leaders) and all(view.has_moved_from(pending.node_id, *leader) for leader in leaders)
