"""What all clients of one cluster share on one event loop: connections, metadata, tasks, clocks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ClosedError, HeadraceError, KafkaError, NetworkError
from ...runtime.clock_io import monotonic_ms, wall_ms
from .metadata_io import MetadataService
from .network_io import ZmqNetwork
from .tasks_io import Tasks

if TYPE_CHECKING:
    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ..config import ConnectionConfig
    from .network import Network, OnDone, Reply

log = logging.getLogger("headrace.client")


class Engine(Protocol):
    """The part of a client that lives on the loop."""

    def fail(self, reason: HeadraceError) -> None:
        """Nothing works any more: tell everyone who waits."""


class Hub:
    """Made inside the running loop that it serves; everything in it is used on that loop only."""

    def __init__(
        self,
        network: Network,
        bootstrap: str | None,
        config: ConnectionConfig,
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        wall_ms: Callable[[], int] = wall_ms,
        random: Random | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.network, self.now_ms, self.wall_ms = network, now_ms, wall_ms
        self.random = random if random is not None else Random()  # noqa: S311 - jitter, not secrets
        self.tasks = Tasks(self._task_failed)
        self.metadata = MetadataService(
            network,
            bootstrap,
            max_age_ms=config.metadata_max_age_ms,
            now_ms=now_ms,
            random=self.random,
            tasks=self.tasks,
        )
        self.failure: HeadraceError | None = None
        self._engines: dict[Engine, None] = {}
        self.metadata.start()

    def join(self, engine: Engine) -> None:
        """Register a client's engine, to be told when everything ends."""
        if self.failure is not None:
            raise self.failure
        self._engines[engine] = None

    def leave(self, engine: Engine) -> None:
        """Forget it."""
        self._engines.pop(engine, None)

    def submit(
        self,
        node_id: int,
        api: Api,
        body: Any,
        frames: Sequence[Buffer] = (),
        *,
        timeout_ms: int,
        expect_reply: bool = True,
        on_done: OnDone,
    ) -> None:
        """`Network.request` to a node of the cluster, its outcome told by a call: for what is asked often.

        `on_done` is called on the loop, never from inside `submit`, and not after the hub's end. Errors, as
        its second argument: NetworkError for a node that left the cluster; those of `Network.request`.
        """
        node = self.metadata.view.nodes.get(node_id)

        def tell(reply: Reply | None, error: KafkaError | None) -> None:
            if self.failure is not None:
                return  # every engine was told
            try:
                on_done(reply, error)
            except Exception as bug:  # noqa: BLE001 - the shell ends here: nobody else would hear of it
                self.tasks.report(bug)

        async def ask() -> None:
            try:
                if node is None:
                    raise NetworkError(f"node {node_id} left the cluster")
                reply = await self.network.request(
                    node.address, api, body, frames, timeout_ms=timeout_ms, expect_reply=expect_reply
                )
            except KafkaError as error:
                tell(None, error)
            else:
                tell(reply, None)

        is_sent = False
        if node is not None and expect_reply:
            is_sent = self.network.submit(
                node.address, api, body, frames, timeout_ms=timeout_ms, on_done=tell
            )
        if not is_sent:
            self.tasks.spawn(ask())

    async def close(self) -> None:
        """End the tasks and the connections; engines that are still there fail with ClosedError."""
        self._fail(ClosedError("the client was closed"))
        await self.tasks.close()
        await self.network.close()

    def _task_failed(self, error: BaseException) -> None:
        log.critical("a background task of the client failed: %r", error, exc_info=error)
        failure = ClosedError(f"the client ended itself after an internal error: {error!r}")
        failure.__cause__ = error
        self._fail(failure)

    def _fail(self, reason: HeadraceError) -> None:
        if self.failure is not None:
            return
        self.failure = reason
        self.metadata.close(reason)
        for engine in list(self._engines):
            engine.fail(reason)


def zmq_hub(bootstrap: str | None, config: ConnectionConfig) -> Hub:
    """A hub on real sockets, on the running loop."""
    random = Random()  # noqa: S311 - jitter, not secrets
    return Hub(ZmqNetwork(config, monotonic_ms, random), bootstrap, config, random=random)


MakeHub = Callable[["str | None", "ConnectionConfig"], Hub]
