"""Events of the connections of a ZeroMQ socket: accepted, broken, handshake failed.

ZeroMQ hides connections, except from its monitor. A node needs the events to remove peers at once, a client
to fail its requests at once instead of after their timeouts.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from typing import TYPE_CHECKING

import zmq

from .context_io import shared_context

if TYPE_CHECKING:
    from collections.abc import Callable

_EVENT = struct.Struct("=hi")  # event number and value: a file descriptor or an error number
_NUMBERS = itertools.count(1)

HANDSHAKE_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)

# The value of EVENT_HANDSHAKE_FAILED_PROTOCOL if one side uses CURVE and the other one does not.
MECHANISM_MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
# Its value, at a server, if the client encrypts for another key.
WRONG_KEY = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)


def handshake_failure(event: int, value: int, *, has_curve: bool) -> str:
    """Why a client could not connect, by the event and its value."""
    if value == MECHANISM_MISMATCH:
        if has_curve:
            return "the server does not encrypt: this port is not for security.protocol=SASL_SSL or SSL"
        return (
            "the server accepts encrypted connections only: set security.protocol and the server's public key"
        )
    if has_curve:
        return (
            "the server has another key than the trusted one, or is not a headrace server: its public key may"
            " have been replaced, or another program is in between"
        )
    if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return (
            "the server closed the connection before the handshake, as an encrypted port or a port for Kafka"
            " clients does: see security.protocol"
        )
    return f"the server uses another protocol ({value})"


class SocketMonitor:
    """Calls `on_event(event, value)` on the running loop until it is closed.

    Unit: `value` is the file descriptor for accepted and disconnected, else an error number.
    """

    def __init__(self, socket: zmq.Socket[bytes], events: int, on_event: Callable[[int, int], None]) -> None:
        self._on_event = on_event
        self._watched = socket
        name = f"inproc://headrace-monitor-{next(_NUMBERS)}"
        socket.monitor(name, events)
        self._pair = shared_context().socket(zmq.PAIR)
        self._pair.setsockopt(zmq.LINGER, 0)
        # Bound: events of connections that the kernel accepted. A limit here would block ZeroMQ's IO thread,
        # and with it every socket of the process, while the loop is busy.
        self._pair.setsockopt(zmq.RCVHWM, 0)
        self._pair.connect(name)
        self._loop = asyncio.get_running_loop()
        self._fd = int(self._pair.getsockopt(zmq.FD))
        self._is_closed = False
        self._loop.add_reader(self._fd, self.drain)
        # events before the reader was added have consumed their edge
        self._loop.call_soon(self.drain)

    def drain(self) -> None:
        """Report all events so far."""
        while not self._is_closed:
            try:
                facts = self._pair.recv(zmq.DONTWAIT)
                self._pair.recv(zmq.DONTWAIT)  # the endpoint
            except zmq.Again:
                return
            self._on_event(*_EVENT.unpack(facts))

    def wait(self, timeout_ms: int) -> None:
        """Block until there is an event, or for `timeout_ms`."""
        self._pair.poll(timeout_ms)

    def wait_for(self, wanted: int, timeout_ms: int) -> bool:
        """Block until the event has occurred, without reporting others; False after `timeout_ms`."""
        while self._pair.poll(timeout_ms):
            event, _ = _EVENT.unpack(self._pair.recv(zmq.DONTWAIT))
            self._pair.recv(zmq.DONTWAIT)
            if event == wanted:
                return True
        return False

    def close(self) -> None:
        """Stop the monitor; the watched socket must still be open."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._fd)
        self._watched.disable_monitor()
        self._pair.close()
