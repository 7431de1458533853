"""Connections for followers' fetches: one to each leader, opened on demand.

A broken connection, or a leader without a response for `RESPONSE_TIMEOUT_S`, fails all fetches in flight
there; the core decides when to retry, and the next fetch opens a new connection.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, NetworkError
from ...protocol.messages import registry
from ...protocol.security.server_keys import NODE, ServerName
from ...protocol.transport.dealer_io import Connection
from ...runtime.limited_log_io import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.data import FetchResponse
    from ...protocol.records.header import Buffer
    from ...protocol.transport.dealer_io import Response
    from ...protocol.transport.security import ConnectionSecurity
    from ...runtime.shell_io import TaskOwner
    from ..effects import SendFetch

log = logging.getLogger("headrace.storage_node")

OPEN_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0  # as Kafka's replica.socket.timeout.ms


@dataclass(slots=True, eq=False)
class _Link:
    """The connection to one leader, or the fetches that wait until it is open."""

    connection: Connection | None = None
    waiting: list[SendFetch] = field(default_factory=list)


class FetcherLinks:
    """Sends fetches, and reports each of them once: answered or failed."""

    def __init__(
        self,
        endpoint_of: Callable[[int], tuple[str, int] | None],
        answered: Callable[[SendFetch, FetchResponse, Sequence[Buffer]], None],
        failed: Callable[[SendFetch], None],
        tasks: TaskOwner,
        security: ConnectionSecurity | None = None,
    ) -> None:
        self._security = security
        self._endpoint_of = endpoint_of
        self._answered = answered
        self._failed = failed
        self._tasks = tasks
        self._log = LimitedLog(log)
        self._links: dict[int, _Link] = {}
        self._is_closed = False

    def send(self, effect: SendFetch, client_id: str) -> None:
        """Send the fetch, once the connection is open."""
        if self._is_closed or self._tasks.is_stopping:
            return
        leader = effect.where[0]
        link = self._links.get(leader)
        if link is None:
            link = self._links[leader] = _Link()
            self._tasks.spawn(self._open(leader, link, client_id), f"connect to node {leader}")
        if link.connection is None:
            link.waiting.append(effect)
        else:
            self._submit(link.connection, effect)

    def close(self) -> None:
        """Close all connections; no fetch is reported any more."""
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            if link.connection is not None:
                link.connection.close(0)

    async def _open(self, leader: int, link: _Link, client_id: str) -> None:
        try:
            endpoint = self._endpoint_of(leader)
            if endpoint is None:
                raise NetworkError(f"node {leader} is not registered")
            connection = await Connection.open(
                *endpoint,
                client_id=client_id,
                timeout_s=OPEN_TIMEOUT_S,
                security=self._security,
                server=str(ServerName(NODE, leader)),
            )
        except (HeadraceError, OSError) as error:
            self._log.log(
                logging.INFO,
                f"cannot connect to leader {leader}",
                "cannot connect to leader %d to fetch from it: %r",
                leader,
                error,
            )
            self._give_up(leader, link)
            return
        if self._is_closed:
            connection.close(0)
            return
        link.connection = connection
        connection.on_close = lambda: self._give_up(leader, link)
        waiting, link.waiting = link.waiting, []
        for effect in waiting:
            self._submit(connection, effect)

    def _give_up(self, leader: int, link: _Link) -> None:
        """Close the connection, and fail the fetches that wait for it; the next fetch opens another one."""
        if self._links.get(leader) is link:
            del self._links[leader]
        if link.connection is not None:
            link.connection.close(0)
        waiting, link.waiting = link.waiting, []
        for effect in waiting:
            self._failed(effect)

    def _submit(self, connection: Connection, effect: SendFetch) -> None:
        future = connection.send(registry.FETCH, effect.request)
        timeout = asyncio.get_running_loop().call_later(RESPONSE_TIMEOUT_S, connection.close, 0)
        done = functools.partial(self._done, connection, effect, timeout)
        future.add_done_callback(self._tasks.guarded(done))

    def _done(
        self,
        connection: Connection,
        effect: SendFetch,
        timeout: asyncio.TimerHandle,
        future: asyncio.Future[Response],
    ) -> None:
        timeout.cancel()
        if future.cancelled():
            return
        error: Any = future.exception()
        if self._is_closed:
            return
        if error is None:
            response = future.result()
            self._answered(effect, response.body, response.frames)
            return
        if not isinstance(error, NetworkError):
            node_id = effect.where[0]
            self._log.warning(
                f"leader {node_id} refused a fetch",
                "leader %d refused a fetch of this follower: %r",
                node_id,
                error,
            )
        link = self._links.get(effect.where[0])
        if link is not None and link.connection is connection and connection.is_closed:
            self._give_up(effect.where[0], link)
        self._failed(effect)
