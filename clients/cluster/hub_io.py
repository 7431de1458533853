"""The hub: connections, metadata, tasks and clocks that all clients of one cluster share on one event
loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ClosedError, HeadraceError, KafkaError, NetworkError
from ...runtime.clock_io import monotonic_ms, wall_ms
from .metadata_io import MetadataService
from .network_io import ZmqNetwork
from .silence import TICK_MS, Pending, Silence
from .tasks_io import Tasks

if TYPE_CHECKING:
    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ..config import ConnectionConfig
    from .metadata import ClusterView, NodeView
    from .network import Address, GiveUp, Network, OnDone, Reply
    from .silence import ExpectedLeader

log = logging.getLogger("headrace.client")


class Engine(Protocol):
    """The part of a client that lives on the loop."""

    def fail(self, reason: HeadraceError) -> None:
        """Fail all pending calls with `reason`, and every further one."""


class Hub:
    """Made on a running loop, and used on that loop only."""

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
        self.client_id = config.client_id
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
        self._silence = Silence()
        self._ticker: asyncio.TimerHandle | None = None  # while requests are in flight
        self._addresses: set[Address] = set()  # of the nodes in the view
        self._gone: set[Address] = set()  # of nodes of earlier views, which may still have connections
        self.metadata.add_listener(self._on_view)
        self.metadata.start()

    def join(self, engine: Engine) -> None:
        """Register the engine of a client: `fail` is called when the hub ends."""
        if self.failure is not None:
            raise self.failure
        self._engines[engine] = None

    def leave(self, engine: Engine) -> None:
        """Undo `join`."""
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
        wait_ms: int = 0,
        leaders: Callable[[], Iterable[ExpectedLeader]] = tuple,
    ) -> None:
        """`Network.request` to a node of the cluster, with a callback, for frequent requests.

        `on_done` is called on the loop, never from inside `submit`, and not after the end of the hub. Errors,
        as its second argument: NetworkError for a node that left the cluster; those of `Network.request`.

        When a response is overdue, not counting the `wait_ms` for which the node may hold the request, the
        metadata is refreshed from other nodes. Once the node has left, or leads no partition of `leaders` any
        more under its leader epoch, the request fails with NetworkError.
        """
        node = self.metadata.view.nodes.get(node_id)
        if node is None:
            left = NetworkError(f"node {node_id} left the cluster")
            self.loop.call_soon(self._tell, on_done, None, left)
            return

        def on_outcome(reply: Reply | None, error: KafkaError | None) -> None:
            if self._silence.ended(pending):  # only the first outcome counts
                if self._gone:
                    self.loop.call_soon(self._drop_gone)
                self._tell(on_done, reply, error)

        submitted = _SubmittedRequest(self.network, node, leaders, on_outcome)
        pending = submitted.pending
        self._silence.started(pending, wait_ms)
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK_MS / 1000, self._tick)
        try:
            submitted.begin(self.tasks, api, body, frames, timeout_ms=timeout_ms, expect_reply=expect_reply)
        except BaseException:
            self._silence.ended(pending)
            raise

    async def request(
        self,
        node_id: int,
        api: Api,
        body: Any,
        *,
        timeout_ms: int,
        wait_ms: int = 0,
        leaders: Callable[[], Iterable[ExpectedLeader]] = tuple,
    ) -> Any:
        """`submit`; gives the body of the response. Errors: as `submit`."""
        answered: asyncio.Future[Any] = self.loop.create_future()

        def on_done(reply: Reply | None, error: KafkaError | None) -> None:
            if answered.done():
                return
            if reply is None:
                assert error is not None
                answered.set_exception(error)
            else:
                answered.set_result(reply.body)

        self.submit(
            *(node_id, api, body),
            timeout_ms=timeout_ms,
            on_done=on_done,
            wait_ms=wait_ms,
            leaders=leaders,
        )
        return await answered

    async def close(self) -> None:
        """End the tasks and the connections; registered engines fail with ClosedError."""
        self._fail(ClosedError("the client was closed"))
        await self.tasks.close()
        await self.network.close()

    def _tell(self, on_done: OnDone, reply: Reply | None, error: KafkaError | None) -> None:
        if self.failure is not None:
            return  # every engine has failed
        try:
            on_done(reply, error)
        except Exception as bug:  # noqa: BLE001 - a bug in a callback ends the client
            self.tasks.report(bug)

    # --- nodes that do not respond ----------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticker = None
        if self.failure is not None:
            return
        silent = self._silence.tick()
        self.metadata.silent_nodes = silent
        if silent:
            self.metadata.refresh_soon()
            self._fail_obsolete()
        if self._silence:
            self._ticker = self.loop.call_later(TICK_MS / 1000, self._tick)

    def _on_view(self, view: ClusterView) -> None:
        addresses = {node.address for node in view.nodes.values()}
        self._gone = (self._gone | self._addresses) - addresses
        self._addresses = addresses
        # Order: later, not here, because a hint may change the view inside another call.
        self.loop.call_soon(self._fail_obsolete)

    def _fail_obsolete(self) -> None:
        if self.failure is not None:
            return
        for pending in self._silence.obsolete(self.metadata.view):
            log.info("node %d does not respond and leads none of the partitions any more", pending.node_id)
            pending.tell(NetworkError(f"node {pending.node_id} did not respond, and leadership has moved"))
        self._drop_gone()

    def _drop_gone(self) -> None:
        """Close connections to addresses that left the view, once no request to them is in flight."""
        for address in [address for address in self._gone if not self._silence.is_waiting_for(address)]:
            self._gone.discard(address)
            self.network.drop(address)

    def _task_failed(self, error: BaseException) -> None:
        log.critical("a background task of the client failed: %r", error, exc_info=error)
        failure = ClosedError(f"the client was closed after an internal error: {error!r}")
        failure.__cause__ = error
        self._fail(failure)

    def _fail(self, reason: HeadraceError) -> None:
        if self.failure is not None:
            return
        self.failure = reason
        if self._ticker is not None:
            self._ticker.cancel()
        self.metadata.close(reason)
        for engine in list(self._engines):
            engine.fail(reason)


class _SubmittedRequest:
    """One request of `Hub.submit`; `on_done` may be called twice."""

    __slots__ = ("_give_up", "_network", "_node", "_on_done", "pending")

    def __init__(
        self,
        network: Network,
        node: NodeView,
        leaders: Callable[[], Iterable[ExpectedLeader]],
        on_done: OnDone,
    ) -> None:
        self._network, self._node, self._on_done = network, node, on_done
        self._give_up: GiveUp | None = None
        self.pending = Pending(node.node_id, node.address, leaders, self._lose)

    def begin(
        self,
        tasks: Tasks,
        api: Api,
        body: Any,
        frames: Sequence[Buffer],
        *,
        timeout_ms: int,
        expect_reply: bool,
    ) -> None:
        """Without a task if a connection is open."""
        address = self._node.address
        if expect_reply:
            self._give_up = self._network.submit(
                address, api, body, frames, timeout_ms=timeout_ms, on_done=self._on_done
            )
        if self._give_up is None:
            ask = self._network.request
            work = partial(ask, address, api, body, frames, timeout_ms=timeout_ms, expect_reply=expect_reply)
            if (task := tasks.spawn(self._wait(work))) is not None:
                self._give_up = task.cancel

    async def _wait(self, ask: Callable[[], Awaitable[Reply]]) -> None:
        try:
            reply = await ask()
        except KafkaError as error:
            self._on_done(None, error)
        else:
            self._on_done(reply, None)

    def _lose(self, error: KafkaError) -> None:
        if self._give_up is not None:
            self._give_up()
        self._on_done(None, error)


def zmq_hub(bootstrap: str | None, config: ConnectionConfig) -> Hub:
    """A hub on real sockets, on the running loop."""
    random = Random()  # noqa: S311 - jitter, not secrets
    return Hub(ZmqNetwork(config, monotonic_ms, random), bootstrap, config, random=random)


MakeHub = Callable[["str | None", "ConnectionConfig"], Hub]
