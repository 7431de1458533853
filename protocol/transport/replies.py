"""The interface for responses that request handlers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from ..errors import KafkaError
    from ..messages.envelope import Api
    from ..records.header import Buffer
    from ..security.identity import Identity


class Sender(Protocol):
    """The connection of a request."""

    @property
    def session(self) -> int:
        """Its number: not 0, and unique among connections."""

    @property
    def is_connected(self) -> bool:
        """Whether a response can still be sent."""

    @property
    def client_id(self) -> str:
        """The client id of the handshake."""

    @property
    def address(self) -> str:
        """host:port of the peer, empty if unknown."""

    @property
    def identity(self) -> Identity:
        """The principal of the connection, which authentication set."""


class Incoming(Protocol):
    """One decoded request."""

    @property
    def peer(self) -> Sender:
        """Its connection."""

    @property
    def api(self) -> Api:
        """The key, name and versions of the request."""

    @property
    def body(self) -> Any:
        """The request struct of its api."""

    @property
    def frames(self) -> Sequence[Buffer]:
        """The frames after the body."""


class Replies(Protocol):
    """Exactly one of these is called for each request, at once or later."""

    def reply(self, request: Any, body: msgspec.Struct | bytes, frames: Sequence[Buffer] = ()) -> None:
        """Send the response with its frames."""

    def reply_error(self, request: Any, error: KafkaError) -> None:
        """Send an error: the request had no effect."""

    def no_reply(self, request: Any) -> None:
        """The request is done and has no response (acks=0)."""
