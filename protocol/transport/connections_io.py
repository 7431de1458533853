"""The TCP connections of a ROUTER socket, by file descriptors from ZeroMQ's monitor and messages.

ZeroMQ cannot close a single connection of a bound socket, but it detects a shutdown of the TCP connection
below. The hazard: 1. the connection breaks; 2. ZeroMQ closes its descriptor; 3. the next connection, or a
file, gets the same number; 4. the wrong one is shut down. So `disconnect` first duplicates the descriptor,
and then asks whether the intended connection still exists. ZeroMQ reports a broken connection before it
closes the descriptor: a connection that exists after the duplication is the duplicated one.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .peers import Peer, RouterLimits

# Bound: bytes of a connection before its handshake, and until it is authenticated if it has to be. ZeroMQ
# keeps a message in memory until its last part has arrived, and does not limit the number of parts.
MAX_UNKNOWN_BYTES = 1024 * 1024
_RECEIVED_AT = 128  # tcpi_bytes_received in Linux' struct tcp_info


def far_end(descriptor: int, port: int) -> str:
    """`host:port` of the peer of a connection to the local `port`, empty if it is not connected."""
    connection = _duplicate(descriptor, port)
    if connection is None:
        return ""
    with connection:
        return _far_end(connection)


def is_at(peer: Peer | None, port: int) -> bool:
    """Whether the peer's descriptor is still that of its connection."""
    return peer is not None and far_end(peer.descriptor, port) == peer.address


def received_bytes(descriptor: int, port: int) -> int:
    """The bytes that the peer of a connection to the local `port` has sent, 0 if that is not known."""
    connection = _duplicate(descriptor, port)
    if connection is None:
        return 0
    with connection:
        return _received_by(connection)


def peeked_received_bytes(descriptor: int) -> int:
    """As `received_bytes`, without a duplicate: the descriptor may have become that of another connection.
    For a first look at many connections."""
    if descriptor < 0:  # not known yet
        return 0
    try:
        connection = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
    except OSError:
        return 0
    try:
        return _received_by(connection)
    finally:
        connection.detach()  # it is ZeroMQ's


def _received_by(connection: socket.socket) -> int:
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + 8)
    except OSError:
        return 0
    return int(struct.unpack_from("=Q", info, _RECEIVED_AT)[0]) if len(info) == _RECEIVED_AT + 8 else 0


def disconnect(descriptor: int, port: int, is_still_there: Callable[[], bool]) -> bool:
    """Shut down a connection to the local `port` (0: any), if it is the intended one; True if it was.

    Order: `is_still_there` is called while the duplicate exists, and has to read new monitor events.
    """
    connection = _duplicate(descriptor, port)
    if connection is None:
        return False
    with connection:
        if not is_still_there():
            return False
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False  # the peer closed it first
    return True


class PendingHandshakes:
    """Accepted connections before their headrace handshake (ZeroMQ's own may be complete).

    Bound: together with the peers they stay below twice the limit of peers; connections above that are
    closed, and so are those without a handshake within the timeout, or within MAX_UNKNOWN_BYTES. `refresh`
    reports all connection events so far to `accepted` and `gone`.
    """

    def __init__(self, port: int, limits: RouterLimits, refresh: Callable[[], None]) -> None:
        self._port = port
        self.limit = limits.max_peers
        self._timeout_ms = limits.handshake_timeout_ms
        self._refresh = refresh
        self._sequence = 0
        # by descriptor, oldest first: time of the accept, and a number that distinguishes reused descriptors
        self._accepted: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._accepted)

    def accepted(self, descriptor: int, now_ms: int, peer_count: int) -> bool:
        """Add a new connection; False if it exceeded the limit and was closed."""
        self._sequence += 1
        self._accepted.pop(descriptor, None)
        self._accepted[descriptor] = (now_ms, self._sequence)
        if len(self._accepted) + peer_count <= 2 * self.limit:
            return True
        self._end(descriptor)
        return False

    def shook_hands(self, descriptor: int) -> None:
        """The connection belongs to a peer now."""
        self._accepted.pop(descriptor, None)

    def gone(self, descriptor: int) -> None:
        """The connection has broken."""
        self._accepted.pop(descriptor, None)

    def sweep(self, now_ms: int) -> int:
        """Close connections without a timely handshake; returns their number."""
        late = [
            descriptor
            for descriptor, (since_ms, _) in self._accepted.items()
            if now_ms - since_ms > self._timeout_ms
            or received_bytes(descriptor, self._port) > MAX_UNKNOWN_BYTES
        ]
        for descriptor in late:
            self._end(descriptor)
        return len(late)

    def _end(self, descriptor: int) -> None:
        entry = self._accepted.get(descriptor)

        def is_still_there() -> bool:
            self._refresh()
            return self._accepted.get(descriptor) == entry

        if entry is not None:
            disconnect(descriptor, self._port, is_still_there)
            if self._accepted.get(descriptor) == entry:
                del self._accepted[descriptor]


def _duplicate(descriptor: int, port: int) -> socket.socket | None:
    """A duplicate handle of a TCP connection of the local `port`, 0 for any; None if `descriptor` is
    something else."""
    if descriptor < 0:
        return None
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None
    try:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        is_ours = is_tcp and port in (0, connection.getsockname()[1])
    except OSError:
        is_ours = False
    if is_ours:
        return connection
    connection.close()
    return None


def _far_end(connection: socket.socket) -> str:
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return ""
    return f"{host}:{port}"
