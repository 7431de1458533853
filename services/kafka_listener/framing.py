"""Bytes off a connection to frames, with little memory; and the header of a request. Pure.

All connections read into one buffer that they share; only a frame that does not come at once gets memory of
its own, which grows with what has come, so that announcing a large frame costs its client as much as us.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH_BYTES = 4
# key, version, correlation id, and the length of the client id
MIN_FRAME_BYTES = 10
# Bound: what is read at once. Measured: with half of it requests of 400 KB, which seldom come whole then,
# cost a tenth more.
SHARED_BYTES = 512 * 1024
FIRST_BYTES = 32 * 1024  # of a frame's own memory, which then doubles
_LENGTH, _HEADER = struct.Struct(">i").unpack_from, struct.Struct(">hhih").unpack_from


class RequestHeader(NamedTuple):
    """What a frame begins with. The body begins at `end`, or behind the tags there if it is flexible."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


class FrameReader:
    """The frames of one connection.

    Invariant: `held_bytes` is the memory of the frame that has not come whole yet.
    """

    __slots__ = ("_filled", "_head", "_own", "_shared", "_size", "_view", "begun", "max_frame_bytes")

    def __init__(self, shared: bytearray, max_frame_bytes: int) -> None:
        """`shared` is used between `room` and the end of `received` only."""
        self._shared, self._view = shared, memoryview(shared)
        self.max_frame_bytes = max_frame_bytes
        self._head = b""  # the first bytes of a length
        self._own: bytearray | None = None
        self._filled = 0
        self._size = 0
        self.begun = 0  # frames that did not come whole at once

    @property
    def held_bytes(self) -> int:
        """Memory of the frame under way."""
        return 0 if self._own is None else len(self._own)

    @property
    def is_within(self) -> bool:
        """Whether a frame has begun to come."""
        return self._own is not None or bool(self._head)

    def room(self) -> memoryview:
        """Where the next bytes go."""
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
        """The frame that `count` bytes are, no more and no less, instead of `received`; None if they are
        something else. It is good until the next `room`."""
        if self._own is not None or self._head:
            return None
        size = count - LENGTH_BYTES
        shared = self._view
        if not MIN_FRAME_BYTES <= size <= self.max_frame_bytes or _LENGTH(shared)[0] != size:
            return None
        return shared[LENGTH_BYTES:count].toreadonly()

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now that `count` bytes have come; each is good until the next is asked
        for. Errors: InvalidRequestError, after which there is nothing more to be read."""
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
            if not MIN_FRAME_BYTES <= size <= self.max_frame_bytes:
                raise InvalidRequestError(f"a frame of {size} bytes; at most {self.max_frame_bytes} are read")
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


def read_header(frame: memoryview) -> RequestHeader:
    """Errors: InvalidRequestError."""
    api_key, api_version, correlation_id, length = _HEADER(frame)
    end = MIN_FRAME_BYTES + length if length > 0 else MIN_FRAME_BYTES
    if end > len(frame):
        raise InvalidRequestError("a client id that ends behind its frame")
    try:
        client_id = str(frame[MIN_FRAME_BYTES:end], "utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("a client id that is not UTF-8") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)
