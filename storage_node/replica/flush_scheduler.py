"""Which logs are flushed, and when. Pure: a thread runs the flush (effect FlushLog).

One flush of a log runs at a time; all appends until it begins share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..effects import FlushLog

if TYPE_CHECKING:
    from .partition import Partition
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class FlushScheduler:
    """Requests flushes for acknowledgements, flush.messages and flush.ms, and before checkpoints."""

    def __init__(self, table: PartitionTable, output: StepOutput) -> None:
        self._table = table
        self._output = output

    def maybe_flush(self, partition: Partition, now_ms: int | None = None) -> None:
        """Flush if acknowledgements or flush.messages need it; with `now_ms` also if flush.ms has passed."""
        if partition.wants_flush(now_ms):
            self._start(partition, is_awaited=True)

    def flush_overdue(self, now_ms: int) -> None:
        """Flush the logs whose flush.ms has passed; called about each second."""
        for partition in self._table.partitions.values():
            self.maybe_flush(partition, now_ms)

    def flush_all(self) -> None:
        """Flush all logs, with low priority: it bounds what a recovery has to read again."""
        for partition in self._table.partitions.values():
            if partition.has_unflushed and not partition.is_flushing:
                self._start(partition, is_awaited=False)

    def _start(self, partition: Partition, *, is_awaited: bool) -> None:
        partition.is_flushing = True
        self._output.effects.append(FlushLog(partition, is_awaited))
