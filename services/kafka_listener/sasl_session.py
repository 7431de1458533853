"""The SASL authentication of one connection: mechanism, exchange, session lifetime, re-authentication. Pure.

Source: Kafka SaslServerAuthenticator.java; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import (
    IllegalSaslStateError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from ...protocol.security.identity import Identity
from ...protocol.security.sasl import Authenticated, Challenge, Pending, Refused
from .codes import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.security.sasl import SaslFactory, SaslOutcome, SaslServer

_BEFORE = (API_VERSIONS, SASL_HANDSHAKE)
# A client that re-authenticates sooner is rejected, as in Kafka.
MIN_REAUTH_MS = 1_000


class SaslOwner(Protocol):
    """The connection."""

    def authenticated(self, identity: Identity) -> None:
        """The client has authenticated or re-authenticated."""

    def authentication_failed(self, mechanism: str, reason: str) -> None:
        """Authentication failed: the response is sent after a delay."""


class SaslOffer(NamedTuple):
    """The mechanisms of a listener in the order of its configuration, and the maximum session lifetime of
    each in ms, 0 for no limit."""

    mechanisms: Mapping[str, SaslFactory]
    max_reauth_ms: Mapping[str, int]


class SaslAnswer(NamedTuple):
    """The response to one message of an exchange. With `error` the connection is closed after the response;
    with a NetworkError it is closed without a response, so that the client retries."""

    data: bytes = b""
    lifetime_ms: int = 0  # of the session; 0: no limit, or not authenticated yet
    error: KafkaError | None = None


class _State(Enum):
    HANDSHAKE = auto()
    EXCHANGE = auto()
    PENDING = auto()
    COMPLETE = auto()
    FAILED = auto()


class SaslSession:
    """Invariant: before the first COMPLETE, only authentication requests reach a handler."""

    __slots__ = (
        "_authenticated_ms",
        "_exchange",
        "_expires_ms",
        "_identity",
        "_mechanism",
        "_offer",
        "_owner",
        "_state",
        "_takes_tokens",
    )

    def __init__(self, offer: SaslOffer, identity: Identity, owner: SaslOwner) -> None:
        """`identity` has the host of the connection."""
        self._offer, self._identity = offer, identity
        self._owner: SaslOwner | None = owner
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._takes_tokens = False
        self._authenticated_ms = 0  # monotonic
        self._expires_ms = 0  # monotonic; 0: never

    def close(self) -> None:
        """Drop the reference to the connection, so that both are freed without the garbage collector."""
        self._owner = self._exchange = None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms."""
        return tuple(self._offer.mechanisms)

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a SASL token, not a request (after SaslHandshake version 0)."""
        return self._takes_tokens

    def is_open(self, now_ms: int) -> bool:
        """Whether the client is authenticated, so that every request may run."""
        return self._state is _State.COMPLETE and not 0 < self._expires_ms <= now_ms

    def fault(self, api_key: int, now_ms: int) -> str:
        """The reason to close the connection at a request of this api; empty if the request may run."""
        if self._state is _State.COMPLETE:
            if self.is_open(now_ms) or api_key == SASL_HANDSHAKE:
                return ""
            return "the session has expired and the client did not authenticate again"
        if self._state is _State.FAILED:
            return "the client sent a request after its authentication had failed"
        allowed = _BEFORE if self._state is _State.HANDSHAKE else (SASL_AUTHENTICATE,)
        return "" if api_key in allowed else f"api {api_key} before the client is authenticated"

    def handshake(self, mechanism: str, version: int, now_ms: int) -> KafkaError | None:
        """Choose a mechanism. After an UnsupportedSaslMechanismError the connection is closed; an
        IllegalSaslStateError changes nothing."""
        if self._state is _State.COMPLETE and not self._may_reauthenticate(now_ms):
            return IllegalSaslStateError("SaslHandshake request received after successful authentication")
        if mechanism not in self._offer.mechanisms or self._mechanism not in ("", mechanism):
            self._fail(mechanism[:100], "the mechanism is not enabled, or not the one of this connection")
            return UnsupportedSaslMechanismError(f"the mechanisms are {', '.join(self._offer.mechanisms)}")
        self._state, self._mechanism = _State.EXCHANGE, mechanism
        self._exchange = self._offer.mechanisms[mechanism]()
        self._takes_tokens = version == 0
        return None

    def _may_reauthenticate(self, now_ms: int) -> bool:
        is_limited = self._offer.max_reauth_ms.get(self._mechanism, 0) > 0
        return is_limited and now_ms - self._authenticated_ms >= MIN_REAUTH_MS

    def authenticate(self, data: bytes, now_ms: int, wall_ms: int) -> SaslAnswer | Pending:
        """The client's next message. An IllegalSaslStateError changes nothing. A Pending outcome is
        passed to `resume`; until then no request may be started."""
        if self._state is not _State.EXCHANGE or self._exchange is None:
            text = "SaslAuthenticate request received after successful authentication"
            return SaslAnswer(error=IllegalSaslStateError(text))
        result = self._exchange.step(data, wall_ms)
        if isinstance(result, Pending):
            self._state = _State.PENDING
            return result
        return self._answer(result, now_ms, wall_ms)

    def resume(self, outcome: SaslOutcome, now_ms: int, wall_ms: int) -> SaslAnswer:
        """The outcome of a Pending step."""
        assert self._state is _State.PENDING
        self._state = _State.EXCHANGE
        return self._answer(outcome, now_ms, wall_ms)

    def _answer(self, outcome: SaslOutcome, now_ms: int, wall_ms: int) -> SaslAnswer:
        if isinstance(outcome, Challenge):
            return SaslAnswer(outcome.data)
        if isinstance(outcome, Authenticated):
            return self._finished(outcome, now_ms, wall_ms)
        return self._refused(outcome)

    def _finished(self, result: Authenticated, now_ms: int, wall_ms: int) -> SaslAnswer:
        before = self._identity
        if before.is_authenticated and before.principal != result.principal:
            text = (
                "Cannot change principals during re-authentication from"
                f" {before.principal.kind}.{before.principal.name}:"
                f" {result.principal.kind}.{result.principal.name}"
            )
            return self._refused(Refused(text, "the principal changed during re-authentication"))
        lifetime_ms = self._offer.max_reauth_ms.get(self._mechanism, 0)
        if result.expires_ms is not None:
            left_ms = result.expires_ms - wall_ms
            if left_ms <= 0 and lifetime_ms:
                return self._refused(Refused("the credential has expired", "the credential has expired"))
            lifetime_ms = min(left_ms, lifetime_ms)
        self._state, self._exchange, self._takes_tokens = _State.COMPLETE, None, False
        self._authenticated_ms = now_ms
        self._expires_ms = now_ms + lifetime_ms if lifetime_ms > 0 else 0
        self._identity = Identity(
            result.principal,
            before.host,
            self._mechanism,
            wall_ms + lifetime_ms if lifetime_ms > 0 else None,
            result.token_id,
        )
        if self._owner is not None:
            self._owner.authenticated(self._identity)
        return SaslAnswer(result.data, max(lifetime_ms, 0))

    def _refused(self, refused: Refused) -> SaslAnswer:
        self._fail(self._mechanism, refused.reason)
        kind = NetworkError if refused.is_retriable else SaslAuthenticationFailedError
        return SaslAnswer(error=kind(refused.text))

    def _fail(self, mechanism: str, reason: str) -> None:
        self._state, self._exchange, self._takes_tokens = _State.FAILED, None, False
        if self._owner is not None:
            self._owner.authentication_failed(mechanism, reason)
