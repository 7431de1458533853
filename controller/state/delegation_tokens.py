"""CreateDelegationToken, Renew, Expire and Describe, and the removal of expired tokens. Pure.

Times are those of the wall clock. Source: Kafka DelegationTokenControlManager.java; KIP-48, 373, 900.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from ...protocol.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidPrincipalTypeError,
    InvalidRequestError,
)
from ...protocol.messages import security as s
from ...protocol.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from ...protocol.security.principals import USER_TYPE, parse_principal
from ...protocol.security.roles import ROLE_TYPE
from ...protocol.security.tokens import DelegationToken, token_hmac
from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.metadata.records import MetadataRecord
    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig

MAX_TOKENS = 10_000  # Bound: tokens in all
MAX_RENEWERS = 100  # Bound: of one token
MAX_PRINCIPAL = 500  # Bound: characters of a principal
MAX_REMOVALS = 1_000  # Bound: of one decision; the rest is removed by the next one


class DelegationTokens:
    """Decides on tokens. `_ids` knows the tokens of the last image by their HMACs."""

    def __init__(self, config: ControllerConfig, randomness: RandomSource) -> None:
        self._config, self._randomness = config, randomness
        self._ids: dict[bytes, str] = {}
        self._seen: Mapping[str, DelegationToken] = {}

    def decide_create(
        self, image: MetadataImage, request: s.CreateDelegationTokenRequest, wall_ms: int
    ) -> Decision:
        """A new token. Errors: DelegationTokenAuthDisabledError, InvalidPrincipalTypeError,
        InvalidRequestError."""
        secret = self._secret()
        _check_principals(request)
        if len(image.delegation_tokens) >= MAX_TOKENS:
            raise InvalidRequestError(f"there are {MAX_TOKENS} delegation tokens already")
        lifetime_ms = _shorter(request.max_lifetime_ms, self._config.delegation_token_max_lifetime_ms)
        max_ms = wall_ms + lifetime_ms
        token = DelegationToken(
            token_id=self._new_id(),
            owner=request.owner or request.requester,
            requester=request.requester,
            renewers=request.renewers,
            issue_ms=wall_ms,
            max_ms=max_ms,
            expiry_ms=min(max_ms, wall_ms + self._config.delegation_token_expiry_time_ms),
        )
        hmac = token_hmac(secret, token.token_id)
        reply = s.CreateDelegationTokenResponse(token=token, hmac=hmac, metadata_offset=image.offset + 1)
        return Decision((DelegationTokenRecord(token),), reply)

    def _new_id(self) -> str:
        """A random UUID as Kafka writes it: not with a hyphen first, which would be an option of tools."""
        while True:
            found = urlsafe_b64encode(self._randomness.randbytes(16)).rstrip(b"=").decode()
            if not found.startswith("-"):
                return found

    def decide_renew(
        self, image: MetadataImage, request: s.RenewDelegationTokenRequest, wall_ms: int
    ) -> Decision:
        """A later expiry. Errors: those of `_find`, DelegationTokenExpiredError."""
        token = self._find(image, request.hmac)
        _check_not_expired(token, wall_ms)
        _check_renewer(token, request.requester)
        period_ms = _shorter(request.renew_period_ms, self._config.delegation_token_expiry_time_ms)
        renewed = token._replace(expiry_ms=min(token.max_ms, wall_ms + period_ms))
        reply = s.RenewDelegationTokenResponse(expiry_ms=renewed.expiry_ms, metadata_offset=image.offset + 1)
        return Decision((DelegationTokenRecord(renewed),), reply)

    def decide_expire(
        self, image: MetadataImage, request: s.ExpireDelegationTokenRequest, wall_ms: int
    ) -> Decision:
        """An earlier or later expiry, or the removal. Errors: as `decide_renew`."""
        token = self._find(image, request.hmac)
        _check_renewer(token, request.requester)
        record: MetadataRecord
        if request.expiry_period_ms < 0:
            record, expiry_ms = RemoveDelegationTokenRecord(token.token_id), wall_ms
        else:
            _check_not_expired(token, wall_ms)
            expiry_ms = min(token.max_ms, wall_ms + request.expiry_period_ms)
            record = DelegationTokenRecord(token._replace(expiry_ms=expiry_ms))
        reply = s.ExpireDelegationTokenResponse(expiry_ms=expiry_ms, metadata_offset=image.offset + 1)
        return Decision((record,), reply)

    def describe(self, image: MetadataImage, request: s.DescribeDelegationTokenRequest) -> Decision:
        """The tokens of the owners; the node leaves out those that the requester may not see.

        Errors: DelegationTokenAuthDisabledError.
        """
        secret = self._secret()
        owners = request.owners
        found = (
            token
            for _, token in sorted(image.delegation_tokens.items())
            if owners is None or any(token.is_of(owner) for owner in owners)
        )
        tokens = tuple(s.DescribedToken(token, token_hmac(secret, token.token_id)) for token in found)
        return Decision((), s.DescribeDelegationTokenResponse(tokens=tokens))

    def decide_expiry(self, image: MetadataImage, wall_ms: int) -> tuple[MetadataRecord, ...]:
        """Records that remove expired tokens."""
        expired = sorted(token for token in image.delegation_tokens.values() if token.is_expired(wall_ms))
        return tuple(RemoveDelegationTokenRecord(token.token_id) for token in expired[:MAX_REMOVALS])

    def _secret(self) -> str:
        """Errors: DelegationTokenAuthDisabledError."""
        secret = self._config.delegation_token_secret_key
        if not secret:
            raise DelegationTokenAuthDisabledError("delegation.token.secret.key is not configured")
        return secret

    def _find(self, image: MetadataImage, hmac: bytes) -> DelegationToken:
        """Errors: DelegationTokenAuthDisabledError, DelegationTokenNotFoundError."""
        secret, tokens = self._secret(), image.delegation_tokens
        if tokens is not self._seen:
            self._ids = {key: token_id for key, token_id in self._ids.items() if token_id in tokens}
            new = tokens.keys() - self._ids.values()
            self._ids.update((token_hmac(secret, token_id), token_id) for token_id in sorted(new))
            self._seen = tokens
        token_id = self._ids.get(hmac)
        if token_id is None:
            raise DelegationTokenNotFoundError("there is no delegation token with this HMAC")
        return tokens[token_id]


def _shorter(asked_ms: int, limit_ms: int) -> int:
    return min(asked_ms, limit_ms) if asked_ms > 0 else limit_ms


def _check_principals(request: s.CreateDelegationTokenRequest) -> None:
    """Errors: InvalidPrincipalTypeError, InvalidRequestError."""
    if len(request.renewers) > MAX_RENEWERS:
        raise InvalidRequestError(f"{len(request.renewers)} renewers, at most {MAX_RENEWERS} are allowed")
    for text in (request.owner or request.requester, request.requester, *request.renewers):
        if len(text) > MAX_PRINCIPAL:
            raise InvalidRequestError(f"a principal has at most {MAX_PRINCIPAL} characters")
        try:
            principal = parse_principal(text)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        if text in request.renewers and principal.kind != USER_TYPE:
            raise InvalidPrincipalTypeError(f"a renewer is a user, not a {principal.kind}")
        if principal.kind == ROLE_TYPE:
            raise InvalidPrincipalTypeError("a role owns no token: a connection would be the role")


def _check_renewer(token: DelegationToken, requester: str) -> None:
    """Errors: DelegationTokenOwnerMismatchError."""
    if not token.is_of(requester):
        raise DelegationTokenOwnerMismatchError(f"{requester} is neither owner nor renewer of the token")


def _check_not_expired(token: DelegationToken, wall_ms: int) -> None:
    """Errors: DelegationTokenExpiredError."""
    if token.is_expired(wall_ms):
        raise DelegationTokenExpiredError("the delegation token has expired")
