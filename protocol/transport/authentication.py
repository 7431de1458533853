"""Authentication on a listener: the identity of a connection, and the requests that it may send. Pure.

A peer is a server of the cluster, identified by its CURVE key; a user; or unauthenticated, and then it may
only authenticate. All peers of a kind share a table of allowed requests, so that a listener without security
has no extra cost.

Bound: unauthenticated peers have a separate connection limit, so that they do not count against that of
users; when it is reached, the oldest of them is closed. Each has one exchange, which must end within the
handshake timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import (
    ClusterAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from ..messages.registry import SASL_AUTHENTICATE, SASL_HANDSHAKE
from ..messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from ..security.identity import Identity, host_of
from ..security.sasl import Authenticated, Pending, Refused
from ..security.server_requests import server_principal
from . import wire
from .peers import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..messages.envelope import Api
    from ..messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
    from ..security.sasl import SaslFactory, SaslOutcome, SaslServer
    from .peers import Peer
    from .security import RouterSecurity
    from .wire import ServedApi

SASL_APIS = (SASL_HANDSHAKE, SASL_AUTHENTICATE)
SASL_KEYS = frozenset(api.key for api in SASL_APIS)
# As Kafka's sasl.server.max.receive.size.
MAX_SASL_BYTES = 512 * 1024
_TOO_EARLY = "a message before the answer to the one before"
CURVE = "CURVE"  # the mechanism of a server's identity


class Exchange:
    """The authentication of one peer in progress."""

    __slots__ = ("began_ms", "is_pending", "mechanism", "server")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.mechanism = ""
        self.is_pending = False  # another thread computes the outcome
        self.server: SaslServer | None = None


class Refusal(Exception):
    """Authentication failed: `answer` is for the client, `reason` for the log. The connection will be
    closed."""

    def __init__(self, answer: KafkaError, reason: str) -> None:
        super().__init__(reason)
        self.answer, self.reason = answer, reason


class ListenerAuthentication:
    """The kinds of peers of one listener, and their exchanges."""

    def __init__(self, security: RouterSecurity | None, apis: Iterable[Api]) -> None:
        apis = tuple(apis)
        self._security = security
        has_users = security is not None and security.sasl is not None
        self._of_unauthenticated = wire.served_apis(SASL_APIS)
        self._of_others = wire.served_apis((*apis, *SASL_APIS) if has_users else apis)
        self.all: dict[int, ServedApi] = self._of_others

    def mechanisms(self, peer: Peer) -> tuple[str, ...]:
        """The mechanisms with one of which the peer must authenticate; empty if it need not."""
        return () if peer.exchange is None else tuple(self._factories())

    def server_keys(self) -> tuple[str, ...]:
        """The keys of the cluster's servers, for a client that is connected to one of them."""
        if self._security is None or self._security.keys is None:
            return ()
        return tuple(self._security.trusted().to_text().splitlines())

    def failed_delay_ms(self) -> int:
        """By how much a rejection is delayed, in ms."""
        return 0 if self._security is None else self._security.failed_delay_ms()

    def classify(self, peer: Peer, public_key: str, now_ms: int) -> None:
        """Classify a peer after its handshake, by its CURVE key in hexadecimal digits, empty without.
        Errors: ClusterAuthorizationFailedError."""
        security = self._security
        if security is None:
            peer.served = self._of_others
            return
        host = host_of(peer.address)
        name = security.trusted().owner(bytes.fromhex(public_key)) if public_key else None
        peer.served = self._of_others
        if name is not None:
            peer.identity = Identity(server_principal(name), host, CURVE, is_server=True)
        elif security.is_for_servers_only:
            raise ClusterAuthorizationFailedError("only servers of this cluster may connect to this port")
        else:
            peer.identity = Identity(host=host)
            if security.sasl is not None:
                peer.served = self._of_unauthenticated
                peer.exchange = Exchange(now_ms)

    # --- an exchange ------------------------------------------------------------------------------------

    def begin(self, peer: Peer, request: SaslHandshakeRequest, now_ms: int) -> SaslHandshakeResponse:
        """Begin an exchange; also of a user, which re-authenticates. Errors: Refusal."""
        if peer.identity.is_server:
            raise _illegal("a server of the cluster is authenticated by its key")
        factories = self._factories()
        make = factories.get(request.mechanism)
        if make is None:
            raise Refusal(
                UnsupportedSaslMechanismError(f"enabled mechanisms: {', '.join(factories) or 'none'}"),
                f"the mechanism {printable(request.mechanism)} is not enabled",
            )
        if peer.exchange is None:
            peer.exchange = Exchange(now_ms)
        if peer.exchange.is_pending:
            raise _illegal(_TOO_EARLY)
        peer.exchange.mechanism, peer.exchange.server = request.mechanism, make()
        return SaslHandshakeResponse(0, tuple(factories))

    def step(
        self, peer: Peer, request: SaslAuthenticateRequest, now_ms: int, wall_ms: int
    ) -> SaslAuthenticateResponse | Pending:
        """The next message. After the last one the peer has its identity. A Pending outcome is passed to
        `resume`. Errors: Refusal."""
        exchange = peer.exchange
        if exchange is None or exchange.server is None:
            raise _illegal("SaslAuthenticate without SaslHandshake")
        if exchange.is_pending:
            raise _illegal(_TOO_EARLY)
        if len(request.auth_bytes) > MAX_SASL_BYTES:
            raise _illegal(
                f"a message of {len(request.auth_bytes)} bytes; at most {MAX_SASL_BYTES} are allowed"
            )
        result = exchange.server.step(request.auth_bytes, wall_ms)
        if isinstance(result, Pending):
            exchange.is_pending = True
            return result
        return self._answer(peer, exchange, result, now_ms, wall_ms)

    def resume(
        self, peer: Peer, exchange: Exchange, outcome: SaslOutcome, now_ms: int, wall_ms: int
    ) -> SaslAuthenticateResponse:
        """The outcome of a Pending step of the peer's exchange. Errors: Refusal."""
        exchange.is_pending = False
        return self._answer(peer, exchange, outcome, now_ms, wall_ms)

    def _answer(
        self, peer: Peer, exchange: Exchange, result: SaslOutcome, now_ms: int, wall_ms: int
    ) -> SaslAuthenticateResponse:
        if isinstance(result, Refused):
            kind = NetworkError if result.is_retriable else SaslAuthenticationFailedError
            raise Refusal(kind(result.text), f"{exchange.mechanism}: {result.reason}")
        if not isinstance(result, Authenticated):
            return SaslAuthenticateResponse(0, "", result.data)
        if peer.identity.is_authenticated and peer.identity.principal != result.principal:
            text = "a connection cannot change its user when it authenticates again"
            raise Refusal(SaslAuthenticationFailedError(text), text)
        lifetime_ms = self._lifetime_ms(exchange.mechanism, result, wall_ms)
        expires_ms = wall_ms + lifetime_ms if lifetime_ms else None
        peer.identity = Identity(
            result.principal, peer.identity.host, exchange.mechanism, expires_ms, result.token_id
        )
        peer.expires_ms = now_ms + lifetime_ms if lifetime_ms else None
        peer.exchange = None
        peer.served = self._of_others
        return SaslAuthenticateResponse(0, "", result.data, lifetime_ms)

    def _factories(self) -> Mapping[str, SaslFactory]:
        sasl = None if self._security is None else self._security.sasl
        assert sasl is not None, "only then the apis of SASL are served"
        return sasl()

    def _lifetime_ms(self, mechanism: str, result: Authenticated, wall_ms: int) -> int:
        """The time until the connection must re-authenticate, 0 for no limit."""
        assert self._security is not None
        max_reauth_ms = self._security.max_reauth_ms.get(mechanism, 0)
        limits = [max_reauth_ms] if max_reauth_ms else []
        if result.expires_ms is not None:
            limits.append(max(result.expires_ms - wall_ms, 1))
        return min(limits, default=0)


def overdue(peer: Peer, now_ms: int, timeout_ms: int) -> str:
    """The reason to close the connection now: an exchange that takes too long, or an expired identity;
    otherwise empty."""
    if peer.exchange is not None and now_ms - peer.exchange.began_ms > timeout_ms:
        return f"this connection did not authenticate within {timeout_ms} ms"
    if peer.expires_ms is not None and now_ms >= peer.expires_ms:
        return "this connection did not authenticate again in time"
    return ""


def _illegal(text: str) -> Refusal:
    return Refusal(IllegalSaslStateError(text), text)
