"""The metadata log dir of a controller: its lock and identity, the metadata log, and snapshots on the disk
thread."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from ..protocol.errors import KafkaStorageError
from ..protocol.records.control import VoterSet
from ..runtime.clock_io import monotonic_ms, wall_ms
from ..runtime.files.file_layer import make_directory_durably
from .identity_io import load_identity, write_identity
from .quorum.metadata_log import MetadataLog, metadata_log_config
from .quorum.voters import Endpoint, ReplicaKey, voter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..protocol.metadata.image import MetadataImage
    from ..runtime.files.file_layer import FileLock, Files
    from .config import ControllerConfig
    from .identity_io import DiskIdentity

log = logging.getLogger("headrace.controller")

LOCK_FILE = ".lock"
LOCK_RETRY_MS = 50


class ControllerStorage:
    """`open` it first. `disk` is the one thread that writes the log."""

    def __init__(self, config: ControllerConfig, files: Files) -> None:
        self._config = config
        self.files = files
        self.directory = config.metadata_log_dir
        self.disk = ThreadPoolExecutor(1, "controller-disk")
        self.identity: DiskIdentity
        self._lock: FileLock | None = None
        self._log: MetadataLog | None = None
        self._is_snapshotting = False

    @property
    def log(self) -> MetadataLog:
        """The metadata log."""
        assert self._log is not None, "opened"
        return self._log

    async def open(self, endpoint: Endpoint, *, is_alone: bool) -> None:
        """Lock the directory, read its identity and recover the log.

        With `is_alone` a blank directory gets a quorum with this controller as the only voter, at `endpoint`;
        so does a log from before there were quorums. Errors: KafkaStorageError, ConfigError.
        """
        make_directory_durably(self.files, self.directory)
        self._lock = await self._locked(f"{self.directory}/{LOCK_FILE}")
        self.identity = load_identity(self.files, self.directory, self._config.controller_id)
        if self.identity.is_older or (self.identity.is_blank and is_alone):
            # The port may not be known yet; the first leader writes the valid endpoint.
            alone = VoterSet((voter(self.replica_key, endpoint),))
            MetadataLog.format(self.files, self.directory, alone, wall_ms())
        self._log = await asyncio.get_running_loop().run_in_executor(self.disk, self._open_log)
        for fault in self._log.snapshots.damaged:
            log.error("%s: recovered from the previous snapshot and the log", fault)

    async def _locked(self, path: str) -> FileLock:
        deadline_ms = monotonic_ms() + self._config.lock_timeout_ms
        while (lock := self.files.lock(path)) is None:
            if monotonic_ms() >= deadline_ms:
                raise KafkaStorageError(f"{path} is locked: another controller uses the directory")
            await asyncio.sleep(LOCK_RETRY_MS / 1000)
        return lock

    def _open_log(self) -> MetadataLog:
        return MetadataLog.open(
            self.files,
            self.directory,
            config=metadata_log_config(self._config.metadata_log_segment_bytes),
            wall_ms=wall_ms(),
        )

    @property
    def replica_key(self) -> ReplicaKey:
        """The controller id and directory id."""
        return ReplicaKey(self._config.controller_id, self.identity.directory_id)

    def adopt_cluster(self, cluster_id: str) -> None:
        """Write the cluster id into the identity, if it has none. Errors: KafkaStorageError."""
        if self.identity.cluster_id != cluster_id:
            self.identity = replace(self.identity, cluster_id=cluster_id)
            write_identity(self.files, self.directory, self.identity)

    def is_snapshot_due(self, image: MetadataImage, lowered_at: int = -1) -> bool:
        """Whether enough records follow the newest snapshot, or a lowered feature level at the offset
        `lowered_at`, and none is being written."""
        stored = self.log
        newest = stored.snapshots.newest
        is_newer = newest is None or newest.end_offset <= image.offset
        is_before = lowered_at >= 0 and (newest is None or newest.end_offset <= lowered_at)
        is_due = is_before or stored.bytes_since_snapshot >= self._config.snapshot_interval_bytes
        return is_due and is_newer and not self._is_snapshotting

    async def write_snapshot(self, image: MetadataImage) -> None:
        """Write it on the disk thread. Errors: KafkaStorageError."""
        self._is_snapshotting = True
        loop = asyncio.get_running_loop()
        saved = await loop.run_in_executor(self.disk, self.log.save_snapshot, image, wall_ms())
        self.log.add_snapshot(saved)
        self._is_snapshotting = False

    async def close(self, finish_flush: Callable[[], Awaitable[None]] | None, *, is_killed: bool) -> None:
        """End the disk thread, finish its last flush, close the log and release the lock. With `is_killed`
        the log is left as a crash would leave it."""
        # Order: the disk thread may be flushing the log.
        await asyncio.get_running_loop().run_in_executor(None, self.disk.shutdown)
        if self._log is not None and is_killed:
            self._log.close_abruptly()
        elif self._log is not None:
            try:
                if finish_flush is not None:
                    await finish_flush()
                self._log.close()
            except KafkaStorageError:
                # Everything that was answered is durable; the next start recovers as after a crash.
                log.exception("cannot close the metadata log; the next start recovers it")
        if self._lock is not None:
            self._lock.release()
