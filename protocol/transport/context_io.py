"""The ZeroMQ context of the process, and the options of all headrace sockets.

The context lives as long as the process and is never terminated: termination waits for every socket, which is
where ZeroMQ programs hang, while sockets that are closed one by one free all their resources. A forked child
gets a context of its own and does not use its parent's.
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

# Bound: a connection takes three sockets (its own and both ends of its monitor), so this allows 5,000
# connections.
MAX_SOCKETS = 16_384
# Source: libzmq NEWS: 4.3.5 is the first without the known unauthenticated crashes (RELIABILITY 3.4).
MIN_LIBZMQ = (4, 3, 5)
KEEPALIVE_IDLE_S = 60


class _ProcessContext:
    """The context with the process that created it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.context: zmq.Context[zmq.Socket[bytes]] | None = None
        # Kept forever: freeing a parent's context in the child could only do harm.
        self.of_parents: list[zmq.Context[zmq.Socket[bytes]]] = []

    def forked(self) -> None:
        """Runs in a forked child before any other code."""
        self.lock = threading.Lock()
        if self.context is not None:
            self.of_parents.append(self.context)
            self.context = None


_PROCESS = _ProcessContext()
os.register_at_fork(after_in_child=_PROCESS.forked)


def _keep_buffers_to_the_end() -> None:
    """At exit, keep all buffers that are still being sent, and pyzmq's thread that releases them.

    First hazard: 1. a frame was passed without a copy; 2. the interpreter shuts down, and pyzmq's exit
    handler, which runs after this one, drops the references to the buffer; 3. the memory is unmapped;
    4. libzmq's thread, still sending, reads a bad address and aborts, or sends other data.

    Second hazard: 1. that handler closes the socket on which libzmq's thread reports sent buffers;
    2. libzmq's thread uses it at the same time, which no ZeroMQ socket allows; 3. the process aborts, or the
    handler never returns. So it is not called; the thread is a daemon.
    """
    collector = garbage.gc
    for held in list(collector.refs.values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    atexit.unregister(collector._atexit)  # noqa: SLF001 - pyzmq has no option for it
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(collector))  # its __del__ does the same


# Order: after the import of `garbage`, since exit handlers run last in, first out.
atexit.register(_keep_buffers_to_the_end)


def shared_context() -> zmq.Context[zmq.Socket[bytes]]:
    """The context of this process, created at the first call. Errors: RuntimeError with an old libzmq."""
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
    """Options that every network socket needs.

    MAXMSGSIZE limits a frame: a peer that announces a larger one is disconnected before memory is allocated.
    HANDSHAKE_IVL closes connections without a handshake or with another protocol. HEARTBEAT closes
    connections of stopped or unreachable peers. LINGER 0 keeps close from waiting for a peer that does not
    read.
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
    """The ZeroMQ endpoint of a numeric address; port 0 selects any."""
    host = f"[{address}]" if ":" in address else address
    return f"tcp://{host}:{port or '*'}"


def bind_tcp(socket: zmq.Socket[bytes], host: str, port: int) -> int:
    """Listen on the first address of `host`; returns the bound port. Errors: OSError, as `address_error`."""
    try:
        facts = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE)
        socket.bind(tcp_endpoint(str(facts[0][4][0]), port))
    except zmq.ZMQError as error:
        raise address_error(host, port, OSError(error.errno, error.strerror)) from error
    except OSError as error:
        raise address_error(host, port, error) from error
    return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
