"""The server of a controller: sockets, storage, clock and tasks around the cores.

It locks the metadata log dir, recovers the log, binds (the port of the last run if it is free), then votes,
follows or leads. Only the active controller answers nodes; others refuse with NOT_CONTROLLER, and
DescribeQuorum names the leader. A failure of any task, such as of the disk, ends `run` with that error; the
process must then end and be restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from ..protocol.errors import KafkaError, NotControllerError
from ..protocol.messages import registry
from ..protocol.records.control import VoterSet
from ..protocol.security.server_keys import CONTROLLER, ServerName
from ..protocol.transport.listen_errors import listen_error
from ..protocol.transport.router_io import Request, Router, RouterLimits, ServerIdentity
from ..runtime.clock_io import monotonic_ms, wall_ms
from ..runtime.files.files_io import OsFiles
from ..runtime.limited_log_io import LimitedLog
from ..runtime.listener_address import store_port, stored_port
from ..runtime.server_security_io import server_security
from ..runtime.shell_io import TaskOwner, require_assertions
from ..runtime.stalls import StallMeter
from ..storage_node.log.checkpoints import uuid_text
from .controller import Controller, tick_interval_ms
from .measuring_io import ControllerMeasures
from .metadata_feed import MetadataFeed
from .peers_io import QUORUM_APIS, Peers
from .quorum.raft import Raft
from .quorum.voters import Endpoint, voter
from .quorum_io import Quorum
from .readers_io import MetadataReaders
from .state.features import check_supported
from .status import describe
from .storage_io import ControllerStorage
from .writer_io import DecisionWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.records.control import VoterDescription
    from ..protocol.transport.router_io import Peer
    from ..runtime.files.file_layer import Files
    from ..runtime.incarnation import Deaths
    from ..runtime.telemetry.exporting import Telemetry, TelemetryFactory
    from .config import ControllerConfig
    from .peers_io import Locator

log = logging.getLogger("headrace.controller")

LOCK_FILE = ".lock"
LOCK_RETRY_MS = 50
# Bound: how long a stopping leader waits for the responses of the others.
CLOSING_TIMEOUT_S = 0.5

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
    """One controller process: `start`, then `run`; `stop` ends `run`."""

    def __init__(
        self,
        config: ControllerConfig,
        files: Files | None = None,
        bootstrap: Sequence[Locator] = (),
        telemetry: TelemetryFactory | None = None,
    ) -> None:
        """`bootstrap` locates other controllers, besides the servers in `config`. `telemetry`: the
        exporters."""
        self.config = config
        self.host = config.host
        self.port = config.listener_port
        self._bootstrap = (*map(_fixed, config.bootstrap_endpoints), *bootstrap)
        self._storage = ControllerStorage(config, files or OsFiles())
        self._security = server_security(config, ServerName(CONTROLLER, config.controller_id))
        self._identity = ServerIdentity(node_id=config.controller_id, incarnation=secrets.randbits(62))
        self._measures = ControllerMeasures(config, self._storage, lambda: self.cluster_id)
        self._telemetry: Telemetry | None = None if telemetry is None else telemetry(self._measures, config)
        self._tasks = TaskOwner()
        self._router: Router | None = None
        self._quorum: Quorum | None = None
        self._peers: Peers
        self._early: list[Request] = []  # received between the election and the first decision
        self._has_cluster = asyncio.Event()
        self._is_killed = False
        self._is_released = False

    async def start(self) -> None:
        """Returns once this controller is part of the quorum, and if it is the only voter, once it leads.

        Errors: KafkaStorageError (the disk, or the directory is locked), OSError (the port), ConfigError
        (python -O, or another controller's directory).
        """
        require_assertions()
        try:
            await self._storage.open(self._endpoint, is_alone=not self._bootstrap)
            self._bind()
            self._join()
            if self.quorum.is_alone:
                await self._wait_for(self._has_cluster)
            if self._telemetry is not None:
                self._telemetry.start()
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
        """Serve until `stop`, or raise the error of a failed task."""
        try:
            await self._tasks.run()
        finally:
            await self._release()

    async def stop(self) -> None:
        """Answer waiting requests, resign, then end. Every decision is durable already."""
        if self._quorum is not None and not self._tasks.is_stopping:
            try:
                async with asyncio.timeout(self.config.shutdown_timeout_ms / 1000):
                    await self._writer.drained()
            except TimeoutError:
                log.warning(
                    "stopping with unanswered requests: the disk or a majority of the controllers is slow"
                )
        if self._quorum is not None and not self._tasks.is_stopping:
            try:
                async with asyncio.timeout(CLOSING_TIMEOUT_S):
                    await self._quorum.resign()
            except TimeoutError:
                log.info("stopping without the confirmation of all controllers")
        self._tasks.stop()

    async def kill(self) -> None:
        """End without resigning and without a flush, as in a crash; `run` then returns."""
        self._is_killed = True
        if self._telemetry is not None:
            self._telemetry.close()
        if self._quorum is not None:
            self._quorum.close()
        if self._router is not None:
            self._router.close()
        self._tasks.stop()

    # --- the quorum, for the host -----------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """Empty until it is known."""
        return self._identity.cluster_id

    @property
    def quorum(self) -> Quorum:
        """The quorum, as this controller sees it."""
        assert self._quorum is not None, "start comes first"
        return self._quorum

    @property
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self._quorum is not None and self._writer.is_active

    @property
    def _endpoint(self) -> Endpoint:
        """The address for other servers."""
        return Endpoint(self.host, self.config.advertised_port or self.port)

    @property
    def is_blank(self) -> bool:
        """Whether this disk has never been part of a quorum."""
        return self._storage.log.is_blank

    def describe_voter(self) -> VoterDescription:
        """This controller as one of the voters for `begin`."""
        return voter(self.quorum.key, self._endpoint)

    def begin(self, voters: Sequence[VoterDescription]) -> None:
        """Begin the quorum with these voters, this one among them; called on one of them.

        Order: once in the life of a cluster, and only when all its controllers are blank. Errors:
        KafkaStorageError.
        """
        self.quorum.bootstrap(VoterSet(tuple(sorted(voters, key=lambda each: each.voter_id))))

    def note_ended(self, deaths: Deaths) -> None:
        """A supervisor reports that processes have ended: nodes among them are fenced as soon as this
        controller is active."""
        if self._quorum is not None:
            self._writer.note_ended(deaths)

    def status(self) -> dict[str, Any]:
        """JSON-able, for the command line."""
        found = describe(
            self.config,
            self._feed.image,
            self._storage.log,
            self._feed.elections,
            is_active=self.is_active,
            quorum=self.quorum.facts(),
            endpoint=f"{self.host}:{self.port}",
            connections=self._opened_router.connections,
            parked_polls=len(self._readers),
            waiting_requests=len(self._writer),
        )
        telemetry = {} if self._telemetry is None else {"telemetry": self._telemetry.status()}
        security = None if self._security is None else self._security.describe()
        return {**found, **telemetry, "security": security}

    # --- events of the quorum ---------------------------------------------------------------------------

    def on_committed(self, end_offset: int) -> None:
        """Part of Listener."""
        self._writer.on_committed(end_offset)
        self._learn_cluster()
        image = self._feed.image
        if self._storage.is_snapshot_due(image, self._feed.lowered_at) and not self._tasks.is_stopping:
            self._tasks.spawn(self._storage.write_snapshot(image), "controller-snapshot")

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
        self._storage.adopt_cluster(cluster_id)
        self._has_cluster.set()

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
            return NotControllerError("no active controller is known")
        where = f" at {endpoint.host}:{endpoint.port}" if endpoint is not None else ""
        return NotControllerError(f"controller {leader_id}{where} leads, not {self.config.controller_id}")

    def _peer_gone(self, peer: Peer) -> None:
        self._readers.peer_gone(peer)
        self._writer.peer_gone(peer)

    def _tick(self) -> None:
        now_ms = monotonic_ms()
        if stall_ms := self._stalls.look(now_ms):
            log.warning("controller %d was stalled for %d ms", self.config.controller_id, stall_ms)
        self._readers.expire(now_ms)
        self._writer.tick(now_ms)

    # --- beginning and end ------------------------------------------------------------------------------

    @property
    def _opened_router(self) -> Router:
        assert self._router is not None, "start comes first"
        return self._router

    def _bind(self) -> None:
        port = self.config.listener_port or stored_port(self._storage.files, self._storage.directory)
        try:
            router = self._new_router(port)
            self.port = router.start()
        except OSError as error:
            server = f"controller {self.config.controller_id}"
            if self.config.listener_port or not port:
                raise listen_error(server, error) from error
            log.warning(
                "%s: cannot bind the port of its last run (%s): using a free port", server, error.strerror
            )
            router = self._new_router(0)
            self.port = router.start()
        self._router = router
        store_port(self._storage.files, self._storage.directory, self.port)
        router.on_peer_gone = self._peer_gone

    def _join(self) -> None:
        """Create the parts. Order: no await after binding, so that no request is handled before."""
        config, stored, router, tasks = self.config, self._storage.log, self._opened_router, self._tasks
        now_ms = monotonic_ms()
        self._feed = MetadataFeed(
            stored.recovered, config.metadata_tail_records, config.metadata_fetch_max_records
        )
        raft = Raft(
            config,
            self._storage.replica_key,
            self._endpoint,
            stored,
            SystemRandom(),
            bootstrap_servers=len(self._bootstrap),
            now_ms=now_ms,
            wall_ms=wall_ms(),
        )
        quorum = self._quorum = Quorum(raft, stored, router, self._storage.disk, tasks, self)
        self._peers = Peers(
            config.controller_id,
            self._bootstrap,
            tasks,
            timeout_s=config.quorum_request_timeout_ms / 1000,
            endpoint_of=quorum.endpoint_of,
            on_answer=quorum.on_response,
            security=None if self._security is None else self._security.connections,
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
            lambda image: Controller(config, SystemRandom(), image, monotonic_ms(), quorum.supported),
            new_cluster_id=lambda: uuid_text(secrets.token_bytes(16)),
            max_waiting=config.max_queued_requests,
            max_unread_bytes=config.queued_max_response_bytes,
            on_publish=lambda: readers.on_published(monotonic_ms()),
        )
        writer = self._writer
        raft.context.check_levels = lambda ranges, name: check_supported(writer.image, ranges, name)
        self._learn_cluster()
        self._stalls = StallMeter(tick_interval_ms(config), now_ms)
        self._measures.take(router, quorum, self._feed, writer, readers, self._stalls)
        tasks.every(1.0, self._measures.tick, "load of the loop")
        tasks.spawn(self._writer.run(), "controller-writer")
        tasks.spawn(router.run(), "controller-router")
        tasks.every(tick_interval_ms(config) / 1000, self._tick, "controller-tick")
        tasks.every(config.checkpoint_interval_ms / 1000, quorum.checkpoint, "controller-checkpoint")
        quorum.start(self._peers)

    async def _wait_for(self, event: asyncio.Event) -> None:
        """Wait for the event, or raise the error that ended this server."""
        await self._tasks.unless_stopping(event.wait())
        if self._tasks.failure is not None:
            raise self._tasks.failure

    def _new_router(self, port: int) -> Router:
        request_bytes = self.config.socket_request_max_bytes
        # Bound: decoded bodies take twenty times their size, so few of the largest may wait at once.
        limits = RouterLimits(
            max_request_bytes=request_bytes,
            max_body_bytes=request_bytes,
            max_frames=4,
            max_queued_bytes=8 * request_bytes,
            max_response_bytes_pending=self.config.queued_max_response_bytes,
        )
        security = None if self._security is None else self._security.of_controller()
        router = Router(
            self.config.listener_host, port, self._handle, SERVED, self._identity, limits, security
        )
        router.warn = LimitedLog(log).warning
        return router

    async def _release(self) -> None:
        """Close everything in the order of dependencies, once."""
        if self._is_released:
            return
        self._is_released = True
        self._tasks.stop()
        if self._telemetry is not None:
            await self._telemetry.stop()
        if self._quorum is not None:
            self._quorum.close()
            self._peers.close()
        if self._router is not None and not self._is_killed:
            await self._router.stop()
        finish_flush = self._quorum.finish_flush if self._quorum is not None else None
        await self._storage.close(finish_flush, is_killed=self._is_killed)


def _fixed(endpoint: tuple[str, int]) -> Locator:
    async def locate() -> tuple[str, int]:
        return endpoint

    return locate
