"""The client's side of the SASL mechanisms with a user name and password, or a token. Pure.

Each implements Login of transport/security.py. Source: RFC 4616 (PLAIN), RFC 7628 (OAUTHBEARER), RFC 5802.
"""

from __future__ import annotations

from ..errors import ConfigError, SaslAuthenticationFailedError
from .sasl import GSSAPI, OAUTHBEARER, PLAIN
from .scram import SCRAM_MECHANISMS, ScramClient, ScramError, ScramMechanism

CLIENT_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)


class PlainLogin:
    """User name and password in one message: only for encrypted connections."""

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username + password:
            raise ConfigError("a user name or password has a NUL character")
        self._message = f"\0{username}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        """The only message."""
        return self._message

    def step(self, _message: bytes) -> bytes:
        """Nothing more to send: the server accepted the message."""
        self.is_complete = True
        return b""


class ScramLogin:
    """Proves to the server that the client has the password, and verifies that the server has its
    credential."""

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: str, *, by_token: bool
    ) -> None:
        self._client = ScramClient(mechanism, username, password, nonce, by_token=by_token)

    @property
    def is_complete(self) -> bool:
        """Whether the server has proved that it has the credential."""
        return self._client.is_complete

    def first(self) -> bytes:
        """User name and nonce."""
        return self._client.first()

    def step(self, message: bytes) -> bytes:
        """The proof, or nothing after the proof of the server. Errors: SaslAuthenticationFailedError."""
        try:
            return self._client.step(message)
        except ScramError as error:
            raise SaslAuthenticationFailedError(str(error)) from error


class BearerLogin:
    """A token of an OAuth server."""

    def __init__(self, token: str) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("an OAUTHBEARER token is one word of ASCII characters")
        self._message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        self.is_complete = False
        self._is_refused = False

    def first(self) -> bytes:
        """The token."""
        return self._message

    def step(self, message: bytes) -> bytes:
        """Nothing if the server accepted the token; after a rejection, its acknowledgement."""
        if message:
            self._is_refused = True
            return b"\x01"
        if self._is_refused:
            raise SaslAuthenticationFailedError("the server refused the token")
        self.is_complete = True
        return b""
