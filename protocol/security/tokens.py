"""Delegation tokens: their metadata, and the HMAC that is their password. Pure.

The HMAC is not stored: each server computes it with `delegation.token.secret.key`. Source: Kafka
TokenInformation.java, DelegationTokenManager.scala; KIP-48, 373.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import NamedTuple


class DelegationToken(NamedTuple):
    """One token. Principals as text; times in ms of the wall clock."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int  # its expiry time cannot be extended beyond this
    expiry_ms: int

    def is_expired(self, wall_ms: int) -> bool:
        """Whether the token has expired."""
        return min(self.max_ms, self.expiry_ms) < wall_ms

    def is_of(self, principal: str) -> bool:
        """Whether the principal owns it, requested it, or may renew it."""
        return principal in (self.owner, self.requester) or principal in self.renewers


def token_hmac(secret: str, token_id: str) -> bytes:
    """The HMAC of a token."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The password of a token, for SCRAM: its HMAC in base64."""
    return b64encode(token_hmac(secret, token_id)).decode()
