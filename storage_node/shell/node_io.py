"""The server of a storage node: one event loop around the node core, its sockets, timer and threads.

Only the loop's thread uses the core and the logs, except for recovery at the start. Slow work runs on worker
threads and reports back by a call on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ClosedError, ConfigError, KafkaError, KafkaStorageError
from ...protocol.security.server_keys import NODE, ServerName
from ...protocol.transport.router_io import Router, ServerIdentity
from ...runtime.clock_io import monotonic_ms, wall_ms
from ...runtime.files.files_io import OsFiles
from ...runtime.limited_log_io import LimitedLog
from ...runtime.server_security_io import server_security
from ...runtime.shell_io import TaskOwner, require_assertions
from ...runtime.tracing.handled import noting
from ..edge.authorization import check_open_native_plane, open_native_plane
from ..edge.earlier_ports_io import adopt_registered_ports
from ..edge.forwarder_io import Forwarder
from ..edge.gateway_io import NodeGateway
from ..edge.listener_io import LIVE_KEYS as LISTENER_KEYS
from ..edge.listener_io import bind, router_limits
from ..edge.served_apis import FORWARDED_KEYS, SERVED_APIS
from ..links.controller_link_io import ControllerLink, ControllerLocators, LinkEvents, NodeIdentity
from ..log.log_manager import LogManager
from ..node import StorageNode
from .cleaner_io import CleanerThreads
from .log_loading_io import load_logs, write_identity
from .measuring_io import NodeMeasures
from .node_effects_io import NodeEffects
from .workers_io import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.control import FetchMetadataResponse
    from ...protocol.model import ListenerEndpoint
    from ...protocol.transport.peers import Peer, Request
    from ...protocol.transport.security import ConnectionSecurity, RouterSecurity
    from ...runtime.files.file_layer import Files
    from ...runtime.server_security_io import ServerSecurity
    from ...runtime.telemetry.exporting import Telemetry, TelemetryFactory
    from ..configs.node_config import NodeConfig
    from ..edge.gateway import GatewayFactory
    from ..edge.native_sasl import NativeSasl, SaslProvider
    from ..effects import Note
    from ..embedded.contract import CoordinatorFactory
    from .spans_io import NodeSpans

log = logging.getLogger("headrace.storage_node")

FLUSH_CHECK_S = 1.0  # precision of flush.ms
READER_ROOM_BYTES = (
    64 * 1024
)  # per response, when the pending responses of clients that do not read use all of the limit


class NodeServer:
    """One storage node: `start`, then `run`; `stop` ends `run`, `kill` simulates a crash."""

    def __init__(
        self,
        config: NodeConfig,
        locate_controller: ControllerLocators,
        files: Files | None = None,
        coordinators: CoordinatorFactory | None = None,
        gateway: GatewayFactory | None = None,
        sasl: SaslProvider | None = None,
        telemetry: TelemetryFactory | None = None,
    ) -> None:
        """Without `coordinators` there are no coordinators, without `gateway` no listeners for Kafka
        clients. `sasl`: the mechanisms of native clients. `telemetry`: the exporters."""
        self.host = config.host
        self.port = config.listener_port
        self.node_id = config.node_id
        self.cluster_id = ""
        self.incarnation_id = _new_uuid()  # of this process; the host may set its own before the start
        self._config = config
        self._locate = locate_controller
        self._coordinators = coordinators
        self._files: Files = OsFiles() if files is None else files
        self._tasks = TaskOwner()
        self._log = LimitedLog(log)
        self._manager = LogManager(
            self._files,
            config.log_dirs,
            defaults=config.log_defaults(),
            new_uuid=_new_uuid,
            on_offline=self._on_offline,
            reserve_bytes=config.log_dir_reserve_bytes,
            cordoned_dirs=config.cordoned_log_dirs,
        )
        recovery_threads = config.num_recovery_threads_per_data_dir * len(config.log_dirs)
        self._workers = Workers(
            self._tasks,
            sync_threads=config.background_threads,
            spare_threads=max(2, recovery_threads),
            cold_threads=config.fetch_cold_threads,
        )
        check_open_native_plane(config)
        if warning := open_native_plane(config):
            log.warning("%s", warning)
        self._security = server_security(config, ServerName(NODE, config.node_id))
        self._sasl = sasl
        self._native_sasl: NativeSasl | None = None
        self._gateway = NodeGateway(gateway, config, self._files, self._on_request, self._tasks.fail)
        self._measures = NodeMeasures(config, self._gateway, lambda: (self.node_id, self.cluster_id))
        self._telemetry: Telemetry | None = None if telemetry is None else telemetry(self._measures, config)
        self._identity = ServerIdentity(incarnation=uuid.uuid4().int >> 65)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._router: Router | None = None
        self._core: StorageNode | None = None
        self._link: ControllerLink | None = None
        self._forwarder: Forwarder | None = None
        self._effects: NodeEffects | None = None
        self._cleaners: CleanerThreads | None = None
        self._spans: NodeSpans | None = None
        self._handle: Callable[[Request], None] = self._handle_admitted
        self._is_stopping = False
        self._is_closed = False
        self._released = asyncio.Event()

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover the logs, bind, register and apply the metadata; returns once the node is unfenced.

        Errors, after which everything is released: KafkaStorageError when no log dir is usable or one is
        locked, ConfigError, InconsistentClusterIdError, DuplicateBrokerRegistrationError; ClosedError after a
        stop meanwhile.
        """
        require_assertions()
        try:
            self._loop = asyncio.get_running_loop()
            self.node_id, self.cluster_id = await load_logs(
                self._manager, self._workers, self._config.node_id
            )
            await self._tasks.unless_stopping(
                adopt_registered_ports(
                    self._config, self._files, self.node_id, self._locate, self.connections
                )
            )
            if self._config.enable_tracing:
                self._spans = await self._workers.run(self._open_spans)
                self._handle = noting(self._handle_admitted)
            self._raise_if_stopped(self._is_ending())
            link = self._open()
            link.start()
            await self._until_active(link)
            effects = self._running_effects
            await self._gateway.start(effects.replication, effects.perform)
            if self._telemetry is not None:
                self._telemetry.start()
        except BaseException:
            await self._release()
            raise

    def _open(self) -> ControllerLink:
        """Bind and create the parts. Order: no await, so that no request is handled in between."""
        config, tasks = self._config, self._tasks
        self._identity.cluster_id, self._identity.node_id = self.cluster_id, self.node_id
        router, self.port = bind(config, self._files, self._new_router)
        self._router = router
        if self._spans is not None:
            self._spans.listens_at(config.advertised_port or self.port)
        core = self._core = StorageNode(
            config,
            self._manager,
            replies := self._gateway.replies(router),
            now_ms=monotonic_ms(),
            room=self._response_room,
            coordinators=self._coordinators,
        )
        core.coordinators.note_time(monotonic_ms(), wall_ms())
        core.config.on_change(LISTENER_KEYS, lambda now: router.limit(router_limits(now)))
        core.config.on_change(
            ("background.threads",), lambda now: self._workers.resize(now.background_threads)
        )
        identity = NodeIdentity(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            host=self.host,
            port=config.advertised_port or self.port,
            rack=config.broker_rack or None,
            log_dir_ids=self._manager.dirs.ids,
            previous_end=self._manager.loader.previous_end,
            listeners=self._gateway.bind(core),
        )
        events = LinkEvents(
            self._adopt, self._apply_metadata, lambda: core.image.offset, core.replicas.disks.report
        )
        link = self._link = ControllerLink(config, self._locate, identity, events, tasks, self.connections)
        core.coordinators.lease = link.membership.lease
        core.authorization.known = link.membership.known
        effects = self._effects = NodeEffects(
            core,
            self._workers,
            link,
            tasks,
            is_ending=self._is_ending,
            is_closed=lambda: self._is_closed,
            log=self._log_note,
            spans=self._spans,
        )
        self._forwarder = Forwarder(link, replies, core, tasks, effects.perform, self._gateway.check)
        self._measures.take(core, router, link)
        self._cleaners = CleanerThreads(core, self._workers, tasks, effects.perform)
        tasks.spawn(router.run(), "listener")
        tasks.every(config.checkpoint_interval_ms / 1000, effects.checkpoints.write_all, "checkpoint")
        tasks.every(FLUSH_CHECK_S, self._tick, "flush.ms, lagging followers and retention")
        for purge in self._manager.loader.purge_tasks():  # deletions that a crash interrupted
            effects.start_purge(purge)
        return link

    def _open_spans(self) -> NodeSpans:
        """On a thread: the import of OpenTelemetry and its exporters takes up to a second."""
        from .spans_io import NodeSpans

        return NodeSpans(self._config, self.node_id, self.cluster_id)

    async def _until_active(self, link: ControllerLink) -> None:
        """Wait until the node is unfenced, stopped or has failed."""
        await self._tasks.unless_stopping(link.is_active.wait())
        self._raise_if_stopped(not link.is_active.is_set())

    def _raise_if_stopped(self, is_stopped: bool) -> None:
        if self._tasks.failure is not None:
            raise self._tasks.failure
        if is_stopped:
            raise ClosedError("the node was stopped while it started")

    @property
    def endpoints(self) -> tuple[ListenerEndpoint, ...]:
        """The addresses for Kafka clients."""
        return self._gateway.endpoints

    async def run(self) -> None:
        """Serve until `stop` (returns) or a failure (raises); then everything is released."""
        try:
            await self._tasks.run()
        finally:
            await self._release()

    async def stop(self) -> None:
        """Controlled shutdown: move the leaderships, stop serving, flush, write checkpoints and the marker of
        a clean shutdown. A second call waits for the end of the first."""
        if self._is_ending():
            await self._released.wait()
            return
        self._is_stopping = True
        link = self._link
        if link is not None and not self._tasks.is_stopping:
            link.request_shutdown()
            await self._tasks.unless_stopping(link.may_stop.wait())
        try:
            await self._close_sockets()
            await self._end_jobs()
            if link is not None and self._tasks.failure is None and not self._is_closed:
                await self._workers.run(lambda: self._manager.shutdown(link.broker_epoch))
        finally:
            self._tasks.stop()
            await self._release()

    async def kill(self) -> None:
        """End without closing messages, a flush or a clean shutdown marker; locks are released."""
        self._tasks.stop()
        if self._telemetry is not None:
            self._telemetry.close()
        self._gateway.close()
        if self._router is not None:
            self._router.close()
        await self._release()

    def _is_ending(self) -> bool:
        """Whether a stop or release has begun; to be checked after each await."""
        return self._is_stopping or self._is_closed

    async def _release(self) -> None:
        """Release everything, once; later callers wait for the first."""
        if self._is_closed:
            await self._released.wait()
            return
        self._is_closed = True
        try:
            await self._close_sockets()
            self._tasks.stop()
            await self._end_jobs()
            if self._spans is not None:
                await self._spans.close()
            self._workers.close()
            self._manager.abandon()
        finally:
            self._released.set()

    async def _end_jobs(self) -> None:
        if self._cleaners is not None:
            await self._cleaners.stop()
        await self._workers.finish()

    async def _close_sockets(self) -> None:
        if self._telemetry is not None:
            await self._telemetry.stop()
        if self._effects is not None:
            self._effects.close()
        if self._link is not None:
            self._link.close()
        await self._gateway.stop()
        if self._router is not None:
            await self._router.stop()
        if self._native_sasl is not None:
            self._native_sasl.close()

    # --- the listener ----------------------------------------------------------------------------------

    def _new_router(self, port: int) -> Router:
        limits = router_limits(self._config)
        host = self._config.listener_host
        security = None if self._security is None else self._listener_security(self._security)
        router = Router(host, port, self._gateway.take, SERVED_APIS, self._identity, limits, security)
        router.on_peer_gone = self._on_peer_gone
        router.warn = self._log.warning
        return router

    def _listener_security(self, security: ServerSecurity) -> RouterSecurity:
        def failed_delay_ms() -> int:
            return self._running_core().config.now.connection_failed_authentication_delay_ms

        if not security.has_users:
            return security.of_node(None, {}, failed_delay_ms)
        if self._sasl is None:
            raise ConfigError("native.security.protocol=SASL_SSL: this host has no SASL mechanisms")
        if self._native_sasl is None:
            self._native_sasl = self._sasl(self._config, lambda: self._running_core().image)
        sasl = self._native_sasl
        return security.of_node(sasl.mechanisms, sasl.max_reauth_ms, failed_delay_ms)

    @property
    def connections(self) -> ConnectionSecurity | None:
        """Of connections to other servers."""
        return None if self._security is None else self._security.connections

    def _response_room(self) -> int:
        """The response bytes that one more response may have. At least READER_ROOM_BYTES: the router refuses
        clients that do not read their responses, and they must not block the others."""
        assert self._router is not None, "bound"
        pending = self._router.pending_response_bytes + self._gateway.pending_response_bytes
        left = self._running_core().config.now.queued_max_response_bytes - pending
        return max(left, READER_ROOM_BYTES)

    def _on_request(self, received: Request) -> None:
        meter = self._gateway.requests
        meter.begin(received)
        try:
            self._handle(received)
        except KafkaError as error:
            meter.refused(received, error)
            raise
        finally:
            meter.turned(received)

    def _handle_admitted(self, received: Request) -> None:
        request = self._gateway.admitted(received)
        if request is None:
            return
        if request.api.key in FORWARDED_KEYS:
            assert self._forwarder is not None, "made before the loop reads its first request"
            self._forwarder.start(request)
            return
        self._running_core().handle(request, monotonic_ms(), wall_ms())
        self._perform()

    def _on_peer_gone(self, peer: Peer) -> None:
        self._gateway.peer_gone(peer)
        self._running_core().connection_gone(peer.session, monotonic_ms())
        self._perform()

    # --- the core --------------------------------------------------------------------------------------

    def _running_core(self) -> StorageNode:
        assert self._core is not None, "the node has started"
        return self._core

    @property
    def _running_effects(self) -> NodeEffects:
        assert self._effects is not None, "made with the core"
        return self._effects

    def _perform(self) -> None:
        self._running_effects.perform()

    def _log_note(self, note: Note) -> None:
        self._log.log(note.level, note.text, "node %d: %s", self.node_id, note.text)

    def _tick(self) -> None:
        if self._is_stopping:
            return
        self._measures.tick()
        self._running_core().tick(monotonic_ms(), wall_ms())
        self._perform()

    def _on_offline(self, path: str, reason: str) -> None:
        """A log dir failed; called on the thread that met the error."""
        if self._loop is not None and not self._is_closed:
            lost_dir = self._tasks.guarded(self._lost_dir)
            self._loop.call_soon_threadsafe(lost_dir, KafkaStorageError(f"{path}: {reason}"))

    def _lost_dir(self, error: KafkaStorageError) -> None:
        if self._core is not None and not self._is_closed:
            self._core.disk_failed(error, monotonic_ms())
            self._perform()

    # --- the controller --------------------------------------------------------------------------------

    def _adopt(self, node_id: int, cluster_id: str, controller_id: int) -> None:
        write_identity(self._manager, node_id, cluster_id)
        self.node_id, self.cluster_id = node_id, cluster_id
        self._identity.node_id, self._identity.cluster_id = node_id, cluster_id
        self._running_core().joined(node_id, controller_id)

    async def _apply_metadata(self, response: FetchMetadataResponse) -> int:
        """One step at a time: a new connection may deliver the next one while logs are created for the
        last."""
        core = self._running_core()
        async with self._running_effects.metadata_or_checkpoint:
            step = core.read_metadata(response)
            if step is None or self._link is None:
                return core.image.offset
            broker_epoch = self._link.broker_epoch
            tasks = core.logs_ahead(step, broker_epoch)
            await asyncio.gather(*(self._workers.run(task.run) for task in tasks))
            if self._is_ending():
                return core.image.offset
            offset = core.follow(step, broker_epoch, tasks, now_ms=monotonic_ms())
        self._perform()
        return offset

    # --- for people ------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """JSON-able, for the command line."""
        facts: dict[str, Any] = {
            "node_id": self.node_id,
            "cluster_id": self.cluster_id,
            "endpoint": f"{self.host}:{self.port}",
            "rack": self._config.broker_rack or None,
            "broker_epoch": self._link.broker_epoch if self._link is not None else -1,
            "state": self._link.membership.state.value if self._link is not None else "starting",
            "log_dirs": self._manager.describe_dirs(),
            "connections": self._router.connections if self._router is not None else 0,
            "native": {} if self._router is None else self._router.stats.to_mapping(),
            "security": None if self._security is None else self._security.describe(),
        }
        if self._core is not None:
            facts.update(self._core.status(monotonic_ms()), **self._gateway.status())
        if self._telemetry is not None:
            facts["telemetry"] = self._telemetry.status()
        return facts


def _new_uuid() -> bytes:
    return uuid.uuid4().bytes
