"""`headrace.local()`: a whole cluster inside this process, with real sockets and real files.

One background thread with one event loop runs a controller and the storage nodes, the same servers that
run on Ray. A server that fails takes the cluster down, and every further use says why.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..controller.config import ControllerConfig
from ..controller.controller_io import ControllerServer
from ..protocol.errors import ApiTimeoutError, ClosedError
from ..runtime.loop_thread_io import LoopThread
from ..storage_node.config import NodeConfig
from ..storage_node.node_io import NodeServer
from .server_config import split_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from ..clients.sync.admin_io import Admin
    from ..clients.sync.consumer_io import Consumer
    from ..clients.sync.producer_io import Producer

log = logging.getLogger("headrace.local")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class LocalCluster:
    """A running cluster in this process; use it as a context manager, or call `close`."""

    def __init__(self, nodes: int, data_dir: str | None, config: Mapping[str, Any]) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one storage node, not {nodes}")
        node_pairs, controller_pairs = split_config(config)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="headrace-")
            data_dir = self._temporary.name
        self.data_dir = Path(data_dir).absolute()
        self._cores = _Servers(self.data_dir, nodes, node_pairs, controller_pairs)
        self._is_closed = False
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

    def producer(self, **options: Any) -> Producer[Any, Any]:
        """A producer of this cluster; the options are those of `headrace.Producer`."""
        from ..clients.sync.producer_io import Producer

        return Producer(self.bootstrap, **options)

    def consumer(self, *topics: str, **options: Any) -> Consumer[Any, Any]:
        """A consumer of this cluster; the options are those of `headrace.Consumer`."""
        from ..clients.sync.consumer_io import Consumer

        return Consumer(*topics, bootstrap=self.bootstrap, **options)

    def admin(self, **options: Any) -> Admin:
        """An admin client of this cluster."""
        from ..clients.sync.admin_io import Admin

        return Admin(self.bootstrap, **options)

    def restart_node(self, index: int) -> None:
        """Stop storage node `index` (from 0) cleanly, unless it was killed; start it over the same files."""
        self._raise_if_over()
        self._thread.call(self._cores.restart_node(index), START_TIMEOUT_S)

    def kill_node(self, index: int) -> None:
        """End storage node `index` (from 0) as a crash would; `restart_node` brings it back."""
        self._raise_if_over()
        self._thread.call(self._cores.kill_node(index), STOP_TIMEOUT_S)

    def restart_controller(self) -> None:
        """Stop the controller cleanly and start it again over the same files."""
        self._raise_if_over()
        self._thread.call(self._cores.restart_controller(), START_TIMEOUT_S)

    def status(self) -> dict[str, Any]:
        """What every server says about itself, JSON-able."""
        self._raise_if_over()
        return self._thread.call(self._cores.status(), STOP_TIMEOUT_S)

    def close(self) -> None:
        """Stop every server and remove a temporary data dir; safe to call again.

        Errors: ClosedError when a server had failed before.
        """
        if self._is_closed:
            return
        self._shut_down()
        if self._cores.failure is not None:
            raise self._failed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._shut_down()  # the body's own error is the news; a server failure was logged

    def _wait_ready(self) -> None:
        if not self._cores.settled.wait(START_TIMEOUT_S):
            raise ApiTimeoutError(f"the local cluster did not start within {START_TIMEOUT_S:.0f} s")
        if self._cores.failure is not None:
            raise self._cores.failure

    def _shut_down(self) -> None:
        self._is_closed = True
        self._thread.wake(self._cores.closing.set)
        is_over = self._thread.join(STOP_TIMEOUT_S)
        if self._temporary is not None:
            self._temporary.cleanup()
        if not is_over:
            raise ApiTimeoutError(f"the local cluster did not stop within {STOP_TIMEOUT_S:.0f} s")

    def _raise_if_over(self) -> None:
        if self._is_closed:
            raise ClosedError("the local cluster was closed")
        if self._cores.failure is not None:
            raise self._failed()

    def _failed(self) -> ClosedError:
        error = ClosedError(f"the local cluster has failed: {self._cores.failure!r}")
        error.__cause__ = self._cores.failure
        return error


class _Servers:
    """The servers of one local cluster; everything but `ended` runs on its event loop."""

    def __init__(
        self, data_dir: Path, nodes: int, node_pairs: dict[str, Any], controller_pairs: dict[str, Any]
    ) -> None:
        self._controller_config = ControllerConfig.of(
            {**controller_pairs, "metadata.log.dir": str(data_dir / "controller-1")}
        )
        self._node_configs = [
            NodeConfig.of({**node_pairs, "node.id": index, "log.dirs": str(data_dir / f"node-{index}")})
            for index in range(1, nodes + 1)
        ]
        self.settled = threading.Event()
        self.closing = asyncio.Event()
        self.failure: BaseException | None = None
        self._nodes: list[NodeServer] = []
        self._runs: dict[NodeServer | ControllerServer, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup
        self._controller: ControllerServer

    async def run(self) -> None:
        """Start all, serve until `closing`, stop all. Errors: those of a server, which end the others."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._start_controller()
                self._nodes = [self._new_node(config) for config in self._node_configs]
                await asyncio.gather(*(self._start(node) for node in self._nodes))
                self.settled.set()
                await self.closing.wait()
                await asyncio.gather(*(self._stop(node) for node in self._nodes))
                await self._stop(self._controller)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group

    def ended(self, failure: BaseException | None) -> None:
        """How the loop ended; called once, on its thread."""
        self.failure = failure
        if failure is not None and self.settled.is_set():
            log.critical("the local cluster has failed: %r", failure, exc_info=failure)
        self.settled.set()

    def bootstrap(self) -> str:
        """Addresses of the nodes; they do not change once the cluster is ready."""
        return ",".join(f"{node.host}:{node.port}" for node in self._nodes)

    async def status(self) -> dict[str, Any]:
        """Controller and nodes."""
        return {"controller": self._controller.status(), "nodes": [node.status() for node in self._nodes]}

    async def restart_node(self, index: int) -> None:
        """A fresh server over the files of an old one."""
        await self._stop(self._nodes[index])
        self._nodes[index] = self._new_node(self._node_configs[index])
        await self._start(self._nodes[index])

    async def kill_node(self, index: int) -> None:
        """No farewell, no flush, no clean marker."""
        node = self._nodes[index]
        await node.kill()
        await self._runs.pop(node)

    async def restart_controller(self) -> None:
        """The nodes find the new one through `_locate`."""
        await self._stop(self._controller)
        await self._start_controller()

    async def _start_controller(self) -> None:
        self._controller = ControllerServer(self._controller_config)
        await self._start(self._controller)

    def _new_node(self, config: NodeConfig) -> NodeServer:
        return NodeServer(config, self._locate)

    async def _locate(self) -> tuple[str, int]:
        return self._controller.host, self._controller.port

    async def _start(self, server: NodeServer | ControllerServer) -> None:
        await server.start()
        self._runs[server] = self._tasks.create_task(server.run())

    async def _stop(self, server: NodeServer | ControllerServer) -> None:
        run = self._runs.pop(server, None)
        if run is not None:  # it was not killed
            await server.stop()
            await run


def local(nodes: int = 1, data_dir: str | None = None, **config: Any) -> LocalCluster:
    """Start a cluster of `nodes` storage nodes inside this process; it is ready when this returns.

    Without `data_dir` its files are temporary and go with it; with one, the next `local` on the same
    folder finds them. `config` takes keys of storage nodes and controller with underscores.
    Errors: ConfigError for unknown keys; whatever kept a server from starting.
    """
    return LocalCluster(nodes, data_dir, config)
