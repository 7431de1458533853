"""A server for queries over HTTP: `http_app` under uvicorn, in a thread, with tokens and TLS."""

from __future__ import annotations

import ipaddress
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra
from ...runtime.waiting_io import until
from .http_io import http_app

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .client_io import Queries

_START_S = 30.0
_STOP_S = 10.0


class HttpServer:
    """Listens from its construction to `close`, or to the end of a `with` statement."""

    def __init__(self, server: Any, thread: threading.Thread, port: int) -> None:
        self.port = port
        self._server, self._thread = server, thread

    def close(self) -> None:
        """Complete requests in progress, then stop. Idempotent."""
        self._server.should_exit = True
        self._thread.join(_STOP_S)

    def wait(self) -> None:
        """Wait for the end of the server."""
        while self._thread.is_alive():
            self._thread.join(1.0)  # a signal is handled between two calls

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve_http(
    queries: Queries,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token_file: str | None = None,
    tls_file: str | None = None,
) -> HttpServer:
    """Serve queries over HTTP until the result is closed; `queries` stays open. Port 0: a free port.

    `token_file`: as for `http_app`. `tls_file`: a PEM file with a private key and its certificate chain, for
    HTTPS. Errors: ConfigError for tokens without TLS at an address that is not of this machine, for unusable
    files, and for a port that cannot be bound; ImportError without starlette and uvicorn.
    """
    if token_file and not tls_file and not _is_loopback(host):
        raise ConfigError(
            f"tokens would be readable on the way to {host}: give a tls_file, or listen at 127.0.0.1"
        )
    try:
        import uvicorn
    except ImportError as error:
        raise missing_extra(error, "Queries over HTTP", "http") from error
    app = http_app(queries, token_file=token_file)
    config = uvicorn.Config(
        *(app, host, port), log_level="warning", ws="none", ssl_certfile=tls_file, ssl_keyfile=tls_file
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"tls_file {tls_file} has no key with its certificate: {error}") from error
    server = uvicorn.Server(config)
    thread = threading.Thread(target=_run, args=(server,), name="headrace-http", daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), _START_S)
    if not server.started:
        server.should_exit = True
        raise ConfigError(f"{host}:{port} cannot be listened at")
    return HttpServer(server, thread, int(server.servers[0].sockets[0].getsockname()[1]))


def _run(server: Any) -> None:
    try:
        server.run()
    except SystemExit:  # uvicorn's way to say that it cannot bind
        return


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
