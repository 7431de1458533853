"""All logs of a storage node, over its log dirs: load, create, delete, checkpoint, shut down.

One owner calls it; `LoadTask.run`, `CheckpointTask.run`, purge tasks and `Log.delete` of a detached log may
run on other threads. A dir whose disk fails goes offline with all its logs, and the others go on.
Source: Kafka LogManager.scala.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaStorageError
from . import names
from .checkpoints import (
    NO_TOPIC_ID,
    CorruptFileError,
    format_partition_metadata,
    parse_partition_metadata,
    uuid_text,
)
from .files import make_directory_durably, read_file, remove_tree, write_file_atomically
from .log import Log
from .log_dir import Identity, LogDir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...protocol.model import TopicPartition
    from .config import LogConfig
    from .files import Files


@dataclass(slots=True)
class LoadTask:
    """Open one log; `run` may go on any thread, and different tasks at the same time."""

    log_dir: LogDir
    topic_partition: TopicPartition
    config: LogConfig
    wall_ms: int
    log: Log | None = None
    error: KafkaStorageError | None = None

    def run(self) -> None:
        """Recover the log. A failure is kept in `error`."""
        log_dir, topic_partition = self.log_dir, self.topic_partition
        directory = f"{log_dir.path}/{topic_partition}"
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
            )
            log.topic_id = _read_topic_id(log_dir.files, directory, log)
        except KafkaStorageError as error:
            self.error = error
            return
        stored = log_dir.high_watermarks.get(topic_partition, log.log_start_offset)
        log.high_watermark = max(log.log_start_offset, min(stored, log.log_end_offset))
        self.log = log


@dataclass(slots=True)
class CheckpointTask:
    """Offsets of one dir to be written; `run` may go on any thread, one task per dir at a time."""

    log_dir: LogDir
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)

    def run(self) -> None:
        """Write the three checkpoints; a failing disk takes the dir offline."""
        log_dir = self.log_dir
        try:
            log_dir.write_offsets(names.LOG_START_OFFSETS, self.log_start_offsets)
            log_dir.write_offsets(names.HIGH_WATERMARKS, self.high_watermarks)
            log_dir.write_offsets(names.RECOVERY_POINTS, self.recovery_points)
        except KafkaStorageError as error:
            log_dir.files.fuse.blow_by(error)


class LogManager:
    """The logs of one node by partition. Call `open_dirs`, then `load`, then use it, then `shutdown`."""

    def __init__(
        self,
        files: Files,
        log_dirs: Sequence[str],
        *,
        defaults: LogConfig,
        new_uuid: Callable[[], bytes],
        on_offline: Callable[[str, str], None] | None = None,
    ) -> None:
        """`new_uuid` gives 16 random bytes; `on_offline(path, reason)` may be called on any thread."""
        assert log_dirs, "a storage node has at least one log dir"
        self.dirs = [LogDir(files, path.rstrip("/") or "/", on_offline) for path in log_dirs]
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, str] = {}  # logs that could not be loaded, and why
        self.set_aside: list[str] = []  # folders that are no partitions: strays and unfinished moves
        self.identity = Identity()
        self.defaults = defaults
        self._new_uuid = new_uuid
        self._homes: dict[TopicPartition, LogDir] = {}
        self._to_purge: list[tuple[LogDir, str]] = []

    # --- start --------------------------------------------------------------------------------------

    def open_dirs(self) -> Identity:
        """Lock and read all dirs; what their meta.properties agree on.

        Errors: KafkaStorageError if a dir is in use, if all are offline, or if they contradict each other.
        """
        for log_dir in self.dirs:
            log_dir.open()
        self._check_any_online()
        found = Identity()
        for log_dir in self.online_dirs:
            mine = log_dir.identity
            for ours, theirs in ((mine.cluster_id, found.cluster_id), (mine.node_id, found.node_id)):
                if ours is not None and theirs is not None and ours != theirs:
                    raise KafkaStorageError(f"{log_dir.path} belongs to {mine}, another log dir to {found}")
            found = Identity(
                mine.cluster_id if found.cluster_id is None else found.cluster_id,
                mine.node_id if found.node_id is None else found.node_id,
            )
            log_dir.directory_id = log_dir.directory_id or self._new_uuid()
        self.identity = found
        return found

    def set_identity(self, cluster_id: str, node_id: int) -> None:
        """Write who the dirs belong to. Errors: InconsistentClusterId; KafkaStorage if to another node."""
        self.identity = Identity(cluster_id, node_id)
        for log_dir in self.online_dirs:
            log_dir.set_identity(self.identity)

    def load_tasks(self, wall_ms: int, overrides: Mapping[str, LogConfig] | None = None) -> list[LoadTask]:
        """One task per partition folder found; give them all to `finish_loading` once they ran.

        `overrides` holds the configs of topics, as far as they are known this early.
        """
        tasks: list[LoadTask] = []
        for log_dir in self.online_dirs:
            for name in _folders(log_dir):
                path = f"{log_dir.path}/{name}"
                found = names.parse_folder_name(name)
                if name.endswith(names.DELETE_FOLDER):
                    self._to_purge.append((log_dir, path))
                elif name.endswith((names.STRAY_FOLDER, names.FUTURE_FOLDER)):
                    self.set_aside.append(path)
                elif found is not None and found.topic != names.METADATA_TOPIC:
                    config = (overrides or {}).get(found.topic, self.defaults)
                    tasks.append(LoadTask(log_dir, found, config, wall_ms))
        return tasks

    def finish_loading(self, tasks: Sequence[LoadTask]) -> None:
        """Take over the logs that the tasks opened. Errors: KafkaStorageError if one is there twice."""
        for task in tasks:
            topic_partition = task.topic_partition
            if topic_partition in self._homes:
                first = self._homes[topic_partition].path
                raise KafkaStorageError(f"{topic_partition} lies in {first} and in {task.log_dir.path}")
            self._homes[topic_partition] = task.log_dir
            if task.log is not None:
                self._take(task.log, task.log_dir)
            else:
                self.failed[topic_partition] = str(task.error)
        self._check_any_online()

    def load(
        self,
        wall_ms: int,
        overrides: Mapping[str, LogConfig] | None = None,
        run_all: Callable[[Sequence[LoadTask]], None] | None = None,
    ) -> None:
        """All of loading: `run_all` calls `run` of every task, on threads if it likes; else one by one."""
        tasks = self.load_tasks(wall_ms, overrides)
        if run_all is not None:
            run_all(tasks)
        else:
            for task in tasks:
                task.run()
        self.finish_loading(tasks)

    # --- logs ---------------------------------------------------------------------------------------

    @property
    def online_dirs(self) -> list[LogDir]:
        """The dirs that work, in configured order."""
        return [log_dir for log_dir in self.dirs if log_dir.is_online]

    @property
    def offline_dirs(self) -> dict[str, str]:
        """Path and reason of the dirs that do not work."""
        return {log_dir.path: log_dir.failure for log_dir in self.dirs if log_dir.failure is not None}

    @property
    def directory_ids(self) -> tuple[bytes, ...]:
        """The ids of the dirs that work, as the controller gets them; known once the dirs are open."""
        return tuple(log_dir.directory_id or NO_TOPIC_ID for log_dir in self.online_dirs)

    def mark_offline(self, path: str, reason: str) -> None:
        """Take a dir offline for a reason that the file layer did not see."""
        for log_dir in self.dirs:
            if log_dir.path == path:
                log_dir.files.fuse.blow(reason)

    def describe_dirs(self) -> list[dict[str, Any]]:
        """JSON-able facts of every dir, for people."""
        return [
            {
                "path": log_dir.path,
                "directory_id": uuid_text(log_dir.directory_id or NO_TOPIC_ID),
                "failure": log_dir.failure,
                "partitions": self._partition_count(log_dir),
                "size_bytes": sum(
                    log.size_bytes for key, log in self.logs.items() if self._homes[key] is log_dir
                ),
            }
            for log_dir in self.dirs
        ]

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The partition's log, if it is here and loaded; it may be offline by now."""
        return self.logs.get(topic_partition)

    def dir_of(self, topic_partition: TopicPartition) -> LogDir | None:
        """The log dir that the partition lies in."""
        return self._homes.get(topic_partition)

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        *,
        wall_ms: int = 0,
        is_new: bool = False,
    ) -> Log:
        """The partition's log, made in the online dir with the fewest partitions if it is not here.

        A partition that is not known to be new is not made while a dir is offline: its data may lie there.
        Errors: KafkaStorageError; also if the log here belongs to another topic id.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            self._check_topic_id(log, topic_id)
            return log
        if topic_partition in self.failed:
            raise KafkaStorageError(f"{topic_partition} is offline: {self.failed[topic_partition]}")
        self._check_any_online()
        offline = [log_dir.path for log_dir in self.dirs if not log_dir.is_online]
        if offline and not is_new:
            raise KafkaStorageError(f"{topic_partition} may lie in {', '.join(offline)}, which is offline")
        log_dir = min(self.online_dirs, key=self._partition_count)
        directory = f"{log_dir.path}/{topic_partition}"
        make_directory_durably(log_dir.files, directory)
        _write_topic_id(log_dir.files, directory, topic_id)
        log = Log.open(
            log_dir.files,
            directory,
            config,
            topic_partition=topic_partition,
            recovery_point=0,
            was_clean=True,
            wall_ms=wall_ms,
        )
        log.flush()
        log.topic_id = topic_id
        self._homes[topic_partition] = log_dir
        self._take(log, log_dir)
        return log

    def detach(self, topic_partition: TopicPartition) -> Log:
        """Take the log away at once by renaming its folder; the name is free, and `Log.delete` of what is
        returned frees the space, on any thread. Readers under way end normally.

        Errors: KafkaStorageError; KeyError if there is no such log.
        """
        return self._set_aside(topic_partition, names.DELETE_FOLDER)

    def delete(self, topic_partition: TopicPartition) -> None:
        """`detach` the log and free its space on this thread."""
        self.detach(topic_partition).delete()

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """Take away a log that nobody assigned to this node, keeping its folder; the new path of that."""
        log = self._set_aside(topic_partition, names.STRAY_FOLDER)
        log.close_abruptly()
        self.set_aside.append(log.directory)
        return log.directory

    def find_strays(self, is_expected: Callable[[TopicPartition, bytes], bool]) -> list[TopicPartition]:
        """Partitions here that `is_expected(partition, topic id)` denies."""
        return sorted(key for key, log in self.logs.items() if not is_expected(key, log.topic_id))

    def purge_tasks(self) -> list[Callable[[], None]]:
        """Work that removes what deletions before the last start left, for any thread; handed out once."""
        todo, self._to_purge = self._to_purge, []
        return [partial(_purge, log_dir, path) for log_dir, path in todo]

    # --- checkpoints and end ------------------------------------------------------------------------

    def checkpoint_tasks(self) -> list[CheckpointTask]:
        """What each online dir's checkpoints have to say now."""
        return [self._checkpoint_of(log_dir) for log_dir in self.online_dirs]

    def checkpoint(self) -> None:
        """Write the checkpoints of all online dirs on this thread."""
        for task in self.checkpoint_tasks():
            task.run()

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Close all logs, write checkpoints and, where all went well, the clean-shutdown marker; unlock."""
        for log in self.logs.values():
            try:
                log.close()
            except KafkaStorageError as error:
                self._homes[log.topic_partition].files.fuse.blow_by(error)
        for log_dir in self.online_dirs:
            self._checkpoint_of(log_dir).run()
            if log_dir.is_online:
                self._mark_clean(log_dir, broker_epoch)
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files and locks, leaving the dirs as after a crash; harmless after `shutdown`."""
        for log in self.logs.values():
            log.close_abruptly()
        for log_dir in self.dirs:
            log_dir.release()

    # --- inside -------------------------------------------------------------------------------------

    def _take(self, log: Log, log_dir: LogDir) -> None:
        log.on_truncate = self._after_truncation
        self.logs[log.topic_partition] = log
        self._homes[log.topic_partition] = log_dir

    def _after_truncation(self, log: Log) -> None:
        """A recovery point that fell must be on the disk before anything new is appended above it, else the
        next recovery would trust bytes that were never flushed."""
        self._checkpoint_of(self._homes[log.topic_partition]).run()

    def _checkpoint_of(self, log_dir: LogDir) -> CheckpointTask:
        task = CheckpointTask(log_dir)
        for topic_partition in self.failed:
            if self._homes[topic_partition] is log_dir:
                _keep(task, log_dir, topic_partition)
        for topic_partition, log in self.logs.items():
            if self._homes[topic_partition] is log_dir:
                task.recovery_points[topic_partition] = log.recovery_point
                task.high_watermarks[topic_partition] = log.high_watermark
                if log.log_start_offset > log.first_base_offset:
                    task.log_start_offsets[topic_partition] = log.log_start_offset
        return task

    def _mark_clean(self, log_dir: LogDir, broker_epoch: int) -> None:
        try:
            log_dir.mark_clean(broker_epoch)
        except KafkaStorageError as error:
            log_dir.files.fuse.blow_by(error)

    def _set_aside(self, topic_partition: TopicPartition, suffix: str) -> Log:
        log, log_dir = self.logs[topic_partition], self._homes[topic_partition]
        # Bound: a folder name has at most 255 bytes; Kafka cuts the topic's name the same way.
        tail = f".{self._new_uuid().hex()}{suffix}"
        path = f"{log_dir.path}/{str(topic_partition)[: 255 - len(tail)]}{tail}"
        log_dir.files.rename(log.directory, path)
        log_dir.files.fsync_directory(log_dir.path)
        log.moved_to(path)
        log.on_truncate = None
        del self.logs[topic_partition], self._homes[topic_partition]
        return log

    def _partition_count(self, log_dir: LogDir) -> int:
        return sum(1 for home in self._homes.values() if home is log_dir)

    def _check_any_online(self) -> None:
        if not self.online_dirs:
            reasons = "; ".join(f"{log_dir.path}: {log_dir.failure}" for log_dir in self.dirs)
            raise KafkaStorageError(f"no log dir works: {reasons}")

    def _check_topic_id(self, log: Log, topic_id: bytes) -> None:
        """An empty log without an id is a creation that a crash cut short, and is adopted."""
        if log.topic_id == NO_TOPIC_ID and log.log_end_offset == 0:
            _write_topic_id(self._homes[log.topic_partition].files, log.directory, topic_id)
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise KafkaStorageError(
                f"the log of {log.topic_partition} has topic id {log.topic_id.hex()}, not {topic_id.hex()}"
            )


