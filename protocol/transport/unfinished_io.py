"""Connections that send a message without end: they are closed.

ZeroMQ keeps the parts of a message in memory until the last one has arrived. It limits the size of a part,
not their number, and does not show unfinished messages. They are recognized by the bytes that a connection
receives while none of its messages reaches the router. A busy router has not taken all complete messages
yet: a connection is only closed when there are none, or after so many messages that ZeroMQ, which takes one
from each connection in turns, would have delivered one of this connection.

Bound: an unfinished message has at most `max_request_bytes` and what arrives between two looks; all of them
together `max_queued_bytes`, above which the largest ones are closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq

from .connections_io import peeked_received_bytes
from .peers import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from .admission import Admission
    from .connections_io import PendingHandshakes
    from .peers import Peer, PeerTable, RouterLimits

# What may follow a complete message in the kernel's buffer, and the overhead of the encryption.
SLACK_BYTES = 16 * MIB
# Less is not counted: heartbeats of idle connections.
SMALL_BYTES = 16 * 1024
# Bound: connections per look, each about four microseconds; the others are looked at next time.
MAX_LOOKS = 1024


@dataclass(slots=True)
class _Silence:
    """Since a look at which the connection had `messages`: the bytes since then."""

    messages: int
    received_bytes: int
    growth: int = 0
    suspected_at: int | None = None  # messages of the router by then


class UnfinishedMessages:
    """Looks for unfinished messages of the peers of one router. `socket`: the router's."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        peers: PeerTable,
        handshakes: PendingHandshakes,
        admission: Admission,
        received_of: Callable[[int], int] = peeked_received_bytes,
    ) -> None:
        self._socket, self._peers, self._handshakes, self._admission = socket, peers, handshakes, admission
        self._received_of = received_of
        self._silent: dict[Peer, _Silence] = {}
        self._left: list[Peer] = []  # to be looked at next

    def look(self, limits: RouterLimits) -> list[tuple[Peer, str]]:
        """Peers whose connections have to be closed, and why."""
        messages = self._admission.messages
        if not self._left:
            self._left = list(self._peers)
            self._silent = {peer: kept for peer, kept in self._silent.items() if peer.is_connected}
        now, self._left = self._left[:MAX_LOOKS], self._left[MAX_LOOKS:]
        for peer in now:
            self._look_at(peer)
        growing = [
            (peer, silence)
            for peer, silence in self._silent.items()
            if silence.growth > SMALL_BYTES and silence.messages == peer.messages and peer.is_connected
        ]
        growing.sort(key=lambda each: each[1].growth, reverse=True)
        total, most = sum(each.growth for _, each in growing), limits.max_request_bytes + SLACK_BYTES
        found = []
        for peer, silence in growing:
            growth = silence.growth
            if growth <= most and total <= limits.max_queued_bytes + SLACK_BYTES:
                break
            if silence.suspected_at is None:
                silence.suspected_at = messages
            if messages - silence.suspected_at > self._connections or self._is_drained():
                found.append((peer, _reason(growth, most, limits)))
                del self._silent[peer]
                total -= growth
        return found

    @property
    def _connections(self) -> int:
        return len(self._peers) + len(self._handshakes)

    def _is_drained(self) -> bool:
        """Whether the router has taken all complete messages."""
        return not int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN

    def _look_at(self, peer: Peer) -> None:
        if not peer.is_connected:
            self._silent.pop(peer, None)
            return
        received, before = self._received_of(peer.descriptor), self._silent.get(peer)
        if before is None or before.messages != peer.messages:
            self._silent[peer] = _Silence(peer.messages, received)
        else:
            before.growth = received - before.received_bytes


def _reason(growth: int, most: int, limits: RouterLimits) -> str:
    if growth > most:
        return (
            f"a message of more than {growth} bytes without end; socket.request.max.bytes is"
            f" {limits.max_request_bytes}"
        )
    return (
        f"a message of {growth} bytes that is not complete, the largest of those that exceed"
        f" queued.max.request.bytes = {limits.max_queued_bytes} together"
    )
