"""The output of one connection, in order: bytes, and runs of batches in log files.

Nothing else writes to the socket. Bytes that are ready together are written by one call, runs by sendfile.
Bound: a response is accepted whole; callers check `unsent_bytes` before they start more. A run may be revoked
until the client has received it: then the connection is reset, and what the kernel holds of it is dropped.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import socket
import termios
from collections import deque
from typing import TYPE_CHECKING, Any

from ...runtime.files.file_layer import NotCachedError
from ...storage_node.log.lending import LentRun, RevokedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from ...protocol.records.header import Buffer
    from ...storage_node.log.lending import Part

# Bound: the kernel takes at most IOV_MAX (1024) buffers in one call.
_MAX_BUFFERS = 1024
# Bound: bytes that one connection sends before others have their turn. Measured: 2 MiB by sendfile in 0.1 ms.
_TURN_BYTES = 2 * 1024 * 1024
# Around runs: the small parts before and behind them make no packets of their own, which would wake the
# client.
_TCP_CORK = getattr(socket, "TCP_CORK", None)
_ON, _OFF = ctypes.c_int(1), ctypes.c_int(0)
# Bound: runs that the client may not have received. A client sends its next request when it has received the
# response; one that pipelines gets bytes instead.
_MAX_RUNS = 256
# Retry after pages of a run were dropped from the page cache and are read again.
_UNCACHED_RETRY_S = 0.01
_NONE: Any = ()
_LIBC = ctypes.CDLL(None, use_errno=True)


class Output:
    """Invariant: `unsent_bytes` is the size of all `_parts`, less what was sent of the first."""

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_failed",
        "_is_closed",
        "_is_corked",
        "_is_pump_scheduled",
        "_is_watched",
        "_loop",
        "_parts",
        "_progressed",
        "_runs",
        "_sent",
        "_watch",
        "held_bytes",
        "unsent_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        *,
        progressed: Callable[[], None],
        failed: Callable[[], None],
        watch: Callable[[bool], None],
    ) -> None:
        """`progressed` is called after bytes that had to wait were sent, `failed` once when the connection is
        broken; neither from within `write`. `watch` switches calls of `writable` on and off."""
        self._loop, self._descriptor = loop, descriptor
        self._progressed, self._failed, self._watch = progressed, failed, watch
        self._parts: deque[Part] = _NONE  # made when it is needed
        self._sent = 0  # bytes of the first part
        self._runs: list[LentRun] = []
        self._is_corked = False
        self._is_watched = False  # the socket takes no more bytes now
        self._is_pump_scheduled = False
        self._is_closed = False
        self.unsent_bytes = 0
        self.held_bytes = 0  # those of them that are in memory, not in log files

    def write_one(self, data: bytes) -> None:
        """As `write`, for one buffer."""
        sent = 0
        if not self._parts and not self._is_closed:
            with contextlib.suppress(OSError):  # `write` meets the error again
                sent = os.write(self._descriptor, data)
            if sent == len(data):
                return
        self.write((memoryview(data)[sent:],))

    def write(self, parts: Iterable[Part]) -> None:
        """Send the parts in order; as much as the socket takes at once."""
        if self._is_closed:
            return
        self._parts = self._parts or deque()
        for part in parts:
            size = len(part)
            if not size:
                continue
            self._parts.append(part)
            self.unsent_bytes += size
            if isinstance(part, LentRun):
                part.on_revoked = self.reset
                self._runs.append(part)
                self._cork()
            else:
                self.held_bytes += size
        if not (self._is_watched or self._is_pump_scheduled):
            self._pump()

    @property
    def may_lend(self) -> bool:
        """Whether the parts may be runs."""
        return len(self._runs) < _MAX_RUNS

    def note_request(self) -> None:
        """The client sent a request: most likely it has received all responses."""
        if self._runs and not self._parts and not self._is_closed and not _unacknowledged(self._descriptor):
            self._forget_runs()

    def reset(self) -> None:
        """Reset the connection and drop what the kernel has not sent."""
        if not self._is_closed:
            _disconnect(self._descriptor)
            self._fail()

    def close(self) -> None:
        """Send no more. The descriptor may belong to another connection from then on."""
        self._is_closed = True
        self._unwatch()
        # Breaks the cycle with the owner: both are freed without the garbage collector.
        self._progressed, self._failed, self._watch = _nothing, _nothing, _ignored
        self._parts = _NONE
        self._forget_runs()
        self.unsent_bytes = self.held_bytes = 0

    # --- sending -----------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send until the socket takes no more, or the turn is over."""
        left = _TURN_BYTES
        try:
            while self._parts:
                if left <= 0:
                    self._is_pump_scheduled = True
                    self._loop.call_soon(self._pump_again)
                    break
                left -= self._send_some()
        except (BlockingIOError, InterruptedError):
            if not self._is_watched:
                self._is_watched = True
                self._watch(True)
            return
        except NotCachedError:
            self._is_pump_scheduled = True
            self._loop.call_later(_UNCACHED_RETRY_S, self._pump_again)
        except (OSError, RevokedError):
            # Of the socket, or of a disk: the next read of the log reports that.
            self._fail()
            return
        self._unwatch()
        if not self._parts:
            self._parts = _NONE
            if self._is_corked:
                self._is_corked = False
                _cork(self._descriptor, _OFF)

    def _send_some(self) -> int:
        first = self._parts[0]
        if isinstance(first, LentRun):
            sent = first.send(self._descriptor, self._sent)
        else:
            buffers: list[Buffer] = [memoryview(first)[self._sent :]] if self._sent else [first]
            for number in range(1, min(len(self._parts), _MAX_BUFFERS)):
                part = self._parts[number]
                if isinstance(part, LentRun):
                    break
                buffers.append(part)
            sent = os.writev(self._descriptor, buffers)
            self.held_bytes -= sent
        self.unsent_bytes -= sent
        self._sent += sent
        while self._parts and self._sent >= len(self._parts[0]):
            self._sent -= len(self._parts.popleft())
        return sent

    def _cork(self) -> None:
        if not self._is_corked:
            self._is_corked = True
            _cork(self._descriptor, _ON)

    def _forget_runs(self) -> None:
        for run in self._runs:
            run.on_revoked = None
        self._runs.clear()

    def _pump_again(self) -> None:
        self._is_pump_scheduled = False
        if self._is_closed:
            return
        self._pump()
        if not self._is_closed:
            self._progressed()

    def writable(self) -> None:
        """The socket may take more bytes."""
        if self._is_closed or self._is_pump_scheduled:
            return
        self._pump()
        if not self._is_closed:
            self._progressed()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._watch(False)

    def _fail(self) -> None:
        failed = self._failed
        self.close()
        self._loop.call_soon(failed)


def _nothing() -> None:
    pass


def _ignored(_wanted: bool) -> None:
    pass


def _cork(descriptor: int, value: ctypes.c_int) -> None:
    """1: hold back partial packets, for 200 ms at most; 0: send them. Source: tcp(7)."""
    if _TCP_CORK is not None:
        _LIBC.setsockopt(descriptor, socket.IPPROTO_TCP, _TCP_CORK, ctypes.byref(value), 4)


def _unacknowledged(descriptor: int) -> int:
    """Bytes that were sent and not acknowledged by TCP. Source: tcp(7), SIOCOUTQ."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, count)
    except OSError:
        return 1
    return count[0]


def _disconnect(descriptor: int) -> None:
    """Drop bytes that were not sent or acknowledged, and reset the connection. Source: connect(2),
    AF_UNSPEC."""
    nowhere = bytes(16)  # AF_UNSPEC is 0
    _LIBC.connect(descriptor, nowhere, len(nowhere))
