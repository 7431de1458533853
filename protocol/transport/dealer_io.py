"""A client connection: one DEALER socket for one TCP connection to one server.

A connection is opened, used and closed. It never reconnects (RECONNECT_IVL -1), because a reconnecting DEALER
would send its old frames again, to a server that may be another process by then. When the connection breaks,
its monitor reports that at once and all pending requests fail with NetworkError; the owner opens a new one
and decides which requests to retry.

Bound: at most `max_in_flight` requests (the server's limit) are in flight; further ones wait in order, up to
the backlog limits, and `send` rejects requests beyond those.
"""

from __future__ import annotations

import asyncio
import itertools
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
from ..messages.envelope import ApiVersionsResponse, RequestHeader
from ..messages.registry import API_VERSIONS
from . import wire
from .backlog_io import Backlog, ConnectionOptions, ConnectionRequest, Recipient
from .context_io import shared_context, tcp_endpoint
from .dealer_options_io import MAX_WINDOW, set_dealer_options
from .ending_io import Standing, drop_arrived
from .login_io import RENEW_AFTER, authenticate, check_wanted, hello_of
from .monitor_io import HANDSHAKE_FAILED, MECHANISM_MISMATCH, SocketMonitor, handshake_failure
from .multipart_io import DEALER_ENVELOPE, open_multipart, ready_part
from .peers import Response, printable
from .resolving_io import resolve
from .security import NO_SECURITY, ConnectionSecurity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from ..messages.envelope import Api
    from ..records.header import Buffer

__all__ = ["Connection", "ConnectionOptions", "Response"]

DRAIN_LIMIT = 256  # responses per wake-up; each costs some microseconds
_MONITORED = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | HANDSHAKE_FAILED
REAP_AFTER_S = 0.1
# Bound: the longest throttle that a server can impose; the server delays early requests itself.
MAX_MUTE_MS = 60_000
LATE_S = 0.1  # a timer that is later than this means that the event loop was blocked
FIRST_WINDOW = 1  # until the handshake response has the server's limit


