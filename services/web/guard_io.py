"""The guard in front of the applications of the server: admission, limits, checks of origins, and problem
responses for all errors. An ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from .origins import check_host, check_origin, cors_headers, preflight_headers
from .problems import Problem, encoded, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence

    from .connection_io import Connection
    from .settings import WebConfig

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("headrace.web")
SLOT = "headrace.slot"
# In the scope of a request whose response has no end: its last part if the client reads too slowly.
LAST_PART = "headrace.last_part"
LAST_PART_S = 10.0  # for a client to read the last part of a response that it has read too slowly
CLOSING_TURNS = 3  # of the event loop, until a connection that was aborted counts as lost
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"no-store")
_STRICT_CONTENT = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class Admission:
    """Bounds the requests that are served at once; further ones wait, in their order, for a while."""

    def __init__(self, config: WebConfig) -> None:
        self._config, self._active = config, 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_ending = False

    async def enter(self) -> Slot:
        """Errors: Problem 503 if the queue is full, or the wait too long."""
        if self.is_ending:
            raise _busy("this server is stopping")
        if self._active < self._config.max_requests and not self._waiting:
            self._active += 1
            return Slot(self)
        if len(self._waiting) >= self._config.max_queued_requests:
            raise _busy("max.concurrent.requests are active, and max.queued.requests wait")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait((turn,), timeout=self._config.queue_timeout_ms / 1000)
        if not turn.done():
            self._waiting.remove(turn)
            raise _busy("max.concurrent.requests are active: queue.timeout.ms")
        return Slot(self)

    def leave(self) -> None:
        """Give the place of a request to the first that waits."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._active -= 1


def _busy(reason: str) -> Problem:
    return Problem(503, reason, 50301, {"retry-after": "1"})


class Slot:
    """The place of one request."""

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission

    def release(self) -> None:
        """Let another request in; a second call does nothing. A stream with a bound of its own calls it."""
        if self._admission is not None:
            self._admission.leave()
            self._admission = None


class Guard:
    """Serves each request by the application with the longest prefix of its path; `root_path` is that prefix.

    Applications that set Content-Security-Policy or Cache-Control headers keep them.
    """

    def __init__(self, applications: Mapping[str, AsgiApp], config: WebConfig) -> None:
        self._applications: Sequence[tuple[str, AsgiApp]] = sorted(
            applications.items(), key=lambda item: -len(item[0])
        )
        self._config = config
        self._admission = Admission(config)

    def end(self) -> None:
        """Refuse further requests: the server stops."""
        self._admission.is_ending = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise ValueError(f"the web server does not speak {scope['type']}")
        exchange = _Exchange(scope, receive, send, self._config)
        slot: Slot | None = None
        try:
            if exchange.is_preflight:
                await exchange.respond(204, preflight_headers(exchange.origin, self._config), b"")
                return
            exchange.check()
            application = self._application(scope)
            slot = scope[SLOT] = await self._admission.enter()
            await application(scope, exchange.receive, exchange.send)
        except ClientGoneError:
            await exchange.give_up()
        except Exception as error:  # noqa: BLE001 - every error becomes a response
            await exchange.fail(error)
        finally:
            if slot is not None:
                slot.release()

    def _application(self, scope: Scope) -> AsgiApp:
        path: str = scope["path"]
        for prefix, application in self._applications:
            if not prefix or path == prefix or path.startswith(prefix + "/"):
                scope["root_path"] = scope.get("root_path", "") + prefix
                return application
        raise Problem(404, f"there is nothing at {path!r}")


class ClientGoneError(Exception):
    """The client has disconnected, or reads too slowly."""


class _Exchange:
    """One request and its response, with limits."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, config: WebConfig) -> None:
        self._scope, self._receive, self._send, self._config = scope, receive, send, config
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._headers = headers
        self.origin = _text(headers.get(b"origin"))
        self._method: str = scope["method"]
        self._connection: Connection | None = scope.get("state", {}).get("connection")
        self._has_started, self._is_read = False, False

    @property
    def is_preflight(self) -> bool:
        """Whether a browser asks for permission of a request of a page of another origin."""
        is_asking = b"access-control-request-method" in self._headers
        return self._method == "OPTIONS" and self.origin is not None and is_asking

    def check(self) -> None:
        """Errors: Problem."""
        host = _text(self._headers.get(b"host"))
        check_host(host, self._config)
        own = f"{self._scope['scheme']}://{host}"
        site = _text(self._headers.get(b"sec-fetch-site"))
        check_origin(self._method, self.origin, site, own, self._config)
        length = _text(self._headers.get(b"content-length"))
        if length is not None and (not length.isdigit() or len(length) > 18):
            raise Problem(400, "the Content-Length header is not a number")

    async def receive(self) -> MutableMapping[str, Any]:
        """The next part of the request, then its end: of the client's connection. Errors: Problem 408."""
        if self._is_read:
            return await self._receive()
        try:
            async with asyncio.timeout(self._config.body_timeout_ms / 1000):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "the request's body did not arrive in time: body.timeout.ms") from None
        self._is_read = not message.get("more_body")
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the response. Errors: ClientGoneError if the client does not read."""
        if message["type"] == "http.response.start":
            self._has_started = True
            message = {**message, "headers": self._completed(message.get("headers", ()))}
        connection = self._connection
        if connection is not None and not connection.transport.get_write_buffer_size():
            await self._send(message)  # it cannot block
            return
        try:
            async with asyncio.timeout(self._config.write_timeout_ms / 1000):
                await self._send(message)
        except TimeoutError:
            raise ClientGoneError from None

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A whole response."""
        encoded_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        if status != 204:
            encoded_headers.append((b"content-length", str(len(body)).encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": encoded_headers})
        await self.send({"type": "http.response.body", "body": body})

    async def fail(self, error: Exception) -> None:
        """The response for an error; if the response has begun already, the connection is closed."""
        problem = problem_of(error)
        if problem is None:
            log.error("%s %s failed", self._method, self._scope["path"], exc_info=error)
            problem = Problem(500, "the server failed; its log has the error", 50001)
        if self._has_started:
            log.info("%s %s: response cut short: %s", self._method, self._scope["path"], problem.detail)
            await self.abort()
            return
        body, headers = encoded(problem)
        if problem.status in (408, 413):
            headers["connection"] = "close"  # the rest of the body is not read
        try:
            await self.respond(problem.status, headers, body)
        except ClientGoneError:
            await self.abort()

    async def give_up(self) -> None:
        """The client reads too slowly, or has gone."""
        last_part, connection = self._scope.get(LAST_PART), self._connection
        path = self._scope["path"]
        if last_part is None or connection is None or connection.transport.is_closing():
            await self.abort()
            return
        log.info("%s %s: the client reads too slowly: write.timeout.ms", self._method, path)
        connection.end_slowly(last_part, LAST_PART_S)

    async def abort(self) -> None:
        """Reset the connection."""
        if self._connection is None:
            return
        self._connection.reset()
        for _ in range(CLOSING_TURNS):  # or the server logs a response that is not complete
            await asyncio.sleep(0)

    def _completed(self, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        names = {name.lower() for name, _ in headers}
        further = [*_SECURITY_HEADERS, _NO_STORE, _STRICT_CONTENT]
        cors = cors_headers(self.origin, self._config)
        further += [(name.encode(), value.encode()) for name, value in cors.items()]
        return [*headers, *(pair for pair in further if pair[0] not in names)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
