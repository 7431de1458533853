"""Where the node core's answers go: the face of the router that the handlers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from ..errors import KafkaError
    from ..messages.envelope import Api
    from ..records.header import Buffer


class Sender(Protocol):
    """The connection that a request came over."""

    @property
    def session(self) -> int:
        """Its number: not 0, and no other connection's."""

    @property
    def is_connected(self) -> bool:
        """Whether an answer can still reach it."""

    @property
    def client_id(self) -> str:
        """What the client called itself."""

    @property
    def address(self) -> str:
        """host:port of the far end, empty if that is not known."""


class Incoming(Protocol):
    """One request as the transport decoded it."""

    @property
    def peer(self) -> Sender:
        """Who sent it."""

    @property
    def api(self) -> Api:
        """Which api."""

    @property
    def body(self) -> Any:
        """The decoded request struct of that api."""

    @property
    def frames(self) -> Sequence[Buffer]:
        """The frames after the body."""


class Replies(Protocol):
    """Exactly one of these is called for each request, at once or later."""

    def reply(self, request: Any, body: msgspec.Struct | bytes, frames: Sequence[Buffer] = ()) -> None:
        """The answer; `frames` ride behind it."""

    def reply_error(self, request: Any, error: KafkaError) -> None:
        """The request never ran."""

    def no_reply(self, request: Any) -> None:
        """The request is done and wants no answer (acks=0)."""
