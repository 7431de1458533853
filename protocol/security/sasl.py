"""The server's side of a SASL mechanism: steps from the client's bytes to a principal. Pure.

One SaslServer is one exchange. Both planes run the same mechanisms: Kafka's in SaslAuthenticate, headrace's
own in the first messages of a connection. Source: RFC 4422; Kafka SaslServerAuthenticator.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from .principals import Principal

PLAIN, OAUTHBEARER, GSSAPI = "PLAIN", "OAUTHBEARER", "GSSAPI"
SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
DIFFERENT_AUTHORIZATION_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
MECHANISMS = (GSSAPI, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)


class Challenge(NamedTuple):
    """The exchange continues: send this to the client."""

    data: bytes


class Authenticated(NamedTuple):
    """The exchange has ended: the client is authenticated as `principal`. `expires_ms`: wall clock, the end
    of the credential if
    it has one. `token_id`: of the delegation token that was used."""

    data: bytes
    principal: Principal
    expires_ms: int | None = None
    token_id: str = ""


class Refused(NamedTuple):
    """The exchange has ended: the client is not authenticated. `text` is for the client, with no more detail
    than in Kafka; `reason` is for the log. Neither has a secret. `is_retriable`: another attempt may succeed,
    so the client gets no response that would end its attempts."""

    text: str
    reason: str
    is_retriable: bool = False


SaslOutcome = Challenge | Authenticated | Refused


class Pending(NamedTuple):
    """Another thread computes the outcome, with a call that may wait for a disk. There is no further
    step until then. The future is cancelled if the mechanism is closed."""

    outcome: Future[SaslOutcome]


SaslResult = SaslOutcome | Pending


class SaslServer(Protocol):
    """One exchange."""

    def step(self, response: bytes, wall_ms: int, /) -> SaslResult:
        """The outcome of the client's next message. Not called again after Authenticated or Refused."""


if TYPE_CHECKING:
    SaslFactory = Callable[[], SaslServer]  # a new exchange


def invalid_credentials(mechanism: str) -> str:
    """The error text of a failed authentication, which does not depend on the reason."""
    return (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism
    )
