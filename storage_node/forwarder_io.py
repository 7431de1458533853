"""Requests that a storage node does not answer itself: to the controller, and back to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import KafkaError, NotControllerError
from ..runtime.clock_io import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.transport.peers import Request
    from ..protocol.transport.router_io import Router
    from ..runtime.shell_io import TaskOwner
    from .controller_link_io import ControllerLink
    from .node import StorageNode

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 300_000
# Bound: how long an answer from the controller waits for this node's own image to show what was done.
MAX_METADATA_LAG_MS = 5_000


class Forwarder:
    """One task per request under way; the link bounds how many."""

    def __init__(
        self,
        link: ControllerLink,
        router: Router,
        core: StorageNode,
        tasks: TaskOwner,
        perform: Callable[[], None],
    ) -> None:
        self._link = link
        self._router = router
        self._core = core
        self._tasks = tasks
        self._perform = perform

    def start(self, request: Request) -> None:
        """Send the request on; it is answered later."""
        if self._tasks.is_stopping:
            self._router.reply_error(request, NotControllerError("this node is stopping"))
            return
        self._tasks.spawn(self._forward(request), f"forward {request.api.name}")

    async def _forward(self, request: Request) -> None:
        """Ask the controller, then wait until this node shows what was done there."""
        asked_ms = getattr(request.body, "timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_s = min(max(asked_ms, 1), MAX_TIMEOUT_MS) / 1000
        try:
            response = await self._link.forward(request.api, request.raw_body, timeout_s)
            offset = getattr(response.body, "metadata_offset", -1)
            deadline_ms = monotonic_ms() + MAX_METADATA_LAG_MS
            self._core.when_metadata_reaches(
                offset, lambda: self._router.reply(request, response.body), deadline_ms
            )
        except KafkaError as error:
            self._router.reply_error(request, error)
        self._perform()
