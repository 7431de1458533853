"""The offset checkpoints of the log dirs: recovery points, start offsets, high watermarks, cleaner offsets.

Invariant: a partition leaves the checkpoints before its folder is renamed, so that its offsets are never
taken for those of a later topic with that name, and an offset without a folder means a loss.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from . import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition
    from .log import Log
    from .log_dir import LogDir
    from .log_dirs import LogDirs
    from .log_registry import LogRegistry


@dataclass(slots=True)
class CheckpointTask:
    """The checkpoints of one dir, to be written; `run` on any thread, one task per dir at a time.

    `pending_starts` has the logs whose start offset advances when the task `is_written`, and where to.
    """

    log_dir: LogDir
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    pending_starts: list[tuple[Log, int]] = field(default_factory=list)
    only_starts: bool = False
    is_written: bool = False

    def add(self, log: Log) -> None:
        name, start = log.topic_partition, log.start.pending_offset
        self.recovery_points[name] = log.recovery_point
        self.high_watermarks[name] = log.high_watermark
        if log.compaction.cleaner_offset is not None:
            self.cleaner_offsets[name] = log.compaction.cleaner_offset
        if start:
            self.log_start_offsets[name] = start
        if start > log.log_start_offset:
            self.pending_starts.append((log, start))

    def keep(self, topic_partition: TopicPartition) -> None:
        """Carry over the offsets of a partition that could not be loaded."""
        log_dir = self.log_dir
        for target, source in (
            (self.recovery_points, log_dir.recovery_points),
            (self.log_start_offsets, log_dir.log_start_offsets),
            (self.high_watermarks, log_dir.high_watermarks),
            (self.cleaner_offsets, log_dir.cleaner_offsets),
        ):
            if topic_partition in source:
                target[topic_partition] = source[topic_partition]

    def run(self) -> None:
        """Write the checkpoints, or with `only_starts` the start offsets; a failing disk takes the dir
        offline, a full disk is retried with the next task."""
        with contextlib.suppress(KafkaStorageError):
            self.write()

    def run_now(self) -> None:
        """As `run`, where the old content would be wrong: a disk that is full, even with the reserve, takes
        the dir offline too."""
        try:
            self.write()
        except KafkaStorageError as error:
            self.log_dir.files.dir_state.fail(str(error))

    def write(self) -> None:
        """As `run`. Errors: KafkaStorageError."""
        log_dir = self.log_dir
        try:
            log_dir.write_offsets(names.LOG_START_OFFSETS, self.log_start_offsets)
            if not self.only_starts:
                log_dir.write_offsets(names.HIGH_WATERMARKS, self.high_watermarks)
                log_dir.write_offsets(names.RECOVERY_POINTS, self.recovery_points)
                log_dir.write_cleaner_offsets(self.cleaner_offsets)
            self.is_written = True
        except KafkaStorageError as error:
            log_dir.files.dir_state.fail_by(error)
            raise


class OffsetCheckpoints:
    """Makes the tasks. Owner's thread."""

    def __init__(self, dirs: LogDirs, registry: LogRegistry) -> None:
        self._dirs = dirs
        self._registry = registry
        self._dropped: set[TopicPartition] = set()  # logs that are in no checkpoint any more

    def task_for(self, log_dir: LogDir, *, only_starts: bool = False) -> CheckpointTask:
        registry = self._registry
        task = CheckpointTask(log_dir, only_starts=only_starts)
        for topic_partition in registry.failed:
            if registry.dir_of[topic_partition] is log_dir:
                task.keep(topic_partition)
        for topic_partition, duplicate in registry.duplicates.items():
            if duplicate.log_dir is log_dir:
                task.keep(topic_partition)
        for topic_partition, log in registry.logs.items():
            if only_starts and not log.start.pending_offset:
                continue  # thousands of other logs must not delay a waiting DeleteRecords
            if registry.dir_of[topic_partition] is log_dir and topic_partition not in self._dropped:
                task.add(log)
        return task

    def tasks(self, *, only_starts: bool = False) -> list[CheckpointTask]:
        """One per online dir; with `only_starts` only for dirs with a pending start offset."""
        tasks = [self.task_for(log_dir, only_starts=only_starts) for log_dir in self._dirs.online]
        return [task for task in tasks if task.pending_starts] if only_starts else tasks

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Write the checkpoints without these logs, which are about to leave; a failing disk goes offline.

        Order: not while a task of `tasks` runs; it would write them back.
        """
        registry = self._registry
        leaving = {name for name in topic_partitions if name in registry.logs and name not in self._dropped}
        self._dropped |= leaving
        dirs = {registry.dir_of[name] for name in leaving}
        for log_dir in self._dirs.online:
            if log_dir in dirs:
                self.task_for(log_dir).run_now()

    def removed(self, topic_partition: TopicPartition) -> None:
        """The log has left the registry; a later log of that name is checkpointed again."""
        self._dropped.discard(topic_partition)

    def truncated(self, log: Log) -> None:
        """A recovery point that moved back must be on disk before records are appended above it; otherwise
        the next recovery would trust bytes that were never flushed."""
        self.task_for(self._registry.dir_of[log.topic_partition]).run_now()

    def correct(self, log_dir: LogDir) -> None:
        """After loading. A log that lost compacted records must not count the records that replace them as
        compacted: a tombstone would be removed some day, and older values below it would show again. And
        offsets that a move left for a log of another dir must not be taken for those of a later log."""
        offsets, registry = log_dir.cleaner_offsets, self._registry
        here = registry.in_dir(log_dir)
        is_lower = any(
            log is not None and name in offsets and log.compaction.cleaner_offset != offsets[name]
            for name, log in here.items()
        )
        dirs = [registry.dir_of.get(name, log_dir) for name in log_dir.recovery_points]
        if is_lower or any(each is not log_dir for each in dirs):
            self.task_for(log_dir).run_now()
