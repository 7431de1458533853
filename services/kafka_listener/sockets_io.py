"""The sockets of all connections, behind one descriptor of the event loop: an epoll of their own.

The transport and protocol of asyncio take a fifth of a node's work for a client that connects, sends three
requests and disconnects. Here a connection is one object that is notified of its socket's readiness; it is
registered once, without a callback. Readiness is level-triggered: bytes that are not read are reported again.
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

    # A non-blocking descriptor, and the client's address; False: accept no others for a moment.
    Accepted = Callable[[int, Any], bool]

# Bound: events handled and connections accepted before the loop's other work has its turn.
_EVENTS, _ACCEPTS = 128, 64
# Pause of accepting after the system had no descriptor or no memory for a connection, or the owner no room.
_ACCEPT_RETRY_S = 0.2
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class Owner(Protocol):
    """Notified of its socket's readiness. Either may be called without need."""

    def readable(self) -> None:
        """Bytes can be read, or the end of the stream."""

    def writable(self) -> None:
        """The socket takes more bytes, or has failed."""


class Sockets:
    """Used by the event loop's thread alone."""

    def __init__(self, guarded: Callable[..., None]) -> None:
        """`guarded` runs callbacks of the loop and handles their exceptions."""
        self._guarded = guarded
        self.by_descriptor: dict[int, PolledSocket] = {}
        self._servers: dict[int, tuple[socket.socket, Accepted]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call before the first `listen`."""
        self._loop, self._epoll = loop, select.epoll()
        loop.add_reader(self._epoll.fileno(), self._guarded, self._poll)

    def listen(self, server: socket.socket, accepted: Accepted) -> None:
        """Accept connections until `close_servers`; they inherit the options of `server`."""
        self._servers[server.fileno()] = server, accepted
        self._epoll.register(server.fileno(), _IN)

    def close_servers(self) -> None:
        """Accept no more connections."""
        for server, _ in self._servers.values():
            server.close()
        self._servers.clear()

    def close(self) -> None:
        """Order: after the owners have closed their connections."""
        self.close_servers()
        if self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._loop = None

    def set_events(self, descriptor: int, before: int, events: int) -> None:
        """Report these events from now on; with 0 nothing at all, not even that the client is gone."""
        if not before:
            self._epoll.register(descriptor, events)
        elif events:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.unregister(descriptor)

    def _poll(self) -> None:
        sockets = self.by_descriptor
        for descriptor, events in self._epoll.poll(0, _EVENTS):
            # Order: an earlier event may have closed it, and its descriptor may belong to another connection,
            # which is then notified without need.
            found = sockets.get(descriptor)
            if found is not None:
                polled = found.events
                if events & ~_OUT and polled & _IN:
                    found.owner.readable()
                if polled & _OUT and events & ~_IN and not found.is_closed:
                    found.owner.writable()
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
                continue  # the client is gone
            os.set_blocking(made, False)
            if not accepted(made, address):
                self._pause(server)
                return

    def _pause(self, server: socket.socket) -> None:
        self._epoll.unregister(server.fileno())
        assert self._loop is not None, "started"
        self._loop.call_later(_ACCEPT_RETRY_S, self._guarded, self._resume, server.fileno())

    def _resume(self, descriptor: int) -> None:
        if descriptor in self._servers:
            self._epoll.register(descriptor, _IN)


class PolledSocket:
    """The socket of one connection, and the events that are polled for it."""

    __slots__ = ("_sockets", "descriptor", "events", "is_closed", "owner")

    def __init__(self, sockets: Sockets, descriptor: int, owner: Owner) -> None:
        """It is polled for reading at first."""
        self._sockets, self.descriptor, self.owner = sockets, descriptor, owner
        self.is_closed, self.events = False, _IN
        sockets.by_descriptor[descriptor] = self
        sockets.set_events(descriptor, 0, _IN)

    def read(self, room: memoryview) -> int | None:
        """The number of bytes read, 0 at the end of the stream, None if there are none. Errors: OSError."""
        try:
            return os.readv(self.descriptor, (room,))
        except (BlockingIOError, InterruptedError):
            return None

    def set_reading(self, is_polled: bool, /) -> None:
        """Whether `readable` of the owner is called."""
        self._set(self.events | _IN if is_polled else self.events & ~_IN)

    def set_writing(self, is_polled: bool, /) -> None:
        """Whether `writable` of the owner is called."""
        self._set(self.events | _OUT if is_polled else self.events & ~_OUT)

    def _set(self, events: int) -> None:
        if events != self.events and not self.is_closed:
            before, self.events = self.events, events
            self._sockets.set_events(self.descriptor, before, events)

    def close(self) -> None:
        """Close it now. The descriptor may belong to another connection from then on."""
        if not self.is_closed:
            self.is_closed, self.events = True, 0
            del self.owner  # breaks the cycle: both are freed without the garbage collector
            del self._sockets.by_descriptor[self.descriptor]
            with contextlib.suppress(ConnectionError):  # the descriptor is closed all the same
                os.close(self.descriptor)  # epoll forgets it, too
