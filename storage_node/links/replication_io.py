"""What the node core asks of other servers: fetches of leaders, ISR changes of the controller, and whatever
its guest wants to know; and back. And when the loop's turn ends, what the guest has put off until then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...runtime.clock_io import monotonic_ms, wall_ms
from ..effects import AskPeer, EndTurn, ProposeIsr, SendFetch
from ..replica.fetchers_io import FetcherLinks
from .peers_io import Peers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.control import AlterPartitionRequest
    from ...protocol.messages.data import FetchResponse
    from ...protocol.records.header import Buffer
    from ...runtime.shell_io import TaskOwner
    from ..node import StorageNode
    from .controller_link_io import ControllerLink


class Replication:
    """Performs these kinds of effects; after `close` nothing comes back any more."""

    def __init__(
        self, core: StorageNode, link: ControllerLink, tasks: TaskOwner, perform: Callable[[], None]
    ) -> None:
        """`perform` does what the core asks for after each event."""
        self._core = core
        self._link = link
        self._tasks = tasks
        self._perform = perform
        self._fetchers = FetcherLinks(core.endpoint_of, self._answered, self._failed, tasks)
        self._peers = Peers(core.endpoint_of, link, tasks, perform)
        self._is_closed = False

    def perform(self, effect: SendFetch | ProposeIsr | AskPeer | EndTurn) -> None:
        """Begin it; its outcome is an event of the core."""
        if self._is_closed or self._tasks.is_stopping:
            return
        if isinstance(effect, EndTurn):
            asyncio.get_running_loop().call_soon(self._tasks.guarded(self._end_turn))
            return
        client_id = f"node-{self._core.replicas.node_id}"
        if isinstance(effect, SendFetch):
            self._fetchers.send(effect, client_id)
        elif isinstance(effect, AskPeer):
            self._peers.ask(effect, client_id)
        else:
            self._tasks.spawn(self._propose(effect.request), "propose ISRs")

    def close(self) -> None:
        """Break the connections to other nodes."""
        self._is_closed = True
        self._fetchers.close()
        self._peers.close()

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
