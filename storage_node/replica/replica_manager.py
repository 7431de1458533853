"""The replicas of one node: builds the parts that lead, follow, flush, move and remove partitions, and passes
each event to the parts that it concerns. Pure. The parts know each other only as far as they are given here.

Source: Kafka ReplicaManager.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.files.file_layer import DiskFullError
from ..effects import ProposeIsr
from .appending import LeaderAppender
from .batch_traces import BatchTraces
from .disk_failures import DiskFailures
from .fetchers import Fetchers
from .flush_scheduler import FlushScheduler
from .follower_parts import FollowerParts
from .image_applier import ImageApplier
from .isr_manager import IsrManager
from .log_starts import LogStarts
from .moves import Moves
from .partition import PartitionContext, PartitionState
from .partition_logs import PartitionLogs
from .partition_removal import PartitionRemoval
from .partition_table import PartitionTable
from .step_output import StepOutput
from .throttle import Throttles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.errors import KafkaStorageError
    from ..configs.live_config import LiveConfig
    from ..counters import NodeCounters
    from ..log.log import Log
    from ..log.log_manager import LogManager
    from ..log.offset_checkpoints import CheckpointTask
    from ..log.tail_cache import TailCache
    from .follower_parts import FollowerLimits
    from .partition import Partition, PartitionKey


class ReplicaManager:
    """See the module's docstring. With `tails`, the newest batches of each partition are kept in memory."""

    def __init__(
        self,
        manager: LogManager,
        config: LiveConfig,
        counters: NodeCounters,
        tails: TailCache | None = None,
        *,
        follower_limits: FollowerLimits,
        max_lag_ms: int = 30_000,
    ) -> None:
        self.counters = counters
        table, output = self.table, self.output = PartitionTable(), StepOutput()
        self.throttles = Throttles(config)
        settings = config.now
        self.traces = (
            BatchTraces(output, settings.tracing_compressed_ratio) if settings.enable_tracing else None
        )
        self.flushes = FlushScheduler(table, output)
        self.isr_manager = IsrManager(table, output, counters)
        self.disks = DiskFailures(table, manager, output, self)
        self.appender = LeaderAppender(output, self.flushes, self.disks)
        self.log_starts = LogStarts(table, manager, output, self.disks, config)
        self.moves = Moves(table, manager, output, self.disks, self.throttles.mover, self.take_log)
        parts = FollowerParts(
            table,
            output,
            self.disks,
            self.flushes,
            self.log_starts,
            self.moves,
            self.throttles.follower,
            counters,
            self.traces,
        )
        self.fetchers = Fetchers(parts, follower_limits, config)
        self.logs = PartitionLogs(table, manager, config, output, self.disks, tails)
        self.images = ImageApplier(
            table,
            self.logs,
            config,
            output,
            PartitionContext(max_lag_ms, table.is_eligible, table.is_alive, counters.topic),
            isr_manager=self.isr_manager,
            fetchers=self.fetchers,
            flushes=self.flushes,
            log_starts=self.log_starts,
            removal=PartitionRemoval(table, manager, output, self.disks, self.fetchers, self.moves),
        )

    # --- flushes, cleanings and checkpoints ------------------------------------------------------------

    def flushed(self, partition: Partition, end_offset: int, now_ms: int) -> None:
        """The log of `partition` below `end_offset` is on the disk."""
        partition.flushed(end_offset, now_ms)
        self.moves.try_swap(partition, now_ms)
        self.output.changed.append(partition.key)
        if partition.is_online:
            self.fetchers.flushed(partition.key, now_ms)
        if partition.state is not PartitionState.DELETED:
            self.flushes.maybe_flush(partition)
        else:
            self.images.end_removal(partition, now_ms)

    def flush_failed(self, partition: Partition, error: KafkaStorageError, now_ms: int) -> None:
        """A flush failed. It is repeated only after a full disk: after any other error the kernel may have
        dropped the dirty pages, and a second flush would succeed without them."""
        if isinstance(error, DiskFullError):
            self.disks.flush_refused(partition)
            self.fetchers.retry_truncations(now_ms)
            self.images.end_removal(partition, now_ms)
        else:
            self.disks.failed(partition, error, now_ms)

    def cleaned(self, partition: Partition, now_ms: int) -> None:
        """A cleaning of the log of `partition` has ended, successfully or not."""
        self.fetchers.retry_truncations(now_ms)
        self.images.end_removal(partition, now_ms)
        self.moves.try_swap(partition, now_ms)
        self.moves.go_on(now_ms)

    def checkpointed(self, tasks: Sequence[CheckpointTask], now_ms: int) -> None:
        """No checkpoint is being written any more; `tasks` say which are on the disk."""
        self.table.is_checkpointing = False
        for key in self.log_starts.checkpointed(tasks):
            self.fetchers.start_moved(key, now_ms)
        self.moves.try_all_swaps(now_ms)
        self.fetchers.retry_truncations(now_ms)

    # --- disks and moves -------------------------------------------------------------------------------

    def went_offline(self, key: PartitionKey) -> None:
        """A disk failed: neither fetch nor move the partition any more."""
        self.fetchers.drop(key)
        self.moves.cancel(key)

    def ended_use(self, partition: Partition, now_ms: int) -> None:
        """Nothing uses the log of `partition` any more: its disk failed."""
        self.images.end_removal(partition, now_ms)

    def look_for_space(self, now_ms: int) -> None:
        """Use the disks that have free space again: create and load what failed when they were full."""
        for key, is_new in self.disks.look_for_room():
            self.images.reopen(key, now_ms, is_new=is_new)

    def take_log(self, partition: Partition, log: Log, now_ms: int) -> None:
        """The copy of a move replaces the partition's log."""
        self.images.take_log(partition, log, now_ms)

    # --- requests to other nodes -----------------------------------------------------------------------

    def send_requests(self, now_ms: int) -> None:
        """Send the fetches and the ISR proposals that are due."""
        table = self.table
        if self.fetchers:
            self.fetchers.send(table.broker_epoch, now_ms)
        if isr_changes := self.isr_manager.isr_changes:
            request = isr_changes.take(table.node_id, table.broker_epoch, now_ms)
            if request is not None:
                self.output.effects.append(ProposeIsr(request))
