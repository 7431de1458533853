"""Whole multipart messages on a ZeroMQ socket: one interface with two implementations.

`PythonMultipart` uses pyzmq. The compiled one (`_multipart.pyx`) calls the same libzmq directly: one call per
message that keeps the GIL, which a busy process would get back only after milliseconds. HEADRACE_CODEC=python
selects the Python one; so does a pyzmq whose libzmq cannot be found.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from typing import TYPE_CHECKING, Any, Protocol

import zmq
from zmq.backend import Socket as _BackendSocket

from ..records.environment_io import codec_choice
from .wire import COPY_BELOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..records.header import Buffer
    from .pending import PendingBytes

_LOG = logging.getLogger(__name__)
_MORE = zmq.DONTWAIT | zmq.SNDMORE
# pyzmq's Python layer adds a microsecond per frame for features of draft sockets; this is the layer below.
_send: Any = _BackendSocket.send

PART_BYTES = 64  # memory of ZeroMQ's queue per part, beside its bytes

# Parts before the frames, on each side.
ROUTER_ENVELOPE = 3  # the peer's key, header, body
DEALER_ENVELOPE = 2  # header, body


class Multipart(Protocol):
    """Sends and receives whole messages on one socket, and closes it. Used by one thread.

    `envelope`: the number of parts before the frames. `pending` tracks bytes that are sent without a copy.
    """

    @property
    def is_cut(self) -> bool:
        """True while the rest of an oversized message has to be skipped."""

    def send(self, parts: Sequence[Buffer], owner: bytes | None = None) -> None:
        """Pass a whole message to ZeroMQ without waiting: small parts are copied, large ones are not, and
        must not change until they are sent. With `owner`, these count for it in `pending` until then, and so
        do the small parts of a message if they add up to the size of a large one (each with PART_BYTES on
        top), until its last part is sent.

        Errors: zmq.ZMQError (EAGAIN queue full, EHOSTUNREACH peer gone) from the first part, and then no part
        is sent; once ZeroMQ accepted the first part it accepts the others too. BufferError for a part that is
        not contiguous. Order: all parts are prepared before the first is sent, because an incomplete message
        would swallow the next one.
        """

    def receive(self, max_parts: int) -> list[bytes | memoryview] | None:
        """The next message, None if there is none. Small parts are copied, large ones are read-only views of
        ZeroMQ's memory, valid while referenced; frames are always views.

        A message of more than `max_parts` returns that many and sets `is_cut`: `skip` must be called next.
        """

    def skip(self, limit: int) -> bool:
        """Drop up to `limit` parts of a message that was cut; True if its end was reached."""

    def source(self) -> int:
        """The descriptor of the last message's connection, -1 if unknown. Available only with `pending`, that
        is on a server."""

    def user_id(self) -> str:
        """The user id that the ZAP handler gave to the last message's connection, empty without one; as
        `source`, for messages whose second part is small."""

    def reap(self) -> int:
        """Release buffers that were sent, as every send and receive does; returns their number. Also after
        `close`."""

    def close(self, linger_ms: int) -> None:
        """Close the socket; passed messages are still sent for up to `linger_ms`."""


class PythonMultipart:
    """The Python implementation."""

    def __init__(
        self, socket: zmq.Socket[bytes], *, envelope: int, pending: PendingBytes | None = None
    ) -> None:
        self.is_cut = False
        self._socket = socket
        self._recv: Any = socket.recv
        self._envelope = envelope
        self._pending = pending
        self._head: zmq.Frame | None = None

    def send(self, parts: Sequence[Buffer], owner: bytes | None = None) -> None:
        prepared = [ready_part(part) for part in parts]
        small = [len(part) + PART_BYTES for part in prepared if len(part) < COPY_BELOW_BYTES]
        copied = sum(small)
        if copied < COPY_BELOW_BYTES:
            copied = 0  # a usual response is too small for an entry in the accounting
        last = self._outgoing(prepared.pop(), owner, copied)
        ready = [self._outgoing(part, owner) for part in prepared]
        for part in ready:
            _send(self._socket, part, _MORE, False)
        _send(self._socket, last, zmq.DONTWAIT, False)

    def _outgoing(self, part: bytes | memoryview, owner: bytes | None, more: int = 0) -> bytes | zmq.Frame:
        """A tracked part, counted with `more` copied bytes; or the part itself if it is to be copied."""
        is_counted = owner is not None and self._pending is not None
        if isinstance(part, bytes) and len(part) < COPY_BELOW_BYTES and not (more and is_counted):
            return part
        if owner is None or self._pending is None:
            return zmq.Frame(part, copy=False)
        if len(part) < COPY_BELOW_BYTES:
            more -= len(part)  # it is one of the small ones itself
        # the end of this view's lifetime is the signal
        return zmq.Frame(self._pending.track(owner, part, more), copy=False)

    def receive(self, max_parts: int) -> list[bytes | memoryview] | None:
        assert not self.is_cut, "call skip() before the next receive()"
        try:
            frame = self._recv(zmq.DONTWAIT, False)
        except zmq.Again:
            return None
        parts: list[bytes | memoryview] = []
        while True:
            place = len(parts)
            if place == 1 and self._pending is not None:
                self._head = frame
            parts.append(_taken(frame, is_frame=place >= self._envelope))
            if not frame.more:
                return parts
            if place + 1 == max_parts:
                self.is_cut = True
                return parts
            frame = self._recv(zmq.DONTWAIT, False)

    def skip(self, limit: int) -> bool:
        for _ in range(limit):
            if not self.is_cut:
                break
            self.is_cut = self._recv(zmq.DONTWAIT, False).more
        return not self.is_cut

    def source(self) -> int:
        if self._head is None:
            return -1
        try:
            return int(self._head.get(zmq.SRCFD))
        except zmq.ZMQError:
            return -1

    def user_id(self) -> str:
        try:
            return str(self._head.get("User-Id")) if self._head is not None else ""
        except zmq.ZMQError:
            return ""

    def reap(self) -> int:
        """As Multipart.reap: pyzmq releases buffers on a thread of its own."""
        return 0

    def close(self, linger_ms: int) -> None:
        self._socket.close(linger_ms)


def _taken(frame: zmq.Frame, *, is_frame: bool) -> bytes | memoryview:
    if len(frame) >= COPY_BELOW_BYTES:
        view: memoryview = frame.buffer
        return view.toreadonly()
    data: bytes = frame.bytes
    return memoryview(data) if is_frame else data


def ready_part(buffer: Buffer) -> bytes | memoryview:
    """A part that may be queued before it is sent: a copy if small, otherwise the buffer itself.

    Errors: BufferError if the buffer is not contiguous.
    """
    if isinstance(buffer, bytes):
        return buffer
    view = memoryview(buffer)
    if view.nbytes < COPY_BELOW_BYTES:
        return view.tobytes()
    if not view.c_contiguous:
        raise BufferError("a frame must be contiguous")
    return view.cast("B")


# --- selection of the implementation ------------------------------------------------------------------------


def open_multipart(
    socket: zmq.Socket[bytes], *, envelope: int, pending: PendingBytes | None = None
) -> Multipart:
    """A Multipart for `socket`, of this process's implementation."""
    return active_multipart()(socket, envelope=envelope, pending=pending)


