"""SASL GSSAPI (Kerberos), both sides: a security context, and the agreement to have no security layer. Pure.

A Kerberos library implements the security context, behind a Protocol: the first step of a server reads its
keytab and writes the replay cache, that of a client sends a request to the KDC. When the context is
established, the server offers the only security layer "none", and the client chooses it: encryption is done
by the connection.
Source: RFC 4752; JDK GssKrb5Server.java; Kafka SaslServerAuthenticator.java, KerberosError.java.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..errors import NetworkError, SaslAuthenticationFailedError
from .principal_mapping import NoRuleError
from .principals import user
from .sasl import GSSAPI, Authenticated, Challenge, Pending, Refused, invalid_credentials

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from .sasl import SaslOutcome, SaslResult

NO_LAYER = 1  # the bit of a security layer, "authentication alone"
# With no security layer there are no messages, and so their largest size is 0.
_OFFER = bytes((NO_LAYER, 0, 0, 0))
# Bound: Kerberos needs one message of each side, or three in total; other mechanisms are not accepted.
MAX_STEPS = 3


class ContextError(Exception):
    """A security context cannot be established or used. `is_retriable`: another attempt may succeed; Kafka
    has the same cases."""

    def __init__(self, text: str, *, is_retriable: bool = False) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


class SecurityContext(Protocol):
    """One side of a security context. Errors of all methods: ContextError."""

    @property
    def is_established(self) -> bool:
        """Whether messages may be wrapped."""

    def step(self, token: bytes | None, /) -> bytes:
        """The token for the peer, empty for none. May wait for a disk or the network."""

    def wrap(self, message: bytes, /) -> bytes:
        """Wrap a message with its checksum."""

    def unwrap(self, token: bytes, /) -> bytes:
        """Unwrap a message of the peer."""


class AcceptedContext(SecurityContext, Protocol):
    """The security context of a server."""

    def client(self) -> str:
        """The client's principal."""

    def lifetime_s(self) -> int:
        """How long its ticket is valid."""


if TYPE_CHECKING:
    Submit = Callable[[Callable[[], SaslOutcome]], Future[SaslOutcome]]  # runs on another thread


class GssapiServer:
    """Implements SaslServer. `name_of`: the method of PrincipalToLocal."""

    def __init__(self, context: AcceptedContext, name_of: Callable[[str], str], submit: Submit) -> None:
        self._context, self._name_of, self._submit = context, name_of, submit
        self._steps = 0
        self._has_offered = False

    def step(self, response: bytes, wall_ms: int, /) -> SaslResult:
        """Tokens of the context, on another thread; then the client's choice."""
        if self._context.is_established:
            return _caught(partial(self._agree, response, wall_ms))
        self._steps += 1
        if not response or self._steps > MAX_STEPS:
            return _refused("the client's message has no Kerberos token")
        return Pending(self._submit(partial(_caught, partial(self._establish, response))))

    def _establish(self, token: bytes) -> SaslOutcome:
        answer = self._context.step(token)
        return self._offer() if self._context.is_established and not answer else Challenge(answer)

    def _offer(self) -> SaslOutcome:
        self._has_offered = True
        return Challenge(self._context.wrap(_OFFER))

    def _agree(self, response: bytes, wall_ms: int) -> SaslOutcome:
        if not self._has_offered:
            if response:
                return _refused("the client's message must be empty before the offer of security layers")
            return self._offer()
        choice = self._context.unwrap(response)
        if len(choice) < len(_OFFER) or not choice[0] & NO_LAYER:
            return _refused("the client has chosen a security layer that was not offered")
        # The authorization id behind it has no effect, as in Kafka: some clients send the service's name.
        try:
            name = self._name_of(self._context.client())
        except NoRuleError as error:
            return _refused(str(error))
        return Authenticated(b"", user(name), wall_ms + self._context.lifetime_s() * 1000)


def _caught(step: Callable[[], SaslOutcome]) -> SaslOutcome:
    try:
        return step()
    except ContextError as error:
        return _refused(str(error), is_retriable=error.is_retriable)


def _refused(reason: str, *, is_retriable: bool = False) -> Refused:
    return Refused(invalid_credentials(GSSAPI), reason, is_retriable)


class GssapiLogin:
    """The client's side. Implements Login of transport/security.py."""

    def __init__(self, new_context: Callable[[], SecurityContext]) -> None:
        """`new_context` may send a request to the KDC. Errors: ContextError."""
        self._new_context = new_context
        self._context: SecurityContext | None = None
        self._has_chosen = False
        self.is_complete = False

    def first(self) -> bytes:
        """A ticket for the server's service. Errors: as `step`."""
        return self._guarded(self._begin)

    def step(self, message: bytes) -> bytes:
        """The next token, or the choice. Errors: SaslAuthenticationFailedError; NetworkError, retriable."""
        if self._has_chosen:
            self.is_complete = True
            return b""
        return self._guarded(partial(self._answer, message))

    def _begin(self) -> bytes:
        self._context = self._new_context()
        return self._context.step(None)

    def _answer(self, message: bytes) -> bytes:
        context = self._context
        assert context is not None, "`first` created it"
        if not context.is_established:
            return context.step(message)
        offer = context.unwrap(message)
        if len(offer) < len(_OFFER) or not offer[0] & NO_LAYER:
            raise ContextError("the server requires a GSSAPI security layer, which clients do not have")
        self._has_chosen = True
        return context.wrap(_OFFER)

    def _guarded(self, step: Callable[[], bytes]) -> bytes:
        try:
            return step()
        except ContextError as error:
            kind = NetworkError if error.is_retriable else SaslAuthenticationFailedError
            raise kind(str(error)) from error
