"""The way of followers' fetches to their leaders: one connection to each leader, made when it is needed.

A connection that breaks, or a leader that leaves a fetch unanswered for `SILENCE_S`, fails every fetch under
way there; the core decides when to try again, and the next fetch opens a new connection.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, NetworkError
from ...protocol.messages import registry
from ...protocol.transport.dealer_io import Connection
from ...runtime.limited_log_io import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.data import FetchResponse
    from ...protocol.records.header import Buffer
    from ...protocol.transport.dealer_io import Response
    from ...runtime.shell_io import TaskOwner
    from ..effects import SendFetch

log = logging.getLogger("headrace.storage_node")

OPEN_TIMEOUT_S = 5.0
SILENCE_S = 30.0  # as Kafka's replica.socket.timeout.ms


@dataclass(slots=True, eq=False)
class _Link:
    """The connection to one leader, or the fetches that wait for it."""

    connection: Connection | None = None
    waiting: list[SendFetch] = field(default_factory=list)


class FetcherLinks:
    """Sends, and reports each fetch once: answered, or failed."""

    def __init__(
        self,
        endpoint_of: Callable[[int], tuple[str, int] | None],
        answered: Callable[[SendFetch, FetchResponse, Sequence[Buffer]], None],
        failed: Callable[[SendFetch], None],
        tasks: TaskOwner,
    ) -> None:
        self._endpoint_of = endpoint_of
        self._answered = answered
        self._failed = failed
        self._tasks = tasks
        self._log = LimitedLog(log)
        self._links: dict[int, _Link] = {}
        self._is_closed = False

    def send(self, effect: SendFetch, client_id: str) -> None:
        """Send it, now or once there is a connection."""
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
        """Drop all connections; nothing is reported any more."""
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
            connection = await Connection.open(*endpoint, client_id=client_id, timeout_s=OPEN_TIMEOUT_S)
        except (HeadraceError, OSError) as error:
            self._log.log(
                logging.INFO, f"cannot follow node {leader}", "cannot follow node %d now: %r", leader, error
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
        """The next fetch opens another connection."""
        if self._links.get(leader) is link:
            del self._links[leader]
        if link.connection is not None:
            link.connection.close(0)
        waiting, link.waiting = link.waiting, []
        for effect in waiting:
            self._failed(effect)

    def _submit(self, connection: Connection, effect: SendFetch) -> None:
        future = connection.send(registry.FETCH, effect.request)
        silence = asyncio.get_running_loop().call_later(SILENCE_S, connection.close, 0)
        done = functools.partial(self._done, connection, effect, silence)
        future.add_done_callback(self._tasks.guarded(done))

    def _done(
        self,
        connection: Connection,
        effect: SendFetch,
        silence: asyncio.TimerHandle,
        future: asyncio.Future[Response],
    ) -> None:
        silence.cancel()
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
                f"node {node_id} refused a fetch", "node %d refused a fetch: %r", node_id, error
            )
        link = self._links.get(effect.where[0])
        if link is not None and link.connection is connection and connection.is_closed:
            self._give_up(effect.where[0], link)
        self._failed(effect)
