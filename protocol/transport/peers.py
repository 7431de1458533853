"""Connection parameters of both sides, and the server's table of peers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ThrottlingQuotaExceededError
from ..messages.envelope import Api
from ..security.identity import ANONYMOUS_IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..security.identity import Identity
    from .authentication import Exchange
    from .wire import ServedApi

MIB = 1024 * 1024
MAX_NAME_LENGTH = 200
# Bound: unauthenticated peers of a server, as a part of its limit of peers. The oldest is disconnected for a
# new one, so that under a flood each still has the time of many handshakes.
MIN_UNAUTHENTICATED = 16
UNAUTHENTICATED_DIVISOR = 4


@dataclass(slots=True)
class ServerIdentity:
    """The server's identity in the handshake. The owner may set it until the first handshake."""

    cluster_id: str = ""
    node_id: int = -1
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLimits:
    """Limits of a server for its peers. Bytes in flight are limited per frame, per peer and in total."""

    max_request_bytes: int = 100 * MIB  # per request; a peer that announces a larger frame is disconnected
    max_body_bytes: int = 4 * MIB  # decoded bodies are many times larger
    max_frames: int = 4096  # per message, header and body included
    max_in_flight: int = 256  # requests of one peer without response
    max_peers: int = 4096
    max_queued_bytes: int = 512 * MIB  # of all requests without response
    max_response_bytes_pending: int = 512 * MIB  # unread responses of all peers
    # unread responses of one peer, so that one cannot block all others
    max_peer_response_bytes_pending: int = 256 * MIB
    free_response_bytes_pending: int = 64 * 1024  # unread responses that each peer may always have
    idle_timeout_ms: int = 600_000  # as Kafka's connections.max.idle.ms
    handshake_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_timeout_ms: int = 15_000
    backlog: int = 1024  # connections in the kernel's accept queue


@dataclass(slots=True, eq=False)
class Peer:
    """One client connection after its handshake. `session` is new at every handshake."""

    key: bytes  # the ROUTER identity
    session: int
    client_id: str = ""
    software: str = ""
    in_flight: int = 0
    messages: int = 0  # received in this session
    last_seen_ms: int = 0
    address: str = ""  # host:port of the peer, for logs
    descriptor: int = -1  # of the connection, -1 if unknown
    is_connected: bool = True
    identity: Identity = ANONYMOUS_IDENTITY
    served: Mapping[int, ServedApi] = field(default_factory=dict)  # the apis that it may use
    exchange: Exchange | None = None  # the authentication that is under way
    expires_ms: int | None = None  # when it must have authenticated again
    is_unauthenticated: bool = False  # it is not authenticated, and no handler knows it


class Request(msgspec.Struct, eq=False):
    """One decoded request. It is answered exactly once: `reply`, `reply_error` or `no_reply`.

    Units: `queued_bytes` counts against the server's limit until then.
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
    throttle_ms: int = 0  # the response tells the client to pause for so long
    begun_s: float = -1.0  # of the server's measurements
    turn_s: float = -1.0


@dataclass(slots=True, frozen=True)
class Response:
    """The decoded body of a response and its frames, which are valid while referenced."""

    body: Any
    frames: list[memoryview]
    raw_body: bytes = b""  # as received, for forwarding


class PeerTable:
    """The peers of one server by ROUTER identity and by connection.

    Bound: `limit` peers; further handshakes are rejected, because each peer takes memory while connected.
    Unauthenticated peers do not count for it: they have a separate limit, a fraction of it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_key: dict[bytes, Peer] = {}
        self._unauthenticated: dict[bytes, Peer] = {}  # of `_by_key`, oldest first
        self._by_descriptor: dict[int, Peer] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._by_key.values()))

    def get(self, key: bytes) -> Peer | None:
        """The peer with this identity, after its handshake."""
        return self._by_key.get(key)

    def at(self, descriptor: int) -> Peer | None:
        return self._by_descriptor.get(descriptor)

    def admit(self, peer: Peer) -> None:
        """Add a peer. It replaces one with the same identity, whose connection repeated the handshake.

        Errors: ThrottlingQuotaExceededError if the table is full.
        """
        known = self._by_key.get(peer.key)
        if known is not None:
            self.forget(known)
        elif not peer.is_unauthenticated:
            self._check_room()
        self._by_key[peer.key] = peer
        if peer.is_unauthenticated:
            self._unauthenticated[peer.key] = peer
        if peer.descriptor >= 0:
            self._by_descriptor[peer.descriptor] = peer

    def promote(self, peer: Peer) -> None:
        """The peer has authenticated. Errors: ThrottlingQuotaExceededError if the table is full."""
        if peer.is_unauthenticated:
            self._check_room()
            peer.is_unauthenticated = False
            self._unauthenticated.pop(peer.key, None)

    def surplus_unauthenticated(self) -> Peer | None:
        """The oldest unauthenticated peer if there are too many of them: the caller disconnects it."""
        if len(self._unauthenticated) <= max_unauthenticated(self.limit):
            return None
        return next(iter(self._unauthenticated.values()))

    def _check_room(self) -> None:
        if len(self._by_key) - len(self._unauthenticated) >= self.limit:
            raise ThrottlingQuotaExceededError(
                f"this server has reached its limit of {self.limit} connections"
            )

    def forget(self, peer: Peer) -> bool:
        """Remove a peer; its later requests need a new handshake. False if it was removed before."""
        peer.is_connected = False
        if self._by_descriptor.get(peer.descriptor) is peer:
            del self._by_descriptor[peer.descriptor]
        if self._by_key.get(peer.key) is not peer:
            return False
        del self._by_key[peer.key]
        self._unauthenticated.pop(peer.key, None)
        return True


def max_unauthenticated(limit: int) -> int:
    """The number of connections that may be unauthenticated at a time, beside `limit` others."""
    return max(MIN_UNAUTHENTICATED, limit // UNAUTHENTICATED_DIVISOR)


def printable(text: str) -> str:
    """`text`, truncated and with other than printable ASCII characters escaped: safe in a log line."""
    return text[:MAX_NAME_LENGTH].encode("unicode_escape").decode("ascii")
