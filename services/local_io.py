"""`headrace.local()`: a whole cluster inside this process, with real sockets and files.

One background thread with one event loop runs the controllers and storage nodes, the same servers as on Ray.
A server that fails ends the cluster, and every further call reports its error.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from ..clients.losses_io import log_loss, raise_first
from ..clients.sync.cluster_io import ClientFactory
from ..controller.config import ControllerConfig
from ..controller.controller_io import ControllerServer
from ..controller.quorum.voter_changes import MAX_VOTERS
from ..coordinators.assembly import new_coordinators
from ..protocol.errors import ApiTimeoutError, ClosedError
from ..protocol.security.server_keys import CONTROLLER, NODE, ServerName
from ..runtime.config_references_io import resolve_references
from ..runtime.files.files_io import OsFiles, UnsyncedFiles
from ..runtime.loop_thread_io import LoopThread
from ..storage_node.configs.node_config import NodeConfig
from ..storage_node.shell.node_io import NodeServer
from .kafka_listener.assembly import new_kafka_listener
from .key_rotation import KeyRotation
from .native_sasl import NativeMechanisms
from .secure_up_io import make_users
from .server_config import of_controller, of_node, scaled, split_config
from .server_keys_io import ServerKeyFolder
from .telemetry.assembly import new_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from ..clients.sync.admin_io import Admin
    from ..clients.sync.consumer_io import Consumer
    from ..clients.sync.producer_io import Producer
    from ..runtime.files.file_layer import Files
    from ..storage_node.links.leader_search_io import ControllerLocator
    from .local_security import Security

log = logging.getLogger("headrace.local")

START_TIMEOUT_S = 30.0
CLIENTS_TIMEOUT_S = 10.0  # as at the exit of a process
STOP_TIMEOUT_S = 30.0
ROTATE_TIMEOUT_S = 60.0


class LocalCluster(ClientFactory):
    """A running cluster in this process; use it as a context manager, or call `close`."""

    def __init__(
        self,
        nodes: int,
        data_dir: str | None,
        config: Mapping[str, Any],
        controllers: int = 1,
        security: Security | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes must be at least 1, not {nodes}")
        if not 1 <= controllers <= MAX_VOTERS:
            raise ValueError(f"controllers must be within 1..{MAX_VOTERS}, not {controllers}")
        node_pairs, controller_pairs = split_config(resolve_references(config))
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="headrace-")
            data_dir = self._temporary.name
        self.data_dir = Path(data_dir).absolute()
        new_files = OsFiles if self._temporary is None else UnsyncedFiles
        self._security = None if security is None else security.with_admin(secrets.token_urlsafe())
        self._keys = ServerKeyFolder(self.data_dir / "security")
        self._cores = _Servers(
            self.data_dir, nodes, controllers, node_pairs, controller_pairs, new_files, self._security
        )
        self._is_closed = False
        self._clients: WeakSet[Producer[Any, Any] | Consumer[Any, Any] | Admin] = WeakSet()
        self._thread = LoopThread("headrace-local", self._cores.run, self._cores.ended)
        self._thread.start()
        try:
            self._wait_ready()
        except BaseException:
            self._shut_down()
            raise

    @property
    def bootstrap(self) -> str:
        """host:port of every storage node, for clients."""
        self._raise_if_over()
        return self._cores.bootstrap()

    @property
    def kafka_bootstrap(self) -> str:
        """host:port of every storage node for Kafka clients; needs the config key `listeners`."""
        self._raise_if_over()
        return self._cores.kafka_bootstrap()

    @property
    def server_public_key(self) -> str:
        """The public key of the first storage node, for clients; only with `security`."""
        self._raise_if_over()
        return self._keys.trusted().keys_of(str(ServerName(NODE, 1)))[0].hex()

    def client_config(self, username: str = "", password: str = "") -> dict[str, Any]:
        """The config of a client that the cluster does not make, but for its bootstrap; without a user name
        that of the cluster's own user `admin`."""
        given = {"sasl.username": username, "sasl.password": password} if username else {}
        return {**given, **self._config_of_client(given, {})}

    def rotate_server_keys(self) -> None:
        """Give each server a new key pair, one after the other; each is restarted. Errors: RotationError;
        the next call continues."""
        self._raise_if_over()
        KeyRotation(self._keys, _LocalServers(self), log.info, ROTATE_TIMEOUT_S).run()

    def restart_node(self, index: int) -> None:
        """Stop storage node `index` (from 0) cleanly, unless it was killed, and start it with the same
        files."""
        self._raise_if_over()
        self._thread.call(self._cores.restart_node(index), START_TIMEOUT_S)

    def stop_node(self, index: int) -> None:
        """Stop storage node `index` (from 0) cleanly; `restart_node` starts it again."""
        self._raise_if_over()
        self._thread.call(self._cores.stop_node(index), STOP_TIMEOUT_S)

    def kill_node(self, index: int) -> None:
        """End storage node `index` (from 0) as a crash would; `restart_node` starts it again."""
        self._raise_if_over()
        self._thread.call(self._cores.kill_node(index), STOP_TIMEOUT_S)

    def restart_controller(self, index: int = 0) -> None:
        """Stop controller `index` (from 0) cleanly, unless it was killed, and start it with the same
        files."""
        self._raise_if_over()
        self._thread.call(self._cores.restart_controller(index), START_TIMEOUT_S)

    def kill_controller(self, index: int) -> None:
        """End controller `index` (from 0) as a crash would; `restart_controller` starts it again."""
        self._raise_if_over()
        self._thread.call(self._cores.kill_controller(index), STOP_TIMEOUT_S)

    def active_controller(self) -> int | None:
        """The index (from 0) of the active controller, or None."""
        self._raise_if_over()
        return self._thread.call(self._cores.active_controller(), STOP_TIMEOUT_S)

    def status(self) -> dict[str, Any]:
        """The status of every server, JSON-able."""
        self._raise_if_over()
        return self._thread.call(self._cores.status(), STOP_TIMEOUT_S)

    def close(self) -> None:
        """Close the clients that this cluster created, stop every server and remove a temporary data dir;
        idempotent.

        Errors: ClosedError if a server failed before; else the first error of a client's `close`, after all
        servers have stopped.
        """
        if self._is_closed:
            return
        errors = self._shut_down()
        if self._cores.failure is not None:
            raise self._failed()
        raise_first(errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            # the body's own exception takes precedence; a server failure was logged
            for lost in self._shut_down():
                log_loss(lost)

    def _wait_ready(self) -> None:
        if not self._cores.settled.wait(START_TIMEOUT_S):
            raise ApiTimeoutError(f"the local cluster did not start within {START_TIMEOUT_S:.0f} s")
        if self._cores.failure is not None:
            raise self._cores.failure

    def _target(self) -> str:
        return self.bootstrap

    def _config_of_client(
        self, config: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        own = dict(config or {})
        if self._security is None:
            return own
        return {**self._security.client_config(str(self._keys.trusted_file), {**own, **options}), **own}

    def _made(self, client: Producer[Any, Any] | Consumer[Any, Any] | Admin) -> None:
        self._clients.add(client)

    def _close_clients(self) -> list[BaseException]:
        """Close all clients and return their errors. Order: before the servers, which answer flushes and
        commits."""
        ends_at = time.monotonic() + CLIENTS_TIMEOUT_S
        errors: list[BaseException] = []
        for client in list(self._clients):
            try:
                client.close(max(ends_at - time.monotonic(), 0))
            except Exception as error:  # noqa: BLE001 - raised by `close` after the servers have stopped
                errors.append(error)
        return errors

    def _shut_down(self) -> list[BaseException]:
        """Stop everything; returns the errors of clients."""
        self._is_closed = True
        errors = self._close_clients() if self._cores.failure is None else []
        self._thread.wake(self._cores.closing.set)
        is_over = self._thread.join(STOP_TIMEOUT_S)
        if self._temporary is not None:
            self._temporary.cleanup()
        if not is_over:
            raise ApiTimeoutError(f"the local cluster did not stop within {STOP_TIMEOUT_S:.0f} s")
        return errors

    def _raise_if_over(self) -> None:
        if self._is_closed:
            raise ClosedError("the local cluster is closed")
        if self._cores.failure is not None:
            raise self._failed()

    def _failed(self) -> ClosedError:
        error = ClosedError(f"a server of the local cluster failed: {self._cores.failure!r}")
        error.__cause__ = self._cores.failure
        return error


class _LocalServers:
    """See RunningServers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def statuses(self) -> dict[ServerName, dict[str, Any]]:
        facts = self._cluster.status()
        controllers = {ServerName(CONTROLLER, each["controller_id"]): each for each in facts["controllers"]}
        return controllers | {ServerName(NODE, each["node_id"]): each for each in facts["nodes"]}

    def restart(self, name: ServerName) -> None:
        restart = self._cluster.restart_controller if name.kind == CONTROLLER else self._cluster.restart_node
        restart(name.id - 1)


class _Servers:
    """The servers of one local cluster; everything except `ended` runs on its event loop."""

    def __init__(
        self,
        data_dir: Path,
        nodes: int,
        controllers: int,
        node_pairs: dict[str, Any],
        controller_pairs: dict[str, Any],
        new_files: Callable[[], Files],
        security: Security | None = None,
    ) -> None:
        self._new_files = new_files
        self._security = security
        # A quorum needs its majority: at least as many controllers as have data, whatever was asked for.
        there = max((int(path.name[11:]) for path in data_dir.glob("controller-[1-9]")), default=1)
        self._controller_configs = [
            ControllerConfig.of(
                {
                    "controller.quorum.auto.join.enable": True,
                    **of_controller(controller_pairs, index),
                    "metadata.log.dir": str(data_dir / f"controller-{index}"),
                    **self._secured(data_dir, ServerName(CONTROLLER, index)),
                }
            )
            for index in range(1, max(controllers, there) + 1)
        ]
        # a single process has no other members to wait for; Kafka's quickstart config does the same
        delays = {"group.initial.rebalance.delay.ms": 0, "group.streams.initial.rebalance.delay.ms": 0}
        node_pairs = {**delays, **scaled(node_pairs, nodes)}
        self._node_configs = [
            NodeConfig.of(
                {
                    **of_node(node_pairs, index, str(data_dir / f"node-{index}")),
                    **self._secured(data_dir, ServerName(NODE, index)),
                }
            )
            for index in range(1, nodes + 1)
        ]
        self.settled = threading.Event()
        self.closing = asyncio.Event()
        self.failure: BaseException | None = None
        self._nodes: list[NodeServer] = []
        self._runs: dict[NodeServer | ControllerServer, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup
        self._controllers: list[ControllerServer] = []

    async def run(self) -> None:
        """Start all servers, serve until `closing`, stop all. Errors: those of a server, which ends the
        others."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                # Order: a node that its configuration does not allow is known before a controller runs.
                self._nodes = [self._new_node(config) for config in self._node_configs]
                await self._start_controllers()
                await asyncio.gather(*(self._start(node) for node in self._nodes))
                if self._security is not None and self._security.users:
                    node = self._nodes[0]
                    await make_users(node.host, node.port, self._security, node.connections)
                self.settled.set()
                await self.closing.wait()
                await asyncio.gather(*(self._stop(node) for node in self._nodes))
                for controller in self._controllers:
                    await self._stop(controller)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group

    def _secured(self, data_dir: Path, name: ServerName) -> dict[str, Any]:
        """The config of security of a server, whose keys are made."""
        if self._security is None:
            return {}
        folder = ServerKeyFolder(data_dir / "security")
        folder.make([name])
        return {"native.security.protocol": self._security.protocol, **folder.config_of(name)}

    def ended(self, failure: BaseException | None) -> None:
        """Record how the loop ended; called once, on its thread."""
        self.failure = failure
        if failure is not None and self.settled.is_set():
            log.critical(
                "a server of the local cluster failed, all servers are stopped: %r", failure, exc_info=failure
            )
        self.settled.set()

    def bootstrap(self) -> str:
        """Addresses of the nodes; constant once the cluster is ready."""
        return ",".join(f"{node.host}:{node.port}" for node in self._nodes)

    def kafka_bootstrap(self) -> str:
        """The first Kafka listener of each node; constant once the cluster is ready."""
        first = [each.endpoints[0] for each in self._nodes if each.endpoints]
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in first)

    async def status(self) -> dict[str, Any]:
        """Controllers and nodes; `controller` is the active one, or None."""
        controllers = [self._controller_status(controller) for controller in self._controllers]
        active = await self.active_controller()
        return {
            "controller": None if active is None else controllers[active],
            "controllers": controllers,
            "nodes": [node.status() for node in self._nodes],
        }

    def _controller_status(self, controller: ControllerServer) -> dict[str, Any]:
        if controller not in self._runs:
            return {"controller_id": controller.config.controller_id, "state": "killed"}
        return {"state": "running", **controller.status()}

    async def active_controller(self) -> int | None:
        """The index of the active controller."""
        active = [index for index, each in enumerate(self._controllers) if self._is_deciding(each)]
        return max(active, key=lambda index: self._controllers[index].quorum.epoch, default=None)

    def _is_deciding(self, controller: ControllerServer) -> bool:
        return controller in self._runs and controller.is_active

    async def restart_node(self, index: int) -> None:
        """Start a new server with the files of the old one."""
        await self._stop(self._nodes[index])
        self._nodes[index] = self._new_node(self._node_configs[index])
        await self._start(self._nodes[index])

    async def stop_node(self, index: int) -> None:
        """Stop a node with a controlled shutdown; nothing happens if it does not run."""
        await self._stop(self._nodes[index])

    async def kill_node(self, index: int) -> None:
        """End a node without the closing message, flush or clean-shutdown marker."""
        node = self._nodes[index]
        await node.kill()
        await self._runs.pop(node)

    async def restart_controller(self, index: int) -> None:
        """Restart a controller; the others find it through its locator."""
        await self._stop(self._controllers[index])
        self._controllers[index] = self._new_controller(index)
        await self._start(self._controllers[index])

    async def kill_controller(self, index: int) -> None:
        """End a controller without the closing message or flush."""
        controller = self._controllers[index]
        await controller.kill()
        await self._runs.pop(controller)

    async def _start_controllers(self) -> None:
        """Order: the quorum is formed once, when all of its disks are empty."""
        self._controllers = [self._new_controller(index) for index in range(len(self._controller_configs))]
        for controller in self._controllers:
            await self._start(controller)
        if all(controller.is_blank for controller in self._controllers):
            voters = [controller.describe_voter() for controller in self._controllers]
            self._controllers[0].begin(voters)

    def _new_controller(self, index: int) -> ControllerServer:
        others = [other for other in range(len(self._controller_configs)) if other != index]
        bootstrap = tuple(self._locator(other) for other in others)
        config = self._controller_configs[index]
        return ControllerServer(config, self._new_files(), bootstrap, new_telemetry)

    def _new_node(self, config: NodeConfig) -> NodeServer:
        locators = tuple(self._locator(index) for index in range(len(self._controller_configs)))
        return NodeServer(
            config,
            locators,
            self._new_files(),
            new_coordinators,
            new_kafka_listener,
            NativeMechanisms,
            new_telemetry,
        )

    def _locator(self, index: int) -> ControllerLocator:
        async def locate() -> tuple[str, int]:
            return self._controllers[index].host, self._controllers[index].port

        return locate

    async def _start(self, server: NodeServer | ControllerServer) -> None:
        await server.start()
        self._runs[server] = self._tasks.create_task(server.run())

    async def _stop(self, server: NodeServer | ControllerServer) -> None:
        run = self._runs.pop(server, None)
        if run is not None:  # None after a kill
            await server.stop()
            await run


def local(
    nodes: int = 1,
    data_dir: str | None = None,
    controllers: int = 1,
    security: Security | None = None,
    **config: Any,
) -> LocalCluster:
    """Start a cluster of `nodes` storage nodes inside this process; it is ready when this returns.

    `controllers` form a quorum, which tolerates the loss of a minority. Without `data_dir` the files are
    temporary; otherwise the next `local` with the same folder uses them again. `security`: encryption and
    users of the native listeners, none without. `config` takes keys of storage nodes and controllers with
    underscores. Errors: ConfigError for unknown keys; any error that prevents the
    start of a server.
    """
    return LocalCluster(nodes, data_dir, config, controllers, security)
