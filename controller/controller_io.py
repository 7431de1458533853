"""The controller as a server: sockets, disk, clock and tasks around the core. It decides nothing.

Life: lock the folder, recover the log, bind (the port of the last start if it is free), serve. A failure of
any task, such as the disk's, ends `run` with that error; the process must then end and be started again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from ..protocol.errors import KafkaStorageError
from ..protocol.messages import registry
from ..protocol.transport.router_io import Request, Router, RouterLimits, ServerIdentity
from ..runtime.clock_io import monotonic_ms, wall_ms
from ..runtime.shell_io import TaskOwner, require_assertions
from ..storage_node.log.checkpoints import uuid_text
from ..storage_node.log.files import make_directory_durably
from ..storage_node.log.files_io import OsFiles
from ..storage_node.log.listener_memory import remember_port, remembered_port
from .controller import Controller, tick_interval_ms
from .metadata_feed import MetadataFeed
from .quorum.metadata_log import MetadataLog, metadata_log_config
from .readers_io import MetadataReaders
from .status import describe
from .writer_io import DecisionWriter

if TYPE_CHECKING:
    from ..protocol.transport.router_io import Peer
    from ..storage_node.log.files import FileLock, Files
    from .config import ControllerConfig

log = logging.getLogger("headrace.controller")

LOCK_FILE = ".lock"
LOCK_RETRY_MS = 50

SERVED = (
    registry.CREATE_TOPICS,
    registry.DELETE_TOPICS,
    registry.CREATE_PARTITIONS,
    registry.DESCRIBE_CONFIGS,
    registry.INCREMENTAL_ALTER_CONFIGS,
    registry.BROKER_REGISTRATION,
    registry.BROKER_HEARTBEAT,
    registry.UNREGISTER_BROKER,
    registry.FETCH_METADATA,
    registry.ALTER_PARTITION,
)


class ControllerServer:
    """One controller process. `start`, then `run`; `stop` ends `run`."""

    def __init__(self, config: ControllerConfig, files: Files | None = None) -> None:
        self.config = config
        self.host = config.host
        self.port = config.listener_port
        self.cluster_id = ""
        self._files = files or OsFiles()
        self._identity = ServerIdentity(node_id=config.controller_id, incarnation=secrets.randbits(62))
        self._tasks = TaskOwner()
        self._disk = ThreadPoolExecutor(1, "controller-disk")
        self._lock: FileLock | None = None
        self._log: MetadataLog | None = None
        self._router: Router | None = None
        self._is_released = False

    async def start(self) -> None:
        """Ready to serve on return. Errors: KafkaStorageError (the disk, or the folder is in use), OSError
        (the port), ConfigError (python -O)."""
        require_assertions()
        try:
            await self._recover()
            self._bind()
        except BaseException:
            await self._release()
            raise
        self._tasks.spawn(self._writer.run(), "controller-writer")
        self._tasks.spawn(self._serve(), "controller-router")
        self._tasks.every(tick_interval_ms(self.config) / 1000, self._tick, "controller-tick")
        self._tasks.every(
            self.config.checkpoint_interval_ms / 1000, self._checkpoint, "controller-checkpoint"
        )
        log.info(
            "controller %d of cluster %s: epoch %d, metadata up to %d, listening on %s:%d",
            self.config.controller_id,
            self.cluster_id,
            self._opened_log.epoch,
            self._core.image.offset,
            self.host,
            self.port,
        )

    async def run(self) -> None:
        """Serve until `stop`, or raise what broke a task."""
        try:
            await self._tasks.run()
        finally:
            await self._release()

    async def stop(self) -> None:
        """Answer what waits, then end. The log needs no last words: it is durable decision by decision."""
        if self._router is not None and not self._tasks.is_stopping:
            try:
                async with asyncio.timeout(self.config.shutdown_timeout_ms / 1000):
                    await self._writer.drained()
            except TimeoutError:
                log.warning("stopping although requests still wait for the disk")
        self._tasks.stop()

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able."""
        return describe(
            self.config,
            self._feed.image,
            self._opened_log,
            endpoint=f"{self.host}:{self.port}",
            connections=self._opened_router.connections,
            parked_polls=len(self._readers),
            waiting_requests=len(self._writer),
        )

    @property
    def _opened_log(self) -> MetadataLog:
        assert self._log is not None, "start comes first"
        return self._log

    @property
    def _opened_router(self) -> Router:
        assert self._router is not None, "start comes first"
        return self._router

    async def _recover(self) -> None:
        """Lock the folder, read the log, begin the cluster if there is none."""
        directory = self.config.metadata_log_dir
        make_directory_durably(self._files, directory)
        self._lock = await self._locked(f"{directory}/{LOCK_FILE}")
        loop = asyncio.get_running_loop()
        self._log = await loop.run_in_executor(self._disk, self._open_log)
        for fault in self._log.damaged_snapshots:
            log.error("%s; used the one before and the log", fault)
        self._core = Controller(self.config, SystemRandom(), self._log.recovered, monotonic_ms())
        records = self._core.decide_format(uuid_text(secrets.token_bytes(16)))
        if records:
            self._core.apply(self._log.append(records, wall_ms()), records)
            await loop.run_in_executor(self._disk, self._log.flush)
        self.cluster_id = self._identity.cluster_id = self._core.image.cluster_id
        self._feed = MetadataFeed(
            self._core.image, self.config.metadata_tail_records, self.config.metadata_fetch_max_records
        )

    async def _locked(self, path: str) -> FileLock:
        deadline_ms = monotonic_ms() + self.config.lock_timeout_ms
        while (lock := self._files.lock(path)) is None:
            if monotonic_ms() >= deadline_ms:
                raise KafkaStorageError(f"{path} is locked: another controller uses the folder")
            await asyncio.sleep(LOCK_RETRY_MS / 1000)
        return lock

    def _open_log(self) -> MetadataLog:
        return MetadataLog.open(
            self._files,
            self.config.metadata_log_dir,
            controller_id=self.config.controller_id,
            config=metadata_log_config(self.config.metadata_log_segment_bytes),
            wall_ms=wall_ms(),
        )

    def _bind(self) -> None:
        port = self.config.listener_port or remembered_port(self._files, self.config.metadata_log_dir)
        try:
            router = self._new_router(port)
            self.port = router.start()
        except OSError:
            if self.config.listener_port or not port:
                raise
            router = self._new_router(0)
            self.port = router.start()
        self._router = router
        remember_port(self._files, self.config.metadata_log_dir, self.port)
        self._readers = MetadataReaders(
            self._feed,
            router,
            limit=self.config.purgatory_max_requests,
            max_wait_ms=self.config.metadata_fetch_max_wait_ms,
            now_ms=monotonic_ms(),
        )
        self._writer = DecisionWriter(
            self._core,
            self._opened_log,
            self._feed,
            router,
            self._disk,
            max_waiting=self.config.max_queued_requests,
            max_unread_bytes=self.config.queued_max_response_bytes,
            snapshot_interval_bytes=self.config.snapshot_interval_bytes,
            on_publish=self._readers.on_news,
        )
        router.on_peer_gone = self._peer_gone

    def _new_router(self, port: int) -> Router:
        request_bytes = self.config.socket_request_max_bytes
        # Bound: bodies become objects twenty times their size, so few of the largest may wait at once.
        limits = RouterLimits(
            max_request_bytes=request_bytes,
            max_body_bytes=request_bytes,
            max_frames=4,
            max_queued_bytes=8 * request_bytes,
            max_response_bytes_pending=self.config.queued_max_response_bytes,
        )
        return Router(self.config.listener_host, port, self._handle, SERVED, self._identity, limits)

    def _handle(self, request: Request) -> None:
        if request.api is registry.FETCH_METADATA:
            self._readers.fetch(request, monotonic_ms())
        else:
            self._writer.submit(request)

    def _peer_gone(self, peer: Peer) -> None:
        self._readers.peer_gone(peer)

    def _tick(self) -> None:
        now_ms = monotonic_ms()
        self._core.tick(now_ms)
        self._readers.expire(now_ms)
        self._writer.wake()

    async def _checkpoint(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._disk, self._opened_log.checkpoint)

    async def _serve(self) -> None:
        await self._opened_router.run()

    def _close_log(self, stored: MetadataLog) -> None:
        try:
            stored.close()
        except KafkaStorageError:
            # All that was answered is durable already; the next start reads it like after a crash.
            log.exception("the metadata log could not be closed in order")

    async def _release(self) -> None:
        """Close everything, in the order in which it depends on each other. Safe to repeat."""
        if self._is_released:
            return
        self._is_released = True
        if self._router is not None:
            await self._router.stop()
        # Order: the disk thread may still be flushing; the log must not be closed under it.
        await asyncio.get_running_loop().run_in_executor(None, self._disk.shutdown)
        if self._log is not None:
            self._close_log(self._log)
        if self._lock is not None:
            self._lock.release()
