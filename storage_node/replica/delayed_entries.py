"""A request in purgatory whose entries wait for the replicas of their partitions, each for itself. Pure.

Source: Kafka DelayedProduce, DelayedDeleteRecords.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from .partition import Partition


@dataclass(slots=True)
class Waiting:
    """Entry `index` of the answer, begun in a leadership of this node: its replicas are to reach `offset`."""

    index: int
    partition: Partition
    leader_epoch: int
    offset: int


class Goal(Protocol):
    """What the entries wait for."""

    def outcome(self, item: Waiting) -> KafkaError | bool:
        """Of an entry whose leader still leads: whether it is reached, or what is wrong with it."""

    def overdue(self, item: Waiting) -> KafkaError:
        """What is told of an entry that is not there in time."""


class DelayedEntries:
    """It watches its connection and the partitions that it waits for.

    Invariant: each entry ends exactly once with `settled(entry, error or None)`: as wanted, lost with its
    leader, or timed out; then comes `finished`. Or, once nobody `is_wanted`, `abandoned` alone.
    """

    __slots__ = ("_abandoned", "_finished", "_goal", "_is_wanted", "_settled", "_waiting")

    def __init__(
        self,
        waiting: list[Waiting],
        goal: Goal,
        *,
        settled: Callable[[Waiting, KafkaError | None], None],
        finished: Callable[[], None],
        is_wanted: Callable[[], bool],
        abandoned: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._goal = goal
        self._settled = settled
        self._finished = finished
        self._is_wanted = is_wanted
        self._abandoned = abandoned

    def try_complete(self, _now_ms: int) -> bool:
        """Settle what can be settled; finish when nothing waits any more."""
        if not self._is_wanted():
            self._abandoned()
            return True
        still: list[Waiting] = []
        for item in self._waiting:
            partition = item.partition
            if not partition.is_leader or partition.leader_epoch != item.leader_epoch:
                self._settled(item, partition.lost_error())
                continue
            outcome = self._goal.outcome(item)
            if outcome is False:
                still.append(item)
            else:
                self._settled(item, None if outcome is True else outcome)
        self._waiting = still
        if still:
            return False
        self._finished()
        return True

    def on_expire(self, _now_ms: int) -> None:
        """The client's timeout passed: it is done here, but not known to be so everywhere."""
        for item in self._waiting:
            self._settled(item, self._goal.overdue(item))
        self._waiting = []
        self._finished()
