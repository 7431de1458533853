"""Removes partitions: their logs are renamed for deletion at once, unless a flush or a cleaning uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from ..effects import DeleteLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.model import TopicPartition
    from ..log.log_manager import LogManager
    from .disk_failures import DiskFailures
    from .fetchers import Fetchers
    from .moves import Moves
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class PartitionRemoval:
    """A removed partition is pending while a flush or a cleaning uses its log: deletion renames the folder
    that they name. Until then no other partition may be opened under its name."""

    def __init__(
        self,
        table: PartitionTable,
        manager: LogManager,
        output: StepOutput,
        disks: DiskFailures,
        fetchers: Fetchers,
        moves: Moves,
    ) -> None:
        self._table = table
        self._manager = manager
        self._output = output
        self._disks = disks
        self._fetchers = fetchers
        self._moves = moves
        self._pending: dict[TopicPartition, Partition] = {}

    def is_pending(self, name: TopicPartition) -> bool:
        """Whether the log of a removed partition still has this name."""
        return name in self._pending

    def remove(self, keys: Iterable[PartitionKey]) -> None:
        """Remove partitions from the table, and delete their logs.

        Order: out of the checkpoints first, here, where no checkpoint is being written; see LogManager.
        """
        removed = [self._table.partitions.pop(key) for key in sorted(keys)]
        online = [partition for partition in removed if partition.is_online]
        self._manager.checkpoints.drop(partition.topic_partition for partition in online)
        for partition in removed:
            self._fetchers.drop(partition.key)
            self._moves.cancel(partition.key)
            partition.remove()
            self._output.changed.append(partition.key)
        busy = [p for p in online if p.is_flushing or (p.log is not None and p.log.compaction.abort())]
        self._pending |= {p.topic_partition: p for p in busy}
        self._delete([p.topic_partition for p in online if p not in busy])

    def end(self, partition: Partition) -> bool:
        """A flush or a cleaning of `partition` has ended; whether a pending removal ended with it. A log on a
        failed disk is not waited for."""
        name, log = partition.topic_partition, partition.log
        if self._pending.get(name) is not partition:
            return False
        is_usable = log is not None and not log.is_offline
        if is_usable and partition.is_busy:
            return False
        del self._pending[name]
        if is_usable:
            self._delete([name])
        return True

    def _delete(self, names: Sequence[TopicPartition]) -> None:
        """Rename the logs for deletion; a thread removes their files."""
        self._output.effects += [DeleteLog(log) for log in self._manager.detach_all(names)]
        failed = [name for name in names if self._manager.get(name) is not None]
        if failed:
            self._disks.lost_dirs(KafkaStorageError(f"the log of {failed[0]} could not be deleted"))
