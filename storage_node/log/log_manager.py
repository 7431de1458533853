"""All logs of a storage node, over its log dirs: create, move, delete, close.

Loading is in `loader`, checkpoints in `checkpoints`, the choice of a log dir in `placement`.
One owner calls it; `run` of the tasks it returns, purge tasks and `Log.delete` of a detached log may run on
other threads. Source: Kafka LogManager.scala.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaStorageError
from . import names
from .checkpoints import NO_TOPIC_ID
from .log_dirs import LogDirs
from .log_loader import LogLoader
from .log_registry import LogRegistry
from .log_tasks import NewLog, write_topic_id
from .offset_checkpoints import OffsetCheckpoints
from .placement import Placement
from .retired import RetiredSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...protocol.model import TopicPartition
    from ...runtime.files.file_layer import Files
    from .config import LogConfig
    from .log import Log
    from .log_dir import Identity, LogDir
    from .log_tasks import CreateTask


class LogManager:
    """The logs of one node. Call `open_dirs`, then `load` or `loader`, then use it, then `shutdown`."""

    def __init__(
        self,
        files: Files,
        log_dirs: Sequence[str],
        *,
        defaults: LogConfig,
        new_uuid: Callable[[], bytes],
        on_offline: Callable[[str, str], None] | None = None,
        reserve_bytes: int = 0,
        cordoned_dirs: Iterable[str] = (),
    ) -> None:
        """`new_uuid` gives 16 random bytes; `on_offline(path, reason)` may be called on any thread."""
        self.defaults = defaults
        self._new_uuid = new_uuid
        self.dirs = LogDirs(files, log_dirs, on_offline, reserve_bytes)
        self.registry = registry = LogRegistry()
        self.logs, self.failed = registry.logs, registry.failed
        self.checkpoints = OffsetCheckpoints(self.dirs, registry)
        self.loader = LogLoader(self.dirs, registry, self.checkpoints, defaults)
        self.placement = Placement(self.dirs, cordoned_dirs)
        self.retired = RetiredSegments()
        registry.on_truncate, registry.on_retired = self.checkpoints.truncated, self.retired.add

    def open_dirs(self) -> Identity:
        return self.dirs.open(self._new_uuid)

    def load(self, wall_ms: int) -> None:
        tasks = self.loader.tasks(wall_ms)
        for task in tasks:
            task.run()
        self.loader.finish(tasks)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The partition's log, which may be offline; None if it is not loaded."""
        return self.logs.get(topic_partition)

    def dir_of(self, topic_partition: TopicPartition) -> LogDir | None:
        """The log dir of the partition's log, loaded or failed."""
        return self.registry.dir_of.get(topic_partition)

    def describe_dirs(self) -> list[dict[str, Any]]:
        described = []
        for log_dir in self.dirs:
            here = self.registry.in_dir(log_dir)
            strays = [path for path in self.loader.stray_folders if path.startswith(f"{log_dir.path}/")]
            described.append(
                log_dir.describe()
                | {
                    "set_aside": len(strays),
                    "partitions": len(here),
                    "size_bytes": sum(log.size_bytes for log in here.values() if log is not None),
                }
            )
        return described

    # --- create -------------------------------------------------------------------------------------

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        *,
        wall_ms: int = 0,
        is_new: bool = False,
    ) -> Log:
        """The partition's log, created if it is not loaded.

        A partition that may not be new is not created while a dir is offline: its records may be there.
        Errors: KafkaStorageError; also if the log belongs to another topic id.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            self._check_topic_id(log, topic_id)
            return log
        if topic_partition in self.failed:
            raise KafkaStorageError(f"{topic_partition} is offline: {self.failed[topic_partition]}")
        self.dirs.check_any_online()
        if self.dirs.offline and not is_new:
            raise KafkaStorageError(
                f"{topic_partition} may lie in {', '.join(self.dirs.offline)}, which is offline"
            )
        tasks = self.creation_tasks([NewLog(topic_partition, topic_id, config, is_new)], wall_ms)
        for task in tasks:
            task.run()
            if task.error is not None:
                raise task.error
        self.finish_creating(tasks)
        return self.logs[topic_partition]

    def creation_tasks(self, wanted: Iterable[NewLog], wall_ms: int = 0) -> list[CreateTask]:
        """Tasks for the logs that do not exist yet; pass all to `finish_creating` when they have run.

        Logs that must not be created, see `create`, are left out. One creation at a time.
        """
        registry = self.registry
        missing = [new for new in wanted if new.topic_partition not in registry.dir_of]
        return self.placement.creation_tasks(missing, registry.dir_of.values(), wall_ms)

    def finish_creating(self, tasks: Sequence[CreateTask]) -> None:
        for task in tasks:
            for log in task.made:
                self.registry.add(log, task.log_dir)

    def _check_topic_id(self, log: Log, topic_id: bytes) -> None:
        """An empty log without an id is left from a creation that a crash interrupted, and is adopted."""
        if log.topic_id == NO_TOPIC_ID and log.log_end_offset == 0:
            write_topic_id(log.folder.files, log.folder.path, topic_id)
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise KafkaStorageError(
                f"the log of {log.topic_partition} has topic id {log.topic_id.hex()}, not {topic_id.hex()}"
            )

    # --- detach, move, delete -----------------------------------------------------------------------

    def folder_id(self) -> str:
        """A random part for the name of a folder."""
        return self._new_uuid().hex()

    def detach_all(self, topic_partitions: Sequence[TopicPartition]) -> list[Log]:
        """Remove logs from the node by renaming their folders; `Log.delete` of the returned logs frees the
        space, on any thread. Running reads finish normally. Logs whose dir fails meanwhile are left out."""
        detached: list[Log] = []
        for log_dir in self.dirs.online:
            here = [name for name in topic_partitions if self.dir_of(name) is log_dir]
            with contextlib.suppress(KafkaStorageError):  # the dir is offline now
                detached += self._detach(here, names.DELETE_FOLDER)
        return detached

    def replace(self, log: Log, target: LogDir) -> Log:
        """`log`, a whole and durable copy in `target`, replaces the partition's log, which is returned
        detached.

        Order: the checkpoints of `target` have the copy before its folder is renamed, or a crash would show
        records below its start offset; and it is renamed before the old log is. A start in between finds
        both, equal. Errors: KafkaStorageError if `target` fails or is full: the old log stays.
        """
        name = log.topic_partition
        path = f"{target.path}/{name}"
        try:
            task = self.checkpoints.task_for(target)
            task.add(log)
            task.write()
            target.files.rename(log.folder.path, path)
            target.files.fsync_directory(target.path)
        except KafkaStorageError:
            self.checkpoints.task_for(target).run_now()
            raise
        log.moved_to(path)
        detached = self.detach_all([name])
        if not detached:  # the old dir fails: at the next start the log in it is older than the copy
            detached = [self._unregister(name)]
        self.registry.add(log, target)
        return detached[0]

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """Remove a log that is not assigned to this node, and keep its folder as a stray; the new path.

        Errors: KafkaStorageError.
        """
        (log,) = self._detach([topic_partition], names.STRAY_FOLDER)
        log.close_abruptly()
        self.loader.stray_folders.append(log.folder.path)
        return log.folder.path

    def find_strays(self, is_expected: Callable[[TopicPartition, bytes], bool]) -> list[TopicPartition]:
        """Loaded partitions for which `is_expected(partition, topic id)` is False."""
        return sorted(key for key, log in self.logs.items() if not is_expected(key, log.topic_id))

    def _detach(self, topic_partitions: Sequence[TopicPartition], suffix: str) -> list[Log]:
        """Rename the folders of logs in one dir. Errors: KafkaStorageError, and the dir is offline."""
        if not topic_partitions:
            return []
        log_dir = self.registry.dir_of[topic_partitions[0]]
        self.checkpoints.drop(topic_partitions)
        detached = []
        for name in topic_partitions:
            log = self.logs[name]
            path = f"{log_dir.path}/{names.suffixed_folder(name, self.folder_id(), suffix)}"
            log_dir.files.rename(log.folder.path, path)
            log.moved_to(path)
            detached.append(self._unregister(name))
        log_dir.files.fsync_directory(log_dir.path)
        return detached

    def _unregister(self, topic_partition: TopicPartition) -> Log:
        self.checkpoints.removed(topic_partition)
        return self.registry.remove(topic_partition)

    # --- close --------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the checkpoints of all online dirs on this thread."""
        for task in self.checkpoints.tasks():
            task.run()

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Close all logs, write checkpoints and, where nothing failed, the clean-shutdown marker; unlock.

        A process without a broker epoch was never registered: it keeps the epoch of the previous marker.
        """
        if broker_epoch < 0:
            broker_epoch = self.loader.previous_end.epoch_to_hand_on
        for log in self.logs.values():
            try:
                log.close()
            except KafkaStorageError as error:
                # Also if the disk is full: the clean-shutdown marker would vouch for unwritten records.
                self.registry.dir_of[log.topic_partition].files.dir_state.fail(str(error))
        for log_dir in self.dirs.online:
            self.checkpoints.task_for(log_dir).run_now()
            if log_dir.is_online:
                try:
                    log_dir.mark_clean(broker_epoch)
                except KafkaStorageError as error:
                    log_dir.files.dir_state.fail(str(error))
        self.abandon()

    def abandon(self) -> None:
        """Close all files and locks, leaving the dirs as after a crash; does nothing after `shutdown`."""
        for log in self.logs.values():
            log.close_abruptly()
        self.retired.close()
        for log_dir in self.dirs:
            log_dir.release()
