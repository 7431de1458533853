"""The IO thread of synchronous clients: one per cluster, with the shared hub on its event loop.

In a forked child every call of a client raises ClosedError, because the thread exists in the parent alone. At
exit of the interpreter the clients that were left open are flushed and closed. `async_cluster_io.py` has the
same interface for asyncio clients: the sources of both kinds of clients are the same (ADR 29).
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...protocol.errors import ApiTimeoutError, ClosedError, HeadraceError
from ...runtime.loop_thread_io import LoopThread
from ..bootstrap import explicit_bootstrap, parse_addresses, resolve_bootstrap
from ..config import ConnectionConfig
from ..losses_io import raise_first, report_at_exit
from .environment_io import environment, resolved
from .hub_io import Hub, MakeHub, zmq_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

E = TypeVar("E")
T = TypeVar("T")

log = logging.getLogger("headrace.client")

# At interpreter exit a cluster that does not respond must not delay the process by delivery.timeout.ms.
EXIT_FLUSH_S = 10.0
START_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0


class SyncClient(Protocol):
    """A producer, consumer or admin client of a cluster."""

    def close(self, timeout: float | None = None) -> None:
        """Flush and stop."""

    def forked(self) -> None:
        """Make every further call raise ClosedError: this process is a forked child."""


class SharedCluster:
    """A cluster whose connections several clients share."""

    io: ClusterIo


class ClusterIo:
    """The IO thread, its hub, and the clients on it. With `is_owned` it was started for one client, and ends
    with that one."""

    is_threaded = True  # whether clients are called on another thread than that of their loop

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None,
        values: Mapping[str, Any],
        make_hub: MakeHub = zmq_hub,
        *,
        is_owned: bool = False,
    ) -> None:
        self.values, self._make_hub, self._is_owned = dict(values), make_hub, is_owned
        self.config = resolved(ConnectionConfig, values)
        self.bootstrap = explicit_bootstrap(bootstrap, environment())
        if self.bootstrap is None:
            resolve_bootstrap(None)  # raises in the constructor when there is no cluster at all
        else:
            parse_addresses(self.bootstrap)
        self._clients: dict[SyncClient, None] = {}
        self._failure: HeadraceError | None = None
        start_failures: list[Exception] = []
        self._hub: Hub | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self.thread_id = 0
        self._thread = LoopThread("headrace-io", lambda: self._main(start_failures), self._ended)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise ApiTimeoutError("the IO thread did not start")
        for failure in start_failures:
            self._thread.join(CLOSE_TIMEOUT_S)
            raise failure
        _open.add(self)

    @property
    def hub(self) -> Hub:
        """The hub; use it on the IO thread only."""
        if self._failure is not None:
            raise self._failure
        assert self._hub is not None, "the IO thread has started"
        return self._hub

    @property
    def failure(self) -> HeadraceError | None:
        """The error of every further call; None while the IO thread runs."""
        return self._failure

    def engine(self, make: Callable[[Hub], E]) -> EngineHolder[E]:
        """Make the engine of a client on the IO thread. Errors: those of `make`."""
        return EngineHolder(self.run(lambda: make(self.hub)))

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function on the IO thread and wait for its result. Errors: as `call`."""
        return self.call(_result_of(function, args))

    def start(self, begin: Callable[[], asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Call `begin` on the IO thread, without waiting; gives the outcome of the future it returns.

        Calls of `start`, `run` and `call` begin in their order. Errors: ClosedError, in the outcome if the IO
        thread ends meanwhile.
        """
        if self._failure is not None:
            raise self._failure
        return self._thread.submit(_outcome_of(begin))

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the IO thread and wait for its result.

        Errors: its own; ApiTimeoutError; ClosedError; HeadraceError on the IO thread itself, where waiting
        would stop everything.
        """
        if self._failure is not None:
            work.close()
            raise self._failure
        try:
            self.check_may_block()
        except HeadraceError:
            work.close()
            raise
        future = self._thread.submit(work)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            if future.done():
                raise  # the coroutine's own
            future.cancel()
            raise ApiTimeoutError(f"not done within {timeout_s} s") from error
        except concurrent.futures.CancelledError as error:
            raise ClosedError("the client was closed") from error

    def check_may_block(self) -> None:
        """Errors: HeadraceError on the IO thread, where a blocking call would wait for itself."""
        if self.is_io_thread():
            raise HeadraceError(
                "a blocking call on the client's IO thread would wait for itself: do not call it from a done"
                " callback or an interceptor; hand the work to another thread"
            )

    def is_io_thread(self) -> bool:
        """Whether the caller runs on the IO thread, as callbacks do."""
        return threading.get_ident() == self.thread_id

    def wake(self, callback: Any) -> None:
        """Run a plain callback on the IO thread soon."""
        self._thread.wake(callback)

    @staticmethod
    def new_event() -> threading.Event:
        """An event for `wait`."""
        return threading.Event()

    def wait(self, event: threading.Event, timeout_s: float) -> None:
        """Wait until the event is set, or `timeout_s` seconds. Errors: as `check_may_block`, if it is not
        set."""
        if not event.is_set():
            self.check_may_block()
            event.wait(timeout_s)

    @staticmethod
    def call_user(function: Callable[..., Any], *args: Any) -> None:
        """Call a function of the user in the caller's thread."""
        function(*args)

    @staticmethod
    def now_s() -> float:
        """The monotonic clock of timeouts in the caller's thread."""
        return time.monotonic()

    @contextlib.contextmanager
    def opening(self, client: SyncClient) -> Iterator[None]:
        """Around the constructor of a client: `add` it. When it fails, an owned cluster is closed."""
        try:
            yield
        except BaseException:
            if self._is_owned:
                self.close()
            raise
        self.add(client)

    def add(self, client: SyncClient) -> None:
        """Register a client, to be closed with the cluster."""
        self._clients[client] = None

    def leave(self, client: SyncClient) -> None:
        """Forget a closed client; an owned cluster ends with it."""
        self._clients.pop(client, None)
        if self._is_owned:
            self.close()

    def close(self, timeout_s: float | None = None) -> None:
        """Close all clients, flushing the producers, then the connections and the thread.

        Errors: the first one of a client, after everything is closed; the others are logged. After an
        interrupt nothing more is flushed, but what that loses is logged.
        """
        ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        errors: list[BaseException] = []
        try:
            for client in list(self._clients):
                try:
                    client.close(None if ends_at is None else max(ends_at - time.monotonic(), 0))
                except BaseException as error:  # noqa: BLE001 - raised below, after the others
                    ends_at = ends_at if isinstance(error, Exception) else time.monotonic()
                    errors.append(error)
        finally:
            _open.discard(self)
            if self._failure is None and self._stop is not None:
                self._thread.wake(self._stop.set)
                self._failure = ClosedError("the client was closed")
                self._thread.join(CLOSE_TIMEOUT_S)
        raise_first(errors)

    def forked(self) -> None:
        """Make every call raise ClosedError, in a forked child."""
        self._failure = ClosedError("this client belongs to the parent process; make a new one after fork")
        for client in self._clients:
            client.forked()

    async def _main(self, start_failures: list[Exception]) -> None:
        self.thread_id = threading.get_ident()
        self._stop = asyncio.Event()  # before the constructor returns: then `close` can be called
        try:
            self._hub = self._make_hub(self.bootstrap, self.config)
        except Exception as error:  # noqa: BLE001 - the constructor raises it
            start_failures.append(error)
            return
        finally:
            self._ready.set()
        try:
            await self._stop.wait()
        finally:
            await self._hub.close()

    def _ended(self, failure: BaseException | None) -> None:
        if failure is not None and self._failure is None:
            self._failure = ClosedError(f"the client's IO thread ended: {failure!r}")
            log.critical("the client's IO thread ended: %r", failure, exc_info=failure)


class EngineHolder(Generic[E]):
    """The engine of a synchronous client."""

    def __init__(self, made: E) -> None:
        self.made: E | None = made

    def get(self) -> E:
        assert self.made is not None, "made in the constructor"
        return self.made


async def _result_of(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    return function(*args)


async def _outcome_of(begin: Callable[[], asyncio.Future[T]]) -> T:
    try:
        return await begin()
    except asyncio.CancelledError as error:  # at the end of the loop
        raise ClosedError("the client was closed") from error


_open: set[ClusterIo] = set()


def _close_at_exit() -> None:
    ends_at = time.monotonic() + EXIT_FLUSH_S
    for cluster in list(_open):
        try:
            cluster.close(max(ends_at - time.monotonic(), 0))
        except Exception as lost:  # noqa: BLE001 - the process ends: nothing could catch it
            report_at_exit(lost)


def _after_fork_in_child() -> None:
    left = list(_open)
    _open.clear()
    for cluster in left:
        cluster.forked()


atexit.register(_close_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
