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

    __slots__ = ("_dir_state", "_reader", "_recovery", "_segments", "_start", "log", "partition", "state")

    def __init__(self, partition: Partition, log: Log) -> None:
        self.partition, self.log, self._dir_state = partition, log, log.folder.files.dir_state
        self._start, self._segments, self._reader = log.start, log.segments, log.reader
        self._recovery = log.recovery
        self.state: tuple[Any, ...] = ()  # never checked

    @property
    def is_online(self) -> bool:
        """Whether the node serves the partition, and its disk has not failed."""
        return self.partition.is_online and self._dir_state.failure is None

    def state_now(self) -> tuple[Any, ...]:
        partition = self.partition
        in_sync = partition.in_sync
        facts = (
            partition.state,
            self._dir_state.failure,
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
        leading = [in_sync.committed, in_sync.proposal, in_sync.partition_epoch]
        for each in in_sync.followers.values():
            leading += (each.log_start_offset, each.broker_epoch)
        return (*facts, *leading)
