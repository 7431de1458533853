"""Requests of the node core to other servers, and their responses: fetches from leaders, ISR proposals to the
controller, requests of the embedded coordinators. Also the calls at the end of a turn of the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.model import SERVER_CLIENT_ID
from ...runtime.clock_io import monotonic_ms, wall_ms
from ..replica.fetchers_io import FetcherLinks
from .peers_io import Peers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.control import AlterPartitionRequest
    from ...protocol.messages.data import FetchResponse
    from ...protocol.records.header import Buffer
    from ...runtime.shell_io import TaskOwner
    from ..effects import AskPeer, ProposeIsr, SendFetch
    from ..node import StorageNode
    from .controller_link_io import ControllerLink


class Replication:
    """After `close` nothing is sent and no response reaches the core."""

    def __init__(
        self, core: StorageNode, link: ControllerLink, tasks: TaskOwner, perform: Callable[[], None]
    ) -> None:
        """`perform` performs the core's new effects; it is called after each response."""
        self._core = core
        self._link = link
        self._tasks = tasks
        self._perform = perform
        self._fetchers = FetcherLinks(core.endpoint_of, self._answered, self._failed, tasks, link.security)
        self._peers = Peers(core.endpoint_of, link, tasks, perform, link.security)
        self._is_closed = False

    def send_fetch(self, effect: SendFetch) -> None:
        """Then the core is called with `replica_fetched` or `replica_fetch_failed`."""
        if self._is_open:
            self._fetchers.send(effect, self._client_id)

    def propose_isr(self, effect: ProposeIsr) -> None:
        """Then the core is called with `isr_answered` or `isr_failed`."""
        if self._is_open:
            self._tasks.spawn(self._propose(effect.request), "propose ISRs")

    def ask_peer(self, effect: AskPeer) -> None:
        """Then `effect.answered` is called."""
        if self._is_open:
            self._peers.ask(effect, self._client_id)

    def end_turn_soon(self) -> None:
        """Call the core's `end_turn` behind the callbacks that are ready in the event loop."""
        if self._is_open:
            asyncio.get_running_loop().call_soon(self._tasks.guarded(self._end_turn))

    def close(self) -> None:
        """Close the connections to other nodes."""
        self._is_closed = True
        self._fetchers.close()
        self._peers.close()

    @property
    def _is_open(self) -> bool:
        return not (self._is_closed or self._tasks.is_stopping)

    @property
    def _client_id(self) -> str:
        return f"{SERVER_CLIENT_ID}{self._core.table.node_id}"

    def _answered(self, effect: SendFetch, body: FetchResponse, frames: Sequence[Buffer]) -> None:
        self._core.replica_fetched(effect.where, effect.number, body, frames, monotonic_ms(), wall_ms())
        self._perform()

    def _failed(self, effect: SendFetch) -> None:
        self._core.replica_fetch_failed(effect.where, effect.number, monotonic_ms())
        self._perform()

    def _end_turn(self) -> None:
        if not self._is_closed:
            self._core.end_turn(monotonic_ms(), wall_ms())
            self._perform()

    async def _propose(self, request: AlterPartitionRequest) -> None:
        answer = await self._link.alter_partition(request)
        if self._is_closed:
            return
        if answer is None:
            self._core.isr_failed(monotonic_ms())
        else:
            self._core.isr_answered(answer, monotonic_ms())
        self._perform()
