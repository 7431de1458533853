"""The event loop of asyncio clients: the hub of a cluster is made on the running loop at the first use.

`cluster_io.py` has the same interface for synchronous clients, with an event loop on a thread (ADR 29).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from ...protocol.errors import ClosedError, HeadraceError
from ..bootstrap import explicit_bootstrap, parse_addresses
from ..config import ConnectionConfig
from ..losses_io import raise_first, report_at_exit
from .cluster_io import EXIT_FLUSH_S
from .environment_io import environment, resolved
from .hub_io import Hub, MakeHub, zmq_hub
from .security_io import connection_security

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping

E = TypeVar("E")
T = TypeVar("T")


class AsyncClient(Protocol):
    """A producer, consumer or admin client of a cluster."""

    async def close(self, timeout: float | None = None) -> None:
        """Flush and stop."""

    def forked(self) -> None:
        """Make every further call raise ClosedError: this process is a forked child."""


class AsyncSharedCluster:
    """A cluster whose connections several clients share."""

    io: AsyncClusterIo


class AsyncClusterIo:
    """The hub on the event loop of the first use, and the clients on it. With `is_owned` it was made for one
    client, and ends with that one."""

    is_threaded = False  # whether clients are called on another thread than that of their loop

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None,
        values: Mapping[str, Any],
        make_hub: MakeHub = zmq_hub,
        *,
        is_owned: bool = False,
    ) -> None:
        self.values, self._make_hub, self._is_owned = dict(values), make_hub, is_owned
        self._config = resolved(ConnectionConfig, self.values)
        self._bootstrap = explicit_bootstrap(bootstrap, environment())
        if self._bootstrap is not None:
            parse_addresses(self._bootstrap)  # a bad address raises in the constructor
        connection_security(self._config)  # and so does security that cannot be set up; the hub comes later
        self._hub: Hub | None = None
        self._clients: dict[AsyncClient, None] = {}
        self._is_closed, self._closed_because = False, "the client was closed"
        self._until_loop_ends: AsyncGenerator[None] | None = None
        _open.add(self)

    @property
    def hub(self) -> Hub:
        """The hub, made on the running loop at the first use. Errors: ClosedError; HeadraceError on another
        event loop."""
        if self._is_closed:
            raise ClosedError(self._closed_because)
        if self._hub is None:
            self._hub = self._make_hub(self._bootstrap, self._config)
            self._until_loop_ends = _started(self._close_when_the_loop_ends())
        elif self._hub.loop is not asyncio.get_running_loop():
            raise HeadraceError("this client belongs to another event loop; make one per loop")
        if self._hub.failure is not None:
            raise self._hub.failure
        return self._hub

    def engine(self, make: Callable[[Hub], E]) -> AsyncEngineHolder[E]:
        """The engine of a client, to be made at its first use."""
        return AsyncEngineHolder(self, make)

    @staticmethod
    async def run(function: Callable[..., T], *args: Any) -> T:
        """Call a plain function."""
        return function(*args)

    @staticmethod
    def start(begin: Callable[[], asyncio.Future[T]]) -> asyncio.Future[T]:
        """Call `begin`, and give the future that it returns."""
        return begin()

    @staticmethod
    async def call(work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine. Errors: its own."""
        return await work

    @staticmethod
    def new_event() -> asyncio.Event:
        """An event for `wait`."""
        return asyncio.Event()

    @staticmethod
    async def wait(event: asyncio.Event, timeout_s: float) -> None:
        """Wait until the event is set, or `timeout_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()

    @staticmethod
    async def call_user(function: Callable[..., Any], *args: Any) -> None:
        """Call a function of the user, and await its result if it is a coroutine function."""
        result = function(*args)
        if inspect.isawaitable(result):
            await result

    @staticmethod
    def check_may_block() -> None:
        """An asyncio call may wait everywhere."""

    def now_s(self) -> float:
        """The clock of timeouts: that of the hub, in whole ms. Errors: as `hub`."""
        return self.hub.now_ms() / 1000

    @contextlib.contextmanager
    def opening(self, client: AsyncClient) -> Iterator[None]:
        """Around the constructor of a client: `add` it."""
        yield
        self.add(client)

    def add(self, client: AsyncClient) -> None:
        """Register a client, to be closed with the cluster."""
        self._clients[client] = None

    async def leave(self, client: AsyncClient) -> None:
        """Forget a closed client; an owned cluster ends with it."""
        self._clients.pop(client, None)
        if self._is_owned:
            await self.close()

    async def close(self, timeout_s: float | None = None) -> None:
        """Close all clients, flushing the producers, then the connections.

        Errors: the first one of a client, after everything is closed; the others are logged. After a
        cancellation nothing more is flushed, but what that loses is logged.
        """
        now = asyncio.get_running_loop().time
        ends_at = None if timeout_s is None else now() + timeout_s
        errors: list[BaseException] = []
        try:
            for client in list(self._clients):
                try:
                    await client.close(None if ends_at is None else max(ends_at - now(), 0))
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised below
                    ends_at = ends_at if isinstance(error, Exception) else now()
                    errors.append(error)
        finally:
            await self._release()
        raise_first(errors)

    def forked(self) -> None:
        """Make every call raise ClosedError, in a forked child: the sockets of the loop belong to the parent,
        and so do the records in flight."""
        self._is_closed = True
        self._closed_because = "this client belongs to the parent process; make a new one after fork"
        for client in self._clients:
            client.forked()

    async def _release(self) -> None:
        self._is_closed = True
        _open.discard(self)
        if self._hub is not None:
            await self._hub.close()
        generator, self._until_loop_ends = self._until_loop_ends, None
        if generator is not None:
            await generator.aclose()

    async def _close_when_the_loop_ends(self) -> AsyncGenerator[None]:
        """Suspended while the cluster is open. `asyncio.run`, or any other end of the loop, closes it by
        `shutdown_asyncgens`; the garbage collector closes it for a cluster without references."""
        try:
            yield
        finally:
            if not self._is_closed:
                self._until_loop_ends = None  # running
                try:
                    await self.close(EXIT_FLUSH_S)
                except Exception as lost:  # noqa: BLE001 - the loop ends: no caller could catch it
                    report_at_exit(lost)


class AsyncEngineHolder(Generic[E]):
    """The engine of an asyncio client; `made` is None before the first use."""

    def __init__(self, io: AsyncClusterIo, make: Callable[[Hub], E]) -> None:
        self._io, self._make = io, make
        self.made: E | None = None

    def get(self) -> E:
        """The engine. Errors: as `AsyncClusterIo.hub`."""
        hub = self._io.hub
        if self.made is None:
            self.made = self._make(hub)
        return self.made


def _started(generator: AsyncGenerator[None]) -> AsyncGenerator[None]:
    """Run a generator to its first `yield`, before which it must not wait; its loop closes it later."""
    try:
        generator.asend(None).send(None)
    except StopIteration:
        return generator
    raise AssertionError("the generator waits before its first yield")


_open: WeakSet[AsyncClusterIo] = WeakSet()


def _after_fork_in_child() -> None:
    for cluster in list(_open):
        cluster.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
