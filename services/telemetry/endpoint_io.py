"""The HTTP endpoint that Prometheus scrapes, on threads of its own.

Bound: MAX_CONNECTIONS, each for at most DEADLINE_S once others want its place; further ones are closed. So
scrapers that are slow, many or hostile cost a few threads and the text that they do not read.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import logging
import os
import socket
import ssl
import threading
import time
import zlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.telemetry.exposition import OPEN_METRICS, TEXT, text_pieces, wants_open_metrics
from ..certificate_expiry import first_expiry_s

if TYPE_CHECKING:
    from ...runtime.telemetry_config import TelemetryConfig
    from .gathering_io import MetricReader

log = logging.getLogger("headrace.telemetry")

MAX_CONNECTIONS = 8
READ_TIMEOUT_S = 5.0  # between two reads or writes
DEADLINE_S = 20.0
BACKLOG = 16
PAUSE_S = 1.0  # after a failed accept: out of descriptors
PATH = "/metrics"
_GZIP = 16 + zlib.MAX_WBITS


class Certificate:
    """The certificate of the endpoint; loaded again when its file changes."""

    def __init__(self, config: TelemetryConfig) -> None:
        """Errors: ConfigError if it cannot be loaded."""
        self._files = config.metrics_ssl_certificate_file, config.metrics_ssl_key_file
        self._signature = self._current()
        try:
            self._context, self.expiry_s = self._load()
        except (OSError, ValueError) as error:
            raise ConfigError(f"metrics.ssl.certificate.file cannot be used: {error}") from None

    def wrap(self, connection: socket.socket) -> socket.socket:
        """The encrypted connection. Errors: OSError."""
        signature = self._current()
        if signature != self._signature:
            self._signature = signature
            try:
                self._context, self.expiry_s = self._load()
            except (OSError, ValueError) as error:
                log.warning("the changed certificate of the metrics endpoint is not used: %s", error)
        return self._context.wrap_socket(connection, server_side=True)

    def _load(self) -> tuple[ssl.SSLContext, float | None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context, first_expiry_s(Path(self._files[0]).read_bytes())

    def _current(self) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for name in self._files:
            with contextlib.suppress(OSError):
                facts = os.stat(name)
                found += (facts.st_mtime_ns, facts.st_size)
        return found


class Endpoint:
    """One listener. `start` binds it."""

    def __init__(self, config: TelemetryConfig, gatherer: MetricReader) -> None:
        """Errors: ConfigError (the certificate)."""
        self.gatherer = gatherer
        self.password = config.metrics_basic_auth
        self.certificate = Certificate(config) if config.metrics_ssl_certificate_file else None
        if (certificate := self.certificate) is not None:
            gatherer.certificate_expiry_s = lambda: certificate.expiry_s
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}  # connections, and when they were accepted
        self._over = threading.Event()
        self.address = ("", 0)

    def start(self, host: str, port: int) -> int:
        """Bind, and accept connections on a thread; returns the port. Errors: OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket, self.address = bound, bound.getsockname()[:2]
        threading.Thread(target=self._accept, name="headrace-metrics", daemon=True).start()
        return int(self.address[1])

    def close(self) -> None:
        """Close the listener and all connections; the port is free on return."""
        self._over.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._socket.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self.address
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PATH}"

    def _accept(self) -> None:
        assert self._socket is not None, "bound"
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._over.is_set():
                    return
                log.warning("the metrics endpoint cannot accept a connection: %s", error)
                self._over.wait(PAUSE_S)
                continue
            if self._admit(connection):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _admit(self, connection: socket.socket) -> bool:
        now_s = time.monotonic()
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = min(self._open, key=self._open.__getitem__)
                if now_s - self._open[oldest] > DEADLINE_S:
                    _shut(oldest)
                return False
            self._open[connection] = now_s
        return True

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(READ_TIMEOUT_S)
            if self.certificate is not None:
                plain, connection = connection, self.certificate.wrap(connection)
                with self._lock:  # the encrypted one has the descriptor from now on
                    self._open[connection] = self._open.pop(plain)
            _Handler(connection, self)
            _shut(connection)
        except (OSError, ValueError):  # slow, gone, or no HTTP; ValueError: a file of a closed connection
            pass
        finally:
            with self._lock:
                self._open.pop(connection, None)
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server_version = "headrace"
    sys_version = ""

    def __init__(self, connection: socket.socket, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        super().__init__(connection, endpoint.address, endpoint)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """The only method."""
        if not self._is_authorized():
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="headrace metrics"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = self.path.partition("?")[0]
        if path != PATH:
            self.send_error(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}")
            return
        is_open_metrics = wants_open_metrics(self.headers.get("Accept", ""))
        try:
            samples = self._endpoint.gatherer.samples()
        except Exception:  # any bug in a metric: the scrape fails, the server does not
            log.exception("the metrics cannot be read")
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        pieces = [piece.encode() for piece in text_pieces(samples, is_open_metrics=is_open_metrics)]
        is_packed = "gzip" in self.headers.get("Accept-Encoding", "")
        if is_packed:
            packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
            pieces = [*(packer.compress(piece) for piece in pieces), packer.flush()]
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", OPEN_METRICS if is_open_metrics else TEXT)
        self.send_header("Content-Length", str(sum(map(len, pieces))))
        if is_packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
        """Scrapes are not logged."""

    def _is_authorized(self) -> bool:
        if not self._endpoint.password:
            return True
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "basic":
            return False
        with contextlib.suppress(ValueError):
            given = base64.b64decode(encoded, validate=True)
            return hmac.compare_digest(given, self._endpoint.password.encode())
        return False


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
