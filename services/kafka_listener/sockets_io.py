"""The sockets of all connections, behind one descriptor of the event loop: an epoll of their own.

A loop's transport with its protocol takes a fifth of what a node does for a client that comes, asks three
things and goes. Here a connection is one object, told what its socket can do; it is registered once, and no
callback is made for it. Readiness is level-triggered: what is not read now is told again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    Accepted = Callable[[int, Any], None]  # a descriptor that does not block, and the far address

# Bound: events, and connections that are taken, before the loop's other work has its turn.
_EVENTS, _ACCEPTS = 128, 64
# When to accept again after the system had no descriptor or no memory for a connection.
_AGAIN_S = 0.2
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class Owner(Protocol):
    """Who is told what its socket can do. Both may be told in vain."""

    def readable(self) -> None:
        """There is something to be read, or the end of it."""

    def writable(self) -> None:
        """The socket takes more, or never will."""


class Sockets:
    """Not thread-safe: of the loop's thread."""

    def __init__(self, guarded: Callable[..., None]) -> None:
        """`guarded` runs what the loop calls, and looks after what that raises."""
        self._guarded = guarded
        self.lines: dict[int, Line] = {}
        self._servers: dict[int, tuple[socket.socket, Accepted]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on there may be sockets."""
        self._loop, self._epoll = loop, select.epoll()
        loop.add_reader(self._epoll.fileno(), self._guarded, self._poll)

    def listen(self, server: socket.socket, accepted: Accepted) -> None:
        """Take connections from it until `close_servers`. What they inherit is set at the server."""
        self._servers[server.fileno()] = server, accepted
        self._epoll.register(server.fileno(), _IN)

    def close_servers(self) -> None:
        """Nobody comes in any more."""
        for server, _ in self._servers.values():
            server.close()
        self._servers.clear()

    def close(self) -> None:
        """The connections are closed by their owners."""
        self.close_servers()
        if self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._loop = None

    def set(self, descriptor: int, before: int, wanted: int) -> None:
        """What to tell of: nothing at all, not even the end, if nothing is wanted."""
        if not before:
            self._epoll.register(descriptor, wanted)
        elif wanted:
            self._epoll.modify(descriptor, wanted)
        else:
            self._epoll.unregister(descriptor)

    def _poll(self) -> None:
        lines = self.lines
        for descriptor, events in self._epoll.poll(0, _EVENTS):
            # Order: its place may have been given to another connection since, which is told in vain.
            line = lines.get(descriptor)
            if line is not None:
                wanted = line.wanted
                if events & ~_OUT and wanted & _IN:
                    line.owner.readable()
                if wanted & _OUT and events & ~_IN and not line.is_closed:
                    line.owner.writable()
            elif descriptor in self._servers:
                self._accept(*self._servers[descriptor])

    def _accept(self, server: socket.socket, accepted: Accepted) -> None:
        for _ in range(_ACCEPTS):
            try:
                # Measured: `accept` takes 4 us more, for an object that is not needed.
                made, address = server._accept()  # type: ignore[attr-defined]  # noqa: SLF001
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(server)
                    return
                continue  # it is gone already
            os.set_blocking(made, False)
            accepted(made, address)

    def _pause(self, server: socket.socket) -> None:
        self._epoll.unregister(server.fileno())
        assert self._loop is not None, "started"
        self._loop.call_later(_AGAIN_S, self._guarded, self._go_on, server.fileno())

    def _go_on(self, descriptor: int) -> None:
        if descriptor in self._servers:
            self._epoll.register(descriptor, _IN)


class Line:
    """One connection's socket, which it owns, and what is wanted of it."""

    __slots__ = ("_sockets", "descriptor", "is_closed", "owner", "wanted")

    def __init__(self, sockets: Sockets, descriptor: int, owner: Owner) -> None:
        """Reading is wanted at first."""
        self._sockets, self.descriptor, self.owner = sockets, descriptor, owner
        self.is_closed, self.wanted = False, _IN
        sockets.lines[descriptor] = self
        sockets.set(descriptor, 0, _IN)

    def read(self, room: memoryview) -> int | None:
        """How many bytes have come, 0 at the end, None if there are none now. Errors: OSError."""
        try:
            return os.readv(self.descriptor, (room,))
        except (BlockingIOError, InterruptedError):
            return None

    def want_reading(self, wanted: bool, /) -> None:
        """Whether to tell of what can be read."""
        self._want(self.wanted | _IN if wanted else self.wanted & ~_IN)

    def want_writing(self, wanted: bool, /) -> None:
        """Whether to tell when the socket takes more."""
        self._want(self.wanted | _OUT if wanted else self.wanted & ~_OUT)

    def _want(self, wanted: int) -> None:
        if wanted != self.wanted and not self.is_closed:
            before, self.wanted = self.wanted, wanted
            self._sockets.set(self.descriptor, before, wanted)

    def close(self) -> None:
        """End it now. The descriptor is somebody else's from now on."""
        if not self.is_closed:
            self.is_closed, self.wanted = True, 0
            del self.owner  # so that both go without a collector
            del self._sockets.lines[self.descriptor]
            with contextlib.suppress(ConnectionError):  # it is closed all the same
                os.close(self.descriptor)  # which ends the registration, too
