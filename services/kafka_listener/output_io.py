"""What goes out on one connection, in order: bytes, and runs that lie in the files of logs.

Nothing but this writes to the socket. Bytes that are ready together
go in one call, and runs by sendfile. Bound: an answer is taken whole, and whoever gives more looks first at
`unsent_bytes`. What a run's reader has not got yet may be revoked: then the connection is reset, at once and
with all that the kernel has of it.
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
# Bound: what one connection sends before others have their turn. Measured: 2 MiB by sendfile take 0.1 ms.
_TURN_BYTES = 2 * 1024 * 1024
# Around runs: what goes before them and behind them makes no packets of its own, for which somebody is woken.
_TCP_CORK = getattr(socket, "TCP_CORK", None)
_ON, _OFF = ctypes.c_int(1), ctypes.c_int(0)
# Bound: runs that may still be on their way. A client asks again when it has what it asked for; one that does
# not gets bytes instead.
_MAX_RUNS = 256
# When to look again for pages that are being read.
_BROUGHT_BACK_S = 0.01
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
        "_is_going_on",
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
        """`progressed` is called when something that had to wait was sent, `failed` once when the connection
        is of no use any more; neither from within `write`. `watch` says whether `writable` is to be called
        when the socket takes more."""
        self._loop, self._descriptor = loop, descriptor
        self._progressed, self._failed, self._watch = progressed, failed, watch
        self._parts: deque[Part] = _NONE  # made when it is needed
        self._sent = 0  # of the first part
        self._runs: list[LentRun] = []
        self._is_corked = False
        self._is_watched = False  # the socket takes nothing now
        self._is_going_on = False
        self._is_closed = False
        self.unsent_bytes = 0  # in all
        self.held_bytes = 0  # of them in memory

    def write_one(self, data: bytes) -> None:
        """As `write`, for bytes alone."""
        sent = 0
        if not self._parts and not self._is_closed:
            with contextlib.suppress(OSError):  # whatever it is, it is met again
                sent = os.write(self._descriptor, data)
            if sent == len(data):
                return
        self.write((memoryview(data)[sent:],))

    def write(self, parts: Iterable[Part]) -> None:
        """Send them behind what was given before; at once what the socket takes now."""
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
                if not self._is_corked:
                    self._is_corked = True
                    _cork(self._descriptor, _ON)
            else:
                self.held_bytes += size
        if not (self._is_watched or self._is_going_on):
            self._pump()

    @property
    def may_lend(self) -> bool:
        """Whether runs may be given."""
        return len(self._runs) < _MAX_RUNS

    def asked_again(self) -> None:
        """The client has sent something: likely because it has all that was sent."""
        if self._runs and not self._parts and not self._is_closed and not _unacknowledged(self._descriptor):
            self._forget_runs()

    def reset(self) -> None:
        """End the connection now, so that its reader gets nothing more of what the kernel has."""
        if not self._is_closed:
            _disconnect(self._descriptor)
            self._fail()

    def close(self) -> None:
        """Send no more. The descriptor is somebody else's from now on."""
        self._is_closed = True
        self._unwatch()
        # Whoever owns it is not known any more, so that both go without a collector.
        self._progressed, self._failed, self._watch = _nothing, _nothing, _ignored
        self._parts = _NONE
        self._forget_runs()
        self.unsent_bytes = self.held_bytes = 0

    # --- inside ------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send until the socket takes no more, or others are to have their turn."""
        left = _TURN_BYTES
        try:
            while self._parts:
                if left <= 0:
                    self._is_going_on = True
                    self._loop.call_soon(self._go_on)
                    break
                left -= self._send_some()
        except (BlockingIOError, InterruptedError):
            if not self._is_watched:
                self._is_watched = True
                self._watch(True)
            return
        except NotCachedError:
            self._is_going_on = True
            self._loop.call_later(_BROUGHT_BACK_S, self._go_on)
        except (OSError, RevokedError):
            # of the socket; or of a disk, which the next read meets as well
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

    def _forget_runs(self) -> None:
        for run in self._runs:
            run.on_revoked = None
        self._runs.clear()

    def _go_on(self) -> None:
        self._is_going_on = False
        if self._is_closed:
            return
        self._pump()
        if not self._is_closed:
            self._progressed()

    def writable(self) -> None:
        """The socket may take more."""
        if self._is_closed or self._is_going_on:
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
    """1: send no packet that is not full, for 200 ms at most; 0: send what there is. Source: tcp(7)."""
    if _TCP_CORK is not None:
        _LIBC.setsockopt(descriptor, socket.IPPROTO_TCP, _TCP_CORK, ctypes.byref(value), 4)


def _unacknowledged(descriptor: int) -> int:
    """Bytes that were sent, and that the other end does not say it has. Source: tcp(7), SIOCOUTQ."""
    found = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, found)
    except OSError:
        return 1
    return found[0]


def _disconnect(descriptor: int) -> None:
    """Forget what was not sent or not acknowledged, and tell the other end. Source: connect(2), AF_UNSPEC."""
    nowhere = bytes(16)  # AF_UNSPEC is 0
    _LIBC.connect(descriptor, nowhere, len(nowhere))
