"""A request in purgatory whose entries wait for the replicas of their partitions, each for itself. Pure.

Invariant: each waiting entry ends exactly once: settled, lost with its leader, or timed out.
Source: Kafka DelayedProduce, DelayedDeleteRecords.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ...protocol.errors import KafkaError

if TYPE_CHECKING:
    from ..replies import Incoming
    from .partition import Partition

A = TypeVar("A")  # the answer for an entry


@dataclass(slots=True)
class WaitingEntry:
    """Entry `index` of the answer, begun in a leadership of this node: its replicas are to reach `offset`."""

    index: int
    partition: Partition
    leader_epoch: int
    offset: int


class Owner(Protocol[A]):
    """Whose requests they are."""

    def finish(self, request: Incoming, answers: list[A]) -> None:
        """Send the answer of a request that waited."""

    def abandon(self, request: Incoming) -> None:
        """Nobody is there any more to hear the answer."""

    def lost(self, item: WaitingEntry, error: KafkaError) -> A:
        """The answer for an entry that was begun but cannot be confirmed."""


class DelayedEntries(ABC, Generic[A]):
    """It watches its connection and the partitions that it waits for."""

    __slots__ = ("_answers", "_owner", "_request", "_waiting")

    def __init__(
        self, request: Incoming, answers: list[A], waiting: list[WaitingEntry], owner: Owner[A]
    ) -> None:
        self._request = request
        self._answers = answers
        self._waiting = waiting
        self._owner = owner

    @abstractmethod
    def _settled(self, item: WaitingEntry) -> A | KafkaError | None:
        """The answer of an entry whose leader still leads, or what is wrong with it; None: it waits on."""

    @abstractmethod
    def _overdue(self, item: WaitingEntry) -> KafkaError:
        """What is told of an entry that was not settled in time."""

    def try_complete(self) -> bool:
        """Settle what can be settled; answer when nothing waits any more."""
        if not self._request.peer.is_connected:
            self._owner.abandon(self._request)
            return True
        still: list[WaitingEntry] = []
        for item in self._waiting:
            partition = item.partition
            if not partition.is_leader or partition.leader_epoch != item.leader_epoch:
                self._end(item, partition.lost_error())
            elif (found := self._settled(item)) is not None:
                self._end(item, found)
            else:
                still.append(item)
        self._waiting = still
        if still:
            return False
        self._owner.finish(self._request, self._answers)
        return True

    def on_expire(self) -> None:
        """The client's timeout passed: it is done, but not known to be so everywhere."""
        for item in self._waiting:
            self._end(item, self._overdue(item))
        self._waiting = []
        self._owner.finish(self._request, self._answers)

    def _end(self, item: WaitingEntry, found: A | KafkaError) -> None:
        self._answers[item.index] = self._owner.lost(item, found) if isinstance(found, KafkaError) else found
