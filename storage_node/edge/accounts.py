"""The accounts of SCRAM at a node: the users and delegation tokens of its metadata image. Pure."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from ...protocol.security.principals import parse_principal, user
from ...protocol.security.scram import SALT_BYTES, ScramAccount, credential_from_password
from ...protocol.security.tokens import token_password

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.security.scram import ScramCredential, ScramMechanism

MAX_DERIVED = 1_000  # Bound: credentials of tokens in memory; each takes milliseconds to derive


class Accounts:
    """Looks up credentials. Implements CredentialLookup."""

    def __init__(self, image: Callable[[], MetadataImage], token_secret: str) -> None:
        """`token_secret`: delegation.token.secret.key."""
        self._image, self._secret = image, token_secret
        self._derived: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    def scram_account(self, mechanism: ScramMechanism, name: str, by_token: bool) -> ScramAccount | None:
        """The account of a user, or with `by_token` of the delegation token with that id."""
        image = self._image()
        if not by_token:
            credential = image.scram_credentials.get((name, mechanism))
            return None if credential is None else ScramAccount(credential, user(name))
        token = image.delegation_tokens.get(name)
        if token is None or not self._secret:
            return None
        return ScramAccount(
            self._of_token(mechanism, name),
            parse_principal(token.owner),
            min(token.expiry_ms, token.max_ms),
            token.token_id,
        )

    def _of_token(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """The credential of a token. Its password is random, so its salt need not be."""
        found = self._derived.get((mechanism, token_id))
        if found is None:
            salt = hmac.digest(self._secret.encode(), f"salt {token_id}".encode(), "sha256")[:SALT_BYTES]
            found = credential_from_password(mechanism, token_password(self._secret, token_id), salt)
            if len(self._derived) >= MAX_DERIVED:
                self._derived.clear()
            self._derived[mechanism, token_id] = found
        return found
