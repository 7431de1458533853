"""Admission of requests to a server: handshakes, versions, sessions and limits. Pure.

Requests are rejected before their body is decoded, so that a flood costs little; the KafkaError becomes the
header of the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import (
    IllegalSaslStateError,
    InvalidRequestError,
    NetworkError,
    ThrottlingQuotaExceededError,
    UnsupportedVersionError,
)
from ..messages.envelope import PROTOCOL_VERSION, ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from ..messages.registry import API_VERSIONS
from . import wire
from .peers import Peer, PeerTable, Request, RouterLimits, ServerIdentity, printable

if TYPE_CHECKING:
    from ..messages.envelope import RequestHeader
    from ..records.header import Buffer
    from .authentication import ListenerAuthentication
    from .pending import PendingBytes


class Admission:
    """Admission checks of one server, and the accounting of its pending requests.

    Invariant: `queued_bytes` is the sum over admitted requests without response, and each peer's `in_flight`
    is their number.
    """

    def __init__(
        self,
        authentication: ListenerAuthentication,
        identity: ServerIdentity,
        limits: RouterLimits,
        peers: PeerTable,
        pending: PendingBytes,
    ) -> None:
        self.queued_bytes = 0
        self.messages = 0  # of peers, admitted or not
        self._identity = identity
        self.limits = limits
        self._peers = peers
        self._pending = pending
        self._authentication = authentication
        self._decode_hello = wire.served_apis([API_VERSIONS])[API_VERSIONS.key].decode

    def let_in(
        self, key: bytes, header: RequestHeader, body: Buffer, frames: list[memoryview], now_ms: int
    ) -> Request:
        """The decoded request, counted as pending until `settle`. Errors: the reason of the rejection."""
        peer = self._peers.get(key)
        if peer is None or peer.session != header.session:
            raise NetworkError("unknown session of this connection: repeat the handshake")
        peer.last_seen_ms = now_ms
        peer.messages += 1
        self.messages += 1
        self._check_body(body)
        served = peer.served.get(header.api_key)
        if served is None:
            if peer.is_unauthenticated or not peer.served:
                raise IllegalSaslStateError("this connection has to authenticate first")
            raise UnsupportedVersionError(f"this server does not support api {header.api_key}")
        api = served.api
        if not api.min_version <= header.api_version <= api.max_version:
            raise UnsupportedVersionError(
                f"this server does not support version {header.api_version} of {api.name}"
            )
        size = len(body) + sum([len(frame) for frame in frames])
        self._check_limits(peer, size)
        try:
            raw = bytes(body)
            decoded = wire.decode_body(served.decode, raw, self.limits.max_body_bytes, api.request.__name__)
        except wire.WireError as error:
            raise InvalidRequestError(str(error)) from None
        peer.in_flight += 1
        self.queued_bytes += size
        return Request(peer, api, header.correlation_id, decoded, raw, frames, header.api_version, size)

    def settle(self, request: Request, now_ms: int) -> Peer:
        """The request was answered: remove it from the accounting. Returns its peer."""
        assert not request.is_answered, "a request is answered exactly once"
        request.is_answered = True
        peer = request.peer
        peer.in_flight -= 1
        peer.last_seen_ms = now_ms
        self.queued_bytes -= request.queued_bytes
        return peer

    def read_hello(self, key: bytes, header: RequestHeader, body: Buffer) -> ApiVersionsRequest:
        """The handshake request. Errors: UnsupportedVersionError, InvalidRequestError; IllegalSaslStateError
        for a repeated one of a connection that has to authenticate, or has failed to: it would give the
        connection more time, and a password to try before the answer to the one before."""
        self._check_body(body)
        known = self._peers.get(key)
        if known is not None and known.is_connected and (known.exchange is not None or not known.served):
            raise IllegalSaslStateError("this connection has to authenticate, not to repeat its handshake")
        if header.api_version != 0:
            raise UnsupportedVersionError(f"unsupported version {header.api_version} of ApiVersions")
        try:
            hello: ApiVersionsRequest = wire.decode_body(
                self._decode_hello, bytes(body), self.limits.max_body_bytes, ApiVersionsRequest.__name__
            )
        except wire.WireError as error:
            raise InvalidRequestError(str(error)) from None
        if hello.protocol_version != PROTOCOL_VERSION:
            spoken = f"this server supports protocol version {PROTOCOL_VERSION}"
            raise UnsupportedVersionError(f"{spoken}, not {hello.protocol_version}")
        return hello

    def welcome(self, peer: Peer, hello: ApiVersionsRequest, public_key: str = "") -> ApiVersionsResponse:
        """Add the peer, with this CURVE key, to the table; returns the handshake response. Errors:
        ThrottlingQuotaExceededError, ClusterAuthorizationFailedError.

        Unknown software names and versions are accepted: only the protocol version is checked.
        """
        peer.client_id = printable(hello.client_id)
        peer.software = printable(f"{hello.software_name} {hello.software_version}")
        self._authentication.classify(peer, public_key, peer.last_seen_ms)
        peer.is_unauthenticated = peer.exchange is not None
        self._peers.admit(peer)
        apis = [served.api for served in self._authentication.all.values()]
        return ApiVersionsResponse(
            error_code=0,
            error_detail="",
            session=peer.session,
            incarnation=self._identity.incarnation,
            cluster_id=self._identity.cluster_id,
            node_id=self._identity.node_id,
            apis=tuple(ApiVersionRange(api.key, api.min_version, api.max_version) for api in apis),
            max_in_flight=self.limits.max_in_flight,
            max_request_bytes=self.limits.max_request_bytes,
            idle_timeout_ms=self.limits.idle_timeout_ms,
            sasl_mechanisms=self._authentication.mechanisms(peer),
            server_keys=self._authentication.server_keys(),
        )

    def _check_body(self, body: Buffer) -> None:
        """Errors: InvalidRequestError; before anything copies the body."""
        if len(body) > self.limits.max_body_bytes:
            limit = self.limits.max_body_bytes
            raise InvalidRequestError(f"a body of {len(body)} bytes; at most {limit} are allowed")

    def _check_limits(self, peer: Peer, size: int) -> None:
        limits = self.limits
        if size > limits.max_request_bytes:
            raise InvalidRequestError(
                f"a request of {size} bytes; socket.request.max.bytes is {limits.max_request_bytes}"
            )
        if peer.in_flight >= limits.max_in_flight:
            raise ThrottlingQuotaExceededError(
                f"{peer.in_flight} requests of this connection are in flight, its limit"
            )
        # a single request is always admitted: a limit below max_request_bytes would reject it forever
        if self.queued_bytes and self.queued_bytes + size > limits.max_queued_bytes:
            raise ThrottlingQuotaExceededError("pending requests have reached queued.max.request.bytes")
        own_pending = self._pending.of(peer.key)
        if own_pending > limits.max_peer_response_bytes_pending:
            raise ThrottlingQuotaExceededError("this connection has too many unread responses")
        # A peer that reads its responses is served however much others leave unread: otherwise a few clients
        # that do not read could block all peers, including a controller's heartbeats.
        is_behind = own_pending > limits.free_response_bytes_pending
        if is_behind and self._pending.total() > limits.max_response_bytes_pending:
            raise ThrottlingQuotaExceededError(
                "the connections of this server have too many unread response bytes"
            )