def pick_multipart(choice: str | None) -> Callable[..., Multipart]:
    """The implementation that HEADRACE_CODEC names: None or "compiled", or "python"; the Python one, with a
    log line, where the compiled one does not work."""
    if choice == "python":
        return PythonMultipart
    try:
        return _bound_twin()
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        _LOG.warning(
            "sending messages through pyzmq, which is slower, because the compiled module is unavailable: %s",
            error,
        )
        return PythonMultipart


@functools.cache
def active_multipart() -> Callable[..., Multipart]:
    """The implementation of this process, selected once."""
    return pick_multipart(codec_choice())


@functools.cache
def _bound_twin() -> Callable[..., Multipart]:
    """The compiled implementation, bound to the libzmq that pyzmq uses.

    Errors: ImportError (not built, or pyzmq has another backend), AttributeError (a missing function),
    OSError, RuntimeError (another libzmq).
    """
    from zmq.backend.cython import _zmq

    try:
        from . import _multipart
    except ImportError as error:
        raise ImportError(f"_multipart is not built: run `make codec` ({error})") from error

    if not hasattr(_multipart.CompiledMultipart, "user_id"):
        raise ImportError("_multipart is of an earlier source: run `make codec`")
    # Source: dlsym(3): a handle also finds symbols of its library's dependencies, so a private libzmq too.
    library = ctypes.CDLL(_zmq.__file__)
    numbers = [ctypes.c_int() for _ in range(3)]
    library.zmq_version(*map(ctypes.byref, numbers))
    found = tuple(number.value for number in numbers)
    if found != zmq.zmq_version_info() or found[0] != 4:
        raise RuntimeError(f"libzmq {found} was found, pyzmq has {zmq.zmq_version()}")
    addresses = [
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _multipart.FUNCTIONS
    ]
    _multipart.bind(addresses)
    return _multipart.CompiledMultipart
