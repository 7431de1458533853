"""The server side: one ROUTER socket, drained on the event loop, which passes each request to a handler.

It receives, validates, decodes, counts and dispatches requests, and sends responses. There is no await and no
task per request: the loop wakes on ZeroMQ's file descriptor and the handler runs in the same call.

Pitfalls of ZeroMQ, and how they are handled (each has a test):
1. The descriptor is edge-triggered and a send may consume its edge: drain until EAGAIN, and check again after
   every send outside of a drain. A drain is bounded so that timers run.
2. A ROUTER silently drops messages for a peer that is full or gone: ROUTER_MANDATORY reports it, and that
   peer's connection is closed, so that it detects the loss.
3. ZeroMQ hides broken connections: a monitor reports them, and the peer's state is freed at once.
4. A message may have any number of parts: parts above the limit are dropped one by one, unassembled. ZeroMQ
   keeps them until the last one has arrived: see `unfinished_io`.
5. Unbinding or closing a socket loses responses, and may abort the process: see `ending_io`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

import zmq

from ..errors import IllegalSaslStateError, InvalidRequestError, KafkaError, NetworkError
from ..messages.registry import API_VERSIONS
from . import connections_io, wire
from .admission import Admission
from .authentication import ListenerAuthentication
from .authentication_io import SaslHandler
from .context_io import bind_tcp, shared_context
from .ending_io import Standing, drop_arrived
from .monitor_io import HANDSHAKE_FAILED, WRONG_KEY, SocketMonitor
from .multipart_io import ROUTER_ENVELOPE, open_multipart
from .peers import Peer, PeerTable, Request, RouterLimits, ServerIdentity, printable
from .pending import PendingBytes
from .router_options_io import set_router_options, sweep_interval_s
from .stats import RouterStats
from .unfinished_io import UnfinishedMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import msgspec

    from ..messages.envelope import Api, RequestHeader
    from ..records.header import Buffer
    from .security import RouterSecurity

__all__ = ["Peer", "Request", "Router", "RouterLimits", "ServerIdentity"]

_LOG = logging.getLogger(__name__)
# Bound: messages per wake-up, and its duration, since large ones take long: timers and sockets wait.
DRAIN_LIMIT = 64
DRAIN_S = 0.002
SKIP_LIMIT = 4096  # parts of an oversized message dropped per wake-up
# ZeroMQ closes a listening socket on its IO thread, within a millisecond.
UNBIND_TIMEOUT_MS = 200
STOP_LINGER_MS = 1_000
_LOOK_AGAIN_S = 0.001  # interval of checks for disconnected peers; grows up to 16 times
_STOPPING = wire.encode_response_header(wire.NO_REQUEST, NetworkError.code, "the server is stopping")
_MONITORED = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | HANDSHAKE_FAILED


class Router:
    """Serves `apis` on one port. `handler` is called on the loop, once per request, and answers it then or
    later through this router; a KafkaError that it raises becomes the response.

    Any other exception of the handler is a bug: the router stops and `run` raises it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Callable[[Request], None],
        apis: Iterable[Api],
        identity: ServerIdentity,
        limits: RouterLimits | None = None,
        security: RouterSecurity | None = None,
    ) -> None:
        """Without `security` connections are neither encrypted nor authenticated."""
        self.host = host
        self.port = port
        self.stats = RouterStats()
        self.on_peer_gone: Callable[[Peer], None] | None = None
        self._limits = limits or RouterLimits()
        self._peers = PeerTable(self._limits.max_peers)
        self._pending = PendingBytes()
        authentication = ListenerAuthentication(security, apis)
        self._admission = Admission(authentication, identity, self._limits, self._peers, self._pending)
        self._keys = None if security is None else security.keys
        self._sasl = security and SaslHandler(authentication, self._peers, handler, self)
        self._handler = self._sasl.take if self._sasl else handler
        self._max_parts = self._limits.max_frames + 1  # with the routing key
        self._leaving: list[Peer] = []
        self._is_draining = False
        self._is_scheduled = False
        self._is_stopping = False
        self._is_closed = True
        # (kind, text) of peers' protocol errors, of any number; the owner limits how often they are logged.
        self.warn: Callable[[str, str], None] = lambda _kind, text: _LOG.warning("%s", text)

    # --- life cycle -----------------------------------------------------------------------------------------

    def start(self) -> int:
        """Bind on the running loop; returns the bound port. Errors: OSError, such as EADDRINUSE."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._socket = shared_context().socket(zmq.ROUTER)
        try:
            set_router_options(self._socket, self._limits, self._keys)
            self.port = bind_tcp(self._socket, self.host, self.port)
        except BaseException:
            self._socket.close(0)
            raise
        self._messages = open_multipart(self._socket, envelope=ROUTER_ENVELOPE, pending=self._pending)
        self._is_closed = False
        self._now_ms = self._read_clock()
        self._standing = Standing()
        self._monitor = SocketMonitor(
            self._socket, _MONITORED, functools.partial(self._guarded, self._on_event)
        )
        self._handshakes = connections_io.PendingHandshakes(self.port, self._limits, self._monitor.drain)
        self._unfinished = UnfinishedMessages(self._socket, self._peers, self._handshakes, self._admission)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._on_readable)
        self._sweep_interval_s = sweep_interval_s(self._limits)
        self._timer = self._loop.call_later(self._sweep_interval_s, self._guarded, self._sweep)
        self._schedule()
        return self.port

    def limit(self, limits: RouterLimits) -> None:
        """Change the limits; those that the socket was bound with, of frames and of requests of one peer,
        must stay the same. Peers above the limit stay until they disconnect."""
        before = self._limits
        assert (limits.max_request_bytes, limits.max_in_flight) == (
            before.max_request_bytes,
            before.max_in_flight,
        )
        self._limits = self._admission.limits = limits
        self._peers.limit = self._handshakes.limit = limits.max_peers
        self._sweep_interval_s = sweep_interval_s(limits)

    async def run(self) -> None:
        """Wait until the router is closed. Errors: the failure that stopped it, if any."""
        await asyncio.shield(self._ended)

    async def stop(self, linger_ms: int = STOP_LINGER_MS) -> None:
        """Stop serving, and close when every peer has read its responses and disconnected, or after
        `linger_ms`.

        Each peer gets a closing message behind its responses, on which headrace's clients disconnect.
        Later requests and their responses are dropped; peers that stay longer lose unread responses.
        """
        if self._is_closed:
            return
        if self._is_stopping:
            await asyncio.wait([self._ended])
            return
        self._is_stopping = True
        end_s, pause_s = time.monotonic() + linger_ms / 1000, _LOOK_AGAIN_S
        staying, untold = list(self._peers), list(self._peers)
        try:
            while staying and not self._is_closed:
                # repeat it for peers whose queues were full
                untold = [peer for peer in untold if not self._send_closing_message(peer.key)]
                if time.monotonic() >= end_s:
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 16 * _LOOK_AGAIN_S)
                staying = [peer for peer in staying if peer.is_connected]
        finally:
            self.close()

    def _send_closing_message(self, key: bytes) -> bool:
        """Send the closing message to a peer; False if its queue is full."""
        try:
            self._messages.send((key, _STOPPING, b""))
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return error.errno == zmq.EHOSTUNREACH
        finally:
            self._schedule()
        return True

    def close(self) -> None:
        """Stop serving at once; unsent responses are lost. The port is free on return."""
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.cancel()
        self._loop.remove_reader(self._fd)
        # Order: no connection may exist when the socket is unbound.
        if not self._standing.end_all(self.port, self._refresh):
            _LOG.warning(
                "router on port %d: closing although some connections did not end in time", self.port
            )
        # Order: wait for the port to be free, so that a successor can bind it as soon as this returns.
        self._socket.unbind(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._monitor.wait_for(zmq.EVENT_CLOSED, UNBIND_TIMEOUT_MS)
        self._monitor.close()
        for peer in self._peers:
            self._peers.forget(peer)
        self._messages.close(0)
        if not self._ended.done():
            self._ended.set_result(None)

    def _refresh(self, wait_ms: int) -> None:
        """Process connection events, after waiting for some, and drop received messages."""
        drop_arrived(self._messages, self._max_parts)
        self._monitor.wait(wait_ms)
        self._monitor.drain()

    @property
    def connections(self) -> int:
        """Connected peers after their handshake."""
        return len(self._peers)

    @property
    def queued_bytes(self) -> int:
        """Bytes of requests without response."""
        return self._admission.queued_bytes

    @property
    def pending_response_bytes(self) -> int:
        """Bytes of large response frames that peers have not read yet."""
        return self._pending.total()

    # --- responses ------------------------------------------------------------------------------------------

    def reply(self, request: Request, body: msgspec.Struct | bytes, frames: Sequence[Buffer] = ()) -> None:
        """Send a response with frames. The frames must not change until they are sent.

        A response to a peer that has disconnected, or does not read, is dropped and counted.
        """
        peer = self._admission.settle(request, self._now_ms)
        if not peer.is_connected:
            self.stats.answers_dropped += 1
            return
        payload = body if isinstance(body, bytes) else wire.encode(body)
        header = wire.encode_response_header(request.correlation_id, throttle_ms=request.throttle_ms)
        # the body as well: the response to a small request may be large, and is then tracked like frames
        self._transmit(peer.key, (peer.key, header, payload, *frames))

    def reply_error(self, request: Request, error: KafkaError) -> None:
        """Respond with an error in the header and an empty body: the request had no effect."""
        peer = self._admission.settle(request, self._now_ms)
        if peer.is_connected:
            self._refuse(peer.key, request.correlation_id, error)
        else:
            self.stats.answers_dropped += 1

    def no_reply(self, request: Request) -> None:
        """The request is done and its client expects no response (acks=0)."""
        self._admission.settle(request, self._now_ms)

    def _refuse(self, key: bytes, correlation_id: int, error: KafkaError) -> None:
        self.stats.requests_refused += 1
        self._transmit(key, (key, wire.encode_response_header(correlation_id, error.code, str(error)), b""))

    def _transmit(self, key: bytes, parts: Sequence[Buffer]) -> None:
        if self._is_stopping or self._is_closed:
            return
        try:
            self._messages.send(parts, key)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            self._schedule()  # a failed send may have consumed the edge, too
            self.stats.answers_dropped += 1
            if error.errno == zmq.EAGAIN:
                self._drop(key, -1, "it does not read its responses")
            else:
                self._leave(self._peers.get(key))
            return
        self.stats.answers_sent += 1
        self._schedule()

    # --- requests -------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Schedule a drain: a send may have consumed the descriptor's edge."""
        if not self._is_scheduled and not self._is_draining:
            self._is_scheduled = True
            self._loop.call_soon(self._on_readable)

    def _on_readable(self) -> None:
        self._guarded(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        self._now_ms = self._read_clock()
        left_before = len(self._leaving)
        self._is_draining = True
        try:
            is_empty = self._take_some()
        finally:
            self._is_draining = False
        if is_empty:
            # Order: only now, because messages of a peer that has disconnected were still to be received
            # (acks=0).
            gone, self._leaving = self._leaving[:left_before], self._leaving[left_before:]
            for peer in gone:
                self._forget(peer)
        if not is_empty or self._leaving:
            self._schedule()

    def _take_some(self) -> bool:
        """Handle received messages, within bounds; True if none is left."""
        end_s = time.monotonic() + DRAIN_S
        for _ in range(DRAIN_LIMIT):
            if not self._receive():
                return True
            if time.monotonic() >= end_s:
                break
        return False

    def _receive(self) -> bool:
        """Receive one message and handle it; False if there is none."""
        if self._is_closed:
            return False
        messages = self._messages
        if messages.is_cut:
            messages.skip(SKIP_LIMIT)
            return True
        parts: list[Any] | None = messages.receive(self._max_parts)
        if parts is None:
            return False
        key = parts[0]
        if self._is_stopping:
            if self._peers.get(key) is None:
                self._send_closing_message(key)  # a new connection, which would wait for its handshake
            return True
        try:
            self._check_shape(parts)
            header = wire.decode_request_header(parts[1])
        except wire.WireError as error:
            self._drop(key, messages.source(), str(error))
            return True
        try:
            self._handle(key, header, parts[2], parts[ROUTER_ENVELOPE:])
        except KafkaError as refusal:
            if isinstance(refusal, IllegalSaslStateError):  # it knew from the handshake
                self._drop(key, self._messages.source(), str(refusal))
            else:
                self._refuse(key, header.correlation_id, refusal)
        return True

    def _check_shape(self, parts: Sequence[Buffer]) -> None:
        """Errors: WireError for a message that cannot be a request."""
        if self._messages.is_cut:
            raise wire.WireError(f"a message of more than {self._limits.max_frames} frames")
        if len(parts) < ROUTER_ENVELOPE:
            raise wire.WireError("a message without a body")

    def _handle(self, key: bytes, header: RequestHeader, body: Buffer, frames: list[memoryview]) -> None:
        """Handle a handshake, or admit and dispatch a request. Errors: the KafkaError of its rejection."""
        if header.api_key == API_VERSIONS.key:
            self._shake_hands(key, header, body)
            return
        request = self._admission.let_in(key, header, body, frames, self._now_ms)
        self.stats.requests += 1
        self.stats.request_bytes += request.queued_bytes
        try:
            self._handler(request)
        except KafkaError as error:
            self.reply_error(request, error)

    def _shake_hands(self, key: bytes, header: RequestHeader, body: Buffer) -> None:
        hello = self._admission.read_hello(key, header, body)
        # Order: events of broken connections first, since one of them may have had this descriptor.
        self._monitor.drain()
        descriptor = self._messages.source()
        address = connections_io.far_end(descriptor, self.port)
        peer = Peer(
            key=key,
            session=secrets.randbits(62) + 1,  # never 0, which means "no handshake"
            last_seen_ms=self._now_ms,
            address=address,
            descriptor=descriptor if address else -1,
        )
        if (known := self._peers.get(key)) is not None:
            self._forget(known)
        welcome = self._admission.welcome(peer, hello, self._messages.user_id() if self._keys else "")
        self._handshakes.shook_hands(descriptor)
        if (surplus := self._peers.surplus_unauthenticated()) is not None:
            self._end(surplus, "this server has too many connections that are not authenticated")
        self.stats.handshakes += 1
        self._transmit(key, (key, wire.encode_response_header(header.correlation_id), wire.encode(welcome)))

    # --- connections ----------------------------------------------------------------------------------------

    def _drop(self, key: bytes, descriptor: int, reason: str) -> None:
        """Close a peer's connection and remove it: it does not read, or violates the protocol."""
        peer = self._peers.get(key)
        self.stats.peers_dropped += 1
        client = f"{peer.address} {peer.client_id}" if peer else "an unknown client"
        self.warn("connection dropped", f"connection of {client} dropped: {printable(reason)}")
        self._disconnect(key, peer.descriptor if peer else descriptor, InvalidRequestError(reason))
        if peer is not None:
            self._forget(peer)

    def _disconnect(self, key: bytes, descriptor: int, reason: KafkaError) -> None:
        """Send a peer the reason, if its queue has room, and shut its connection down."""

        def is_still_there() -> bool:
            # Order: EVENTS first, which makes ZeroMQ check for broken connections; a send alone may not.
            self._socket.getsockopt(zmq.EVENTS)
            try:
                closing = wire.encode_response_header(wire.NO_REQUEST, reason.code, str(reason))
                self._messages.send((key, closing, b""))
            except zmq.ZMQError as error:
                if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                    raise
                # a full queue hides whether the peer exists; then its address decides
                return error.errno == zmq.EAGAIN and connections_io.is_at(self._peers.get(key), self.port)
            return True

        connections_io.disconnect(descriptor, self.port, is_still_there)
        self._schedule()

    def _leave(self, peer: Peer | None) -> None:
        """The peer's connection is broken: it gets no responses, and is removed after its last requests."""
        if peer is not None and peer.is_connected:
            peer.is_connected = False
            self._leaving.append(peer)
            self._schedule()

    def _forget(self, peer: Peer) -> None:
        is_known = self._peers.forget(peer) and not peer.is_unauthenticated
        if is_known and self.on_peer_gone is not None and not self._is_stopping:
            # later: this may run inside a reply, while the owner is in the middle of another step
            self._loop.call_soon(self._guarded, self.on_peer_gone, peer)

    def _on_event(self, event: int, value: int) -> None:
        self._standing.note(event, value)
        if event == zmq.EVENT_ACCEPTED:
            self.stats.connections_accepted += 1
            if not self._handshakes.accepted(value, self._read_clock(), len(self._peers)):
                self.stats.connections_refused += 1
        elif event == zmq.EVENT_DISCONNECTED:
            self._handshakes.gone(value)
            self._leave(self._peers.at(value))
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            # port scans and early disconnects: not actionable for operators
            self.stats.handshakes_broken_off += 1
        elif event & HANDSHAKE_FAILED:
            self.stats.handshakes_failed += 1
            # a wrong key is no fault: clients try the keys of all servers that they know
            if value != WRONG_KEY:
                text = f"a connection to port {self.port} uses another protocol ({value})"
                self.warn("handshake failed", text)

    def _sweep(self) -> None:
        """Close connections that are idle, blocked, or without a handshake."""
        self._messages.reap()
        self._now_ms = self._read_clock()
        self._timer = self._loop.call_later(self._sweep_interval_s, self._guarded, self._sweep)
        self.stats.connections_refused += self._handshakes.sweep(self._now_ms)
        for unfinished, reason in self._unfinished.look(self._limits):
            self.stats.messages_unfinished += 1
            self._drop(unfinished.key, unfinished.descriptor, reason)
        self._schedule()  # the look may have consumed the edge
        for peer in self._peers:
            if peer.in_flight == 0 and self._now_ms - peer.last_seen_ms > self._limits.idle_timeout_ms:
                self.stats.peers_idled += 1
                self._end(peer, "this connection was idle")
            elif self._sasl and (reason := self._sasl.fault_of(peer, self.port, self._now_ms, self._limits)):
                self.stats.authentications_overdue += 1
                self._end(peer, reason)

    def _end(self, peer: Peer, reason: str) -> None:
        """Close a peer's connection and remove it, without a fault of its own."""
        self._disconnect(peer.key, peer.descriptor, NetworkError(reason))
        self._forget(peer)

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        """Run a callback of the loop; asyncio would only log its exceptions."""
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 - the shell ends here, and `run` raises it
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        _LOG.error("router on port %d failed, the server stops: %s", self.port, printable(repr(error)))
        if not self._ended.done():
            self._ended.set_exception(error)
        self.close()

    def _read_clock(self) -> int:
        return int(self._loop.time() * 1000)
