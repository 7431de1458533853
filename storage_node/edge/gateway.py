"""A listener for another protocol in the node's event loop: the contract between the node and its gateway.

The gateway translates what its clients send into headrace's own requests, and the answers back; the handlers
are the same as for requests that come over the node's own listener. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.transport.wire import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.model import ListenerEndpoint
    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Replies, Sender
    from ..configs.live_config import LiveConfig
    from .node_quotas import NodeQuotas

Answered = Callable[[Any, "Sequence[Buffer]"], None]  # a body or the KafkaError, None for none; frames


@dataclass(slots=True, eq=False)
class OwnRequest:
    """A request that was made inside this process; fulfils Incoming. `answered` is called exactly once, maybe
    in the middle of something: it must not ask the node for anything before the event loop's next turn.
    Frames may lie in a bytearray that is used again behind `handle`."""

    peer: Sender
    api: Api
    body: Any
    frames: Sequence[Buffer]
    answered: Answered
    takes_runs: bool = False  # frames of the answer may be LentRuns

    @property
    def raw_body(self) -> bytes:
        """As it travels, for whoever passes it on."""
        raw: bytes = encode(self.body)
        return raw


class BothPlanes:
    """Answers requests of the node's own listener and of its gateway; fulfils Replies."""

    def __init__(self, own: Replies) -> None:
        self._own = own

    def reply(self, request: Any, body: Any, frames: Sequence[Buffer] = ()) -> None:
        """The answer; `frames` ride behind it."""
        if isinstance(request, OwnRequest):
            request.answered(body, frames)
        else:
            self._own.reply(request, body, frames)

    def reply_error(self, request: Any, error: KafkaError) -> None:
        """The request never ran."""
        if isinstance(request, OwnRequest):
            request.answered(error, ())
        else:
            self._own.reply_error(request, error)

    def no_reply(self, request: Any) -> None:
        """The request is done and wants no answer."""
        if isinstance(request, OwnRequest):
            request.answered(None, ())
        else:
            self._own.no_reply(request)


class GatewayHost(Protocol):
    """What the gateway may use of the node, all of it on the loop's thread."""

    @property
    def config(self) -> LiveConfig:
        """The node's configuration while it runs."""

    @property
    def image(self) -> MetadataImage:
        """The metadata that the node follows."""

    @property
    def quotas(self) -> NodeQuotas:
        """Of clients of both planes."""

    @property
    def node_id(self) -> int:
        """Of this node."""

    def handle(self, request: OwnRequest) -> None:
        """As if it had come over the node's own listener. Only from the top of an event of the loop."""

    def ask(
        self, node_id: int, api: Api, body: Any, timeout_ms: int, answered: Callable[[Any], None]
    ) -> None:
        """Send a request to another node; `answered` gets the body or the KafkaError, once."""

    def connection_gone(self, session: int) -> None:
        """A client of the gateway is gone."""

    def remembered_port(self, name: str) -> int:
        """Of a listener in the node's last run, 0 if there was none."""

    def remember_port(self, name: str, port: int) -> None:
        """For the next run."""

    def fail(self, error: BaseException) -> None:
        """The gateway is broken: the node ends."""


class Gateway(Protocol):
    """What the node's shell calls."""

    @property
    def pending_response_bytes(self) -> int:
        """Of answers that clients have not taken yet."""

    def bind(self) -> tuple[ListenerEndpoint, ...]:
        """Take the ports; what clients are to be told. Errors: OSError."""

    async def start(self) -> None:
        """Accept connections. The node serves by now."""

    async def stop(self) -> None:
        """Take nothing new, finish what is under way for a moment, end all connections."""

    def close(self) -> None:
        """End at once; nothing is called back any more."""

    def status(self) -> dict[str, Any]:
        """JSON-able facts."""


GatewayFactory = Callable[[GatewayHost], Gateway]
