"""The interface between the clients and sockets: one request to one node, one response or error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ...protocol.errors import (
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer

# Errors of a connection that another attempt would meet, too.
HOPELESS = (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
    UnsupportedVersionError,
)


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Reply(NamedTuple):
    """A decoded response and the frames that came with it."""

    body: Any
    frames: Sequence[Buffer]


# (reply, None) or (None, error)
OnDone: TypeAlias = "Callable[[Reply | None, KafkaError | None], None]"
# Cancels the request: `on_done` is not called any more, and a late response is dropped.
GiveUp: TypeAlias = "Callable[[], object]"


class Network(Protocol):
    """Requests to nodes, over connections that are opened, kept and replaced behind this interface."""

    async def request(
        self,
        address: Address,
        api: Api,
        body: Any,
        frames: Sequence[Buffer] = (),
        *,
        timeout_ms: int,
        expect_reply: bool = True,
    ) -> Reply:
        """Send one request to one node; without `expect_reply` it returns once the request was sent.

        Errors: NetworkError when the node cannot be reached or the connection breaks before the response;
        RequestTimedOutError after `timeout_ms`, and then the connection is closed, so that the request is not
        executed after its retry; the error in the response header.
        """

    def submit(
        self,
        address: Address,
        api: Api,
        body: Any,
        frames: Sequence[Buffer] = (),
        *,
        timeout_ms: int,
        on_done: OnDone,
    ) -> GiveUp | None:
        """`request`, if it can be sent without waiting; gives the function that cancels it. Otherwise None,
        and the request is not sent.

        `on_done` is called on the loop, never from inside `submit`. Errors as `request`.
        """

    def drop(self, address: Address) -> None:
        """Close the connection to an address, if there is one; its requests fail with NetworkError."""

    async def close(self) -> None:
        """Close every connection; requests in flight fail with NetworkError."""
