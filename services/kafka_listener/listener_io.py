"""The listener for Kafka clients: its ports, its connections, and the memory of all their requests.

Fulfils Gateway (storage_node/edge/gateway.py) and Plane (calls.py). One loop, one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import socket
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ConfigError, InvalidRequestError
from ...protocol.transport.listen_errors import address_error, listen_error
from ...protocol.transport.peers import max_unauthenticated, printable
from ...runtime.files.files_io import raise_descriptor_limit
from ...runtime.limited_log_io import LimitedLog
from ...storage_node.configs.gateway_config import advertised, configured_listeners, security_of
from ...storage_node.configs.listener_security import SecurityProtocol
from .connection_io import KafkaConnection
from .deadlines import Deadlines
from .encoded import EncodedResponses
from .fetch_sessions import FetchSessions
from .framing import SHARED_BYTES
from .memory import RequestMemory
from .ready import ReadyResponses
from .served import SERVED
from .sockets_io import Sockets
from .tallies import Tallies
from .telemetry import ClientTelemetry
from .throttling import Throttle
from .tls_io import READ_BYTES, SEAL_BYTES
from .turns_io import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from ...protocol.model import ListenerEndpoint
    from ...runtime.telemetry.samples import Samples
    from ...storage_node.configs.listener_security import ListenerSecurity
    from ...storage_node.configs.node_config import NodeConfig
    from ...storage_node.edge.gateway import GatewayHost
    from .calls import Call, KafkaPeer

    NewSecured = Callable[[ListenerSecurity, "KafkaListener"], "Secured"]

_LOG = logging.getLogger(__name__)
BACKLOG = 1024
SWEEP_S = 1.0
LINGER_S = 1.0
# How long a connection that others wait for, until it has sent the rest of its frame, may send nothing.
STALL_MS = 5_000


class Secured(Protocol):
    """What the connections of one listener with TLS or SASL share."""

    def connect(self, name: str, descriptor: int, remote: Any) -> KafkaConnection:
        """A connection that has to authenticate. Arguments as of KafkaConnection."""

    def check(self, security: ListenerSecurity) -> None:
        """Whether the listener can have these key stores. Errors: ConfigError."""

    def follow(self, security: ListenerSecurity, log: logging.Logger) -> None:
        """Use other key stores from now on, if they can be loaded."""

    def reload(self, log: logging.Logger) -> None:
        """Load key stores that have changed."""

    def close(self) -> None:
        """Release what it holds."""

    @property
    def certificate_expiry_s(self) -> float | None:
        """When the certificate in use expires; None without one."""


class KafkaListener:
    """All connections of Kafka clients to one node."""

    served = SERVED

    def __init__(self, host: GatewayHost, new_secured: NewSecured) -> None:
        """`new_secured` makes what the connections of a listener with TLS or SASL share."""
        self.host, self._new_secured = host, new_secured
        self.shared = bytearray(SHARED_BYTES)
        self.encoded = EncodedResponses()
        self.ready = ReadyResponses()
        self.fetch_sessions = FetchSessions(
            lambda: self.host.config.now.max_incremental_fetch_session_cache_slots,
            lambda: secrets.randbelow(2**31 - 1) + 1,
        )
        self.telemetry = ClientTelemetry()
        self.throttle = Throttle(host, self.now_ms, time.perf_counter)
        self._bound: dict[str, socket.socket] = {}
        self.sockets = Sockets(self.guarded)
        self.loop: asyncio.AbstractEventLoop
        self._advertised: list[ListenerEndpoint] = []
        self._ended: list[KafkaConnection] = []  # closed, and not cleaned up yet
        self._connections: set[KafkaConnection] = set()
        self._unsent: set[KafkaConnection] = set()
        self.memory = RequestMemory()
        self._is_resume_scheduled = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._log = LimitedLog(_LOG)
        self._is_closed = False
        self.stall_ms = STALL_MS
        self._secured: dict[str, Secured] = {}
        self._overrides: tuple[str, ...] = ()  # keys of single listeners that are in use
        self.unready: Deadlines[KafkaConnection] = Deadlines()
        self.turns = Turns(self.soon)
        self._cipher_buffer: memoryview | None = None
        self._plain_buffer: memoryview | None = None
        self._sessions = itertools.count(secrets.randbits(61) + 1)
        self.tallies, self.broken = Tallies(), 0

    # --- life --------------------------------------------------------------------------------------------

    def bind(self) -> tuple[ListenerEndpoint, ...]:
        """Bind the listeners; their advertised addresses. Errors: OSError."""
        config = self.host.config.now
        self._overrides = config.listener_name
        try:
            for listener in configured_listeners(config, config.listener_host):
                security = security_of(config, listener.name)
                if security.protocol is not SecurityProtocol.PLAINTEXT:
                    self._secured[listener.name] = self._new_secured(security, self)
                port = self._bind(listener)
                self._advertised.append(advertised(config, listener.name, port, config.host))
        except BaseException:
            self.close()
            raise
        return tuple(self._advertised)

    def check(self, config: NodeConfig) -> None:
        """Part of Gateway."""
        for name in self._bound:
            security = security_of(config, name)
            if security.own == security_of(self.host.config.own, name).own:
                continue
            if (secured := self._secured.get(name)) is None:
                raise ConfigError(f"listener {name} has no TLS")
            secured.check(security)

    def _bind(self, listener: ListenerEndpoint) -> int:
        stored = 0 if listener.port else self.host.stored_port(listener.name)
        try:
            bound = _bound_socket(listener.host, listener.port or stored)
        except OSError as error:
            if not stored:
                raise listen_error(f"listener {listener.name}", error) from error
            _LOG.warning(
                "listener %s: cannot bind the port of its last run (%s): using a free port",
                listener.name,
                error.strerror,
            )
            bound = _bound_socket(listener.host, 0)
        self._bound[listener.name] = bound
        self.tallies.of(listener.name)
        port = int(bound.getsockname()[1])
        if not listener.port:
            self.host.store_port(listener.name, port)
        return port

    async def start(self) -> None:
        """Accept connections."""
        self.loop = asyncio.get_running_loop()
        self.sockets.start(self.loop)
        # A quarter of the descriptors; the node's own listener has half, and files need the rest.
        self._descriptors = max(raise_descriptor_limit() // 4, 1)
        self.max_frame_bytes = self.host.config.now.socket_request_max_bytes
        for name, bound in self._bound.items():
            bound.listen(BACKLOG)
            self.sockets.listen(bound, partial(self._accepted, name))
        if self._bound:
            self._sweep()

    async def stop(self) -> None:
        """Accept no more connections, complete Produce requests for at most LINGER_S, close all
        connections."""
        if self._is_closed:
            return
        self.sockets.close_servers()
        end_s = time.monotonic() + LINGER_S
        # Waiting fetches are not completed: their clients ask another node.
        while any(each.is_writing or each.unsent_bytes for each in self._connections):
            if time.monotonic() >= end_s:
                break
            await asyncio.sleep(0.005)
        self.close()

    def close(self) -> None:
        """Close all connections at once."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for bound in self._bound.values():
            bound.close()
        for secured in self._secured.values():
            secured.close()
        for connection in list(self._connections):
            connection.abort()
        self._clear()
        self.sockets.close()

    def status(self) -> dict[str, Any]:
        """Counters and addresses, JSON-able."""
        return {
            "listeners": {each.name: f"{each.host}:{each.port}" for each in self._advertised},
            "connections": len(self._connections),
            "fetch_sessions": len(self.fetch_sessions),
            "accepted": self.tallies.accepted,
            "refused": self.tallies.refused,
            "broken": self.broken,
            "failed_handshakes": self.tallies.failed_handshakes,
            "failed_authentications": self.tallies.failed_authentications,
            "held_request_bytes": self.memory.held_bytes,
            "pending_response_bytes": self.pending_response_bytes,
            "client_metrics": self.telemetry.status(),
            "quotas": self.throttle.status(),
        }

    def measure(self, samples: Samples) -> None:
        """Part of Gateway."""
        expiries_s = {name: secured.certificate_expiry_s for name, secured in self._secured.items()}
        names = (each.peer.listener for each in self._connections)
        held, pending = self.memory.held_bytes, self.pending_response_bytes
        self.tallies.measure(samples, names, expiries_s, held_bytes=held, pending_bytes=pending)
        self.ready.measure(samples)

    # --- for connections ---------------------------------------------------------------------------------

    @property
    def max_in_flight(self) -> int:
        """The limit of pipelined calls in flight on one connection."""
        return self.host.config.now.max_in_flight_requests

    def now_ms(self) -> int:
        """The monotonic clock."""
        return int(time.monotonic() * 1000)

    def new_session(self) -> int:
        """A unique number of a connection."""
        return next(self._sessions)

    def _accepted(self, name: str, descriptor: int, remote: Any) -> bool:
        limit = min(self.host.config.now.max_connections, self._descriptors)
        secured, is_full = self._secured.get(name), len(self._connections) - len(self.unready) >= limit
        if is_full or (secured is not None and len(self.unready) >= max_unauthenticated(limit)):
            self.tallies.of(name).refused += 1
            os.close(descriptor)
            return is_full
        self.tallies.of(name).accepted += 1
        connect = partial(KafkaConnection, self) if secured is None else secured.connect
        connection = connect(name, descriptor, remote)
        self._connections.add(connection)
        throttle_ms = self.throttle.of_connection(remote[0])
        if throttle_ms:
            connection.mute(throttle_ms, must_close=True)
            connection.update_reading()
        return True

    def ended(self, connection: KafkaConnection) -> None:
        """The connection is closed, perhaps within one of its calls: clean up in the loop's next turn."""
        self._connections.discard(connection)
        self._ended.append(connection)
        if len(self._ended) == 1:
            self.soon(self._clear)

    def _clear(self) -> None:
        """Clean up after closed connections."""
        ended, self._ended = self._ended, []
        for connection in ended:
            connection.released()
            self._unsent.discard(connection)
            self.unready.remove(connection)
            if self.memory.release(connection):
                self._resume_soon()
            self.telemetry.connection_gone(connection.peer.session)
            if not self._is_closed:
                self.host.connection_gone(connection.peer.session)

    def sent(self, connection: KafkaConnection) -> None:
        """A response was given to the connection's output."""
        if connection.unsent_held_bytes:
            self._unsent.add(connection)

    @property
    def pending_response_bytes(self) -> int:
        """Response bytes in memory that clients have not taken."""
        if not self._unsent:
            return 0
        sizes = {connection: connection.unsent_held_bytes for connection in self._unsent}
        self._unsent = {connection for connection, size in sizes.items() if size}
        return sum(sizes.values())

    def soon(self, action: Callable[[], None]) -> None:
        """Call in the loop's next turn."""
        self.loop.call_soon(self._unless_closed, action)

    def soon_from_thread(self, action: Callable[[], None]) -> None:
        """As `soon`, from any thread; nothing if the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._unless_closed, action)

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call after `delay_ms`, unless the listener is closed by then."""
        self.loop.call_later(delay_ms / 1000, self._unless_closed, action)

    def _unless_closed(self, action: Callable[[], None]) -> None:
        if not self._is_closed:
            self.guarded(action)

    def wall_ms(self) -> int:
        """The wall clock."""
        return int(time.time() * 1000)

    def new_member_id(self) -> str:
        """A random group member id."""
        return str(uuid.uuid4())

    def guarded(self, action: Callable[..., None], *args: Any) -> None:
        """Run a callback of the loop; an exception is a bug and ends the node."""
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 -- the node fails with it
            self.host.fail(error)

    def note_refusal(self, peer: KafkaPeer, error: KafkaError) -> None:
        """Count and log a connection that is closed because of invalid or late bytes."""
        self.tallies.of(peer.listener).refused += 1
        self._log.warning(
            "Kafka connection closed",
            "closing the connection of %s %s: %s",
            peer.address,
            printable(peer.client_id),
            error,
        )

    def note_failed_handshake(self, peer: KafkaPeer, reason: str) -> None:
        """Count and log a TLS handshake that failed."""
        self.tallies.of(peer.listener).failed_handshakes += 1
        self._log.warning(
            "TLS handshake failed", "listener %s: closing %s: %s", peer.listener, peer.address, reason
        )

    def note_failed_authentication(self, peer: KafkaPeer, mechanism: str, reason: str) -> None:
        """Count and log a client that did not authenticate."""
        self.tallies.of(peer.listener).failed_authentications += 1
        self._log.warning(
            "Kafka authentication failed",
            "listener %s: authentication of %s %s by %s failed: %s",
            peer.listener,
            peer.address,
            printable(peer.client_id),
            printable(mechanism),
            reason,
        )

    @property
    def failure_delay_ms(self) -> int:
        """How long the answer to a failed authentication is held back."""
        return self.host.config.now.connection_failed_authentication_delay_ms

    @property
    def handshake_timeout_ms(self) -> int:
        """How long a connection has for TLS and SASL."""
        return self.host.config.now.connection_handshake_timeout_ms

    @property
    def cipher_buffer(self) -> memoryview:
        """The buffer of all TLS connections for encrypted bytes."""
        if self._cipher_buffer is None:
            self._cipher_buffer = memoryview(bytearray(READ_BYTES))
        return self._cipher_buffer

    @property
    def plain_buffer(self) -> memoryview:
        """The buffer of all TLS connections for bytes that are encrypted next."""
        if self._plain_buffer is None:
            self._plain_buffer = memoryview(bytearray(SEAL_BYTES))
        return self._plain_buffer

    def note_bug(self, peer: KafkaPeer, call: Call, error: Exception) -> None:
        """Count and log an exception in the translation of a call."""
        self.broken += 1
        self._log.log(
            logging.ERROR,
            f"{call.api.name} version {call.version} failed",
            "%s version %d of %s %s failed in the Kafka listener: closing the connection",
            call.api.name,
            call.version,
            peer.address,
            printable(peer.client_id),
            exc_info=error,
        )

    # --- memory ------------------------------------------------------------------------------------------

    def count(self, connection: KafkaConnection, more: int, more_partial: int) -> None:
        """The request bytes of a connection grew or shrank by `more`."""
        if self.memory.count(connection, more, more_partial):
            for each in self._connections:
                each.update_reading()
        elif more < 0 and self.memory.waiting:
            self._resume_soon()

    def _resume_soon(self) -> None:
        if not self._is_resume_scheduled:
            self._is_resume_scheduled = True
            self.soon(self._resume_waiting)

    def _resume_waiting(self) -> None:
        self._is_resume_scheduled = False
        for connection in list(self.memory.waiting):
            connection.resume_reading()

    def _sweep(self) -> None:
        """Close connections that are idle, and those that hold memory for which others wait."""
        config, now_ms = self.host.config.now, self.now_ms()
        self.telemetry.expire(now_ms)
        self.throttle.expire()
        self.memory.set_limit(config.queued_max_request_bytes)
        idle_ms = config.connections_max_idle_ms
        interval_s = min(SWEEP_S, idle_ms / 4000, config.socket_request_receive_timeout_ms / 4000)
        if self._secured:
            interval_s = min(interval_s, config.connection_handshake_timeout_ms / 4000)
        self._sweeper = self.loop.call_later(interval_s, self.guarded, self._sweep)
        self._sweep_secured(now_ms)
        for connection in list(self._connections):
            if now_ms - connection.last_active_ms > idle_ms and connection.is_idle:
                connection.abort()
        if self.memory.waiting:
            self._make_room(config.socket_request_receive_timeout_ms, now_ms)

    def _sweep_secured(self, now_ms: int) -> None:
        """Close connections that are not authenticated in time; load key stores that have changed, or that
        the configuration has changed."""
        for connection in self.unready.expired(now_ms):
            self.note_failed_handshake(connection.peer, "the client is not authenticated in time")
            connection.abort()
        config = self.host.config.now
        if config.listener_name != self._overrides:
            self._overrides = config.listener_name
            for name, secured in self._secured.items():
                secured.follow(security_of(config, name), _LOG)
        for secured in self._secured.values():
            secured.reload(_LOG)

    def _make_room(self, timeout_ms: int, now_ms: int) -> None:
        """Close connections that have held memory for longer than `timeout_ms`, the oldest first, until there
        is room; and the one that others wait for, if it sends nothing."""
        excess = self.memory.excess_bytes
        holders = [each for each in self._connections if each.blocks_others]
        for each in sorted(holders, key=lambda each: each.held_since_ms):
            is_late = excess > 0 and now_ms - each.held_since_ms > timeout_ms
            is_stalled = self.memory.is_awaited(each) and now_ms - each.last_active_ms > self.stall_ms
            if is_late or is_stalled:
                excess -= each.held_bytes
                error = InvalidRequestError(
                    "the rest of a request did not arrive while other clients wait for memory"
                )
                self.note_refusal(each.peer, error)
                each.abort()


def _bound_socket(host: str, port: int) -> socket.socket:
    """Errors: OSError, as `address_error`."""
    try:
        return _new_bound_socket(host, port)
    except OSError as error:
        raise address_error(host or "*", port, error) from error


def _new_bound_socket(host: str, port: int) -> socket.socket:
    (family, kind, proto, _, address), *_ = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made = socket.socket(family, kind, proto)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit the options. Keep-alive finds clients whose machine is gone without a FIN.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6 and host in ("", "::"):
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(address)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
