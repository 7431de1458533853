"""The web server: one thread with an event loop of its own, apart from all servers of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self

from ...protocol.errors import ConfigError
from ...runtime.loop_thread_io import LoopThread
from .client_pool_io import ClientPool
from .guard_io import Guard
from .library import check_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from .guard_io import AsgiApp
    from .settings import WebConfig

log = logging.getLogger("headrace.web")
START_TIMEOUT_S, STOP_TIMEOUT_S = 30.0, 15.0


class Application(Protocol):
    """A part of the server: REST, or the console. It is made on the loop of the server."""

    @property
    def asgi(self) -> AsgiApp:
        """Called for each request with a path of this part. Its errors become problem responses."""

    async def close(self) -> None:
        """End streams and tasks: the server stops, or cannot start."""


class WebServer:
    """Serves applications, made by functions of the clients' pool, by the prefixes of their paths; "" is all
    other paths. Use it as a context manager, or `start` and `close` it."""

    def __init__(
        self,
        applications: Mapping[str, Callable[[ClientPool], Application]],
        web: WebConfig,
        *,
        bootstrap: str | Iterable[str] | None = None,
        client_config: Mapping[str, Any] | None = None,
        purpose: str = "The web server",
    ) -> None:
        check_library(purpose)
        self._makers, self._web = dict(applications), web
        self._target, self._client_config = bootstrap, dict(client_config or {})
        self._thread = LoopThread("headrace-web", self._run, self._ended)
        self._is_ready, self.has_ended = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._socket: socket.socket | None = None
        self._stop: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The address of the running server, without a slash at its end."""
        assert self._socket is not None, "the server has not started"
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if self._web.certificate_file else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def start(self) -> None:
        """Listen and serve; returns as soon as requests are accepted. Errors: ConfigError; OSError if the
        address is in use."""
        self._socket = _bound(self._web)
        self._thread.start()
        if not self._is_ready.wait(START_TIMEOUT_S):
            self._failure = self._failure or TimeoutError("the web server did not start in time")
        if self._failure is not None:
            self.close()
            raise self._failure

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the server has ended; False after `timeout_s` seconds. Errors: its failure."""
        has_ended = self.has_ended.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        return has_ended

    def close(self) -> None:
        """End the streams, finish requests for a few seconds, and stop; idempotent."""
        if self._stop is not None:
            self._thread.wake(self._stop.set)
        if self._socket is None:
            return
        self._thread.join(STOP_TIMEOUT_S)
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ended(self, failure: BaseException | None) -> None:
        self._failure = self._failure or failure
        if failure is not None:
            log.error("the web server failed", exc_info=failure)
        self._is_ready.set()
        self.has_ended.set()

    async def _run(self) -> None:
        import uvicorn

        from .connection_io import ReadyServer, connection_class, quiet_uvicorn, uvicorn_options

        quiet_uvicorn()
        self._stop = asyncio.Event()
        pool = ClientPool(self._target, self._client_config, self._web)
        applications = {prefix: make(pool) for prefix, make in self._makers.items()}
        guard = Guard({prefix: each.asgi for prefix, each in applications.items()}, self._web)
        config = uvicorn.Config(guard, **uvicorn_options(self._web, connection_class(self._web)))
        server = ReadyServer(config, self._is_ready.set)
        assert self._socket is not None
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            guard.end()
            for application in applications.values():
                await application.close()
            server.should_exit = True
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            await pool.close()


def _bound(web: WebConfig) -> socket.socket:
    """The listening socket. Errors: OSError with the address; ConfigError for the certificate."""
    if web.certificate_file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(web.certificate_file, web.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot use ssl.certificate.location and ssl.key.location: {error}") from error
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((web.host, web.port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {web.host}:{web.port}: {error.strerror}") from error
    listener.set_inheritable(False)
    return listener
