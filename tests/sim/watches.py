"""Whether a partition on a simulated node has changed since its last check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.storage_node.log.log import Log
    from headrace.storage_node.replica.partition import Partition


class Watch:
    """One partition with one log in one run of a node's process, and its state at the last check.

    `state` has the values that the laws read and the node can change. The checks of other nodes find changes
    by those nodes. The parts of the log are stored here because every event of the node reads them.
    """

    __slots__ = ("_reader", "_recovery", "_segments", "_start", "dir_state", "log", "partition", "state")

    def __init__(self, partition: Partition, log: Log) -> None:
        self.partition, self.log, self.dir_state = partition, log, log.folder.files.dir_state
        self._start, self._segments, self._reader = log.start, log.segments, log.reader
        self._recovery = log.recovery
        self.state: tuple[Any, ...] = ()  # never checked

    def state_now(self) -> tuple[Any, ...]:
        partition = self.partition
        in_sync = partition.in_sync
        facts = (
            partition.high_watermark,
            self._segments.active.next_offset,
            partition.flushed_offset,
            partition.partition_epoch,
            partition.leader_epoch,
            partition.leader,
            self._start.offset,
            self._reader.invalidations,
            self._recovery.has_loss,
        )
        if in_sync is None:
            return facts
        starts = [(each.log_start_offset, each.broker_epoch) for each in in_sync.followers.values()]
        return (*facts, in_sync.committed, in_sync.proposal, in_sync.partition_epoch, starts)
