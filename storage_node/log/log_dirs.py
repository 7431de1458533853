"""The log dirs of one node. A dir whose disk fails goes offline, the others continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from .checkpoints import NO_TOPIC_ID
from .log_dir import Identity, LogDir, common_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...runtime.files.file_layer import Files


class LogDirs:
    """In configured order. Call `open` first."""

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        on_offline: Callable[[str, str], None] | None = None,
        reserve_bytes: int = 0,
    ) -> None:
        """`on_offline(path, reason)` may be called on any thread."""
        assert paths, "a storage node has at least one log dir"
        self._dirs = [LogDir(files, path.rstrip("/") or "/", on_offline, reserve_bytes) for path in paths]
        self.identity = Identity()

    def __len__(self) -> int:
        return len(self._dirs)

    def __iter__(self) -> Iterator[LogDir]:
        return iter(self._dirs)

    def __getitem__(self, number: int) -> LogDir:
        return self._dirs[number]

    @property
    def online(self) -> list[LogDir]:
        return [log_dir for log_dir in self._dirs if log_dir.is_online]

    @property
    def offline(self) -> dict[str, str]:
        return {log_dir.path: log_dir.failure for log_dir in self._dirs if log_dir.failure is not None}

    @property
    def ids(self) -> tuple[bytes, ...]:
        return tuple(log_dir.directory_id or NO_TOPIC_ID for log_dir in self.online)

    @property
    def offline_ids(self) -> tuple[bytes, ...]:
        """The directory ids of the offline dirs, as far as they could be read."""
        return tuple(d.directory_id for d in self._dirs if not d.is_online and d.directory_id is not None)

    def open(self, new_uuid: Callable[[], bytes]) -> Identity:
        """Lock and read all dirs; the identity that their meta.properties agree on.

        Errors: KafkaStorageError if a dir is in use, if all are offline, or if they contradict each other.
        """
        for log_dir in self._dirs:
            log_dir.open()
        self.check_any_online()
        identity = common_identity(self.online)
        for log_dir in self.online:
            log_dir.directory_id = log_dir.directory_id or new_uuid()
        self.identity = identity
        return identity

    def set_identity(self, cluster_id: str, node_id: int) -> None:
        """Write meta.properties. Errors: InconsistentClusterId; KafkaStorage for another node's dir."""
        self.identity = Identity(cluster_id, node_id)
        for log_dir in self.online:
            log_dir.set_identity(self.identity)

    def at(self, path: str) -> LogDir | None:
        path = path.rstrip("/") or "/"
        return next((log_dir for log_dir in self.online if log_dir.path == path), None)

    def check_any_online(self) -> None:
        """Errors: KafkaStorageError if all dirs are offline."""
        if not self.online:
            reasons = "; ".join(f"{log_dir.path}: {log_dir.failure}" for log_dir in self._dirs)
            raise KafkaStorageError(f"all log dirs are offline: {reasons}")
