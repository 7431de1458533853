"""Messages of several parts on a ZeroMQ socket, whole: two twins behind one face.

`PythonMultipart` is the readable one, on pyzmq. The compiled one (`_multipart.pyx`) calls the same libzmq
directly: one call per message, without giving the GIL away, which a busy process gets back only after
milliseconds. HEADRACE_CODEC=python picks the readable one; so does a pyzmq whose libzmq cannot be found.
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

PART_BYTES = 64  # what ZeroMQ's queue takes for a part besides its bytes

# Parts before the frames, as each end sees them.
ROUTER_ENVELOPE = 3  # the peer's key, header, body
DEALER_ENVELOPE = 2  # header, body


class Multipart(Protocol):
    """Sends and receives whole messages on one socket, and closes it. Used by one thread.

    `envelope` is how many parts come before the frames. `pending` is told what goes out without a copy.
    """

    @property
    def is_cut(self) -> bool:
        """True while the rest of a message that was too long must be skipped."""

    def send(self, parts: Sequence[Buffer], owner: bytes | None = None) -> None:
        """Hand a whole message to ZeroMQ without waiting: small parts copied, large ones as they lie, which
        must not change until they are sent. With `owner`, these count for it in `pending` until then,
        and so do the small parts of a message where they come to as much as a large one (each with
        PART_BYTES on top), until its last part is sent.

        Errors: zmq.ZMQError (EAGAIN full, EHOSTUNREACH gone) from the first part, and then nothing is sent;
        once ZeroMQ took the first part it takes the others too. BufferError when a part does not lie in one
        piece. Order: all parts are ready before the first goes, because a message that broke off in the
        middle would swallow the next one.
        """

    def receive(self, max_parts: int) -> list[bytes | memoryview] | None:
        """The next message, None when there is none. Small parts are copied, large ones are read-only views
        of ZeroMQ's memory, valid as long as they are held; frames are always views.

        A message of more than `max_parts` gives that many and sets `is_cut`: `skip` comes next then.
        """

    def skip(self, limit: int) -> bool:
        """Drop up to `limit` parts of a message that was cut; whether its end was reached."""

    def source(self) -> int:
        """The descriptor of the connection that the last message came on, -1 if ZeroMQ does not say.
        Only known where there is a `pending`, which is on a server."""

    def reap(self) -> int:
        """Let go of the buffers of this process that were sent meanwhile, as every send and receive does;
        how many those were. Also after `close`."""

    def close(self, linger_ms: int) -> None:
        """Close the socket; what was handed over still goes out for up to `linger_ms`."""


class PythonMultipart:
    """The readable twin."""

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
        """See Multipart.send."""
        prepared = [ready_part(part) for part in parts]
        small = [len(part) + PART_BYTES for part in prepared if len(part) < COPY_BELOW_BYTES]
        copied = sum(small)
        if copied < COPY_BELOW_BYTES:
            copied = 0  # a usual answer: not worth an entry in the account
        last = self._outgoing(prepared.pop(), owner, copied)
        ready = [self._outgoing(part, owner) for part in prepared]
        for part in ready:
            _send(self._socket, part, _MORE, False)
        _send(self._socket, last, zmq.DONTWAIT, False)

    def _outgoing(self, part: bytes | memoryview, owner: bytes | None, more: int = 0) -> bytes | zmq.Frame:
        """Held and counted, with `more` bytes that were copied; or as it is, when it is to be copied."""
        is_counted = owner is not None and self._pending is not None
        if isinstance(part, bytes) and len(part) < COPY_BELOW_BYTES and not (more and is_counted):
            return part
        if owner is None or self._pending is None:
            return zmq.Frame(part, copy=False)
        if len(part) < COPY_BELOW_BYTES:
            more -= len(part)  # it is one of the small ones
        # it is this very view whose end is the news
        return zmq.Frame(self._pending.track(owner, part, more), copy=False)

    def receive(self, max_parts: int) -> list[bytes | memoryview] | None:
        """See Multipart.receive."""
        assert not self.is_cut, "the rest of the last message is skipped first"
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
        """See Multipart.skip."""
        for _ in range(limit):
            if not self.is_cut:
                break
            self.is_cut = self._recv(zmq.DONTWAIT, False).more
        return not self.is_cut

    def source(self) -> int:
        """See Multipart.source."""
        if self._head is None:
            return -1
        try:
            return int(self._head.get(zmq.SRCFD))
        except zmq.ZMQError:
            return -1

    def reap(self) -> int:
        """See Multipart.reap: pyzmq does it on a thread of its own."""
        return 0

    def close(self, linger_ms: int) -> None:
        """See Multipart.close."""
        self._socket.close(linger_ms)


def _taken(frame: zmq.Frame, *, is_frame: bool) -> bytes | memoryview:
    if len(frame) >= COPY_BELOW_BYTES:
        view: memoryview = frame.buffer
        return view.toreadonly()
    data: bytes = frame.bytes
    return memoryview(data) if is_frame else data


def ready_part(buffer: Buffer) -> bytes | memoryview:
    """A part that may wait before it is sent: small ones copied, large ones as they lie.

    Errors: BufferError when the bytes do not lie in one piece.
    """
    if isinstance(buffer, bytes):
        return buffer
    view = memoryview(buffer)
    if view.nbytes < COPY_BELOW_BYTES:
        return view.tobytes()
    if not view.c_contiguous:
        raise BufferError("a frame must lie in one piece")
    return view.cast("B")


# --- which twin -------------------------------------------------------------------------------------------


def open_multipart(
    socket: zmq.Socket[bytes], *, envelope: int, pending: PendingBytes | None = None
) -> Multipart:
    """The messages of `socket`, by this process's twin."""
    return active_multipart()(socket, envelope=envelope, pending=pending)


def pick_multipart(choice: str | None) -> Callable[..., Multipart]:
    """The twin named by HEADRACE_CODEC: None or "compiled", or "python"; the readable one, with a line in
    the log, where the compiled one cannot work."""
    if choice == "python":
        return PythonMultipart
    try:
        return _bound_twin()
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        _LOG.warning("messages take the slow way, through pyzmq: %s", error)
        return PythonMultipart


@functools.cache
def active_multipart() -> Callable[..., Multipart]:
    """The twin of this process, picked once."""
    return pick_multipart(codec_choice())


@functools.cache
def _bound_twin() -> Callable[..., Multipart]:
    """The compiled twin, calling the libzmq that pyzmq uses.

    Errors: ImportError (not built, or pyzmq has another backend), AttributeError (no such function),
    OSError, RuntimeError (another libzmq).
    """
    from zmq.backend.cython import _zmq

    try:
        from . import _multipart
    except ImportError as error:
        raise ImportError(f"their compiled twin is not built, `make codec` does it ({error})") from error

    # Source: dlsym(3): a handle finds what its library depends on, so also a libzmq that nobody else sees.
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
