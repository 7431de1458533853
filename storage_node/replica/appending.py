"""Appends to partitions that this node leads, and the condition for their acknowledgement.

Source: Kafka ReplicaManager.appendRecords, DelayedProduce.
"""

from __future__ import annotations

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
    from ...protocol.records.codec import BatchFacts
    from ...protocol.records.header import Buffer
    from ..log.append_rules import AppendInfo
    from .delayed_entries import Waiting
    from .disk_failures import DiskFailures
    from .flush_scheduler import FlushScheduler
    from .partition import Partition
    from .step_output import StepOutput


class LeaderAppender:
    """Appends to partitions that this node leads, advances high watermarks and requests flushes."""

    def __init__(self, output: StepOutput, flushes: FlushScheduler, disks: DiskFailures) -> None:
        self._output = output
        self._flushes = flushes
        self._disks = disks

    def append(
        self,
        partition: Partition,
        batch: Buffer,
        now_ms: int,
        wall_ms: int,
        *,
        checked: BatchFacts | None = None,
        acks: int = ACKS_ALL,
        guard: int = NO_GUARD,
        internal: bool = False,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """As Log.append_as_leader, for a partition that this node leads.

        Errors: NotEnoughReplicasError before the append; those of the log.
        """
        log = partition.log
        assert log is not None, "the caller has checked that this node leads it"
        if acks == ACKS_ALL:
            check_in_sync(partition)
        try:
            info = log.append_as_leader(
                batch,
                leader_epoch=partition.leader_epoch,
                wall_ms=wall_ms,
                checked=checked,
                internal=internal,
                guard=guard,
                transaction_version=transaction_version,
            )
        except KafkaStorageError as error:
            # Order: the log dir is offline before any later entry or request is acknowledged.
            self._disks.failed(partition, error, now_ms)
            raise
        if info.is_repeated:
            return info
        if partition.in_sync is not None:
            self._output.appended.append(partition.key)
        if partition.advance(now_ms):
            self._output.changed.append(partition.key)
        self._flushes.maybe_flush(partition)
        return info


def check_in_sync(partition: Partition) -> None:
    """Errors: NotEnoughReplicasError if acks=all is not possible."""
    if partition.is_under_min_isr:
        raise NotEnoughReplicasError(
            f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas, acks=all needs"
            f" {partition.min_isr}"
        )


class Acked:
    """The condition of appended batches: acknowledged by `acks` up to their end offsets."""

    __slots__ = ("_acks",)

    def __init__(self, acks: int) -> None:
        self._acks = acks

    def outcome(self, item: Waiting) -> KafkaError | bool:
        partition = item.partition
        if not partition.is_acked(item.offset, self._acks):
            return False
        if self._acks == ACKS_ALL and partition.is_under_min_isr:
            # Committed, but by too few replicas: the ISR has shrunk since the append.
            return _too_few(partition)
        return True

    def timeout_error(self, item: Waiting) -> KafkaError:
        """The batch is in the log but not committed."""
        if self._acks == ACKS_ALL and item.partition.is_under_min_isr:
            return _too_few(item.partition)
        name = item.partition.topic_partition
        return RequestTimedOutError(f"{name} was not committed up to {item.offset} in time")


def _too_few(partition: Partition) -> NotEnoughReplicasAfterAppendError:
    return NotEnoughReplicasAfterAppendError(
        f"{partition.topic_partition} has {len(partition.isr)} in-sync replicas now, acks=all needs"
        f" {partition.min_isr}"
    )
