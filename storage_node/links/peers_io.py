"""Requests of the embedded coordinators to other servers: one connection to each node, opened when it is
needed; requests to the controller use the node's own link.

A connection that breaks fails all its requests in flight with NetworkError; the next request opens another.
The handshake checks that the right node answers: a port may have been reused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError, NetworkError, RequestTimedOutError
from ...protocol.model import NO_NODE
from ...protocol.security.server_keys import NODE, ServerName
from ...protocol.transport.dealer_io import Connection
from ...protocol.transport.wire import encode
from ...runtime.clock_io import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.transport.security import ConnectionSecurity
    from ...runtime.shell_io import TaskOwner
    from ..effects import AskPeer
    from .controller_link_io import ControllerLink

OPEN_TIMEOUT_S = 5.0


class Peers:
    """Performs AskPeer effects; after `close` no response is reported."""

    def __init__(
        self,
        endpoint_of: Callable[[int], tuple[str, int] | None],
        link: ControllerLink,
        tasks: TaskOwner,
        perform: Callable[[], None],
        security: ConnectionSecurity | None = None,
    ) -> None:
        """`perform` performs the core's new effects after each response."""
        self._endpoint_of = endpoint_of
        self._link = link
        self._tasks = tasks
        self._perform = perform
        self._security = security
        self._opening: dict[int, asyncio.Task[Connection]] = {}  # also completed ones, with their connections
        self._is_closed = False

    def ask(self, effect: AskPeer, client_id: str) -> None:
        """Send the request; `answered` is called later, once."""
        if not (self._is_closed or self._tasks.is_stopping):
            self._tasks.spawn(self._ask(effect, client_id), f"ask node {effect.node_id} {effect.api.name}")

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        opening, self._opening = self._opening, {}
        for task in opening.values():
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                task.result().close(0)

    async def _ask(self, effect: AskPeer, client_id: str) -> None:
        outcome: Any
        try:
            outcome = await self._answer(effect, client_id)
        except KafkaError as error:
            outcome = error
        except OSError as error:
            outcome = NetworkError(str(error))
        if not self._is_closed:
            effect.answered(outcome, monotonic_ms(), wall_ms())
            self._perform()

    async def _answer(self, effect: AskPeer, client_id: str) -> Any:
        """The body of the response. Errors: KafkaError, OSError."""
        timeout_s = effect.timeout_ms / 1000
        if effect.node_id == NO_NODE:
            return (await self._link.forward(effect.api, encode(effect.body), timeout_s)).body
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connected(effect.node_id, client_id)
                answer = await connection.request(effect.api, effect.body, effect.frames, timeout_s=timeout_s)
                return answer.body
        except TimeoutError:
            detail = f"node {effect.node_id}: no answer to {effect.api.name} within {timeout_s:g} s"
            raise RequestTimedOutError(detail) from None

    async def _connected(self, node_id: int, client_id: str) -> Connection:
        """The connection to a node. Errors: NetworkError, OSError."""
        opening = self._opening.get(node_id)
        if opening is None or (opening.done() and not _is_usable(opening)):
            opening = self._opening[node_id] = asyncio.ensure_future(self._open(node_id, client_id))
            opening.add_done_callback(_see)  # mark it as retrieved, also if all its callers were cancelled
        # Shielded: other requests may wait for the same connection.
        return await asyncio.shield(opening)

    async def _open(self, node_id: int, client_id: str) -> Connection:
        endpoint = self._endpoint_of(node_id)
        if endpoint is None:
            raise NetworkError(f"node {node_id} is not registered")
        connection = await Connection.open(
            *endpoint,
            client_id=client_id,
            timeout_s=OPEN_TIMEOUT_S,
            security=self._security,
            server=str(ServerName(NODE, node_id)),
        )
        if connection.hello.node_id != node_id or self._is_closed:
            connection.close(0)
            raise NetworkError(f"node {connection.hello.node_id} listens where node {node_id} did")
        return connection


def _see(opening: asyncio.Task[Connection]) -> None:
    if not opening.cancelled():
        opening.exception()


def _is_usable(opening: asyncio.Task[Connection]) -> bool:
    return not opening.cancelled() and opening.exception() is None and not opening.result().is_closed
