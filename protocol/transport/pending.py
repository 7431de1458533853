"""The number of bytes that were passed to ZeroMQ without a copy and are not sent yet.

ZeroMQ reports nothing about its queues, but it references a zero-copy buffer until the kernel has accepted
its last byte: the release of each buffer is the signal. Small parts are copied; if those of a message add up
to much, its last part is sent without a copy and counts for them, since it is sent after them.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records.header import Buffer


class PendingBytes:
    """Counts bytes being sent, in total and by owner.

    Buffers are released on other threads; releases are queued there (`ended`: owner and size) and subtracted
    on the owner's thread at its next read, so that the numbers have one writer.
    """

    def __init__(self) -> None:
        self.ended: deque[tuple[bytes, int]] = deque()
        # moves releases into the queue, where that is not automatic
        self.reap: Callable[[], object] | None = None
        self._total = 0
        self._by_owner: dict[bytes, int] = {}
        # By id() of the weak reference: references to views of equal bytes would be equal keys.
        self._views: dict[int, tuple[weakref.ref[memoryview], bytes, int]] = {}

    def add(self, owner: bytes, size: int) -> deque[tuple[bytes, int]]:
        """Count `size` bytes for `owner` until the same pair is appended to the returned queue."""
        self._total += size
        self._by_owner[owner] = self._by_owner.get(owner, 0) + size
        return self.ended

    def track(self, owner: bytes, buffer: Buffer, more: int = 0) -> memoryview:
        """A view of `buffer` that counts for `owner`, with `more` additional bytes, until it is no longer
        referenced.

        Errors: BufferError if `buffer` is not contiguous.
        """
        view = memoryview(buffer)
        if not view.c_contiguous:
            raise BufferError("a frame must be contiguous")
        watch = weakref.ref(view, self._note_end)
        self._views[id(watch)] = (watch, owner, view.nbytes + more)
        self.add(owner, view.nbytes + more)
        return view

    def total(self) -> int:
        self._count_off()
        return self._total

    def of(self, owner: bytes) -> int:
        self._count_off()
        return self._by_owner.get(owner, 0)

    def _note_end(self, watch: weakref.ref[memoryview]) -> None:
        _, owner, size = self._views.pop(id(watch))
        self.ended.append((owner, size))

    def _count_off(self) -> None:
        if self.reap is not None:
            self.reap()
        while self.ended:
            owner, size = self.ended.popleft()
            self._total -= size
            left = self._by_owner[owner] - size
            if left:
                self._by_owner[owner] = left
            else:
                del self._by_owner[owner]
