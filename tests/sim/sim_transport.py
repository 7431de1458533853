"""Requests and responses over the simulated network: connections, sessions, timeouts, lost connections.

A `Link` is one client's connection to one server. Each request on it ends exactly once: with a response, with
an error of the server, or with NetworkError after a timeout or the loss of the link. The server sees the link
as a peer with a session, which ends some time after the link. When a process is killed, its links end without
an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from headrace.protocol.errors import KafkaError, NetworkError
from headrace.protocol.messages import registry
from headrace.protocol.security.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.protocol.messages.envelope import Api
    from network import Network

SERVER = Identity(is_server=True)
# The longest time until a server notices that a client's connection is gone.
MAX_GONE_MS = 2_000


class Process(Protocol):
    """A process with a name in the network."""

    name: str
    life: int

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""

    def awake(self, label: str, action: Callable[[], None]) -> None:
        """Run `action` now, or when the pause ends; not if the process has ended by then."""


class Server(Process, Protocol):
    """A process that handles requests."""

    def receive(self, request: SimRequest) -> None:
        """Handle a request."""

    def gone(self, session: int) -> None:
        """Report the end of a client's connection."""


@dataclass(eq=False)
class Peer:
    """The server's end of a link."""

    session: int
    is_connected: bool = True
    key: bytes = b""
    client_id: str = "sim"
    address: str = ""
    identity: Identity = SERVER


@dataclass(eq=False, slots=True)
class SimRequest:
    """One request at a server, which answers it exactly once."""

    api: Api
    body: Any
    frames: Sequence[bytes]
    peer: Peer
    at_ms: int
    answer: Callable[[Any, Sequence[bytes]], None]
    is_answered: bool = False


class SimReplies:
    """The replies of a server. Law AnsweredOnce: each request gets one response."""

    def reply(self, request: SimRequest, body: Any, frames: Sequence[Any] = ()) -> None:
        """Send a response."""
        self._end(request)
        data = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
        answer = msgspec.msgpack.decode(data, type=request.api.response)
        request.answer(answer, [bytes(frame) for frame in frames])

    def reply_error(self, request: SimRequest, error: KafkaError) -> None:
        """Send an error in place of a response."""
        self._end(request)
        request.answer(error, ())

    def no_reply(self, request: SimRequest) -> None:
        """Complete a request without a response (acks=0)."""
        self._end(request)

    @staticmethod
    def _end(request: SimRequest) -> None:
        assert not request.is_answered, f"AnsweredOnce: {request.api.name} {request.body}"
        request.is_answered = True


@dataclass(eq=False, slots=True)
class _Pending:
    request: Any
    done: Callable[[Any, Sequence[bytes]], None]
    timer: Any


