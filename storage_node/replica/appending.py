"""Append to a partition that this node leads, and wait until that is as safe as was asked for.

Source: Kafka ReplicaManager.appendRecords, DelayedProduce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import (
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from ..log.verification import NO_GUARD
from .partition import ACKS_ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.records.header import Buffer
    from ..log.append_rules import AppendInfo
    from ..log.log import Log
    from .partition import Partition
    from .replica_manager import ReplicaManager


def append_to_leader(
    replicas: ReplicaManager,
    partition: Partition,
    log: Log,
    batch: Buffer,
    wall_ms: int,
    *,
    acks: int = ACKS_ALL,
    guard: int = NO_GUARD,
    internal: bool = False,
    transaction_version: int = 0,
) -> AppendInfo:
    """As Log.append_as_leader for a partition that this node leads, and tell whoever waits for that.

    Errors: NotEnoughReplicasError before the append; those of the log.
    """
    if acks == ACKS_ALL and partition.is_under_min_isr:
        raise NotEnoughReplicasError(
            f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas, acks=all needs"
            f" {partition.min_isr}"
        )
    try:
        info = log.append_as_leader(
            batch,
            leader_epoch=partition.leader_epoch,
            wall_ms=wall_ms,
            internal=internal,
            guard=guard,
            transaction_version=transaction_version,
        )
    except KafkaStorageError as error:
        # Order: a bad disk is offline before any later entry or request is acknowledged.
        replicas.disk_failed(partition, error)
        raise
    if info.is_repeated:
        return info
    if partition.in_sync is not None:
        replicas.appended.append(partition.key)  # its followers are told
    if partition.advance():
        replicas.changed.append(partition.key)
    replicas.maybe_flush(partition)
    return info


@dataclass(slots=True)
class Waiting:
    """One appended batch that is not safe enough yet: entry `index` of the answer."""

    index: int
    partition: Partition
    leader_epoch: int
    end_offset: int


class AwaitingAcks:
    """Appended batches in purgatory; it watches `keys`.

    Invariant: each ends exactly once with `settled(entry, error or None)`: acknowledged, lost with its
    leader, or timed out; then comes `finished`. Or, once nobody `is_wanted`, `abandoned` alone.
    """

    __slots__ = ("_abandoned", "_acks", "_finished", "_is_wanted", "_settled", "_waiting")

    def __init__(
        self,
        waiting: list[Waiting],
        acks: int,
        *,
        settled: Callable[[Waiting, KafkaError | None], None],
        finished: Callable[[], None],
        is_wanted: Callable[[], bool],
        abandoned: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._acks = acks
        self._settled = settled
        self._finished = finished
        self._is_wanted = is_wanted
        self._abandoned = abandoned

    def try_complete(self) -> bool:
        """Settle what can be settled; finish when nothing waits any more."""
        if not self._is_wanted():
            self._abandoned()
            return True
        still: list[Waiting] = []
        for item in self._waiting:
            partition = item.partition
            if not partition.is_leader or partition.leader_epoch != item.leader_epoch:
                self._settled(item, partition.lost_error())
            elif not partition.is_acked(item.end_offset, self._acks):
                still.append(item)
            elif self._acks == ACKS_ALL and partition.is_under_min_isr:
                # Committed, but by fewer than asked for: the ISR has shrunk since the append.
                self._settled(item, _too_few(partition))
            else:
                self._settled(item, None)
        self._waiting = still
        if still:
            return False
        self._finished()
        return True

    def on_expire(self) -> None:
        """The time has passed: the batches are in the log, but not known to be safe."""
        for item in self._waiting:
            error: KafkaError
            if self._acks == ACKS_ALL and item.partition.is_under_min_isr:
                error = _too_few(item.partition)
            else:
                name = item.partition.topic_partition
                error = RequestTimedOutError(f"{name} was not committed up to {item.end_offset} in time")
            self._settled(item, error)
        self._waiting = []
        self._finished()


def _too_few(partition: Partition) -> NotEnoughReplicasAfterAppendError:
    return NotEnoughReplicasAfterAppendError(
        f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas now, acks=all needs"
        f" {partition.min_isr}"
    )
