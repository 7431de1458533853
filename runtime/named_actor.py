"""Servers as named Ray actors: actor options, discovery by name, and cached endpoints for GCS outages.

Only modules of actors import this one, because it imports Ray.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorDiedError, RayError

from ..protocol.errors import HeadraceError, NetworkError
from .incarnation import incarnation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger("headrace.host")

ASK_TIMEOUT_S = 2.0


class ActorFinder:
    """The endpoint of a server, requested from its actor on a thread, and cached for times when Ray is down.

    Invariant: at most one request is in flight. A lookup by name blocks while Ray's GCS is down, without a
    timeout; the last known endpoint is returned then, at once.
    """

    def __init__(self, ask: Callable[[], tuple[str, int]], timeout_s: float = ASK_TIMEOUT_S) -> None:
        self._ask, self._timeout_s = ask, timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="actor-finder")
        self._question: asyncio.Future[tuple[str, int]] | None = None
        self._last_known: tuple[str, int] | None = None

    async def __call__(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) if no endpoint is known."""
        if self._question is None or self._question.done():
            self._question = asyncio.get_running_loop().run_in_executor(self._thread, self._ask)
            self._question.add_done_callback(_mark_retrieved)
        question = self._question
        try:
            # not wait_for, which loses a cancellation that coincides with the result (Python 3.11)
            async with asyncio.timeout(self._timeout_s):
                self._last_known = await asyncio.shield(question)
        except (RayError, HeadraceError, ValueError, TimeoutError) as error:
            if self._last_known is None:
                raise NetworkError(f"the endpoint of the server is not known yet: {error!r}") from error
            log.info("a server's actor does not answer, using its last known endpoint: %r", error)
        return self._last_known


def own_incarnation_id() -> bytes:
    """The incarnation id of this process, from Ray's ids of the machine and the worker; see `incarnation`."""
    context = ray.get_runtime_context()
    return incarnation_of(bytes.fromhex(context.get_node_id()), bytes.fromhex(context.get_worker_id()))


def _mark_retrieved(question: asyncio.Future[tuple[str, int]]) -> None:
    """A response after its request timed out is not an unretrieved exception."""
    if not question.cancelled():
        question.exception()


class ActorEndpoint:
    """Requests an actor's endpoint by name; the handle is looked up once and kept."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name
        self._handle: Any = None

    def __call__(self) -> tuple[str, int]:
        """Blocks. Errors: RayError, ValueError (no such actor), NetworkError while it starts."""
        if self._handle is None:
            self._handle = ray.get_actor(self._name, self._namespace)
        try:
            host, port = ray.get(self._handle.endpoint.remote(), timeout=ASK_TIMEOUT_S)
        except ActorDiedError:
            self._handle = None  # permanently gone: another actor may have the name next time
            raise
        return host, port


def own_address() -> str:
    """The address of this machine within the Ray cluster."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def detached(name: str, namespace: str, resources: Mapping[str, float]) -> dict[str, Any]:
    """Options of an actor that outlives its driver and is found by name: the running one, or a new one.

    `resources`: resources that only the machine with its disk has, so that a restart finds its data.
    """
    return {
        "name": name,
        "namespace": namespace,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": 0,  # a retry would repeat a control call that may have taken effect
        "max_concurrency": 16,
        "num_cpus": 0.01,  # the scheduler reserves it; a busy node takes about one core
        "resources": dict(resources),
    }
