"""SASL SCRAM as a SaslServer: users and delegation tokens, from the accounts of the cluster. Pure.

Source: Kafka ScramSaslServer.java, ScramServerCallbackHandler.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .sasl import Authenticated, Challenge, Refused, invalid_credentials
from .scram import ScramError, ScramServer

if TYPE_CHECKING:
    from .sasl import SaslResult
    from .scram import ScramAccount, ScramMechanism


class CredentialLookup(Protocol):
    """The accounts of the cluster."""

    def scram_account(self, mechanism: ScramMechanism, name: str, by_token: bool) -> ScramAccount | None:
        """The account of a user, or with `by_token` of the delegation token with that id."""


class ScramSaslServer:
    """Implements SaslServer. Costs the server two HMACs: the client derives the key from its password."""

    def __init__(self, mechanism: ScramMechanism, credentials: CredentialLookup, nonce: str) -> None:
        """`nonce`: random, of NONCE_BYTES bytes."""
        self._mechanism = mechanism
        self._exchange = ScramServer(
            mechanism, lambda name, by_token: credentials.scram_account(mechanism, name, by_token), nonce
        )

    def step(self, response: bytes, wall_ms: int, /) -> SaslResult:
        """Messages of RFC 5802."""
        try:
            answer = self._exchange.step(response)
        except ScramError as error:
            return self._refused(str(error))
        account = self._exchange.account
        if account is None:
            return Challenge(answer)
        if account.expires_ms is not None and account.expires_ms <= wall_ms:
            return self._refused("the delegation token has expired")
        return Authenticated(answer, account.principal, account.expires_ms, account.token_id)

    def _refused(self, reason: str) -> Refused:
        return Refused(invalid_credentials(self._mechanism.sasl_name), reason)
