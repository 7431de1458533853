"""The one ZeroMQ context of a process, and the options that every socket of headrace carries.

The context lives as long as the process. It is never terminated: termination waits for every socket and is
where ZeroMQ programs hang, while sockets closed one by one free all that they hold. A forked child gets a
context of its own and leaves its parent's alone.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import socket as sockets
import threading

import zmq
from zmq.utils import garbage

from .listen_errors import address_error

# Bound: a connection takes three sockets (its own and both ends of its monitor), so this allows 5,000.
MAX_SOCKETS = 16_384
# Source: libzmq NEWS: 4.3.5 is the first without the known unauthenticated crashes (RELIABILITY 3.4).
MIN_LIBZMQ = (4, 3, 5)
KEEPALIVE_IDLE_S = 60


class _ProcessContext:
    """The context with the process that made it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.context: zmq.Context[zmq.Socket[bytes]] | None = None
        # Kept for ever: to free a context that belongs to the parent could only do harm in the child.
        self.of_parents: list[zmq.Context[zmq.Socket[bytes]]] = []

    def forked(self) -> None:
        """Runs in a forked child before anything else does."""
        self.lock = threading.Lock()
        if self.context is not None:
            self.of_parents.append(self.context)
            self.context = None


_PROCESS = _ProcessContext()
os.register_at_fork(after_in_child=_PROCESS.forked)


def _keep_buffers_to_the_end() -> None:
    """At exit, let no buffer that is still on its way be freed before the process itself ends.

    The hazard: 1. a frame was handed over without a copy; 2. the interpreter shuts down, and pyzmq's own exit
    handler, which runs after this one, drops what keeps the buffer alive; 3. the memory is unmapped; 4. the
    thread of libzmq, still sending, meets a bad address and aborts, or sends what lies there by then.
    """
    for held in list(garbage.gc.refs.values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


# Order: after the import of `garbage`, since exit handlers run last in, first out.
atexit.register(_keep_buffers_to_the_end)


def shared_context() -> zmq.Context[zmq.Socket[bytes]]:
    """The context of this process, made at the first call. Errors: RuntimeError with an old libzmq."""
    with _PROCESS.lock:
        if _PROCESS.context is None:
            if zmq.zmq_version_info() < MIN_LIBZMQ:
                raise RuntimeError(f"headrace needs libzmq 4.3.5 or newer, this is {zmq.zmq_version()}")
            context = zmq.Context()
            context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
            _PROCESS.context = context
        return _PROCESS.context


def set_common_options(
    socket: zmq.Socket[bytes],
    *,
    max_frame_bytes: int,
    handshake_ms: int,
    heartbeat_interval_ms: int,
    heartbeat_timeout_ms: int,
) -> None:
    """What a socket that faces the network must never be without.

    MAXMSGSIZE bounds one frame: the peer that announces a larger one is disconnected before memory is taken.
    HANDSHAKE_IVL ends connections that say nothing or speak something else. HEARTBEAT ends connections whose
    peer is stopped or unreachable. LINGER 0 keeps a close from waiting for a peer that reads nothing.
    """
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes)
    socket.setsockopt(zmq.HANDSHAKE_IVL, handshake_ms)
    socket.setsockopt(zmq.HEARTBEAT_IVL, heartbeat_interval_ms)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, heartbeat_timeout_ms)
    socket.setsockopt(zmq.HEARTBEAT_TTL, heartbeat_timeout_ms)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)


def tcp_endpoint(address: str, port: int) -> str:
    """The ZeroMQ name of a numeric address; port 0 asks for any."""
    host = f"[{address}]" if ":" in address else address
    return f"tcp://{host}:{port or '*'}"


def bind_tcp(socket: zmq.Socket[bytes], host: str, port: int) -> int:
    """Listen on the first address of `host`; the port that was bound. Errors: OSError, as `address_error`."""
    try:
        facts = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE)
        socket.bind(tcp_endpoint(str(facts[0][4][0]), port))
    except zmq.ZMQError as error:
        raise address_error(host, port, OSError(error.errno, error.strerror)) from error
    except OSError as error:
        raise address_error(host, port, error) from error
    return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
