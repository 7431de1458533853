"""Bytes off a connection to frames, with little memory; and the header of a request. Pure.

All connections read into one buffer that they share; only a frame that does not come at once gets memory of
its own, which grows with what has come, so that announcing a large frame costs its client as much as us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH_BYTES = 4
# key, version, correlation id, and the length of the client id
MIN_FRAME_BYTES = 10
SHARED_BYTES = 256 * 1024
FIRST_BYTES = 32 * 1024  # of a frame's own memory, which then doubles


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

    def __init__(self, shared: bytearray, max_frame_bytes: int) -> None:
        """`shared` is used between `room` and the end of `received` only."""
        self._shared = shared
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
            self._shared[: len(self._head)] = self._head
            return memoryview(self._shared)[len(self._head) :]
        if self._filled == len(self._own):
            grown = bytearray(min(self._size, 2 * self._filled))
            grown[: self._filled] = self._own
            self._own = grown
        return memoryview(self._own)[self._filled :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now that `count` bytes have come; each is good until the next is asked
        for. Errors: InvalidRequestError, after which there is nothing more to be read."""
        if self._own is not None:
            self._filled += count
            if self._filled == self._size:
                whole, self._own = self._own, None
                yield memoryview(whole).toreadonly()
            return
        data = memoryview(self._shared)[: len(self._head) + count].toreadonly()
        self._head = b""
        while len(data) >= LENGTH_BYTES:
            size = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
            if not MIN_FRAME_BYTES <= size <= self.max_frame_bytes:
                raise InvalidRequestError(f"a frame of {size} bytes; at most {self.max_frame_bytes} are read")
            if len(data) < LENGTH_BYTES + size:
                self._begin(size, data[LENGTH_BYTES:])
                return
            yield data[LENGTH_BYTES : LENGTH_BYTES + size]
            data = data[LENGTH_BYTES + size :]
        self._head = bytes(data)

    def _begin(self, size: int, data: memoryview) -> None:
        self.begun += 1
        self._size, self._filled = size, len(data)
        self._own = bytearray(min(size, max(FIRST_BYTES, 2 * len(data))))
        self._own[: len(data)] = data


def read_header(frame: memoryview) -> RequestHeader:
    """Errors: InvalidRequestError."""
    length = int.from_bytes(frame[8:10], "big", signed=True)
    end = MIN_FRAME_BYTES + max(length, 0)
    if end > len(frame):
        raise InvalidRequestError("a client id that ends behind its frame")
    try:
        client_id = str(frame[MIN_FRAME_BYTES:end], "utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("a client id that is not UTF-8") from None
    return RequestHeader(
        int.from_bytes(frame[:2], "big", signed=True),
        int.from_bytes(frame[2:4], "big", signed=True),
        int.from_bytes(frame[4:8], "big", signed=True),
        client_id,
        end,
    )