class Connection:
    """An open connection; created by `open`. Used by one event loop, on its thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ConnectionOptions,
        security: ConnectionSecurity | None = None,
        server_key: bytes | None = None,
        host: str = "",
    ) -> None:
        self._host = host
        self.on_close: Callable[[], None] | None = None
        self.server_key = server_key  # the server's CURVE key, None without encryption
        self.has_wrong_key = False  # the server ended the CURVE handshake
        self._loop = loop
        self._options = options
        self._security = security or NO_SECURITY
        self._renewing: asyncio.Task[None] | None = None
        self._hello: ApiVersionsResponse | None = None
        self._versions: dict[int, int] = {API_VERSIONS.key: 0}
        self._oldest: dict[int, int] = {}
        self._window = FIRST_WINDOW
        self._session = 0
        self._numbers = itertools.count(1)
        self._waiting: dict[int, ConnectionRequest] = {}  # sent requests, including cancelled ones
        self._backlog = Backlog(loop, options)
        self._is_scheduled = self._is_choked = False  # choked: ZeroMQ's queue is full
        self._muted = 0  # throttle responses in effect: nothing is sent meanwhile
        self._has_unanswered = False  # a request without response was sent
        self._standing = Standing()
        self._failure: KafkaError | None = None

    # --- life cycle -----------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        options: ConnectionOptions | None = None,
        security: ConnectionSecurity | None = None,
        server: str = "",
    ) -> Connection:
        """Connect, shake hands and authenticate, trying each address of `host`, with each key that `server`
        may have.

        Errors: NetworkError if no address responds in time or the server has another key,
        UnsupportedVersionError if the server has another protocol version, SaslAuthenticationFailedError, or
        the error with which the server rejects the handshake.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        failure = NetworkError("the host name has no address")
        addresses = await resolve(loop, host, port, timeout_s)
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # each address gets its share of the time, so that a dead first one leaves time for the next
            share_s = max(0.0, (end_s - loop.time()) / left)
            try:
                async with asyncio.timeout(share_s):
                    return await cls._open_one(
                        loop, host, address, port, client_id, share_s, options, security, server
                    )
            except TimeoutError:
                failure = NetworkError(f"no response within {share_s:.3g} s")
            except NetworkError as error:
                failure = error
        raise NetworkError(f"cannot connect to {host}:{port}: {failure}")

    @classmethod
    async def _open_one(
        cls,
        loop: asyncio.AbstractEventLoop,
        host: str,
        address: str,
        port: int,
        client_id: str,
        timeout_s: float,
        options: ConnectionOptions | None,
        security: ConnectionSecurity | None,
        server: str,
    ) -> Connection:
        failure = NetworkError(f"no public key of {server or 'the server'} is known")
        for server_key in (security or NO_SECURITY).possible_keys(server):
            connection = cls(loop, options or ConnectionOptions(), security, server_key, host)
            connection._start(tcp_endpoint(address, port), timeout_s)
            try:
                await connection._shake_hands(client_id)
            except BaseException as error:
                connection._end(NetworkError("the handshake failed"), 0)
                if not (isinstance(error, NetworkError) and connection.has_wrong_key):
                    raise
                failure = error
            else:
                return connection
        raise failure

    def _start(self, endpoint: str, timeout_s: float) -> None:
        try:
            self._socket = shared_context().socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise NetworkError(f"creating a socket failed: {error.strerror}") from None
        try:
            own_keys = self._security.own_keys
            set_dealer_options(self._socket, self._options, timeout_s, self.server_key, own_keys)
            self._monitor = SocketMonitor(self._socket, _MONITORED, self._on_event)
            try:
                self._socket.connect(endpoint)
            except BaseException:
                self._monitor.close()
                raise
        except BaseException as error:
            self._socket.close(0)
            if isinstance(error, zmq.ZMQError):  # invalid address or port, or no free descriptor
                raise NetworkError(f"{endpoint}: {error.strerror}") from None
            raise
        self._messages = open_multipart(self._socket, envelope=DEALER_ENVELOPE)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._drain)
        self._schedule()

    async def _shake_hands(self, client_id: str) -> None:
        hello: ApiVersionsResponse = (await self.send(API_VERSIONS, hello_of(client_id))).body
        if hello.error_code:
            raise error_from_code(hello.error_code, hello.error_detail)
        self._hello = hello
        self._session = hello.session
        self._window = min(max(1, hello.max_in_flight), MAX_WINDOW)
        self._versions.update({served.api_key: served.max_version for served in hello.apis})
        self._oldest.update({served.api_key: served.min_version for served in hello.apis})
        if self.server_key is not None and self._security.learned is not None:
            self._security.learned(hello.server_keys)
        check_wanted(self._security.credentials, hello.sasl_mechanisms)
        await self._authenticate()

    async def _authenticate(self) -> None:
        """Errors: SaslAuthenticationFailedError, NetworkError."""
        if self._security.credentials is None:
            return
        lifetime_ms = await authenticate(self, self._security.credentials, self._host)
        if lifetime_ms:
            self._loop.call_later(lifetime_ms * RENEW_AFTER / 1000, self._renew)

    def _renew(self) -> None:
        if self._failure is None:
            self._renewing = self._loop.create_task(self._authenticate_again())

    async def _authenticate_again(self) -> None:
        try:
            await self._authenticate()
        except KafkaError as error:
            self._end(NetworkError(f"the connection cannot be used any longer: {error}"), 0)

    @property
    def hello(self) -> ApiVersionsResponse:
        """The server's handshake response."""
        assert self._hello is not None, "open() returns only after the handshake"
        return self._hello

    @property
    def is_closed(self) -> bool:
        """True after a close or a break; a connection never becomes usable again."""
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        """Requests without response, including cancelled ones."""
        return len(self._waiting)

    def close(self, linger_ms: int = 1000) -> None:
        """Close the connection; pending requests fail with NetworkError.

        Requests without response (acks=0) that were passed to ZeroMQ before are still sent for up to
        `linger_ms`, in the background.
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
        """Send a request now, or as soon as the server's limit allows, in the order of the calls.

        The future returns the response, or the error of the response header; without `expect_reply` it
        completes with a None body once the request is passed to ZeroMQ. It fails with NetworkError if the
        connection breaks, UnsupportedVersionError if the server does not support the api, and
        ThrottlingQuotaExceededError if the backlog is full (see `writable`). Large frames are not copied:
        they must not change until they are sent, which the response proves. Errors raised here: BufferError
        for a frame that is not contiguous.
        """
        future: asyncio.Future[Response] = self._loop.create_future()
        refusal = self.submit(future, api, body, frames, expect_reply=expect_reply)
        if refusal is not None:
            future.set_exception(refusal)
            if self._failure is not None:
                future.exception()  # mark as retrieved, as in `_end`
        return future

    def submit(
        self,
        recipient: Recipient,
        api: Api,
        body: msgspec.Struct | bytes,
        frames: Sequence[Buffer] = (),
        *,
        expect_reply: bool = True,
    ) -> KafkaError | None:
        """`send` with the outcome delivered to `recipient`. Returns the error if the request was rejected;
        `recipient` is not called then.

        Only without `expect_reply` may `recipient` be called before this returns.
        """
        if self._failure is not None:
            return NetworkError(self._failure.detail)
        version = self._versions.get(api.key, -1)
        if version < api.min_version or self._oldest.get(api.key, 0) > api.max_version:
            return UnsupportedVersionError(
                f"the server does not support {api.name} in a version of this client"
            )
        number = next(self._numbers)
        header = RequestHeader(api.key, min(version, api.max_version), number, self._session)
        payload = body if isinstance(body, bytes) else wire.encode(body)
        parts = [ready_part(part) for part in (wire.encode(header), payload, *frames)]
        request = ConnectionRequest(recipient, api, number, parts, sum(map(len, parts)), expect_reply)
        if len(self._backlog) == 0 and self._transmit(request):
            return None
        if self._is_choked:
            self._schedule()
        if self._backlog.append(request):
            return None
        return ThrottlingQuotaExceededError(
            f"{len(self._backlog)} requests wait on this connection, its limit"
        )

    async def request(
        self, api: Api, body: msgspec.Struct | bytes, frames: Sequence[Buffer] = (), *, timeout_s: float
    ) -> Response:
        """Wait for room in the backlog, send a request and wait for its response.

        A late timeout says nothing about the server: the event loop was blocked, and responses that arrived
        meanwhile are not read yet. The timeout is then extended by its own delay. Errors:
        RequestTimedOutError after `timeout_s` (a later response is dropped), else as `send`.
        """
        loop = self._loop
        end_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(end_s):
                await self.writable()
        except TimeoutError:
            raise RequestTimedOutError(
                f"{api.name} was not sent within {timeout_s:g} s: the backlog is full"
            ) from None
        future = self.send(api, body, frames)
        try:
            late_s = LATE_S
            while not future.done() and late_s >= LATE_S:
                await asyncio.wait((future,), timeout=max(0.0, end_s - loop.time()))
                late_s = loop.time() - end_s
                end_s = loop.time() + min(late_s, timeout_s)
            if not future.done():
                raise RequestTimedOutError(f"no response to {api.name} within {timeout_s:g} s")
            return future.result()
        finally:
            future.cancel()

    @property
    def is_writable(self) -> bool:
        """Whether `writable` would return at once."""
        return not self._backlog.is_full

    async def writable(self) -> None:
        """Wait for room in the backlog; returns at once on a closed connection, where `send` fails."""
        await self._backlog.has_room()

    def _transmit(self, request: ConnectionRequest) -> bool:
        """Pass a request to ZeroMQ; False if the server's limit is reached, the socket is full, or a throttle
        is in effect."""
        if self._muted:
            return False
        if request.expect_reply and len(self._waiting) >= self._window:
            return False
        try:
            self._messages.send(request.parts)
        except zmq.Again:
            self._is_choked = True
            return False
        request.parts = ()
        if request.expect_reply:
            self._waiting[request.correlation_id] = request
        else:
            self._has_unanswered = True
            if not request.recipient.done():
                request.recipient.set_result(Response(None, []))
        self._schedule()
        return True

    # --- responses ------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Schedule a drain: a send may have consumed the descriptor's edge."""
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
        # A failed send may have consumed the edge that signals a response. Order: EVENTS last, because later
        # arrivals create a new edge.
        if self._is_choked and self._socket.getsockopt(zmq.EVENTS):
            self._schedule()

    def _receive(self) -> bool:
        """Receive one response; False if there is none. Errors: WireError."""
        messages = self._messages
        parts: list[Any] | None = messages.receive(self._options.max_frames + DEALER_ENVELOPE)
        if parts is None:
            return False
        header = wire.decode_response_header(parts[0])
        if len(parts) < DEALER_ENVELOPE:
            raise wire.WireError("a response without a body")
        if messages.is_cut:
            raise wire.WireError(f"a response of more than {self._options.max_frames} frames")
        if header.throttle_ms > 0:
            self._mute(header.throttle_ms)
        body, frames = parts[1], parts[DEALER_ENVELOPE:]
        if header.correlation_id == wire.NO_REQUEST and header.error_code:
            # Order: after all responses of the server. Closed here before the server closes the connection,
            # because ZeroMQ then drops messages that have arrived and were not received yet.
            self._end(NetworkError(f"the server ended the connection: {header.error_detail}"), 0)
            return True
        asked = self._waiting.get(header.correlation_id)
        if asked is None:
            return True  # an error of an acks=0 request, or a response to an unknown request
        if asked.recipient.done():
            del self._waiting[header.correlation_id]  # the request was cancelled
            return True
        if header.error_code:
            del self._waiting[header.correlation_id]
            self._refused(asked, error_from_code(header.error_code, header.error_detail))
            return True
        decoder = wire.response_decoder(asked.api)
        decoded = wire.decode_body(decoder, body, self._options.max_body_bytes, asked.api.response.__name__)
        # Order: only now, because a body that cannot be decoded fails all pending requests.
        del self._waiting[header.correlation_id]
        asked.recipient.set_result(Response(decoded, frames, bytes(body)))
        return True

    def _mute(self, for_ms: int) -> None:
        """Pause sending by a throttle; requests wait in the backlog."""
        self._muted += 1
        self._loop.call_later(min(for_ms, MAX_MUTE_MS) / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        if not self._muted and self._failure is None:
            self._schedule()

    def _refused(self, asked: ConnectionRequest, error: KafkaError) -> None:
        if isinstance(error, NetworkError):
            # The server does not know this session any more, so no request on this connection can succeed.
            # Order: closed first, because the recipient may send again.
            self._end(error, 0)
        asked.recipient.set_exception(error)

    # --- end of the connection ------------------------------------------------------------------------------

    def _on_event(self, event: int, value: int) -> None:
        self._standing.note(event, value)
        if event == zmq.EVENT_CONNECTED:
            return
        # Order: messages that arrived before the break are received first.
        while self._failure is None:
            try:
                if not self._receive():
                    break
            except wire.WireError:
                break
        if event == zmq.EVENT_CLOSED:
            reason = "connection refused: no server listens on this port"
        elif event == zmq.EVENT_DISCONNECTED:
            reason = "the server closed the connection"
        else:
            self.has_wrong_key = self.server_key is not None and value != MECHANISM_MISMATCH
            reason = handshake_failure(event, value, has_curve=self.server_key is not None)
        self._end(NetworkError(reason), 0)

    def _end(self, reason: KafkaError, linger_ms: int) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        self._loop.remove_reader(self._fd)
        if not self._has_unanswered:
            linger_ms = 0
        if linger_ms == 0:
            # Order: no connection may exist when the socket is closed, see ending_io.
            self._standing.end_all(0, self._refresh)
        self._monitor.close()
        self._messages.close(linger_ms)
        # by then ZeroMQ has sent or dropped the remaining messages of this connection
        self._loop.call_later(linger_ms / 1000 + REAP_AFTER_S, self._messages.reap)
        under_way = [*self._waiting.values(), *self._backlog.clear()]
        self._waiting.clear()
        for request in under_way:
            recipient = request.recipient
            if not recipient.done():
                recipient.set_exception(NetworkError(reason.detail))
                if isinstance(recipient, asyncio.Future):
                    recipient.exception()  # mark as retrieved: callers may ignore it
        if self.on_close is not None:
            self.on_close()

    def _refresh(self, wait_ms: int) -> None:
        drop_arrived(self._messages, self._options.max_frames + DEALER_ENVELOPE)
        self._monitor.wait(wait_ms)
        self._monitor.drain()