def _folders(log_dir: LogDir) -> list[str]:
    try:
        listed = log_dir.files.listdir(log_dir.path)
        return [name for name in listed if log_dir.files.is_directory(f"{log_dir.path}/{name}")]
    except KafkaStorageError as error:
        log_dir.files.fuse.blow_by(error)
        return []


def _read_topic_id(files: Files, directory: str, log: Log) -> bytes:
    path = f"{directory}/{names.PARTITION_METADATA}"
    if not files.exists(path):
        return NO_TOPIC_ID
    try:
        return parse_partition_metadata(read_file(files, path))
    except CorruptFileError as error:
        log.recovery.faults.append(f"{path}: {error}")
        return NO_TOPIC_ID


def _write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    write_file_atomically(files, directory, names.PARTITION_METADATA, format_partition_metadata(topic_id))


def _keep(task: CheckpointTask, log_dir: LogDir, topic_partition: TopicPartition) -> None:
    """Carry over what is known of a log that is here but could not be loaded."""
    for target, source in (
        (task.recovery_points, log_dir.recovery_points),
        (task.log_start_offsets, log_dir.log_start_offsets),
        (task.high_watermarks, log_dir.high_watermarks),
    ):
        if topic_partition in source:
            target[topic_partition] = source[topic_partition]


def _purge(log_dir: LogDir, path: str) -> None:
    try:
        remove_tree(log_dir.files, path)
    except KafkaStorageError as error:
        log_dir.files.fuse.blow_by(error)
