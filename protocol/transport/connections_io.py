"""The TCP connections below a ROUTER socket, by the descriptors that ZeroMQ's monitor and messages tell.

ZeroMQ cannot end a single connection of a bound socket, but it notices when the TCP connection below is
shut down. The hazard: 1. the connection breaks; 2. ZeroMQ closes its descriptor; 3. the next connection, or a
file, gets the same number; 4. we end that one. So whoever wants to end a connection first duplicates the
descriptor, and only then asks whether the connection it means is still there. ZeroMQ tells of a broken
connection before it closes the descriptor: what is there after the duplication is what was duplicated.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .peers import RouterLimits


def far_end(descriptor: int, port: int) -> str:
    """`host:port` of the other end of a connection to our `port`, empty if it is not one now."""
    connection = _duplicate(descriptor, port)
    if connection is None:
        return ""
    with connection:
        return _far_end(connection)


def disconnect(descriptor: int, port: int, is_still_there: Callable[[], bool]) -> bool:
    """Shut down a connection to our `port`, or any with 0, if it is the one that is meant; True if it was.

    Order: `is_still_there` is asked while the duplicate is held, and has to look at ZeroMQ's news anew.
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
            return False  # the other end was faster
    return True


class Strangers:
    """Connections that were accepted and have not shaken hands with us yet, though ZeroMQ may have.

    Bound: they and the peers together stay below twice the limit of peers; what comes beyond is ended, and so
    is a stranger that stays silent for the handshake timeout. `refresh` reports all news of connections up to
    now to `accepted` and `gone`.
    """

    def __init__(self, port: int, limits: RouterLimits, refresh: Callable[[], None]) -> None:
        self._port = port
        self.limit = limits.max_peers
        self._timeout_ms = limits.handshake_timeout_ms
        self._refresh = refresh
        self._sequence = 0
        # by descriptor, oldest first: when it was accepted, and a number that tells it from its successors
        self._accepted: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._accepted)

    def accepted(self, descriptor: int, now_ms: int, peer_count: int) -> bool:
        """Note a new connection; False if it was over the limit and is ended."""
        self._sequence += 1
        self._accepted.pop(descriptor, None)
        self._accepted[descriptor] = (now_ms, self._sequence)
        if len(self._accepted) + peer_count <= 2 * self.limit:
            return True
        self._end(descriptor)
        return False

    def shook_hands(self, descriptor: int) -> None:
        """It is a peer now."""
        self._accepted.pop(descriptor, None)

    def gone(self, descriptor: int) -> None:
        """It is broken."""
        self._accepted.pop(descriptor, None)

    def sweep(self, now_ms: int) -> int:
        """End strangers that were silent for too long; how many those were."""
        late = [fd for fd, (since_ms, _) in self._accepted.items() if now_ms - since_ms > self._timeout_ms]
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
    """Our own handle on a TCP connection of our `port`, 0 for any; None if `descriptor` is anything else."""
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
