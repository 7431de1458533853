"""The controller as a server: sockets, disk, clock and tasks around the cores. It decides nothing.

Life: lock the folder, recover the log, bind (the port of the last start if it is free), then vote, follow or
lead. Only the active controller answers nodes; the others refuse with NOT_CONTROLLER, and DescribeQuorum
tells who leads. A failure of any task, such as the disk's, ends `run` with that error; the process must then
end and be started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from ..protocol.errors import KafkaError, KafkaStorageError, NotControllerError
from ..protocol.messages import registry
from ..protocol.records.control import VoterSet
from ..protocol.transport.listen_errors import listen_error
from ..protocol.transport.router_io import Request, Router, RouterLimits, ServerIdentity
from ..runtime.clock_io import monotonic_ms, wall_ms
from ..runtime.files.file_layer import make_directory_durably
from ..runtime.files.files_io import OsFiles
from ..runtime.limited_log_io import LimitedLog
from ..runtime.shell_io import TaskOwner, require_assertions
from ..runtime.stalls import StallMeter
from ..storage_node.log.checkpoints import uuid_text
from ..storage_node.log.listener_memory import remember_port, remembered_port
from .controller import Controller, tick_interval_ms
from .identity_io import load_identity, write_identity
from .metadata_feed import MetadataFeed
from .peers_io import QUORUM_APIS, Peers
from .quorum.metadata_log import MetadataLog, metadata_log_config
from .quorum.raft import Raft
from .quorum.voters import Endpoint, ReplicaKey, voter
from .quorum_io import Quorum
from .readers_io import MetadataReaders
from .status import describe
from .writer_io import DecisionWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.records.control import VoterDescription
    from ..protocol.transport.router_io import Peer
    from ..runtime.files.file_layer import FileLock, Files
    from ..runtime.incarnation import Deaths
    from .config import ControllerConfig
    from .identity_io import DiskIdentity
    from .peers_io import Locator

log = logging.getLogger("headrace.controller")

LOCK_FILE = ".lock"
LOCK_RETRY_MS = 50
# Bound: how long a stopping leader waits for the others to hear of it.
FAREWELL_TIMEOUT_S = 0.5

SERVED = (
    *QUORUM_APIS,
    *(api for api in registry.FORWARDED if api not in QUORUM_APIS),
    registry.BROKER_REGISTRATION,
    registry.BROKER_HEARTBEAT,
    registry.ALTER_PARTITION,
    registry.ALLOCATE_PRODUCER_IDS,
    registry.FETCH_METADATA,
)


class ControllerServer:
    """One controller process. `start`, then `run`; `stop` ends `run`."""

    def __init__(
        self, config: ControllerConfig, files: Files | None = None, bootstrap: Sequence[Locator] = ()
    ) -> None:
        """`bootstrap` says where other controllers are, besides the servers that `config` names."""
        self.config = config
        self.host = config.host
        self.port = config.listener_port
        self._bootstrap = (*map(_fixed, config.bootstrap_endpoints), *bootstrap)
        self._files = files or OsFiles()
        self._identity = ServerIdentity(node_id=config.controller_id, incarnation=secrets.randbits(62))
        self._tasks = TaskOwner()
        self._disk = ThreadPoolExecutor(1, "controller-disk")
        self._lock: FileLock | None = None
        self._disk_identity: DiskIdentity
        self._log: MetadataLog | None = None
        self._router: Router | None = None
        self._quorum: Quorum | None = None
        self._peers: Peers
        self._early: list[Request] = []  # came between the election and the first decision
        self._has_cluster = asyncio.Event()
        self._is_snapshotting = False
        self._is_killed = False
        self._is_released = False

    async def start(self) -> None:
        """Part of the quorum on return; the only voter also leads by then.

        Errors: KafkaStorageError (the disk, or the folder is in use), OSError (the port), ConfigError
        (python -O, or another controller's folder).
        """
        require_assertions()
        try:
            await self._recover()
            self._bind()
            self._join()
            if self.quorum.is_alone:
                await self._happens(self._has_cluster)
        except BaseException:
            self._tasks.stop()
            with contextlib.suppress(BaseException):
                await self._tasks.run()
            await self._release()
            raise
        log.info(
            "controller %d of cluster %s: epoch %d, metadata up to %d, listening on %s:%d",
            self.config.controller_id,
            self.cluster_id or "(not known yet)",
            self.quorum.epoch,
            self._feed.image.offset,
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
        """Answer what waits, give the leadership away, then end. The log needs no last words: it is durable
        decision by decision."""
        if self._quorum is not None and not self._tasks.is_stopping:
            try:
                async with asyncio.timeout(self.config.shutdown_timeout_ms / 1000):
                    await self._writer.drained()
            except TimeoutError:
                log.warning("stopping although requests still wait for the disk, or for a majority")
        if self._quorum is not None and not self._tasks.is_stopping:
            try:
                async with asyncio.timeout(FAREWELL_TIMEOUT_S):
                    await self._quorum.resign()
            except TimeoutError:
                log.info("not every controller has heard that this one stops")
        self._tasks.stop()

    async def kill(self) -> None:
        """End as if the process had died: nobody is told, nothing is flushed; `run` then returns."""
        self._is_killed = True
        if self._quorum is not None:
            self._quorum.close()
        if self._router is not None:
            self._router.close()
        self._tasks.stop()

    # --- the quorum, for the host -----------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """Of the cluster, empty until it is known."""
        return self._identity.cluster_id

    @property
    def quorum(self) -> Quorum:
        """This controller's part in the quorum."""
        assert self._quorum is not None, "start comes first"
        return self._quorum

    @property
    def is_active(self) -> bool:
        """Whether this controller decides."""
        return self._quorum is not None and self._writer.is_active

    @property
    def _endpoint(self) -> Endpoint:
        """Where others reach this controller."""
        return Endpoint(self.host, self.config.advertised_port or self.port)

    @property
    def is_blank(self) -> bool:
        """Whether this disk has never been part of a quorum."""
        return self._opened_log.is_blank

    def describe_voter(self) -> VoterDescription:
        """This controller as one of the voters to `begin` with."""
        return voter(self.quorum.key, self._endpoint)

    def begin(self, voters: Sequence[VoterDescription]) -> None:
        """Begin the quorum with these voters, this one among them; the others need not be told.

        Order: once in the life of a cluster, and only when every one of its controllers is blank.
        Errors: KafkaStorageError.
        """
        self.quorum.bootstrap(VoterSet(tuple(sorted(voters, key=lambda each: each.voter_id))))

    def note_ended(self, deaths: Deaths) -> None:
        """Processes have ended, says who supervises them: nodes among them are fenced if this controller
        decides, and will be if it does so later."""
        if self._quorum is not None:
            self._writer.note_ended(deaths)

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able."""
        return describe(
            self.config,
            self._feed.image,
            self._opened_log,
            self._feed.elections,
            is_active=self.is_active,
            quorum=self.quorum.facts(),
            endpoint=f"{self.host}:{self.port}",
            connections=self._opened_router.connections,
            parked_polls=len(self._readers),
            waiting_requests=len(self._writer),
        )

    # --- what the quorum tells --------------------------------------------------------------------------

    def on_committed(self, end_offset: int) -> None:
        """Part of Listener."""
        self._writer.on_committed(end_offset)
        self._learn_cluster()
        stored = self._opened_log
        is_due = stored.bytes_since_snapshot >= self.config.snapshot_interval_bytes
        is_news = not stored.snapshots or stored.snapshots[0].end_offset <= self._feed.image.offset
        if is_due and is_news and not self._is_snapshotting and not self._tasks.is_stopping:
            self._is_snapshotting = True
            self._tasks.spawn(self._write_snapshot(self._feed.image), "controller-snapshot")

    def on_snapshot(self, image: MetadataImage) -> None:
        """Part of Listener."""
        self._feed.restart(image)
        self._learn_cluster()

    def on_leader(self) -> None:
        """Part of Listener."""
        self._writer.on_leader()
        early, self._early = self._early, []
        for request in early:
            try:
                self._handle(request)
            except KafkaError as error:
                self._opened_router.reply_error(request, error)

    def on_resigned(self) -> None:
        """Part of Listener."""
        refusal = self._not_controller()
        self._writer.on_resigned()
        self._readers.refuse_all(refusal)
        early, self._early = self._early, []
        for request in early:
            self._opened_router.reply_error(request, refusal)

    def _learn_cluster(self) -> None:
        cluster_id = self._feed.image.cluster_id
        if not cluster_id or cluster_id == self._identity.cluster_id:
            return
        self._identity.cluster_id = cluster_id
        self.quorum.set_cluster_id(cluster_id)
        if self._disk_identity.cluster_id != cluster_id:
            self._disk_identity = replace(self._disk_identity, cluster_id=cluster_id)
            write_identity(self._files, self.config.metadata_log_dir, self._disk_identity)
        self._has_cluster.set()

    async def _write_snapshot(self, image: MetadataImage) -> None:
        stored = self._opened_log
        loop = asyncio.get_running_loop()
        saved = await loop.run_in_executor(self._disk, stored.save_snapshot, image, wall_ms())
        stored.add_snapshot(saved)
        self._is_snapshotting = False

    # --- requests ---------------------------------------------------------------------------------------

    def _handle(self, request: Request) -> None:
        if request.api in QUORUM_APIS:
            self.quorum.receive(request)
        elif not self._writer.is_active:
            if not self.quorum.is_leading or len(self._early) >= self.config.max_queued_requests:
                raise self._not_controller()
            self._early.append(request)
        elif request.api is registry.FETCH_METADATA:
            self._readers.fetch(request, monotonic_ms())
        else:
            self._writer.submit(request)

    def _not_controller(self) -> NotControllerError:
        leader_id, endpoint = self.quorum.leader
        if leader_id < 0 or leader_id == self.config.controller_id:
            return NotControllerError("no controller is known to lead now")
        where = f" at {endpoint.host}:{endpoint.port}" if endpoint is not None else ""
        return NotControllerError(f"controller {leader_id}{where} leads, not {self.config.controller_id}")

    def _peer_gone(self, peer: Peer) -> None:
        self._readers.peer_gone(peer)
        self._writer.peer_gone(peer)

    def _tick(self) -> None:
        now_ms = monotonic_ms()
        if stall_ms := self._stalls.look(now_ms):
            log.warning("controller %d stood still for %d ms", self.config.controller_id, stall_ms)
        self._readers.expire(now_ms)
        self._writer.tick(now_ms)

    # --- beginning and end ------------------------------------------------------------------------------

    @property
    def _opened_log(self) -> MetadataLog:
        assert self._log is not None, "start comes first"
        return self._log

    @property
    def _opened_router(self) -> Router:
        assert self._router is not None, "start comes first"
        return self._router

    async def _recover(self) -> None:
        """Lock the folder and read the log. A controller without others begins its quorum on a blank disk,
        and takes over the log of one from before there were quorums."""
        directory = self.config.metadata_log_dir
        make_directory_durably(self._files, directory)
        self._lock = await self._locked(f"{directory}/{LOCK_FILE}")
        found = self._disk_identity = load_identity(self._files, directory, self.config.controller_id)
        if found.is_older or (found.is_blank and not self._bootstrap):
            key = ReplicaKey(self.config.controller_id, found.directory_id)
            # The port is not known yet; the first leader writes the one that counts.
            alone = VoterSet((voter(key, self._endpoint),))
            MetadataLog.format(self._files, directory, alone, wall_ms())
        self._log = await asyncio.get_running_loop().run_in_executor(self._disk, self._open_log)
        for fault in self._log.damaged_snapshots:
            log.error("%s; used the one before and the log", fault)

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
            config=metadata_log_config(self.config.metadata_log_segment_bytes),
            wall_ms=wall_ms(),
        )

    def _bind(self) -> None:
        port = self.config.listener_port or remembered_port(self._files, self.config.metadata_log_dir)
        try:
            router = self._new_router(port)
            self.port = router.start()
        except OSError as error:
            server = f"controller {self.config.controller_id}"
            if self.config.listener_port or not port:
                raise listen_error(server, error) from error
            log.warning("%s: %s: a free port is taken instead", server, error.strerror)
            router = self._new_router(0)
            self.port = router.start()
        self._router = router
        remember_port(self._files, self.config.metadata_log_dir, self.port)
        router.on_peer_gone = self._peer_gone

    def _join(self) -> None:
        """Put the parts together. Order: no await between binding and here, so no request comes before."""
        config, stored, router, tasks = self.config, self._opened_log, self._opened_router, self._tasks
        now_ms = monotonic_ms()
        self._feed = MetadataFeed(
            stored.recovered, config.metadata_tail_records, config.metadata_fetch_max_records
        )
        raft = Raft(
            config,
            ReplicaKey(config.controller_id, self._disk_identity.directory_id),
            self._endpoint,
            stored,
            SystemRandom(),
            bootstrap_servers=len(self._bootstrap),
            now_ms=now_ms,
            wall_ms=wall_ms(),
        )
        quorum = self._quorum = Quorum(raft, stored, router, self._disk, tasks, self)
        self._peers = Peers(
            config.controller_id,
            self._bootstrap,
            tasks,
            timeout_s=config.quorum_request_timeout_ms / 1000,
            endpoint_of=quorum.endpoint_of,
            on_answer=quorum.on_response,
        )
        readers = self._readers = MetadataReaders(
            self._feed,
            router,
            limit=config.purgatory_max_requests,
            max_wait_ms=config.metadata_fetch_max_wait_ms,
            now_ms=now_ms,
        )
        self._writer = DecisionWriter(
            quorum,
            stored,
            self._feed,
            router,
            lambda image: Controller(config, SystemRandom(), image, monotonic_ms()),
            new_cluster_id=lambda: uuid_text(secrets.token_bytes(16)),
            max_waiting=config.max_queued_requests,
            max_unread_bytes=config.queued_max_response_bytes,
            on_publish=lambda: readers.on_news(monotonic_ms()),
        )
        self._learn_cluster()
        self._stalls = StallMeter(tick_interval_ms(config), now_ms)
        tasks.spawn(self._writer.run(), "controller-writer")
        tasks.spawn(router.run(), "controller-router")
        tasks.every(tick_interval_ms(config) / 1000, self._tick, "controller-tick")
        tasks.every(config.checkpoint_interval_ms / 1000, quorum.checkpoint, "controller-checkpoint")
        quorum.start(self._peers)

    async def _happens(self, event: asyncio.Event) -> None:
        """Wait for the event, or raise what ended this server before."""
        await self._tasks.unless_stopping(event.wait())
        if self._tasks.failure is not None:
            raise self._tasks.failure

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
        router = Router(self.config.listener_host, port, self._handle, SERVED, self._identity, limits)
        router.warn = LimitedLog(log).warning
        return router

    async def _close_log(self, stored: MetadataLog) -> None:
        if self._is_killed:
            stored.close_abruptly()
            return
        try:
            if self._quorum is not None:
                await self._quorum.finish_flush()
            stored.close()
        except KafkaStorageError:
            # All that was answered is durable already; the next start reads it like after a crash.
            log.exception("the metadata log could not be closed in order")

    async def _release(self) -> None:
        """Close everything, in the order in which it depends on each other. Safe to repeat."""
        if self._is_released:
            return
        self._is_released = True
        self._tasks.stop()
        if self._quorum is not None:
            self._quorum.close()
            self._peers.close()
        if self._router is not None and not self._is_killed:
            await self._router.stop()
        # Order: the disk thread may still be flushing; the log must not be closed under it.
        await asyncio.get_running_loop().run_in_executor(None, self._disk.shutdown)
        if self._log is not None:
            await self._close_log(self._log)
        if self._lock is not None:
            self._lock.release()


def _fixed(endpoint: tuple[str, int]) -> Locator:
    async def locate() -> tuple[str, int]:
        return endpoint

    return locate
