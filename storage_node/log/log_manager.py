"""All logs of a storage node, over its log dirs: load, create, delete, checkpoint, shut down.

One owner calls it; `run` of the tasks it hands out, purge tasks and `Log.delete` of a detached log may go
on other threads. A dir whose disk fails goes offline with all its logs, and the others go on.

Invariant: a log that goes leaves the checkpoints before it leaves its name, so that what they say is never
taken for the log of a later topic of that name, and a name in them without a folder is a loss.
Source: Kafka LogManager.scala.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import DiskFullError
from . import names
from .checkpoints import NO_TOPIC_ID
from .cordon import Cordon, share_out
from .log_dir import Identity, LogDir, common_identity
from .log_folders import folders_of, missing_from, one_of_each, set_aside
from .log_tasks import CheckpointTask, CreateTask, LoadTask, NewLog, purge, write_topic_id
from .losses import PreviousEnd, losses_in, previous_end
from .retired import RetiredSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...protocol.model import TopicPartition
    from ...runtime.files.file_layer import Files
    from .config import LogConfig
    from .log import Log


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
        reserve_bytes: int = 0,
        cordoned_dirs: Iterable[str] = (),
    ) -> None:
        """`new_uuid` gives 16 random bytes; `on_offline(path, reason)` may be called on any thread."""
        assert log_dirs, "a storage node has at least one log dir"
        self.dirs = [LogDir(files, path.rstrip("/") or "/", on_offline, reserve_bytes) for path in log_dirs]
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, str] = {}  # logs that could not be loaded, and why
        self._without_room: dict[TopicPartition, LoadTask] = {}  # of `failed`: those that may load yet
        self.set_aside: list[str] = []  # folders that are no partitions: strays and unfinished moves
        self.retired = RetiredSegments()
        self.identity = Identity()
        self.defaults = defaults
        self._new_uuid = new_uuid
        self._homes: dict[TopicPartition, LogDir] = {}
        self._to_purge: list[tuple[LogDir, str]] = []
        self._rivals: dict[TopicPartition, LoadTask] = {}  # logs of other topics under the names of logs
        self._unfinished: list[tuple[LogDir, str]] = []  # copies that moves left
        self.cordon = Cordon(cordoned_dirs)
        self.preferred: dict[TopicPartition, str] = {}  # where an operator wants logs that are not here yet
        self._going: set[TopicPartition] = set()  # still here, but out of the checkpoints
        self._missing: set[TopicPartition] = set()  # of `failed`: those that have no folder
        self._lost: set[TopicPartition] = set()  # found cut or gone after an orderly end

    # --- start --------------------------------------------------------------------------------------

    def open_dirs(self) -> Identity:
        """Lock and read all dirs; what their meta.properties agree on.

        Errors: KafkaStorageError if a dir is in use, if all are offline, or if they contradict each other.
        """
        for log_dir in self.dirs:
            log_dir.open()
        self._check_any_online()
        found = common_identity(self.online_dirs)
        for log_dir in self.online_dirs:
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
            for name in folders_of(log_dir):
                path = f"{log_dir.path}/{name}"
                found = names.parse_folder_name(name)
                if name.endswith(names.DELETE_FOLDER):
                    self._to_purge.append((log_dir, path))
                elif name.endswith(names.FUTURE_FOLDER):
                    self._unfinished.append((log_dir, path))
                elif name.endswith(names.STRAY_FOLDER):
                    self.set_aside.append(path)
                elif found is not None:
                    config = (overrides or {}).get(found.topic, self.defaults)
                    tasks.append(LoadTask(log_dir, found, config, wall_ms))
        return tasks

    def finish_loading(self, tasks: Sequence[LoadTask]) -> None:
        """Take over the logs that the tasks opened."""
        found, self._rivals = one_of_each(tasks)
        for task in found:
            topic_partition = task.topic_partition
            self._homes[topic_partition] = task.log_dir
            if task.log is not None:
                self._take(task.log, task.log_dir)
            else:
                self.failed[topic_partition] = str(task.error)
                if isinstance(task.error, DiskFullError):
                    self._without_room[topic_partition] = task
        for log_dir, path in self._unfinished:
            name = names.parse_folder_name(path.rpartition("/")[2].rpartition(".")[0])
            if name in self.logs:
                self._to_purge.append((log_dir, path))
            else:
                self.set_aside.append(path)
        for log_dir in self.online_dirs:
            for name, reason in missing_from(log_dir, self._homes).items():
                self.failed[name], self._homes[name] = reason, log_dir
                self._missing.add(name)
            here = {name: self.logs.get(name) for name, home in self._homes.items() if home is log_dir}
            rivals = {name: task.log for name, task in self._rivals.items() if task.log_dir is log_dir}
            self._lost.update(losses_in(log_dir, here | rivals))
            self._correct_checkpoints(log_dir)
        self._check_any_online()

    def forget_missing(self, is_expected: Callable[[TopicPartition], bool]) -> None:
        """Let go of partitions without a folder that `is_expected` denies: their topic is gone anyway."""
        for name in sorted(self._missing):
            if not is_expected(name):
                self._missing.discard(name)
                del self.failed[name], self._homes[name]

    def load(self, wall_ms: int) -> None:
        """All of loading on this thread."""
        tasks = self.load_tasks(wall_ms)
        for task in tasks:
            task.run()
        self.finish_loading(tasks)

    def load_again(self) -> list[TopicPartition]:
        """Load the logs that a full disk had no room to recover; those that are here now."""
        loaded = []
        for name, task in list(self._without_room.items()):
            task.error = None
            task.run()
            if task.log is not None:
                del self._without_room[name], self.failed[name]
                self._take(task.log, task.log_dir)
                self._correct_checkpoints(task.log_dir)
                loaded.append(name)
        return loaded

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

    @property
    def offline_directory_ids(self) -> tuple[bytes, ...]:
        """The ids of the dirs that do not work, of those whose id could be read."""
        return tuple(d.directory_id for d in self.dirs if not d.is_online and d.directory_id is not None)

    @property
    def previous_end(self) -> PreviousEnd:
        """How the process before this one ended; known once the logs are loaded."""
        return previous_end(self.dirs, self._lost)

    def mark_offline(self, path: str, reason: str) -> None:
        """Take a dir offline for a reason that the file layer did not see."""
        for log_dir in self.dirs:
            if log_dir.path == path:
                log_dir.files.fuse.blow(reason)

    def describe_dirs(self) -> list[dict[str, Any]]:
        """JSON-able facts of every dir, for people."""
        return [self._described(log_dir) for log_dir in self.dirs]

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The partition's log, if it is here and loaded; it may be offline by now."""
        return self.logs.get(topic_partition)

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
        tasks = self.creation_tasks([NewLog(topic_partition, topic_id, config, is_new)], wall_ms)
        for task in tasks:
            task.run()
            if task.error is not None:
                raise task.error
        self.finish_creating(tasks)
        return self.logs[topic_partition]

    def creation_tasks(self, wanted: Iterable[NewLog], wall_ms: int = 0) -> list[CreateTask]:
        """Work that makes the logs that are not here yet; give it all to `finish_creating` once it ran.

        Those that must not be made, as in `create`, are left out. No other creation may begin before these
        are finished.
        """
        missing = [new for new in wanted if new.topic_partition not in self._homes]
        counts = Counter(log_dir.path for log_dir in self._homes.values())
        return share_out(self, missing, counts, wall_ms)

    def finish_creating(self, tasks: Sequence[CreateTask]) -> None:
        """Take over the logs that the tasks made."""
        for task in tasks:
            for log in task.made:
                self._take(log, task.log_dir)

    def detach(self, topic_partition: TopicPartition) -> Log:
        """Take the log away at once by renaming its folder; the name is free, and `Log.delete` of what is
        returned frees the space, on any thread. Readers under way end normally.

        Errors: KafkaStorageError; KeyError if there is no such log.
        """
        (log,) = self._set_aside([topic_partition], names.DELETE_FOLDER)
        return log

    def detach_all(self, topic_partitions: Sequence[TopicPartition]) -> list[Log]:
        """As `detach`, for many at the cost of one; those whose dir fails meanwhile are left out."""
        detached: list[Log] = []
        for log_dir in self.online_dirs:
            mine = [name for name in topic_partitions if self._homes.get(name) is log_dir]
            with contextlib.suppress(KafkaStorageError):  # the dir's fuse has blown, which is what counts
                detached += self._set_aside(mine, names.DELETE_FOLDER)
        return detached

    def replace(self, log: Log, target: LogDir) -> Log:
        """`log`, a whole and durable copy in `target`, takes the place of the partition's log, which is
        returned detached; the space of that is freed by `Log.delete`.

        Order: the checkpoints of `target` name the copy before it has its name, or a crash would bring back
        what lies below its start; and it has that before the old log loses it. A start in between finds both,
        equal. Errors: KafkaStorageError if `target` fails or is full: the old log stays.
        """
        name = log.topic_partition
        path = f"{target.path}/{name}"
        try:
            task = self._checkpoint_of(target)
            task.note(log)
            task.write()
            target.files.rename(log.folder.path, path)
            target.files.fsync_directory(target.path)
        except KafkaStorageError:
            self._checkpoint_of(target).run_now()
            raise
        log.moved_to(path)
        detached = self.detach_all([name])
        if not detached:  # the old dir fails: what is left there is older than the copy, at the next start
            old = self.logs.pop(name)
            old.on_truncate = None
            del self._homes[name]
            self._going.discard(name)
            detached = [old]
        self._take(log, target)
        return detached[0]

    def choose(self, topic_partition: TopicPartition, topic_id: bytes | None) -> None:
        """Of two logs under one name the one of this topic counts; the other one is set aside as a stray."""
        rival = self._rivals.pop(topic_partition, None)
        if rival is None or rival.log is None:
            return
        loser, its_dir = rival.log, rival.log_dir
        if rival.log.topic_id == topic_id:
            loser, its_dir = self.logs[topic_partition], self._homes[topic_partition]
            self._take(rival.log, rival.log_dir)
            self._correct_checkpoints(rival.log_dir)
        self.set_aside.append(set_aside(loser, its_dir))

    def choose_all(self) -> None:
        """The metadata has been seen, and knows no topic of the rivals that are left."""
        for name in list(self._rivals):
            self.choose(name, None)

    def home_of(self, topic_partition: TopicPartition) -> LogDir | None:
        """The dir where the partition's log lies, or should lie, or None."""
        return self._homes.get(topic_partition)

    def unique(self) -> str:
        """For the name of a folder."""
        return self._new_uuid().hex()

    def dir_at(self, path: str) -> LogDir | None:
        """The online dir of that path, or None."""
        wanted = path.rstrip("/") or "/"
        return next((log_dir for log_dir in self.online_dirs if log_dir.path == wanted), None)

    def delete(self, topic_partition: TopicPartition) -> None:
        """`detach` the log and free its space on this thread."""
        self.detach(topic_partition).delete()

    def drop_from_checkpoints(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Write the checkpoints without these logs, which are about to go; a failing disk goes offline.

        Order: never while a task of `checkpoint_tasks` runs; it would write them back.
        """
        going = {name for name in topic_partitions if name in self.logs and name not in self._going}
        self._going |= going
        for log_dir in {self._homes[name].path: self._homes[name] for name in sorted(going)}.values():
            if log_dir.is_online:
                self._checkpoint_of(log_dir).run_now()

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """Take away a log that nobody assigned to this node, keeping its folder; the new path of that.

        Errors: KafkaStorageError.
        """
        (log,) = self._set_aside([topic_partition], names.STRAY_FOLDER)
        log.close_abruptly()
        self.set_aside.append(log.folder.path)
        return log.folder.path

    def find_strays(self, is_expected: Callable[[TopicPartition, bytes], bool]) -> list[TopicPartition]:
        """Partitions here that `is_expected(partition, topic id)` denies."""
        return sorted(key for key, log in self.logs.items() if not is_expected(key, log.topic_id))

    def purge_tasks(self) -> list[Callable[[], None]]:
        """Work that removes what deletions before the last start left, for any thread; handed out once."""
        todo, self._to_purge = self._to_purge, []
        return [partial(purge, log_dir, path) for log_dir, path in todo]

    # --- checkpoints and end ------------------------------------------------------------------------

    def checkpoint_tasks(self, *, only_starts: bool = False) -> list[CheckpointTask]:
        """What each online dir's checkpoints have to say now; or only where logs start, where there are news
        of that."""
        tasks = [self._checkpoint_of(log_dir, only_starts=only_starts) for log_dir in self.online_dirs]
        return [task for task in tasks if task.wanted] if only_starts else tasks

    def checkpoint(self) -> None:
        """Write the checkpoints of all online dirs on this thread."""
        for task in self.checkpoint_tasks():
            task.run()

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Close all logs, write checkpoints and, where all went well, the clean-shutdown marker; unlock.

        Who never got a broker epoch was no replica of anything: it hands on the one that it found.
        """
        if broker_epoch < 0:
            broker_epoch = self.previous_end.epoch_to_hand_on
        for log in self.logs.values():
            try:
                log.close()
            except KafkaStorageError as error:
                # Also for want of room: the clean marker would vouch for what could not be written.
                self._homes[log.topic_partition].files.fuse.blow(str(error))
        for log_dir in self.online_dirs:
            self._checkpoint_of(log_dir).run_now()
            if log_dir.is_online:
                self._mark_clean(log_dir, broker_epoch)
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files and locks, leaving the dirs as after a crash; harmless after `shutdown`."""
        for log in self.logs.values():
            log.close_abruptly()
        self.retired.close()
        for log_dir in self.dirs:
            log_dir.release()

    # --- inside -------------------------------------------------------------------------------------

    def _take(self, log: Log, log_dir: LogDir) -> None:
        log.on_truncate, log.on_retired = self._after_truncation, self.retired.add
        self.logs[log.topic_partition] = log
        self._homes[log.topic_partition] = log_dir

    def _correct_checkpoints(self, log_dir: LogDir) -> None:
        """Where a log has lost what was clean, what comes in its place is not. That must be on the disk
        first: a tombstone taken for clean would go some day, and the older values below it show again. And
        what a move has left of a log that is elsewhere must not be taken for that of a later one."""
        offsets, homes = log_dir.cleaner_offsets, self._homes
        mine = {name: self.logs[name] for name in offsets if name in self.logs and homes[name] is log_dir}
        is_lower = any(log.compaction.cleaner_offset != offsets[name] for name, log in mine.items())
        if is_lower or any(homes.get(name, log_dir) is not log_dir for name in log_dir.recovery_points):
            self._checkpoint_of(log_dir).run_now()

    def _described(self, log_dir: LogDir) -> dict[str, Any]:
        names_here = [name for name, home in self._homes.items() if home is log_dir]
        set_aside_here = [path for path in self.set_aside if path.startswith(f"{log_dir.path}/")]
        sizes = [self.logs[name].size_bytes for name in names_here if name in self.logs]
        return log_dir.describe() | {
            "set_aside": len(set_aside_here),
            "partitions": len(names_here),
            "size_bytes": sum(sizes),
        }

    def _after_truncation(self, log: Log) -> None:
        """A recovery point that fell must be on the disk before anything new is appended above it, else the
        next recovery would trust bytes that were never flushed."""
        self._checkpoint_of(self._homes[log.topic_partition]).run_now()

    def _checkpoint_of(self, log_dir: LogDir, *, only_starts: bool = False) -> CheckpointTask:
        task = CheckpointTask(log_dir, only_starts=only_starts)
        for topic_partition in self.failed:
            if self._homes[topic_partition] is log_dir:
                task.keep(topic_partition)
        for topic_partition, rival in self._rivals.items():
            if rival.log_dir is log_dir:
                task.keep(topic_partition)
        for topic_partition, log in self.logs.items():
            if only_starts and not log.start.pending_offset:
                continue  # thousands of logs must not hold up whoever waits for one
            if self._homes[topic_partition] is log_dir and topic_partition not in self._going:
                task.note(log)
        return task

    def _mark_clean(self, log_dir: LogDir, broker_epoch: int) -> None:
        try:
            log_dir.mark_clean(broker_epoch)
        except KafkaStorageError as error:
            log_dir.files.fuse.blow(str(error))

    def _set_aside(self, topic_partitions: Sequence[TopicPartition], suffix: str) -> list[Log]:
        """Give the folders of logs in one dir other names. Errors: KafkaStorageError, and it is offline."""
        if not topic_partitions:
            return []
        log_dir = self._homes[topic_partitions[0]]
        self.drop_from_checkpoints(topic_partitions)
        taken = []
        for name in topic_partitions:
            log = self.logs[name]
            # Bound: a folder name has at most 255 bytes; Kafka cuts the topic's name the same way.
            tail = f".{self._new_uuid().hex()}{suffix}"
            path = f"{log_dir.path}/{str(name)[: 255 - len(tail)]}{tail}"
            log_dir.files.rename(log.folder.path, path)
            log.moved_to(path)
            log.on_truncate = None
            del self.logs[name], self._homes[name]
            self._going.discard(name)
            taken.append(log)
        log_dir.files.fsync_directory(log_dir.path)
        return taken

    def _check_any_online(self) -> None:
        if not self.online_dirs:
            reasons = "; ".join(f"{log_dir.path}: {log_dir.failure}" for log_dir in self.dirs)
            raise KafkaStorageError(f"no log dir works: {reasons}")

    def _check_topic_id(self, log: Log, topic_id: bytes) -> None:
        """An empty log without an id is a creation that a crash cut short, and is adopted."""
        if log.topic_id == NO_TOPIC_ID and log.log_end_offset == 0:
            write_topic_id(self._homes[log.topic_partition].files, log.folder.path, topic_id)
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise KafkaStorageError(
                f"the log of {log.topic_partition} has topic id {log.topic_id.hex()}, not {topic_id.hex()}"
            )
