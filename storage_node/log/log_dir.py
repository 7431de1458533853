"""One log dir: its lock, identity, checkpoints and clean-shutdown marker.

Source: Kafka LogManager.scala, MetaPropertiesEnsemble.java, OffsetCheckpointFile.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InconsistentClusterIdError, KafkaStorageError
from ...runtime.files.file_layer import FileLock, make_directory_durably, read_file, write_file_atomically
from . import names
from .checkpoints import (
    NO_TOPIC_ID,
    CorruptFileError,
    format_clean_shutdown,
    format_offsets,
    format_properties,
    parse_clean_shutdown,
    parse_offsets,
    parse_properties,
    uuid_from_text,
    uuid_text,
)
from .disk_room import DiskRoom
from .guarded_files import GuardedFiles, LogDirState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ...runtime.files.file_layer import Files

_META_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Identity:
    """The cluster and the node of a log dir; None if not assigned yet."""

    cluster_id: str | None = None
    node_id: int | None = None


class LogDir:
    """A disk error takes it offline until the next start; a full disk only refuses records until it has
    room."""

    def __init__(
        self,
        files: Files,
        path: str,
        on_offline: Callable[[str, str], None] | None = None,
        reserve_bytes: int = 0,
    ) -> None:
        self.path = path
        self._on_offline = on_offline
        self.room = DiskRoom(files, path, reserve_bytes)
        self.files = GuardedFiles(files, LogDirState(self._notify), self.room)
        self.identity = Identity()
        self.directory_id: bytes | None = None
        self.has_stored_id = False
        self.was_clean = False
        self.clean_broker_epoch = -1  # of the previous process if its shutdown was clean, else -1
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self._cleaner_offsets_written: Mapping[TopicPartition, int] = {}
        self.faults: list[str] = []
        self._lock: FileLock | None = None

    @property
    def is_online(self) -> bool:
        return self.files.dir_state.failure is None

    @property
    def failure(self) -> str | None:
        return self.files.dir_state.failure

    def open(self) -> None:
        """Lock the dir and read its files; a dir whose disk fails goes offline instead.

        The clean-shutdown marker is removed, durably, before any log is loaded, so that a later crash never
        passes for a clean shutdown (KAFKA-10471).
        Errors: KafkaStorageError if another process holds the lock.
        """
        try:
            make_directory_durably(self.files, self.path)
            self._lock = self.files.lock(self._file(names.LOCK))
            if self._lock is not None:
                # The previous process may have created a folder without syncing its name.
                self.files.fsync_directory(self.path)
                self._read()
                self.room.take_reserve()
        except CorruptFileError as error:
            self.files.dir_state.fail(f"{self._file(names.META_PROPERTIES)}: {error}")
        except KafkaStorageError as error:
            self.files.dir_state.fail(str(error))
        if self.is_online and self._lock is None:
            raise KafkaStorageError(f"{self.path} is in use: another process holds its {names.LOCK}")

    def set_identity(self, identity: Identity) -> None:
        """Write meta.properties, unless it has this identity already.

        Errors: InconsistentClusterIdError for a dir of another cluster, KafkaStorageError for a dir of
        another node.
        """
        mine = self.identity
        if mine.cluster_id not in (None, identity.cluster_id):
            raise InconsistentClusterIdError(
                f"{self.path} belongs to cluster {mine.cluster_id}, not {identity.cluster_id}"
            )
        if mine.node_id not in (None, identity.node_id):
            raise KafkaStorageError(f"{self.path} belongs to node {mine.node_id}, not {identity.node_id}")
        assert self.directory_id is not None, "LogDirs.open gives a new dir its id"
        if mine == identity and self.has_stored_id:
            return
        self.identity = identity
        properties = {
            "version": _META_VERSION,
            "cluster.id": str(identity.cluster_id),
            "node.id": str(identity.node_id),
            "directory.id": uuid_text(self.directory_id),
        }
        write_file_atomically(self.files, self.path, names.META_PROPERTIES, format_properties(properties))
        self.has_stored_id = True

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        write_file_atomically(self.files, self.path, name, format_offsets(offsets))

    def write_cleaner_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the checkpoint if it has changed: most dirs never have one."""
        if offsets != self._cleaner_offsets_written:
            self.write_offsets(names.CLEANER_OFFSETS, offsets)
            self._cleaner_offsets_written = offsets

    def mark_clean(self, broker_epoch: int) -> None:
        """Order: after all logs and checkpoints are on disk."""
        write_file_atomically(
            self.files, self.path, names.CLEAN_SHUTDOWN, format_clean_shutdown(broker_epoch)
        )

    def describe(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "directory_id": uuid_text(self.directory_id or NO_TOPIC_ID),
            "failure": self.failure,
            "full": self.room.full,
        }

    def look_for_room(self) -> bool:
        """Whether the disk was full and has room again."""
        try:
            return self.is_online and self.room.look()
        except KafkaStorageError as error:
            self.files.dir_state.fail_by(error)
            return False

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _read(self) -> None:
        if self.files.exists(self._file(names.META_PROPERTIES)):
            self._read_identity()
        self.recovery_points = self._read_offsets(names.RECOVERY_POINTS)
        self.log_start_offsets = self._read_offsets(names.LOG_START_OFFSETS)
        self.high_watermarks = self._read_offsets(names.HIGH_WATERMARKS)
        self.cleaner_offsets = self._read_offsets(names.CLEANER_OFFSETS)
        self._cleaner_offsets_written = self.cleaner_offsets
        marker = self._file(names.CLEAN_SHUTDOWN)
        if self.files.exists(marker):
            self.was_clean = True
            # Without the checkpoints losses cannot be seen.
            if self.files.exists(self._file(names.RECOVERY_POINTS)) and not self.faults:
                self.clean_broker_epoch = parse_clean_shutdown(read_file(self.files, marker))
            self.files.remove(marker)
            self.files.fsync_directory(self.path)

    def _read_identity(self) -> None:
        properties = parse_properties(read_file(self.files, self._file(names.META_PROPERTIES)))
        version = properties.get("version")
        if version not in ("0", _META_VERSION):
            raise CorruptFileError(f"version {version!r}, only 0 and {_META_VERSION} are known")
        node_id = properties.get("node.id", properties.get("broker.id"))
        if node_id is not None and not node_id.isdecimal():
            raise CorruptFileError(f"node.id {node_id!r} is not a number")
        self.identity = Identity(properties.get("cluster.id"), None if node_id is None else int(node_id))
        if "directory.id" in properties:
            self.directory_id = uuid_from_text(properties["directory.id"])
            self.has_stored_id = True

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint counts as empty, which makes the recovery longer."""
        if not self.files.exists(self._file(name)):
            return {}
        try:
            return parse_offsets(read_file(self.files, self._file(name)))
        except CorruptFileError as error:
            self.faults.append(f"{self._file(name)}: {error}")
            return {}

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _notify(self, reason: str) -> None:
        if self._on_offline is not None:
            self._on_offline(self.path, reason)


def common_identity(dirs: Iterable[LogDir]) -> Identity:
    """The identity that the dirs agree on. Errors: KafkaStorageError if they contradict each other."""
    found = Identity()
    for log_dir in dirs:
        mine = log_dir.identity
        for ours, theirs in ((mine.cluster_id, found.cluster_id), (mine.node_id, found.node_id)):
            if ours is not None and theirs is not None and ours != theirs:
                raise KafkaStorageError(f"{log_dir.path} belongs to {mine}, another log dir to {found}")
        found = Identity(
            mine.cluster_id if found.cluster_id is None else found.cluster_id,
            mine.node_id if found.node_id is None else found.node_id,
        )
    return found
