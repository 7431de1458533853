"""The ZAP handler of this process: one thread for all CURVE listeners of all nodes in it.

libzmq has one handler address per context, so listeners share the handler. It is not
on an event loop, because a busy loop would delay the connections of all other nodes of the process. The
thread waits in ZeroMQ, and gets one request per connection.
"""

from __future__ import annotations

import logging
import os
import threading

import zmq

from . import zap
from .context_io import shared_context

_LOG = logging.getLogger(__name__)


class _Handler:
    """The process of the handler: a forked child needs its own handler."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pid = -1

    def forked(self) -> None:
        """Runs in a forked child before any other code."""
        self.lock = threading.Lock()


_HANDLER = _Handler()
os.register_at_fork(after_in_child=_HANDLER.forked)


def serve_zap() -> None:
    """Start the handler, unless this process has it. Order: before a CURVE listener is bound."""
    with _HANDLER.lock:
        if _HANDLER.pid == os.getpid():
            return
        socket = shared_context().socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        # Bound: connections that the kernel accepted. A limit here would leave connections without a reply.
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.bind(zap.ENDPOINT)
        threading.Thread(target=_serve, args=(socket,), name="headrace-zap", daemon=True).start()
        _HANDLER.pid = os.getpid()


def _serve(socket: zmq.Socket[bytes]) -> None:
    while True:
        try:
            reply = zap.answer(socket.recv_multipart())
            if reply:
                socket.send_multipart(reply)
        except zmq.ContextTerminated:
            return
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            _LOG.debug("a connection ended before it was authenticated: %s", error)
