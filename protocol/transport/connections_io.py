"""The TCP connections below a ROUTER socket, by the descriptors that ZeroMQ's monitor and messages tell.

ZeroMQ cannot end a single connection of a bound socket, but it notices when the TCP connection below is shut
down. Hazard: a descriptor may be closed and used anew, for a file even, between its news and our act. So it
is duplicated first, the duplicate is checked to be a TCP connection of our port (and of the expected far
end), and only then shut down; the duplicate cannot change under the check.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .peers import RouterLimits


def far_end(descriptor: int, port: int) -> str:
    """`host:port` of the other end of a connection to our `port`, empty if it is not one now."""
    connection = _duplicate(descriptor, port)
    if connection is None:
        return ""
    with connection:
        return _far_end(connection)


def disconnect(descriptor: int, port: int, address: str = "") -> bool:
    """Shut down a connection to our `port`; with `address` only if that is its far end. True if it was."""
    connection = _duplicate(descriptor, port)
    if connection is None:
        return False
    with connection:
        if address and _far_end(connection) != address:
            return False
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False  # the other end was faster
    return True


class Strangers:
    """Connections that were accepted and have not shaken hands with us yet, though ZeroMQ may have.

    Bound: they and the peers together stay below twice the limit of peers; what comes beyond is ended, and so
    is a stranger that stays silent for the handshake timeout.
    """

    def __init__(self, port: int, limits: RouterLimits) -> None:
        self._port = port
        self._limit = limits.max_peers
        self._timeout_ms = limits.handshake_timeout_ms
        self._accepted_ms: dict[int, int] = {}  # by descriptor, oldest first

    def __len__(self) -> int:
        return len(self._accepted_ms)

    def accepted(self, descriptor: int, now_ms: int, peer_count: int) -> bool:
        """Note a new connection; False if it was over the limit and is ended."""
        self._accepted_ms.pop(descriptor, None)
        if len(self._accepted_ms) + peer_count >= 2 * self._limit:
            disconnect(descriptor, self._port)
            return False
        self._accepted_ms[descriptor] = now_ms
        return True

    def shook_hands(self, descriptor: int) -> None:
        """It is a peer now."""
        self._accepted_ms.pop(descriptor, None)

    def gone(self, descriptor: int) -> None:
        """It is broken."""
        self._accepted_ms.pop(descriptor, None)

    def sweep(self, now_ms: int) -> int:
        """End strangers that were silent for too long; how many those were."""
        late = [fd for fd, since_ms in self._accepted_ms.items() if now_ms - since_ms > self._timeout_ms]
        for descriptor in late:
            del self._accepted_ms[descriptor]
            disconnect(descriptor, self._port)
        return len(late)


def _duplicate(descriptor: int, port: int) -> socket.socket | None:
    """Our own handle on a TCP connection of `port`, None if `descriptor` is anything else."""
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
        is_ours = (
            connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] == port
        )
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
