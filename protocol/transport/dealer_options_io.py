"""The socket options of a client's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

from ..security.server_keys import CurveKeys
from .context_io import set_common_options

if TYPE_CHECKING:
    from .backlog_io import ConnectionOptions

SEND_LIMIT = 1000  # messages inside ZeroMQ; further ones wait in the backlog
MAX_WINDOW = 1000  # requests in flight, whatever the server allows


def set_dealer_options(
    socket: zmq.Socket[bytes],
    options: ConnectionOptions,
    timeout_s: float,
    server_key: bytes | None,
    own_keys: CurveKeys | None,
) -> None:
    """Before the socket connects. With `server_key` it talks to the server with this key only; without
    `own_keys` it has keys for this connection alone."""
    set_common_options(
        socket,
        max_frame_bytes=options.max_frame_bytes,
        handshake_ms=max(1, int(timeout_s * 1000)),
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        heartbeat_timeout_ms=options.heartbeat_timeout_ms,
    )
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    # queue no messages for a connection that is not established
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, max(1, int(timeout_s * 1000)))
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.SNDHWM, SEND_LIMIT)
    # Never reached with a server that only responds. At the high-water mark ZeroMQ would stop reading,
    # heartbeats included, and consider a server dead that waits for this busy loop.
    socket.setsockopt(zmq.RCVHWM, 3 * MAX_WINDOW)
    if server_key is not None:
        keys = own_keys or new_curve_keys()
        socket.setsockopt(zmq.CURVE_SERVERKEY, server_key)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)


def new_curve_keys() -> CurveKeys:
    """A new key pair."""
    public, secret = zmq.curve_keypair()
    return CurveKeys(_decoded(public), _decoded(secret))


def curve_keys_of(secret: bytes) -> CurveKeys:
    """The pair of a secret key of 32 bytes, any of which is one."""
    return CurveKeys(_decoded(zmq.curve_public(z85.encode(secret))), secret)


def _decoded(text: bytes) -> bytes:
    """The bytes of a key in ZeroMQ's notation. Source: RFC 32/Z85."""
    digits = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    numbers = [0] * (len(text) // 5)
    for place, digit in enumerate(text):
        numbers[place // 5] = numbers[place // 5] * 85 + digits.index(digit)
    return b"".join(number.to_bytes(4, "big") for number in numbers)
