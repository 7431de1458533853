"""The slow work of a log manager as tasks for threads: load, create, purge.

The manager's owner makes the tasks and uses their results; only `run` may be called on another thread. A disk
error is stored in the task or takes its log dir offline; it is never raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import read_file, remove_tree, write_file_atomically
from . import names
from .checkpoints import NO_TOPIC_ID, CorruptFileError, format_partition_metadata, parse_partition_metadata
from .log import Log

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ...runtime.files.file_layer import Files
    from .config import LogConfig
    from .log_dir import LogDir


def log_fault(partition: TopicPartition, topic_id: bytes) -> str | None:
    """Why this partition of the controller can have no log, or None."""
    if len(topic_id) != len(NO_TOPIC_ID):
        return f"its topic id has {len(topic_id)} bytes"
    return names.folder_fault(partition)


@dataclass(slots=True)
class LoadTask:
    """Open one log. `run` may be called on any thread, different tasks at the same time."""

    log_dir: LogDir
    topic_partition: TopicPartition
    config: LogConfig
    wall_ms: int
    log: Log | None = None
    error: KafkaStorageError | None = None

    def run(self) -> None:
        """Recover the log; a failure is stored in `error`."""
        log_dir, topic_partition = self.log_dir, self.topic_partition
        directory = f"{log_dir.path}/{names.folder_name(topic_partition)}"
        try:
            log = Log.open(
                log_dir.files,
                directory,
                self.config,
                topic_partition=topic_partition,
                recovery_point=log_dir.recovery_points.get(topic_partition, 0),
                was_clean=log_dir.was_clean,
                log_start_offset=log_dir.log_start_offsets.get(topic_partition, 0),
                wall_ms=self.wall_ms,
                cleaner_offset=log_dir.cleaner_offsets.get(topic_partition),
            )
            log.topic_id = _read_topic_id(log_dir.files, directory, log)
        except KafkaStorageError as error:
            self.error = error
            return
        stored = log_dir.high_watermarks.get(topic_partition, log.log_start_offset)
        log.high_watermark = max(log.log_start_offset, min(stored, log.log_end_offset))
        self.log = log


class NewLog(NamedTuple):
    """A partition that needs a log. `is_new`: the controller has just created it, so no dir has it."""

    topic_partition: TopicPartition
    topic_id: bytes
    config: LogConfig
    is_new: bool


@dataclass(slots=True)
class CreateTask:
    """Create the folders and logs of partitions in one dir. `run` may be called on any thread."""

    log_dir: LogDir
    wanted: list[NewLog]
    wall_ms: int
    made: list[Log] = field(default_factory=list)
    error: KafkaStorageError | None = None

    def run(self) -> None:
        """All logs are durable on return. After a failure, stored in `error`, `made` is empty."""
        made: list[Log] = []
        try:
            for wanted in self.wanted:
                made.append(self._make(wanted))
            self.log_dir.files.fsync_directory(self.log_dir.path)
        except KafkaStorageError as error:
            for log in made:
                log.close_abruptly()
            self.error = error
            return
        self.made = made

    def _make(self, wanted: NewLog) -> Log:
        """Order: the topic id last; a crash before it leaves an empty log that the next creation adopts.
        Writing it syncs the folder, so no other sync is needed."""
        files = self.log_dir.files
        directory = f"{self.log_dir.path}/{names.folder_name(wanted.topic_partition)}"
        files.mkdir(directory)
        log = Log.open(
            files,
            directory,
            wanted.config,
            topic_partition=wanted.topic_partition,
            recovery_point=0,
            was_clean=True,
            wall_ms=self.wall_ms,
        )
        write_topic_id(files, directory, wanted.topic_id)
        log.topic_id = wanted.topic_id
        return log


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Write partition.metadata into the folder. Errors: KafkaStorageError."""
    write_file_atomically(files, directory, names.PARTITION_METADATA, format_partition_metadata(topic_id))


def purge(log_dir: LogDir, path: str) -> None:
    """Remove the folder of a deleted log; a failing disk takes the dir offline."""
    try:
        remove_tree(log_dir.files, path)
    except KafkaStorageError as error:
        log_dir.files.dir_state.fail_by(error)


def _read_topic_id(files: Files, directory: str, log: Log) -> bytes:
    path = f"{directory}/{names.PARTITION_METADATA}"
    if not files.exists(path):
        return NO_TOPIC_ID
    try:
        return parse_partition_metadata(read_file(files, path))
    except CorruptFileError as error:
        log.recovery.faults.append(f"{path}: {error}")
        return NO_TOPIC_ID
