"""Frames from the bytes of a connection, with little memory; and the header of a request. Pure.

All connections read into one shared buffer; only a frame that is not received at once gets memory of its own,
which grows with its bytes, so that announcing a large frame costs the client as much as the node.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH_BYTES = 4
# api key, version, correlation id, and the length of the client id
MIN_FRAME_BYTES = 10
# Bound: the bytes of one read. Measured: with half of it, requests of 400 KB, which then seldom arrive whole,
# cost a tenth more.
SHARED_BYTES = 512 * 1024
_TLS_HANDSHAKE = 0x1603  # the first two bytes of a TLS client
FIRST_BYTES = 32 * 1024  # the first size of a partial frame's own memory, which then doubles
_LENGTH, _HEADER = struct.Struct(">i").unpack_from, struct.Struct(">hhih").unpack_from


class RequestHeader(NamedTuple):
    """The header of a request. The body begins at `end`, or behind the tagged fields there if it is
    flexible."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


class FrameReader:
    """The frames of one connection.

    Invariant: `held_bytes` is the memory of the partial frame.
    """

    __slots__ = (
        "_filled",
        "_head",
        "_own",
        "_shared",
        "_size",
        "_view",
        "begun",
        "max_frame_bytes",
        "min_frame_bytes",
    )

    def __init__(self, shared: bytearray, max_frame_bytes: int) -> None:
        """`shared` is used only between `room` and the end of `received`."""
        self._shared, self._view = shared, memoryview(shared)
        self.min_frame_bytes, self.max_frame_bytes = MIN_FRAME_BYTES, max_frame_bytes
        self._head = b""  # the first bytes of a frame's length
        self._own: bytearray | None = None
        self._filled = 0
        self._size = 0
        self.begun = 0  # frames that were not received at once

    @property
    def held_bytes(self) -> int:
        """The memory of the partial frame."""
        return 0 if self._own is None else len(self._own)

    @property
    def is_partial(self) -> bool:
        """Whether a part of a frame was received."""
        return self._own is not None or bool(self._head)

    def room(self) -> memoryview:
        """The buffer for the next bytes."""
        if self._own is None:
            if not self._head:
                return self._view
            self._shared[: len(self._head)] = self._head
            return self._view[len(self._head) :]
        if self._filled == len(self._own):
            grown = bytearray(min(self._size, 2 * self._filled))
            grown[: self._filled] = self._own
            self._own = grown
        return memoryview(self._own)[self._filled :]

    def whole(self, count: int) -> memoryview | None:
        """The frame, if the `count` received bytes are exactly one frame; then `received` is not called. It
        is valid until the next `room`."""
        if self._own is not None or self._head:
            return None
        size = count - LENGTH_BYTES
        shared = self._view
        if not self.min_frame_bytes <= size <= self.max_frame_bytes or _LENGTH(shared)[0] != size:
            return None
        return shared[LENGTH_BYTES:count].toreadonly()

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are complete with `count` more bytes; each is valid until the next is taken.
        Errors: InvalidRequestError, after which nothing more can be read."""
        if self._own is not None:
            self._filled += count
            if self._filled == self._size:
                whole, self._own = self._own, None
                yield memoryview(whole).toreadonly()
            return
        at, end = 0, len(self._head) + count
        data = self._view[:end].toreadonly()
        self._head = b""
        while end - at >= LENGTH_BYTES:
            (size,) = _LENGTH(data, at)
            if not self.min_frame_bytes <= size <= self.max_frame_bytes:
                raise InvalidRequestError(_fault(size, self.max_frame_bytes))
            at += LENGTH_BYTES
            if end - at < size:
                self._begin(size, data[at:])
                return
            yield data[at : at + size]
            at += size
        self._head = bytes(data[at:])

    def _begin(self, size: int, data: memoryview) -> None:
        self.begun += 1
        self._size, self._filled = size, len(data)
        self._own = bytearray(min(size, max(FIRST_BYTES, 2 * len(data))))
        self._own[: len(data)] = data


def _fault(size: int, max_frame_bytes: int) -> str:
    if size >> 16 == _TLS_HANDSHAKE:
        return "the client speaks TLS, and the listener's security protocol has none"
    return f"frame of {size} bytes, at most {max_frame_bytes} are allowed"


def read_header(frame: memoryview) -> RequestHeader:
    """Errors: InvalidRequestError."""
    api_key, api_version, correlation_id, length = _HEADER(frame)
    end = MIN_FRAME_BYTES + length if length > 0 else MIN_FRAME_BYTES
    if end > len(frame):
        raise InvalidRequestError("the client id is longer than its frame")
    try:
        client_id = str(frame[MIN_FRAME_BYTES:end], "utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("the client id is not UTF-8") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)
