"""Log start offsets of this node: moved by retention, DeleteRecords and the leaders of followed partitions.

All of them only request a start. It is written to the disk with the next checkpoint, which is requested at
once; then it takes effect, followers and waiting requests are notified, and the segments below it are renamed
with a flush and deleted some time later. Pure; bounded work per step.
Source: Kafka LogManager.scala cleanupLogs, UnifiedLog.java maybeIncrementLogStartOffset.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from ..effects import CheckpointStarts, FlushLog, RemoveFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from ..log.log import Log
    from ..log.log_manager import LogManager
    from ..log.offset_checkpoints import CheckpointTask
    from .disk_failures import DiskFailures
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput

# Bound: per step (about a second): logs that are checked, where one that rolls or expires counts for ten;
# logs whose segments are removed, and how many each.
_CHECKED_LOGS, _EXPIRED_LOGS_WEIGHT = 200, 10
_TRIMMED_LOGS, _TRIMMED_SEGMENTS = 16, 8
_FIRST_ROUND_MS = 30_000  # Kafka's log.initial.task.delay.ms


class LogStarts:
    """See the module's docstring.

    Invariant: while a start is requested, a checkpoint is running or requested; after a full disk the next
    step requests it again.
    """

    def __init__(
        self,
        table: PartitionTable,
        manager: LogManager,
        output: StepOutput,
        disks: DiskFailures,
        config: LiveConfig,
    ) -> None:
        self._table = table
        self._manager = manager
        self._output = output
        self._disks = disks
        self._interval_ms = config.now.retention_check_interval_ms
        config.on_change(("log.retention.check.interval.ms",), self._interval_changed)
        self._next_round_ms: int | None = None
        self._to_check: deque[PartitionKey] = deque()
        self._to_trim: dict[PartitionKey, None] = {}
        self._is_requested = self._had_no_room = False

    def _interval_changed(self, config: NodeConfig) -> None:
        """The interval has changed; the next round starts within it."""
        self._interval_ms = config.retention_check_interval_ms
        self._next_round_ms = None

    def opened(self, partition: Partition) -> None:
        """A partition was opened: it may have segments below its log start."""
        self._to_trim[partition.key] = None

    def request_start(self, partition: Partition, offset: int) -> None:
        """Move the log start of an online partition to `offset`, which its high watermark has reached."""
        assert partition.log is not None, "only an online partition has a start"
        if partition.log.request_start_offset(offset):
            self._request_checkpoint()

    # --- checkpoints -----------------------------------------------------------------------------------

    def checkpoint_tasks(self, *, only_starts: bool) -> list[CheckpointTask]:
        """The tasks that write checkpoints with all requested starts; then `checkpointed`."""
        self._is_requested = False
        return self._manager.checkpoints.tasks(only_starts=only_starts)

    def checkpointed(self, tasks: Iterable[CheckpointTask]) -> list[PartitionKey]:
        """The written ones are on the disk. Returns the partitions whose log start has moved."""
        moved: list[PartitionKey] = []
        for task in tasks:
            self._had_no_room |= bool(task.pending_starts) and not task.is_written
            for log, start in task.pending_starts if task.is_written else ():
                moved += self._moved(log, start)
        return moved

    def _request_checkpoint(self) -> None:
        if not self._is_requested:
            self._is_requested = True
            self._output.effects.append(CheckpointStarts())

    def _moved(self, log: Log, start: int) -> tuple[PartitionKey, ...]:
        key = (log.topic_id, log.topic_partition.partition)
        partition = self._table.partitions.get(key)
        if partition is None or partition.log is not log or not partition.is_online:
            return ()
        log.advance_log_start_offset(start)
        self._output.note(logging.INFO, f"{log.topic_partition}: log start offset {start}")
        self._to_trim[key] = None
        self._output.changed.append(key)
        return (key,)

    # --- steps -----------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Apply retention, and free the space of removed segments. Called about each second."""
        if self._had_no_room:
            self._had_no_room = False
            self._request_checkpoint()
        self._expire(now_ms, wall_ms)
        self._trim()
        self._output.effects += [RemoveFiles(removal) for removal in self._manager.retired.due(now_ms)]

    def _expire(self, now_ms: int, wall_ms: int) -> None:
        if self._next_round_ms is None:
            self._next_round_ms = now_ms + min(self._interval_ms, _FIRST_ROUND_MS)
        if now_ms >= self._next_round_ms:
            self._next_round_ms = now_ms + self._interval_ms
            self._to_check = self._to_check or deque(self._table.partitions)
        left = _CHECKED_LOGS
        while self._to_check and left > 0:
            partition = self._table.partitions.get(self._to_check.popleft())
            left -= 1
            if partition is None or partition.log is None or not partition.is_online:
                continue
            try:
                if partition.log.expire(wall_ms):
                    left -= _EXPIRED_LOGS_WEIGHT - 1
                    self._request_checkpoint()
            except KafkaStorageError as error:
                self._disks.failed(partition, error, now_ms)

    def _trim(self) -> None:
        """Remove segments below the log start, with a flush: until it has ended the log is not truncated,
        which could bring their names back. Logs that are being flushed or cleaned wait."""
        trimmed = 0
        for key in list(self._to_trim):
            partition = self._table.partitions.get(key)
            if partition is None or partition.log is None or not partition.is_online:
                del self._to_trim[key]
            elif partition.is_busy:
                continue
            elif (
                partition.log.drop_segments_below(partition.log.log_start_offset, _TRIMMED_SEGMENTS)
                or partition.log.has_dropped_segments  # by a flush that failed on a full disk
            ):
                partition.is_flushing = True
                self._output.effects.append(FlushLog(partition, is_awaited=False))
                trimmed += 1
                if trimmed >= _TRIMMED_LOGS:
                    return
            else:
                del self._to_trim[key]
