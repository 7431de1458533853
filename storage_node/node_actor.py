"""A storage node as a Ray actor: hosts a `NodeServer`, which asks the controller actor for its address.

The data plane runs on the node's own event-loop thread over ZeroMQ; actor calls only supervise. The
identity of a node is on its disk: a process that Ray starts again finds its id and its logs there.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorDiedError, RayError

from ..protocol.errors import HeadraceError, NetworkError
from ..runtime.server_host_io import ServerHost, settle_process
from .config import NodeConfig
from .node_io import NodeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger("headrace.node")

ASK_TIMEOUT_S = 2.0


class ControllerFinder:
    """Where the controller listens: asked of its actor on a thread, remembered for when Ray is away.

    Invariant: at most one question is under way. A look-up by name blocks while Ray's GCS is away, with
    no timeout; then the last known endpoint is the answer, at once.
    """

    def __init__(self, ask: Callable[[], tuple[str, int]], timeout_s: float = ASK_TIMEOUT_S) -> None:
        self._ask, self._timeout_s = ask, timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="controller-finder")
        self._question: asyncio.Future[tuple[str, int]] | None = None
        self._last_known: tuple[str, int] | None = None

    async def __call__(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) when no answer is known."""
        if self._question is None or self._question.done():
            self._question = asyncio.get_running_loop().run_in_executor(self._thread, self._ask)
            self._question.add_done_callback(_mark_retrieved)
        question = self._question
        try:
            # not wait_for, which swallows a cancellation that comes together with the answer (Python 3.11)
            async with asyncio.timeout(self._timeout_s):
                self._last_known = await asyncio.shield(question)
        except (RayError, HeadraceError, ValueError, TimeoutError) as error:
            if self._last_known is None:
                raise NetworkError(f"the controller is not known yet: {error!r}") from error
            log.info("the controller actor does not answer, trying its last known address: %r", error)
        return self._last_known


def _mark_retrieved(question: asyncio.Future[tuple[str, int]]) -> None:
    """An answer that came after its asker gave up is not an error that nobody looked at."""
    if not question.cancelled():
        question.exception()


class ControllerActorLink:
    """Asks the controller actor for its endpoint; the handle is looked up once and kept."""

    def __init__(self, namespace: str, controller_name: str) -> None:
        self._namespace, self._controller_name = namespace, controller_name
        self._handle: Any = None

    def __call__(self) -> tuple[str, int]:
        """Blocks. Errors: RayError, ValueError (no such actor), NetworkError while it starts."""
        if self._handle is None:
            self._handle = ray.get_actor(self._controller_name, self._namespace)
        try:
            host, port = ray.get(self._handle.endpoint.remote(), timeout=ASK_TIMEOUT_S)
        except ActorDiedError:
            self._handle = None  # gone for good: another one may carry the name next time
            raise
        return host, port


class NodeActor:
    """Control surface of one storage node process. All calls are idempotent.

    Errors: ConfigError from the constructor, which Ray reports as the death of the actor for good.
    """

    def __init__(self, name: str, namespace: str, controller_name: str, config: Mapping[str, Any]) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._config = NodeConfig.of({"listener.host": _own_address(), **config})
        link = ControllerActorLink(namespace, controller_name)
        self._host = ServerHost(
            name, lambda: NodeServer(self._config, ControllerFinder(link)), on_ready=settle_process
        )

    def ready(self, timeout_s: float) -> tuple[str, int]:
        """The endpoint, once the node serves. Errors: why it cannot start; ApiTimeoutError."""
        self._host.wait_ready(timeout_s)
        return self.endpoint()

    def endpoint(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) until the node serves."""
        endpoint = self._host.endpoint
        if endpoint is None:
            raise NetworkError("the storage node is starting")
        return endpoint

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able; `state` is starting, running, stopping, stopped or failed."""
        return self._host.status()

    def stop(self, timeout_s: float, delete_data: bool = False) -> None:
        """Shut down cleanly; with `delete_data` the log dirs are removed afterwards."""
        self._host.stop(timeout_s)
        if delete_data:
            for directory in self._config.log_dirs:
                shutil.rmtree(directory, ignore_errors=True)


def _own_address() -> str:
    """The address by which other machines of the Ray cluster reach this one."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def node_name(index: int) -> str:
    """The actor name of storage node `index` (from 1)."""
    return f"node-{index}"


def node_actor(
    index: int,
    namespace: str,
    controller_name: str,
    config: Mapping[str, Any],
    resources: Mapping[str, float],
) -> Any:
    """The handle of storage node `index` of this namespace: the one that runs, or a new one.

    `resources` names what only the machine with the node's disk has, so that a restart finds its data.
    """
    name = node_name(index)
    options: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": 0,  # a retry would repeat a control call that may have taken effect
        "max_concurrency": 16,
        "num_cpus": 0.01,  # the scheduler counts it; a busy node takes about one core
        "resources": dict(resources),
    }
    return ray.remote(NodeActor).options(**options).remote(name, namespace, controller_name, dict(config))
