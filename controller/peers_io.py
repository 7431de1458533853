"""Connections of a controller to the other controllers: one each, opened for the first request.

A request fails with its connection; the core decides on retries. The handshake checks that the right
controller answers: addresses in the log may be outdated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..protocol.errors import HeadraceError, NetworkError, RequestTimedOutError
from ..protocol.messages import registry
from ..protocol.security.server_keys import CONTROLLER, ServerName
from ..protocol.transport.dealer_io import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.messages.envelope import Api
    from ..protocol.transport.dealer_io import Response
    from ..protocol.transport.security import ConnectionSecurity
    from ..runtime.shell_io import TaskOwner
    from .quorum.voters import Endpoint

log = logging.getLogger("headrace.controller")

Locator = Callable[[], Awaitable[tuple[str, int]]]

QUORUM_APIS: tuple[Api, ...] = (
    registry.VOTE,
    registry.BEGIN_QUORUM_EPOCH,
    registry.END_QUORUM_EPOCH,
    registry.QUORUM_FETCH,
    registry.FETCH_SNAPSHOT,
    registry.DESCRIBE_QUORUM,
    registry.ADD_RAFT_VOTER,
    registry.REMOVE_RAFT_VOTER,
    registry.UPDATE_RAFT_VOTER,
)
_API_OF = {api.request: api for api in QUORUM_APIS}
# A controller that is not at its address in the log is searched at the bootstrap servers, at most this often.
SWEEP_INTERVAL_S = 1.0


class Peers:
    """Sends requests to other controllers. A target is a controller id, or -n for the n-th bootstrap server.

    Bound: the core has at most one request of a kind to a target in flight, and each has a task here.
    """

    def __init__(
        self,
        my_id: int,
        bootstrap: Sequence[Locator],
        tasks: TaskOwner,
        *,
        timeout_s: float,
        endpoint_of: Callable[[int], Endpoint | None],
        on_answer: Callable[[int, Response | None], None],
        security: ConnectionSecurity | None = None,
    ) -> None:
        """`on_answer` gets a correlation id and the response, None if the request failed."""
        self._client_id = f"controller-{my_id}"
        self._bootstrap = tuple(bootstrap)
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._endpoint_of = endpoint_of
        self._on_answer = on_answer
        self._security = security
        self._connections: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Task[Connection]] = {}
        self._sweep_at_s: dict[int, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def send(self, target: int, correlation_id: int, body: Any) -> None:
        """Send a request; `on_answer` is called later."""
        if self._tasks.is_stopping:
            return
        task = self._tasks.spawn(self._ask(target, correlation_id, body), f"ask controller {target}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def settled(self) -> None:
        """Wait until every request sent so far has its outcome."""
        if self._asking:
            await asyncio.wait(set(self._asking))

    def close(self) -> None:
        """Close all connections."""
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    async def _ask(self, target: int, correlation_id: int, body: Any) -> None:
        response = None
        try:
            connection = await self._connected(target)
            response = await connection.request(_API_OF[type(body)], body, timeout_s=self._timeout_s)
        except RequestTimedOutError:
            self._drop(target)  # its machine may be gone: the next request reconnects
        except (HeadraceError, OSError, TimeoutError) as error:
            log.debug("controller %d cannot be asked: %r", target, error)
        self._on_answer(correlation_id, response)

    def _drop(self, target: int) -> None:
        connection = self._connections.pop(target, None)
        if connection is not None:
            connection.close()

    async def _connected(self, target: int) -> Connection:
        connection = self._connections.get(target)
        if connection is not None and not connection.is_closed:
            return connection
        opening = self._opening.get(target)
        if opening is None:
            opening = self._opening[target] = asyncio.ensure_future(self._open(target))
            opening.add_done_callback(lambda task: self._opened(target, task))
        # Shielded: another request may wait for the same connection.
        return await asyncio.shield(opening)

    def _opened(self, target: int, task: asyncio.Task[Connection]) -> None:
        del self._opening[target]
        if task.cancelled() or task.exception() is not None:
            return
        self._connections[target] = task.result()
        if self._tasks.is_stopping:
            self._drop(target)

    async def _open(self, target: int) -> Connection:
        """Errors: NetworkError, and those of the locators."""
        if target < 0:
            return await self._connect(await self._bootstrap[-target - 1]())
        endpoint = self._endpoint_of(target)
        if endpoint is not None and endpoint.port:
            try:
                return await self._connect(endpoint, target)
            except HeadraceError as error:
                failure: Exception = error
        else:
            failure = NetworkError(f"the address of controller {target} is unknown")
        now_s = asyncio.get_running_loop().time()
        if now_s < self._sweep_at_s.get(target, now_s):
            raise failure
        self._sweep_at_s[target] = now_s + SWEEP_INTERVAL_S
        for locate in self._bootstrap:
            try:
                return await self._connect(await locate(), target)
            except (HeadraceError, OSError, TimeoutError) as error:
                log.debug("not controller %d: %r", target, error)
        raise failure

    async def _connect(self, endpoint: tuple[str, int], wanted_id: int | None = None) -> Connection:
        host, port = endpoint
        if not port:
            raise NetworkError("the controller has no port yet")
        connection = await Connection.open(
            host,
            port,
            client_id=self._client_id,
            timeout_s=self._timeout_s,
            security=self._security,
            server=CONTROLLER if wanted_id is None else str(ServerName(CONTROLLER, wanted_id)),
        )
        if wanted_id is not None and connection.hello.node_id != wanted_id:
            found = connection.hello.node_id
            connection.close()
            raise NetworkError(f"controller {found} listens at {host}:{port}, not {wanted_id}")
        return connection
