"""What both sides of a connection agree on, and the server's table of its peers.

Pure: session numbers and time come in as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ThrottlingQuotaExceededError
from ..messages.envelope import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024
MAX_NAME_LENGTH = 200


@dataclass(slots=True)
class ServerIdentity:
    """Who a server says it is in the handshake. Its owner may fill it in until the first handshake."""

    cluster_id: str = ""
    node_id: int = -1
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLimits:
    """How much a server takes from its peers. Bytes in flight are bounded per frame, per peer and in all."""

    max_request_bytes: int = 100 * MIB  # of one frame; a peer that announces more is disconnected
    max_body_bytes: int = 4 * MIB  # bodies become objects, which are many times larger
    max_frames: int = 4096  # of one message, header and body included
    max_in_flight: int = 256  # requests of one peer without an answer
    max_peers: int = 4096
    max_queued_bytes: int = 512 * MIB  # of all requests without an answer
    max_response_bytes_pending: int = 512 * MIB  # answered, but not read by the peers
    max_peer_response_bytes_pending: int = 256 * MIB  # of one peer, so that one cannot starve all
    free_response_bytes_pending: int = 64 * 1024  # of one peer, whatever the others leave unread
    idle_timeout_ms: int = 600_000  # as Kafka's connections.max.idle.ms
    handshake_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_timeout_ms: int = 15_000
    backlog: int = 1024  # connections that the kernel holds before they are accepted


@dataclass(slots=True, eq=False)
class Peer:
    """One client connection after its handshake. `session` is new at every handshake."""

    key: bytes  # the ROUTER identity
    session: int
    client_id: str = ""
    software: str = ""
    in_flight: int = 0
    last_seen_ms: int = 0
    address: str = ""  # host:port of the far end, for logs
    descriptor: int = -1  # of the connection, -1 when not known
    is_connected: bool = True


class Request(msgspec.Struct, eq=False):
    """One decoded request. It must be answered exactly once: `reply`, `reply_error` or `no_reply`.

    Units: `queued_bytes` is what it counts against the server's limit until then.
    """

    peer: Peer
    api: Api
    correlation_id: int
    body: Any
    raw_body: bytes
    frames: list[memoryview]
    api_version: int = 0
    queued_bytes: int = 0
    is_answered: bool = False
    throttle_ms: int = 0  # its answer tells the client to wait for so long


@dataclass(slots=True, frozen=True)
class Response:
    """The decoded body of an answer and the frames that came with it, which stay valid as long as held."""

    body: Any
    frames: list[memoryview]
    raw_body: bytes = b""  # as it came, for whoever passes it on


class PeerTable:
    """The peers of one server by ROUTER identity and by connection.

    Bound: `limit` peers; a handshake beyond it is refused, because each costs memory for as long as it lives.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_key: dict[bytes, Peer] = {}
        self._by_descriptor: dict[int, Peer] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._by_key.values()))

    def get(self, key: bytes) -> Peer | None:
        """The peer with this identity that has shaken hands."""
        return self._by_key.get(key)

    def at(self, descriptor: int) -> Peer | None:
        """The peer on this connection."""
        return self._by_descriptor.get(descriptor)

    def admit(self, peer: Peer) -> None:
        """Add a peer. One of the same identity is replaced: that connection shakes hands anew.

        Errors: ThrottlingQuotaExceededError when the table is full.
        """
        known = self._by_key.get(peer.key)
        if known is not None:
            self.forget(known)
        elif len(self._by_key) >= self.limit:
            raise ThrottlingQuotaExceededError(f"this server has its limit of {self.limit} connections")
        self._by_key[peer.key] = peer
        if peer.descriptor >= 0:
            self._by_descriptor[peer.descriptor] = peer

    def forget(self, peer: Peer) -> bool:
        """Remove a peer; its later requests are strangers' requests. False if it was gone already."""
        peer.is_connected = False
        if self._by_descriptor.get(peer.descriptor) is peer:
            del self._by_descriptor[peer.descriptor]
        if self._by_key.get(peer.key) is not peer:
            return False
        del self._by_key[peer.key]
        return True


def printable(text: str) -> str:
    """`text` cut short and with everything but plain characters escaped: safe in a log line."""
    return text[:MAX_NAME_LENGTH].encode("unicode_escape").decode("ascii")
