"""Authentication on a connection of the native listener, after the handshake: the SASL exchanges of Kafka."""

from __future__ import annotations

import msgspec


class SaslHandshakeRequest(msgspec.Struct, array_like=True, frozen=True):
    """Begin an exchange, at first or again, with this mechanism."""

    mechanism: str


class SaslHandshakeResponse(msgspec.Struct, array_like=True, frozen=True):
    """The mechanisms that the server has enabled, also with error 33 for one that it has not."""

    error_code: int
    mechanisms: tuple[str, ...] = ()


class SaslAuthenticateRequest(msgspec.Struct, array_like=True, frozen=True):
    """The client's next message of the exchange."""

    auth_bytes: bytes


class SaslAuthenticateResponse(msgspec.Struct, array_like=True, frozen=True):
    """The server's next message. `session_lifetime_ms`: after the last one, the time within which the client
    must authenticate again, 0 for no limit (KIP-368)."""

    error_code: int
    error_detail: str = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
