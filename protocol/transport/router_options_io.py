"""The socket options of a listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from . import zap
from .context_io import set_common_options
from .zap_io import serve_zap

if TYPE_CHECKING:
    from ..security.server_keys import CurveKeys
    from .peers import RouterLimits

# Short, because a connection that is not authenticated may send what it likes in between.
SWEEP_INTERVAL_S = 0.25
# Added to twice the requests that a peer may have in flight. Twice, because ZeroMQ updates its count of read
# messages in steps of half a high-water mark: with less, a peer within its limits would be dropped.
SPARE_MESSAGES = 16


def set_router_options(socket: zmq.Socket[bytes], limits: RouterLimits, keys: CurveKeys | None) -> None:
    """Before the socket is bound. With `keys` it refuses connections without CURVE."""
    set_common_options(
        socket,
        max_frame_bytes=limits.max_request_bytes,
        handshake_ms=limits.handshake_timeout_ms,
        heartbeat_interval_ms=limits.heartbeat_interval_ms,
        heartbeat_timeout_ms=limits.heartbeat_timeout_ms,
    )
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.RCVHWM, 2 * limits.max_in_flight + SPARE_MESSAGES)
    socket.setsockopt(zmq.SNDHWM, 2 * limits.max_in_flight + SPARE_MESSAGES)
    socket.setsockopt(zmq.BACKLOG, limits.backlog)
    socket.setsockopt(zmq.IPV6, 1)
    if keys is not None:
        serve_zap()
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, zap.DOMAIN)
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a handler no client is let in


def sweep_interval_s(limits: RouterLimits) -> float:
    """The time between two searches for connections to close."""
    shortest_ms = min(limits.idle_timeout_ms, limits.handshake_timeout_ms)
    return min(SWEEP_INTERVAL_S, shortest_ms / 4000)
