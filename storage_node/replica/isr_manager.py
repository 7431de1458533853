"""ISRs and high watermarks of the partitions that this node leads. Pure.

The high watermark depends on the log and its flushes, the followers' fetches, the ISR and its proposal,
min.insync.replicas, the nodes in the image, and the time (`InSyncReplicas.committed_end`).
Invariant: it is recomputed whenever one of them changes, because the next append or fetch may be far away: by
`advance` for one partition, by `nodes_changed` and `advance_all` for all.
Source: Kafka Partition.scala maybeIncrementLeaderHW, maybeExpandIsr, maybeShrinkIsr.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .isr_changes import IsrChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.control import AlterPartitionResponse
    from ...protocol.messages.data import FetchPartition
    from ..counters import NodeCounters
    from .partition import Partition
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class IsrManager:
    """Advances high watermarks and proposes ISR changes."""

    def __init__(self, table: PartitionTable, output: StepOutput, counters: NodeCounters) -> None:
        self._table = table
        self._output = output
        self._counters = counters
        self.isr_changes = IsrChanges()

    def advance(self, partition: Partition, now_ms: int) -> None:
        """Recompute the high watermark of a partition."""
        if partition.advance(now_ms):
            self._output.changed.append(partition.key)

    def advance_all(self, now_ms: int) -> None:
        """Recompute all high watermarks: a caught-up follower outside of the ISR stops counting
        replica.lag.time.max.ms after its last fetch. Called about each second."""
        for partition in self._table.partitions.values():
            if partition.in_sync is not None:
                self.advance(partition, now_ms)

    def nodes_changed(self, now_ms: int) -> None:
        """Nodes were registered, fenced, unfenced, drained or removed: other followers are eligible for
        the ISR, so other end offsets count, and another follower may join."""
        for partition in self._table.partitions.values():
            if partition.in_sync is not None:
                self.advance(partition, now_ms)
                self.grow(partition, now_ms)

    def follower_fetched(
        self, partition: Partition, replica_id: int, asked: FetchPartition, broker_epoch: int, now_ms: int
    ) -> None:
        """A follower of a led partition has every record below the offset that it fetches."""
        in_sync, log = partition.in_sync, partition.log
        if in_sync is None or log is None:
            return
        offset, start = asked.fetch_offset, asked.log_start_offset
        is_new_start = in_sync.start_of(replica_id) != start
        if not in_sync.fetched(replica_id, offset, log.log_end_offset, broker_epoch, now_ms, start):
            return
        if replica_id not in in_sync.committed:
            self.grow(partition, now_ms)
        if partition.advance(now_ms) or is_new_start:
            self._output.changed.append(partition.key)

    def shrink_overdue(self, now_ms: int) -> None:
        """Propose ISRs without lagging followers; called every replica.lag.time.max.ms / 2."""
        for partition in self._table.partitions.values():
            in_sync, log = partition.in_sync, partition.log
            if in_sync is None or log is None:
                continue
            proposal = in_sync.propose_shrink(log.log_end_offset, now_ms, self._table.broker_epoch)
            if proposal is not None:
                members = tuple(member.node_id for member in proposal.isr)
                name = partition.topic_partition
                self._output.note(
                    logging.WARNING, f"{name}: proposing ISR shrink from {in_sync.committed} to {members}"
                )
                self.isr_changes.add(partition, proposal)
            else:
                self.grow(partition, now_ms)

    def isr_answered(self, response: AlterPartitionResponse, now_ms: int) -> None:
        """The controller has responded to the ISR proposals."""
        asked = self.isr_changes.asked
        for proposed, answer in self.isr_changes.answered(response, now_ms):
            partition, old_isr = proposed.partition, proposed.partition.isr
            if answer.leader != self._table.node_id:
                continue
            if partition.isr_decided(answer.isr, answer.leader_epoch, answer.partition_epoch, now_ms):
                self.count_isr_change(old_isr, partition.isr)
                partition.advance(now_ms)
                self.grow(partition, now_ms)
                self._output.changed.append(partition.key)
        for partition in asked:  # a refused proposal no longer holds back the high watermark
            self.advance(partition, now_ms)

    def count_isr_change(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Count the change of the committed ISR of a led partition from `old` to `new`."""
        self._counters.isr_shrinks += len(new) < len(old)
        self._counters.isr_expands += len(new) > len(old)

    def grow(self, partition: Partition, now_ms: int) -> None:
        """Propose the first follower that may join the ISR; another one after the decision."""
        in_sync, log = partition.in_sync, partition.log
        if in_sync is None or log is None or in_sync.proposal is not None:
            return
        if len(in_sync.committed) > len(in_sync.followers):
            return
        for node_id in in_sync.followers:
            if in_sync.was_turned_away(node_id, now_ms):
                continue
            if in_sync.is_silent(node_id, log.log_end_offset, now_ms):
                continue  # its last known offset is too old: it has just left the ISR for that
            proposal = in_sync.propose_growth(
                node_id, partition.high_watermark, self._table.broker_epoch, self._table.is_eligible
            )
            if proposal is not None:
                self.isr_changes.add(partition, proposal)
                return
