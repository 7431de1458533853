"""A request in purgatory, each of whose entries waits for the replicas of its partition. Pure.

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
    """Entry `index` of the response waits for its replicas to reach `offset`, in this leader epoch."""

    index: int
    partition: Partition
    leader_epoch: int
    offset: int


class CompletionRule(Protocol):
    """When an entry is complete."""

    def outcome(self, item: Waiting) -> KafkaError | bool:
        """Whether an entry whose leader epoch still holds is complete, or its error."""

    def timeout_error(self, item: Waiting) -> KafkaError:
        """The error of an entry that is not complete in time."""


class DelayedEntries:
    """It watches its connection and the partitions that it waits for.

    Invariant: each entry ends exactly once with `settled(entry, error or None)`: complete, lost with its
    leadership, or timed out; then `finished` is called. Once the client has disconnected (`is_wanted` is
    false) only `abandoned` is called.
    """

    __slots__ = ("_abandoned", "_finished", "_is_wanted", "_rule", "_settled", "_waiting")

    def __init__(
        self,
        waiting: list[Waiting],
        rule: CompletionRule,
        *,
        settled: Callable[[Waiting, KafkaError | None], None],
        finished: Callable[[], None],
        is_wanted: Callable[[], bool],
        abandoned: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._rule = rule
        self._settled = settled
        self._finished = finished
        self._is_wanted = is_wanted
        self._abandoned = abandoned

    def try_complete(self, _now_ms: int) -> bool:
        """Settle the entries that are complete or lost; finish after the last one."""
        if not self._is_wanted():
            self._abandoned()
            return True
        still: list[Waiting] = []
        for item in self._waiting:
            partition = item.partition
            if not partition.is_leader or partition.leader_epoch != item.leader_epoch:
                self._settled(item, partition.lost_error())
                continue
            outcome = self._rule.outcome(item)
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
        """The client's timeout has passed."""
        for item in self._waiting:
            self._settled(item, self._rule.timeout_error(item))
        self._waiting = []
        self._finished()
