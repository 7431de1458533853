"""The client's end: one DEALER socket for one TCP connection to one server.

A connection is opened, used and thrown away. It never reconnects (RECONNECT_IVL -1), because a DEALER that
reconnects sends its old frames again, to a server that may be another process by then. When the connection
breaks, its monitor tells at once and everything under way fails with NetworkError; whoever owns it opens a
new one and decides what to repeat.

Bound: at most `max_in_flight` requests (the server says how many) are under way; what is sent beyond waits
here in order, up to the backlog limits, and `send` refuses what comes after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import ipaddress
import itertools
import socket as sockets
from typing import TYPE_CHECKING, Any

import zmq

from ..errors import (
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    UnsupportedVersionError,
    error_from_code,
)
from ..messages.envelope import ApiVersionsRequest, ApiVersionsResponse, RequestHeader
from ..messages.registry import API_VERSIONS
from . import wire
from .backlog_io import Asker, Backlog, ConnectionOptions, Outgoing
from .context_io import set_common_options, shared_context, tcp_endpoint
from .ending_io import Standing, drop_arrived
from .monitor_io import HANDSHAKE_FAILED, SocketMonitor
from .multipart_io import DEALER_ENVELOPE, open_multipart, ready_part
from .peers import Response, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from ..messages.envelope import Api
    from ..records.header import Buffer

__all__ = ["Connection", "ConnectionOptions", "Response"]

SOFTWARE_NAME = "headrace-python"
SEND_LIMIT = 1000  # messages inside ZeroMQ; what comes beyond waits in the backlog
DRAIN_LIMIT = 256  # answers per wake; each costs some microseconds
_MONITORED = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | HANDSHAKE_FAILED
MAX_WINDOW = 1000  # requests under way, however many a server allows
REAP_AFTER_S = 0.1
# Bound: a server may not silence a client for longer; it holds what comes too early.
MAX_MUTE_MS = 60_000
LATE_S = 0.1  # a timer that is later than this means that the loop stood still
FIRST_WINDOW = 1  # until the handshake has said how many requests may be under way


class Connection:
    """An open connection; `open` makes it. Used by one event loop, from its own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: ConnectionOptions) -> None:
        self.on_close: Callable[[], None] | None = None
        self._loop = loop
        self._options = options
        self._hello: ApiVersionsResponse | None = None
        self._versions: dict[int, int] = {API_VERSIONS.key: 0}
        self._oldest: dict[int, int] = {}
        self._window = FIRST_WINDOW
        self._session = 0
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Outgoing] = {}  # sent; also those whose callers gave up
        self._backlog = Backlog(loop, options)
        self._is_scheduled = self._is_choked = False  # choked: ZeroMQ took no more
        self._muted = 0  # the server wants nothing for a while; how often it said so
        self._has_unanswered = False  # something was sent that asks for no answer
        self._standing = Standing()
        self._failure: KafkaError | None = None

    # --- life ---------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        options: ConnectionOptions | None = None,
    ) -> Connection:
        """Connect and shake hands, trying each address of `host`.

        Errors: NetworkError when nobody answers there in time, UnsupportedVersionError when the server
        speaks another protocol version, or what else the server refuses the handshake with.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        failure = NetworkError("the name has no address")
        addresses = await _resolve(loop, host, port, timeout_s)
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # each address gets its share, so that a dead first one leaves time for the next
            share_s = max(0.0, (end_s - loop.time()) / left)
            try:
                async with asyncio.timeout(share_s):
                    return await cls._open_one(loop, address, port, client_id, share_s, options)
            except TimeoutError:
                failure = NetworkError(f"no answer within {share_s:.3g} s")
            except NetworkError as error:
                failure = error
        raise NetworkError(f"cannot connect to {host}:{port}: {failure}")

    @classmethod
    async def _open_one(
        cls,
        loop: asyncio.AbstractEventLoop,
        address: str,
        port: int,
        client_id: str,
        timeout_s: float,
        options: ConnectionOptions | None,
    ) -> Connection:
        connection = cls(loop, options or ConnectionOptions())
        connection._start(tcp_endpoint(address, port), timeout_s)
        try:
            await connection._shake_hands(client_id)
        except BaseException:
            connection._end(NetworkError("the handshake failed"), 0)
            raise
        return connection

    def _start(self, endpoint: str, timeout_s: float) -> None:
        try:
            self._socket = shared_context().socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise NetworkError(f"no socket to connect with: {error.strerror}") from None
        try:
            self._set_options(timeout_s)
            self._monitor = SocketMonitor(self._socket, _MONITORED, self._on_event)
            try:
                self._socket.connect(endpoint)
            except BaseException:
                self._monitor.close()
                raise
        except BaseException as error:
            self._socket.close(0)
            if isinstance(error, zmq.ZMQError):  # no such address or port, or no descriptor left
                raise NetworkError(f"{endpoint}: {error.strerror}") from None
            raise
        self._messages = open_multipart(self._socket, envelope=DEALER_ENVELOPE)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._drain)
        self._schedule()

    async def _shake_hands(self, client_id: str) -> None:
        request = ApiVersionsRequest(SOFTWARE_NAME, _software_version(), client_id)
        hello: ApiVersionsResponse = (await self.send(API_VERSIONS, request)).body
        if hello.error_code:
            raise error_from_code(hello.error_code, hello.error_detail)
        self._hello = hello
        self._session = hello.session
        self._window = min(max(1, hello.max_in_flight), MAX_WINDOW)
        self._versions.update({served.api_key: served.max_version for served in hello.apis})
        self._oldest.update({served.api_key: served.min_version for served in hello.apis})

    @property
    def hello(self) -> ApiVersionsResponse:
        """What the server said of itself in the handshake."""
        assert self._hello is not None, "open() returns only after the handshake"
        return self._hello

    @property
    def is_closed(self) -> bool:
        """True once it was closed or has broken; it will not come back."""
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        """Requests that the server has not answered yet, those whose callers gave up included."""
        return len(self._waiting)

    def close(self, linger_ms: int = 1000) -> None:
        """Close; everything under way fails with NetworkError.

        If there were requests without an answer (acks=0), what was handed over before still goes out for up
        to `linger_ms`, in the background.
        """
        self._end(NetworkError("the connection was closed"), linger_ms)

    # --- requests -----------------------------------------------------------------------------------------

    def send(
        self,
        api: Api,
        body: msgspec.Struct | bytes,
        frames: Sequence[Buffer] = (),
        *,
        expect_reply: bool = True,
    ) -> asyncio.Future[Response]:
        """Send a request now, or as soon as the server's window allows, in the order of the calls.

        The future gives the answer, or the error from the answer's header; without `expect_reply` it is done
        with a None body once the request is handed over. It fails with NetworkError when the connection
        breaks, UnsupportedVersionError when the server has no such api, and ThrottlingQuotaExceededError when
        the backlog is full (`writable` waits for room). Large frames are not copied: they must not change
        until they are sent, which the answer proves. Errors raised here: BufferError for a frame in pieces.
        """
        future: asyncio.Future[Response] = self._loop.create_future()
        refusal = self.submit(future, api, body, frames, expect_reply=expect_reply)
        if refusal is not None:
            future.set_exception(refusal)
            if self._failure is not None:
                future.exception()  # seen, as in `_end`
        return future

    def submit(
        self,
        asker: Asker,
        api: Api,
        body: msgspec.Struct | bytes,
        frames: Sequence[Buffer] = (),
        *,
        expect_reply: bool = True,
    ) -> KafkaError | None:
        """`send`, the outcome told to `asker`; why it was not taken, and then the asker hears nothing.

        Only without `expect_reply` may the asker hear from inside this call.
        """
        if self._failure is not None:
            return NetworkError(self._failure.detail)
        version = self._versions.get(api.key, -1)
        if version < api.min_version or self._oldest.get(api.key, 0) > api.max_version:
            return UnsupportedVersionError(f"the server does not speak our {api.name}")
        number = next(self._numbers)
        header = RequestHeader(api.key, min(version, api.max_version), number, self._session)
        payload = body if isinstance(body, bytes) else wire.encode(body)
        parts = [ready_part(part) for part in (wire.encode(header), payload, *frames)]
        outgoing = Outgoing(asker, api, number, parts, sum(map(len, parts)), expect_reply)
        if len(self._backlog) == 0 and self._transmit(outgoing):
            return None
        if self._is_choked:
            self._schedule()
        if self._backlog.append(outgoing):
            return None
        return ThrottlingQuotaExceededError(f"{len(self._backlog)} requests wait on this connection already")

    async def request(
        self, api: Api, body: msgspec.Struct | bytes, frames: Sequence[Buffer] = (), *, timeout_s: float
    ) -> Response:
        """Send a request and wait for its answer; waits for room in the backlog first.

        A timeout that comes late says nothing of the server: this loop stood still, and what arrived
        meanwhile is not read yet. The answer may then take as much longer as the timeout was late.
        Errors: RequestTimedOutError after `timeout_s` (a later answer is dropped), else as `send`.
        """
        loop = self._loop
        end_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(end_s):
                await self.writable()
        except TimeoutError:
            raise RequestTimedOutError(f"no room for {api.name} within {timeout_s:g} s") from None
        future = self.send(api, body, frames)
        try:
            late_s = LATE_S
            while not future.done() and late_s >= LATE_S:
                await asyncio.wait((future,), timeout=max(0.0, end_s - loop.time()))
                late_s = loop.time() - end_s
                end_s = loop.time() + min(late_s, timeout_s)
            if not future.done():
                raise RequestTimedOutError(f"no answer to {api.name} within {timeout_s:g} s")
            return future.result()
        finally:
            future.cancel()

    @property
    def is_writable(self) -> bool:
        """Whether `writable` would return at once."""
        return not self._backlog.is_full

    async def writable(self) -> None:
        """Wait until the backlog has room; returns at once on a closed connection, where `send` fails."""
        await self._backlog.has_room()

    def _transmit(self, outgoing: Outgoing) -> bool:
        """Hand a request to ZeroMQ; False when the window or the socket is full, or a quota is used up."""
        if self._muted:
            return False
        if outgoing.expect_reply and len(self._waiting) >= self._window:
            return False
        try:
            self._messages.send(outgoing.parts)
        except zmq.Again:
            self._is_choked = True
            return False
        outgoing.parts = ()
        if outgoing.expect_reply:
            self._waiting[outgoing.correlation_id] = outgoing
        else:
            self._has_unanswered = True
            if not outgoing.asker.done():
                outgoing.asker.set_result(Response(None, []))
        self._schedule()
        return True

    # --- answers ------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """See to it that a drain follows: a send may have used up the descriptor's edge."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = self._is_choked = False
        for _ in range(DRAIN_LIMIT):
            if self._failure is not None:
                return
            try:
                if not self._receive():
                    break
            except wire.WireError as error:
                self._end(NetworkError(f"the server sent {printable(str(error))}"), 0)
                return
        else:
            self._schedule()
        self._backlog.flush(self._transmit)
        # A send that failed may have used up the edge that told of an answer. Order: EVENTS last, because
        # what it does not report yet will make an edge of its own.
        if self._is_choked and self._socket.getsockopt(zmq.EVENTS):
            self._schedule()

    def _receive(self) -> bool:
        """Take one answer off the socket; False when there is none. Errors: WireError."""
        messages = self._messages
        parts: list[Any] | None = messages.receive(self._options.max_frames + DEALER_ENVELOPE)
        if parts is None:
            return False
        header = wire.decode_response_header(parts[0])
        if len(parts) < DEALER_ENVELOPE:
            raise wire.WireError("an answer without a body")
        if messages.is_cut:
            raise wire.WireError(f"an answer of more than {self._options.max_frames} frames")
        if header.throttle_ms > 0:
            self._mute(header.throttle_ms)
        body, frames = parts[1], parts[DEALER_ENVELOPE:]
        if header.correlation_id == wire.NO_REQUEST and header.error_code:
            # Order: behind everything that the server had to say. Left before the server ends the connection,
            # because ZeroMQ then drops what has arrived and was not taken yet.
            self._end(NetworkError(f"the server ended the connection: {header.error_detail}"), 0)
            return True
        asked = self._waiting.get(header.correlation_id)
        if asked is None:
            return True  # an error about acks=0, or an answer to nothing
        if asked.asker.done():
            del self._waiting[header.correlation_id]  # the caller has given up
            return True
        if header.error_code:
            del self._waiting[header.correlation_id]
            self._refused(asked, error_from_code(header.error_code, header.error_detail))
            return True
        decoder = wire.response_decoder(asked.api)
        decoded = wire.decode_body(decoder, body, self._options.max_body_bytes, asked.api.response.__name__)
        # Order: only now, because a body that cannot be decoded fails everything that is still waiting.
        del self._waiting[header.correlation_id]
        asked.asker.set_result(Response(decoded, frames, bytes(body)))
        return True

    def _mute(self, for_ms: int) -> None:
        """Send nothing for a while; what is sent meanwhile waits in the backlog."""
        self._muted += 1
        self._loop.call_later(min(for_ms, MAX_MUTE_MS) / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        if not self._muted and self._failure is None:
            self._schedule()

    def _refused(self, asked: Outgoing, error: KafkaError) -> None:
        if isinstance(error, NetworkError):
            # The server does not know this session any more, so nothing on this connection can succeed.
            # Order: ended first, because who is told may ask again.
            self._end(error, 0)
        asked.asker.set_exception(error)

    # --- the end ------------------------------------------------------------------------------------------

    def _on_event(self, event: int, value: int) -> None:
        self._standing.note(event, value)
        if event == zmq.EVENT_CONNECTED:
            return
        # Order: what arrived before the break counts, so it is taken off the socket first.
        while self._failure is None:
            try:
                if not self._receive():
                    break
            except wire.WireError:
                break
        if event == zmq.EVENT_CLOSED:
            reason = "nobody listens there"
        elif event == zmq.EVENT_DISCONNECTED:
            reason = "the server closed the connection"
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            reason = "the server closed the connection before it had greeted, as one for Kafka's clients does"
        else:
            reason = f"the server does not speak our protocol ({value})"
        self._end(NetworkError(reason), 0)

    def _end(self, reason: KafkaError, linger_ms: int) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        self._loop.remove_reader(self._fd)
        if not self._has_unanswered:
            linger_ms = 0
        if linger_ms == 0:
            # Order: no connection may stand when the socket is closed, see ending_io.
            self._standing.end_all(0, self._refresh)
        self._monitor.close()
        self._messages.close(linger_ms)
        # by then ZeroMQ has sent, or given up, what this connection still had
        self._loop.call_later(linger_ms / 1000 + REAP_AFTER_S, self._messages.reap)
        under_way = [*self._waiting.values(), *self._backlog.clear()]
        self._waiting.clear()
        for outgoing in under_way:
            asker = outgoing.asker
            if not asker.done():
                asker.set_exception(NetworkError(reason.detail))
                if isinstance(asker, asyncio.Future):
                    asker.exception()  # seen: a caller that does not look has lost nothing it asked for
        if self.on_close is not None:
            self.on_close()

    def _refresh(self, wait_ms: int) -> None:
        drop_arrived(self._messages, self._options.max_frames + DEALER_ENVELOPE)
        self._monitor.wait(wait_ms)
        self._monitor.drain()

    def _set_options(self, timeout_s: float) -> None:
        set_common_options(
            self._socket,
            max_frame_bytes=self._options.max_frame_bytes,
            handshake_ms=max(1, int(timeout_s * 1000)),
            heartbeat_interval_ms=self._options.heartbeat_interval_ms,
            heartbeat_timeout_ms=self._options.heartbeat_timeout_ms,
        )
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # queue nothing for a connection that does not stand
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, max(1, int(timeout_s * 1000)))
        self._socket.setsockopt(zmq.IPV6, 1)
        self._socket.setsockopt(zmq.SNDHWM, SEND_LIMIT)
        # Never reached by a server that only answers. At the mark ZeroMQ would stop reading, heartbeats too,
        # and take a server for dead that waits for our busy loop.
        self._socket.setsockopt(zmq.RCVHWM, 3 * MAX_WINDOW)


async def _resolve(loop: asyncio.AbstractEventLoop, host: str, port: int, timeout_s: float) -> list[str]:
    """Numeric addresses of a host: ZeroMQ would look names up on the one thread that moves all bytes."""
    with contextlib.suppress(ValueError):
        # a number needs no worker thread, of which there are none while the interpreter shuts down
        return [str(ipaddress.ip_address(host))]
    try:
        async with asyncio.timeout(timeout_s):
            facts = await loop.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except TimeoutError:
        raise NetworkError(f"{host} was not resolved within {timeout_s:g} s") from None
    except (OSError, UnicodeError, RuntimeError) as error:  # RuntimeError: at the interpreter's end
        raise NetworkError(f"{host} cannot be resolved: {error}") from None
    return list(dict.fromkeys(str(fact[4][0]) for fact in facts))


@functools.cache
def _software_version() -> str:
    try:
        return importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
