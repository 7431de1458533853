"""Messages of several frames on a ZeroMQ socket: both ends send and receive them the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zmq
from zmq.backend import Socket as _BackendSocket

from .wire import COPY_BELOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..records.header import Buffer

MORE = zmq.DONTWAIT | zmq.SNDMORE
# pyzmq's Python layer adds a microsecond per frame for features of draft sockets; this is the layer below.
_send: Any = _BackendSocket.send


def send_message(socket: zmq.Socket[bytes], parts: Sequence[bytes | zmq.Frame]) -> None:
    """Hand a whole message to ZeroMQ without waiting.

    Errors: zmq.ZMQError (EAGAIN full, EHOSTUNREACH gone) from the first part, and then nothing is sent.
    Once ZeroMQ took the first part it takes the others too. Order: all parts are ready before the first goes,
    because a message that broke off in the middle would swallow the next one.
    """
    _send(socket, parts[0], MORE)
    for part in parts[1:-1]:
        _send(socket, part, MORE, False)
    _send(socket, parts[-1], zmq.DONTWAIT, False)


def ready_part(buffer: Buffer) -> bytes | zmq.Frame:
    """A part as ZeroMQ takes it: small ones copied, large ones as they lie, which must then not change.

    Errors: BufferError when the bytes do not lie in one piece.
    """
    view = memoryview(buffer)
    if view.nbytes < COPY_BELOW_BYTES:
        return buffer if isinstance(buffer, bytes) else view.tobytes()
    if not view.c_contiguous:
        raise BufferError("a frame must lie in one piece")
    return zmq.Frame(view, copy=False)


def held_view(frame: zmq.Frame) -> memoryview:
    """The bytes of a received frame, valid as long as the view is held; small ones are copied."""
    return memoryview(frame.bytes) if len(frame) < COPY_BELOW_BYTES else frame.buffer


def descriptor_of(frame: zmq.Frame) -> int:
    """The descriptor of the connection that a frame came on, -1 if ZeroMQ does not say."""
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return -1
