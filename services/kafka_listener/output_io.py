"""What goes out on one connection, in order: bytes, and runs that lie in the files of logs.

The socket is the transport's, which only reads; nothing but this writes to it. Bytes that are ready together
go in one call, and runs by sendfile. Bound: an answer is taken whole, and whoever gives more looks first at
`unsent_bytes`. What a run's reader has not got yet may be revoked: then the connection is reset, at once and
with all that the kernel has of it.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import termios
from collections import deque
from typing import TYPE_CHECKING

from ...storage_node.log.files import NotCachedError
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
# What goes before a run waits for it in the kernel, if it is so little: nobody is woken for that alone.
_HEAD_BYTES = 4 * 1024
_MSG_MORE = getattr(socket, "MSG_MORE", 0)
# Bound: runs that may still be on their way. A client asks again when it has what it asked for; one that does
# not gets bytes instead.
_MAX_RUNS = 256
# When to look again for pages that are being read.
_BROUGHT_BACK_S = 0.01
_LIBC = ctypes.CDLL(None, use_errno=True)


class Output:
    """Invariant: `unsent_bytes` is the size of all `_parts`, less what was sent of the first."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        *,
        progressed: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """`progressed` is called when something that had to wait was sent, `failed` once when the connection
        is of no use any more; neither from within `write`."""
        self._loop, self._descriptor = loop, descriptor
        self._progressed, self._failed = progressed, failed
        self._parts: deque[Part] = deque()
        self._sent = 0  # of the first part
        self._runs: list[LentRun] = []
        self._watched: int | None = None  # a second descriptor of the socket, while it takes nothing
        self._is_going_on = False
        self._is_closed = False
        self.unsent_bytes = 0  # in all
        self.held_bytes = 0  # of them in memory

    def write(self, parts: Iterable[Part]) -> None:
        """Send them behind what was given before; at once what the socket takes now."""
        if self._is_closed:
            return
        for part in parts:
            size = len(part)
            if not size:
                continue
            self._parts.append(part)
            self.unsent_bytes += size
            if isinstance(part, LentRun):
                part.on_revoked = self.reset
                self._runs.append(part)
            else:
                self.held_bytes += size
        if self._watched is None and not self._is_going_on:
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
        self._parts.clear()
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
            self._watch()
            return
        except NotCachedError:
            self._is_going_on = True
            self._loop.call_later(_BROUGHT_BACK_S, self._go_on)
        except (OSError, RevokedError):
            # of the socket; or of a disk, which the next read meets as well
            self._fail()
            return
        self._unwatch()

    def _send_some(self) -> int:
        first = self._parts[0]
        if isinstance(first, LentRun):
            sent = first.send(self._descriptor, self._sent)
        else:
            buffers: list[Buffer] = [memoryview(first)[self._sent :]] if self._sent else [first]
            is_head = False  # of a run
            for number in range(1, min(len(self._parts), _MAX_BUFFERS)):
                part = self._parts[number]
                if isinstance(part, LentRun):
                    is_head = sum(map(len, buffers)) <= _HEAD_BYTES
                    break
                buffers.append(part)
            send = _send_head if is_head else os.writev
            sent = send(self._descriptor, buffers)
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

    def _writable(self) -> None:
        if self._is_closed or self._is_going_on:
            return
        self._pump()
        if not self._is_closed:
            self._progressed()

    def _watch(self) -> None:
        # Order: of its own, because a loop gives the descriptors of its transports to nobody.
        if self._watched is None:
            self._watched = os.dup(self._descriptor)
            self._loop.add_writer(self._watched, self._writable)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = None

    def _fail(self) -> None:
        self.close()
        self._loop.call_soon(self._failed)


def _send_head(descriptor: int, buffers: list[Buffer]) -> int:
    """As os.writev, but more follows at once. Source: send(2), MSG_MORE."""
    data = b"".join(buffers)
    sent = int(_LIBC.send(descriptor, data, len(data), _MSG_MORE))
    if sent < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return sent


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
