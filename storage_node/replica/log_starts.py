"""Where the logs of this node start: who moves that, when it counts, and what becomes of what lies below.

Retention, clients that delete records, and the leaders of followed partitions all only want a start. It goes
to the disk with the next checkpoint, which is asked for at once; then it is the log's, followers and waiting
requests are told, and the segments below lose their names with a flush and their files some time later.
Pure; bounded work per step.
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
    from .disk_trouble import DiskTrouble
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput

# Bound: of one step, about a second: logs that are looked at, where one that rolls or lets go counts for ten;
# logs that lose segments, and how many each.
_CHECKED_LOGS, _EXPIRED_LOGS_WEIGHT = 200, 10
_TRIMMED_LOGS, _TRIMMED_SEGMENTS = 16, 8
_FIRST_ROUND_MS = 30_000  # Kafka's log.initial.task.delay.ms


class LogStarts:
    """See the module's docstring.

    Invariant: while a start is wanted, a checkpoint is under way or asked for; that of a full disk is asked
    for again by the next step.
    """

    def __init__(
        self,
        table: PartitionTable,
        manager: LogManager,
        output: StepOutput,
        disks: DiskTrouble,
        config: LiveConfig,
    ) -> None:
        self._table = table
        self._manager = manager
        self._output = output
        self._disks = disks
        self._interval_ms = config.now.retention_check_interval_ms
        config.on_change(("log.retention.check.interval.ms",), self._begin_anew)
        self._next_round_ms: int | None = None
        self._to_check: deque[PartitionKey] = deque()
        self._to_trim: dict[PartitionKey, None] = {}
        self._is_asked = self._had_no_room = False

    def _begin_anew(self, config: NodeConfig) -> None:
        """Rounds come at another interval, the next one after at most that."""
        self._interval_ms = config.retention_check_interval_ms
        self._next_round_ms = None

    def opened(self, partition: Partition) -> None:
        """A partition is here: of an earlier life it may have segments below its start."""
        self._to_trim[partition.key] = None

    def want(self, partition: Partition, offset: int) -> None:
        """The log of an online partition shall start at `offset`, which its high watermark has reached."""
        assert partition.log is not None, "only an online partition has a start"
        if partition.log.request_start_offset(offset):
            self._ask()

    # --- checkpoints -----------------------------------------------------------------------------------

    def checkpoint_tasks(self, *, only_starts: bool) -> list[CheckpointTask]:
        """What is to be written now; then `checkpointed`. All that is wanted by now goes with it."""
        self._is_asked = False
        return self._manager.checkpoints.tasks(only_starts=only_starts)

    def checkpointed(self, tasks: Iterable[CheckpointTask]) -> list[PartitionKey]:
        """The written ones are on the disk. Returns the partitions whose log start has moved."""
        moved: list[PartitionKey] = []
        for task in tasks:
            self._had_no_room |= bool(task.pending_starts) and not task.is_written
            for log, start in task.pending_starts if task.is_written else ():
                moved += self._moved(log, start)
        return moved

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._output.effects.append(CheckpointStarts())

    def _moved(self, log: Log, start: int) -> tuple[PartitionKey, ...]:
        key = (log.topic_id, log.topic_partition.partition)
        partition = self._table.partitions.get(key)
        if partition is None or partition.log is not log or not partition.is_online:
            return ()
        log.advance_log_start_offset(start)
        self._output.note(logging.INFO, f"{log.topic_partition} starts at offset {start} now")
        self._to_trim[key] = None
        self._output.changed.append(key)
        return (key,)

    # --- steps -----------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Look for what retention lets go, and free the space of what is gone. Called about each second."""
        if self._had_no_room:
            self._had_no_room = False
            self._ask()
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
                    self._ask()
            except KafkaStorageError as error:
                self._disks.failed(partition, error, now_ms)

    def _trim(self) -> None:
        """Segments go with a flush: until it has ended no log is cut, which could bring their names back.
        Those being cleaned stay that long."""
        trimmed = 0
        for key in list(self._to_trim):
            partition = self._table.partitions.get(key)
            if partition is None or partition.log is None or not partition.is_online:
                del self._to_trim[key]
            elif partition.is_busy:
                continue
            elif (
                partition.log.drop_segments_below(partition.log.log_start_offset, _TRIMMED_SEGMENTS)
                or partition.log.has_dropped_segments  # by a flush that there was no room for
            ):
                partition.is_flushing = True
                self._output.effects.append(FlushLog(partition, is_awaited=False))
                trimmed += 1
                if trimmed >= _TRIMMED_LOGS:
                    return
            else:
                del self._to_trim[key]
