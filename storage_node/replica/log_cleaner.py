"""Schedules log compaction. Pure; the work is in log/cleaner/work.py.

The log with the largest dirty ratio is cleaned first, of those that are due. While a log is cleaned no other
operation removes its segments: a truncation, deletion or move aborts the cleaning and waits for its end. A
log on a full disk waits for space. One whose cleaning fails for another reason than its disk is uncleanable
until it is opened again. Source: Kafka LogCleanerManager.java, LogCleaner.java.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, KafkaStorageError
from ...runtime.files.file_layer import DiskFullError
from ..log.cleaner.plan import cleanable
from ..log.cleaner.work import Cleaning, CleaningAbortedError

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError
    from ..configs.live_config import LiveConfig
    from ..log.cleaner.config import CleanerConfig
    from ..log.cleaner.plan import Cleanable
    from ..log.cleaner.work import Pace
    from .disk_failures import DiskFailures
    from .moves import Moves
    from .partition import Partition
    from .partition_table import PartitionTable
    from .step_output import StepOutput


@dataclass(slots=True, eq=False)
class CleaningJob:
    """One cleaning of one partition's log."""

    partition: Partition
    cleaning: Cleaning
    begun_ms: int


class CleanerFacts(NamedTuple):
    """What metrics tell of the cleaner; percentages are 0 before the first cleaning."""

    max_dirty_percent: int
    idle_ms: int
    uncleanable: dict[str, int]  # partitions by log dir
    recopy_percent: int
    buffer_percent: int
    longest_ms: int


class LogCleaner:
    """See the module's docstring."""

    def __init__(
        self,
        table: PartitionTable,
        output: StepOutput,
        disks: DiskFailures,
        moves: Moves,
        config: LiveConfig,
        now_ms: int,
    ) -> None:
        self._live = config
        self._table = table
        self._output = output
        self._disks = disks
        self._moves = moves
        self._is_stopped = False
        self._jobs: list[CleaningJob] = []
        self._uncleanable: dict[Partition, str] = {}
        self._last_run_ms = now_ms
        self._max_dirty_ratio = 0.0
        self._last: CleaningJob | None = None
        self._last_took_ms = 0

    @property
    def config(self) -> CleanerConfig:
        """The present configuration."""
        return self._live.now

    def next_job(self, pace: Pace, now_ms: int, wall_ms: int) -> CleaningJob | None:
        """The next cleaning to run, then `finished`; None if no log is due or log.cleaner.threads are
        busy."""
        config = self.config
        is_off = self._is_stopped or not config.log_cleaner_enable
        if is_off or len(self._jobs) >= config.log_cleaner_threads:
            return None
        self._last_run_ms = now_ms
        self._forget_closed()
        found = self._dirtiest(wall_ms)
        if found is None:
            return None
        partition, plan = found
        assert partition.log is not None, "only an online partition is cleaned"
        cleaning = Cleaning(
            partition.log,
            plan,
            config.map_bytes,
            config.log_cleaner_io_buffer_load_factor,
            config.buffer_bytes,
            wall_ms,
            pace,
        )
        partition.log.compaction.running = cleaning
        job = CleaningJob(partition, cleaning, now_ms)
        self._jobs.append(job)
        return job

    def finished(self, job: CleaningJob, error: HeadraceError | None, now_ms: int) -> None:
        """A cleaning has ended, successfully or with an error."""
        self._jobs.remove(job)
        partition, cleaning = job.partition, job.cleaning
        log = cleaning.log
        log.compaction.running = None
        if error is None:
            log.compaction.cleaner_offset = cleaning.end_offset
            self._last, self._last_took_ms = job, now_ms - job.begun_ms
        elif isinstance(error, DiskFullError) or (isinstance(error, KafkaStorageError) and log.is_offline):
            self._disks.failed(partition, error, now_ms)
        elif not isinstance(error, CleaningAbortedError):
            self._uncleanable[partition] = str(error)
            self._output.note(
                logging.ERROR,
                f"{partition.topic_partition} is uncleanable, it is not compacted any more: {error}",
            )

    def stop(self) -> None:
        """Abort all cleanings and start no more."""
        self._is_stopped = True
        for job in self._jobs:
            job.cleaning.abort()

    def facts(self, now_ms: int) -> CleanerFacts:
        """For metrics."""
        took_ms = [now_ms - job.begun_ms for job in self._jobs]
        stats = None if self._last is None else self._last.cleaning.stats
        by_dir: dict[str, int] = {}
        for partition in self._uncleanable:
            assert partition.log is not None, "it was cleaned"
            by_dir[partition.log.folder.log_dir] = by_dir.get(partition.log.folder.log_dir, 0) + 1
        has_read = stats is not None and stats.read_bytes
        return CleanerFacts(
            max_dirty_percent=int(100 * self._max_dirty_ratio),
            idle_ms=now_ms - self._last_run_ms,
            uncleanable=by_dir,
            recopy_percent=int(100 * stats.written_bytes / stats.read_bytes) if stats and has_read else 0,
            buffer_percent=0 if stats is None else int(100 * stats.map_utilization),
            longest_ms=max([self._last_took_ms, *took_ms]),
        )

    @property
    def uncleanable(self) -> dict[str, str]:
        """The uncleanable partitions and their errors."""
        return {str(partition.topic_partition): why for partition, why in self._uncleanable.items()}

    def _dirtiest(self, wall_ms: int) -> tuple[Partition, Cleanable] | None:
        best: tuple[Partition, Cleanable] | None = None
        self._max_dirty_ratio = 0.0
        for partition in self._table.partitions.values():
            log = partition.log
            if log is None or not partition.is_online or not log.config.is_compacted:
                continue
            if log.compaction.running is not None or partition in self._uncleanable:
                continue
            if log.full is not None or self._moves.of(partition.key) is not None:
                continue  # cleaning needs space, and must not change a log that is being copied
            try:
                plan = cleanable(log, wall_ms)
            except (CorruptMessageError, KafkaStorageError) as error:
                self._uncleanable[partition] = str(error)
                continue
            self._max_dirty_ratio = max(self._max_dirty_ratio, plan.dirty_ratio)
            if plan.is_due(log.config) and (best is None or plan.dirty_ratio > best[1].dirty_ratio):
                best = partition, plan
        return best

    def _forget_closed(self) -> None:
        partitions = self._table.partitions
        gone = [each for each in self._uncleanable if partitions.get(each.key) is not each]
        for partition in gone:
            del self._uncleanable[partition]
