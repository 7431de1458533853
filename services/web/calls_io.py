"""Requests and responses of JSON applications: bodies with limits, query parameters, and the ASGI application
of a route table."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote

import msgspec

from .problems import Problem
from .routes import JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client_pool_io import ClientPool, UserClients
    from .guard_io import Receive, Scope, Send
    from .routes import Route, RouteTable
    from .settings import WebConfig

T = TypeVar("T")
_MAX_QUERY_BYTES = 16 * 1024
_encoder = msgspec.json.Encoder()
Body = bytes | AsyncIterable[bytes]


@dataclass(slots=True)
class Reply:
    """A response: a body that is there, or one that is produced while it is sent."""

    body: Body = b""
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Call:
    """One request to a route."""

    def __init__(
        self, scope: Scope, receive: Receive, route: Route, params: dict[str, str], web: WebConfig
    ) -> None:
        self.scope, self.route, self.params, self.web = scope, route, params, web
        self._receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.clients: UserClients
        self.query = self._read_query()

    @property
    def base_url(self) -> str:
        """The address of the application as the client wrote it, without a slash at its end."""
        host = self.headers.get(b"host", b"localhost").decode("latin-1")
        return f"{self.scope['scheme']}://{host}{self.scope.get('root_path', '')}"

    def url(self, *segments: object) -> str:
        """The address of a path of this application."""
        return "/".join((self.base_url, *(quote(str(part), safe=":-_.~") for part in segments)))

    def header(self, name: str) -> str | None:
        """A request header."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    @property
    def content_type(self) -> str:
        """The content type of the request, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def accepted(self) -> list[str]:
        """The content types that the client accepts, as it wrote them."""
        given = (self.header("accept") or "*/*").split(",")
        return [each.partition(";")[0].strip().lower() for each in given]

    def text(self, name: str) -> str | None:
        """A query parameter."""
        return self.query.get(name)

    def number(self, name: str, default: int | None = None, *, most: int = 2**63 - 1) -> int | None:
        """A query parameter that is a whole number from 0. Errors: Problem 400."""
        value = self.query.get(name)
        if value is None:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", value) or int(value) > most:
            raise Problem(400, f"parameter {name} must be a whole number from 0 to {most}", 40002)
        return int(value)

    @property
    def write_chunk(self) -> Callable[[bytes], bool] | None:
        """Writes a `chunk_of` a response that has begun, at once; False, without writing, if the client has
        not read much of what was sent before, or has gone. None if the response has no chunks."""
        connection = self.scope.get("state", {}).get("connection")
        is_chunked = self.scope["http_version"] == "1.1" and self.scope["method"] != "HEAD"
        return connection.write_chunk if connection is not None and is_chunked else None

    async def body(self) -> bytes:
        """The whole body. Errors: Problem 413, 408."""
        declared = self.header("content-length")
        if declared is not None and int(declared) > self.web.max_request_bytes:
            raise _too_large(self.web)
        parts: list[bytes] = []
        size = 0
        async for part in self.stream():
            size += len(part)
            if size > self.web.max_request_bytes:
                raise _too_large(self.web)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def stream(self) -> AsyncIterator[bytes]:
        """The parts of the body as they arrive."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "the client has disconnected")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                return

    async def until_gone(self) -> None:
        """Wait until the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def json(self, kind: type[T]) -> T:
        """The body as this type. Errors: Problem 400, 413, 415, 422."""
        self.check_content_type()
        return decoded(await self.body(), kind)

    def check_content_type(self) -> None:
        """Errors: Problem 415. Pages of other sites cannot send the accepted types without CORS."""
        if self.content_type not in self.route.accepts:
            accepted = ", ".join(self.route.accepts)
            given = self.content_type or "none"
            raise Problem(415, f"the content type must be one of {accepted}, not {given[:100]!r}")

    def _read_query(self) -> dict[str, str]:
        raw: bytes = self.scope.get("query_string", b"")
        if len(raw) > _MAX_QUERY_BYTES:
            raise Problem(414, f"the query is longer than {_MAX_QUERY_BYTES} bytes")
        try:
            pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
        except (UnicodeDecodeError, ValueError):
            raise Problem(400, "the query is not UTF-8") from None
        return dict(pairs)


class JsonApplication:
    """The ASGI application of a route table."""

    def __init__(self, table: RouteTable, pool: ClientPool, web: WebConfig) -> None:
        self.table, self._pool, self._web = table, pool, web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()
        prefix = quote(scope.get("root_path", "")).encode()
        route, params = self.table.find(scope["method"], raw_path.removeprefix(prefix))
        call = Call(scope, receive, route, params, self._web)
        if not route.needs_user:
            await _send(call, await route.handler(call), send)
            return
        credentials = self._pool.credentials(call.header("authorization"))
        async with self._pool.use(credentials) as call.clients:
            await _send(call, await route.handler(call), send)


async def _send(call: Call, reply: Any, send: Send) -> None:
    """Send a Reply, or any other value as JSON; None is an empty response."""
    if not isinstance(reply, Reply):
        status = call.route.status
        reply = Reply(b"" if reply is None else _encoder.encode(reply), status, call.route.returns[0])
    headers = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
    if reply.status != 204:
        headers.append((b"content-type", reply.content_type.encode()))
    if isinstance(reply.body, bytes):
        if reply.status != 204:
            headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        return
    try:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for part in reply.body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        close = getattr(reply.body, "aclose", None)
        if close is not None:
            await close()
    await send({"type": "http.response.body", "body": b""})


def decoded(body: bytes, kind: type[T]) -> T:
    """A JSON document as this type. Errors: Problem 400 for malformed JSON, 422 for other fields or types."""
    try:
        str(body, "utf-8")  # msgspec takes embedded values as they are
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", 40001) from None


def encode(value: Any) -> bytes:
    """JSON."""
    return _encoder.encode(value)


def chunk_of(part: bytes) -> bytes:
    """A part of a response without a length, as HTTP/1.1 transfers it."""
    return b"%x\r\n%b\r\n" % (len(part), part)


def encode_lines(values: Sequence[Any], line_end: bytes) -> bytes:
    """JSON documents, each with the line end: none has one of its own."""
    return _encoder.encode_lines(values).replace(b"\n", line_end)


def _too_large(web: WebConfig) -> Problem:
    return Problem(413, f"the body has more than {web.max_request_bytes} bytes: max.request.bytes")
