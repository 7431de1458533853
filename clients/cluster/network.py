"""The seam between the clients' logic and sockets: ask one node one thing, get one answer or one error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer


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
# Nothing is told any more; an answer that still comes is dropped.
GiveUp: TypeAlias = "Callable[[], object]"


class Network(Protocol):
    """Requests to nodes over connections that are opened, kept and replaced behind this face."""

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
        """One request to one node; without `expect_reply` it returns once the request was handed over.

        Errors: NetworkError when the node cannot be reached or the connection broke before the answer;
        RequestTimedOutError after `timeout_ms`, and then the connection is closed, so that an old request
        is not executed after its retry; the error of the response's header.
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
        """`request` if it can be handed over without waiting, and how to give it up; None, and nothing is
        done, if not.

        The outcome is told by a call on the loop, never from inside `submit`; errors as `request`.
        """

    def drop(self, address: Address) -> None:
        """Close the connection to a node that is gone, if there is one; what is under way there fails with
        NetworkError."""

    async def close(self) -> None:
        """Close every connection; requests under way fail with NetworkError."""