@dataclass(eq=False)
class Link:
    """A connection; for the server it begins with the first request that arrives."""

    transport: Transport
    owner: Process
    target: str
    life: int  # of the owner: which of its processes opened the link
    peer: Peer | None = None
    server_life: int = 0
    is_open: bool = True
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _produced: set[int] = field(default_factory=set)  # numbers of the Produce requests that have arrived

    @property
    def is_usable(self) -> bool:
        """Whether the link is open, and its owner's process still runs."""
        return self.is_open and self.owner.is_alive and self.owner.life == self.life

    def ask(
        self,
        api: Api,
        body: Any,
        frames: Sequence[bytes],
        timeout_ms: int,
        done: Callable[[Any, Sequence[bytes]], None],
    ) -> None:
        """Send a request; `done` gets the decoded response and its frames, or an error."""
        transport = self.transport
        transport.numbers += 1
        number = transport.numbers
        timer = transport.world.after(
            timeout_ms, f"{self.owner.name} timeout {number}", lambda: self._time_out(number)
        )
        self._pending[number] = _Pending(body, done, timer)
        data = msgspec.msgpack.encode(body)
        copies = [bytes(frame) for frame in frames]
        label = f"{number} {api.name} {len(data)} {len(copies)}"
        transport.network.send(
            self.owner.name, self.target, label, lambda: self._arrive(number, api, data, copies)
        )

    def close(self) -> None:
        """Close the link: pending requests fail, and the server notices later."""
        if not self.is_open:
            return
        self.is_open = False
        pending, self._pending = list(self._pending.values()), {}
        for each in pending:
            each.timer.cancel()
        self.transport.forget(self)
        for each in pending:
            self._tell(each, NetworkError(f"the connection to {self.target} was lost"), ())

    def _arrive(self, number: int, api: Api, data: bytes, frames: list[bytes]) -> None:
        if api is registry.PRODUCE:
            # A connection delivers a request at most once. The idempotent producer relies on it: a batch that
            # was refused as out of order, and then appended by another copy of the same request, would be
            # stored again under the next epoch. All other requests may arrive twice.
            if number in self._produced:
                return
            self._produced.add(number)
        server = self.transport.servers[self.target]
        if not server.is_alive or (self.peer is not None and self.server_life != server.life):
            self.transport.reset(self)
            return
        if self.peer is None:
            self.peer, self.server_life = self.transport.new_peer(self.owner), server.life
        peer = self.peer
        if not peer.is_connected:
            return

        def answer(body: Any, answer_frames: Sequence[bytes]) -> None:
            label = f"re {number} {type(body).__name__} {len(answer_frames)}"
            self.transport.network.send(
                self.target,
                self.owner.name,
                label,
                lambda: self._answered(number, body, answer_frames),
            )

        body = msgspec.msgpack.decode(data, type=api.request)
        request = SimRequest(api, body, frames, peer, self.transport.world.now_ms, answer)
        self.transport.world.on_message(self.owner.name, self.target, body, frames, None)
        server.awake(f"{number} {api.name}", lambda: server.receive(request) if peer.is_connected else None)

    def _answered(self, number: int, body: Any, frames: Sequence[bytes]) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.timer.cancel()
            self._tell(pending, body, frames)

    def _time_out(self, number: int) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            self._tell(pending, NetworkError(f"{self.target} did not answer"), ())

    def _tell(self, pending: _Pending, body: Any, frames: Sequence[bytes]) -> None:
        if self.owner.is_alive and self.owner.life == self.life:
            self.transport.world.on_message(self.target, self.owner.name, body, frames, pending.request)
            self.owner.awake("answer", lambda: pending.done(body, frames))


class Transport:
    """All links of one simulation."""

    def __init__(self, network: Network) -> None:
        self.network, self.world = network, network.world
        self.servers: dict[str, Server] = {}
        self.numbers = 0
        self._sessions = 0
        self._random = network.world.stream("transport")
        self._links: list[Link] = []

    def open(self, owner: Process, target: str) -> Link:
        """A new connection of the owner's current process."""
        link = Link(self, owner, target, owner.life)
        self._links.append(link)
        return link

    def new_peer(self, owner: Process) -> Peer:
        """The server's end of a new connection. Only users (access.py) have an identity of their own."""
        self._sessions += 1
        identity = getattr(owner, "identity", SERVER)
        return Peer(self._sessions, key=self._sessions.to_bytes(8, "big"), identity=identity)

    def reset(self, link: Link) -> None:
        """Handle a message of a link that the server does not have: often the client gets a reset, otherwise
        its requests time out."""
        if self._random.random() < 0.8:
            self.world.after(1, f"{link.owner.name} reset by {link.target}", link.close)

    def forget(self, link: Link) -> None:
        """Handle a link that the client closed: the server notices after a delay."""
        self._links.remove(link)
        peer, server = link.peer, self.servers[link.target]
        if peer is None:
            return

        def gone() -> None:
            peer.is_connected = False
            if server.is_alive and server.life == link.server_life:
                server.awake("gone", lambda: server.gone(peer.session))

        delay_ms = self._random.randrange(MAX_GONE_MS) if self._random.random() < 0.3 else 1
        self.world.after(delay_ms, f"{link.target} loses {link.owner.name}", gone)

    def died(self, process: Process) -> None:
        """Handle the end of a process: close its links, and reset those to it."""
        for link in list(self._links):
            if link.owner is process:
                link.close()
            elif link.target == process.name and link.peer is not None:
                link.peer.is_connected = False
                self.reset(link)
