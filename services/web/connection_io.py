"""Connections of the web server: uvicorn's, with a deadline for the header of each request and a bound on
their number. Imported only after `library.check_library`."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import Problem, encoded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from .settings import WebConfig

log = logging.getLogger("headrace.web")
# Bound: bytes that wait for a client, to which the next part of a response is added.
MAX_UNREAD_BYTES = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 seconds


class Connection(H11Protocol):
    """A connection whose client must send each header in time."""

    limits: ClassVar[WebConfig]

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": self}
        if len(self.connections) > self.limits.max_connections:
            self._refuse(Problem(503, "max.connections are open", 50301, {"retry-after": "1"}))
            return
        self._await_header()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_timer()
        elif self._header_timer is None:
            self._await_header()  # the next header has begun

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "the request is not HTTP/1.1"))

    def write_chunk(self, chunk: bytes) -> bool:
        """Write a chunk of a response that has begun; False if the client has not read what was sent before,
        up to a bound, or has gone."""
        transport = self.transport
        if transport.is_closing() or transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            return False
        transport.write(chunk)
        return True

    def end_slowly(self, last_part: bytes, timeout_s: float) -> None:
        """End a response of chunks with this one, for a client that reads too slowly: the connection is
        closed when it has read that, or reset after a time."""
        self.cycle.disconnected = True  # for the server, which would log a response that is not complete
        self.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last_part), last_part))
        self.transport.close()
        self.loop.call_later(timeout_s, self.reset)

    def reset(self) -> None:
        """Close, so that neither this process nor the kernel keeps what the client does not read."""
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _await_header(self) -> None:
        self._header_timer = self.loop.call_later(self.limits.header_timeout_ms / 1000, self._header_is_late)

    def _end_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_is_late(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._refuse(Problem(408, "the request's header did not arrive in time: header.timeout.ms"))

    def _refuse(self, problem: Problem) -> None:
        """Send a problem response outside of any request, and close."""
        body, headers = encoded(problem)
        headers |= {"content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {problem.status} {problem.body().title}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def connection_class(web: WebConfig) -> type[Connection]:
    """The protocol class of connections with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": web})


class ReadyServer(uvicorn.Server):
    """A server that reports when it accepts requests."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by `serve`."""
        await super().startup(sockets)
        self._on_ready()


def quiet_uvicorn() -> None:
    """Log the errors of uvicorn only; requests are not logged."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.ERROR)


def uvicorn_options(web: WebConfig, connection: Any) -> dict[str, Any]:
    """Arguments of `uvicorn.Config`."""
    return {
        "http": connection,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "backlog": min(web.max_connections, 2048),
        "timeout_graceful_shutdown": 3,
        "ssl_certfile": web.certificate_file or None,
        "ssl_keyfile": web.key_file or None,
    }
