"""The contract between a node and its gateway, a listener for another protocol in the node's event loop.
Pure.

The gateway translates its clients' requests into headrace's, and the responses back; the handlers are those
of the node's own listener.
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
    from ...runtime.authorization.gate import Gate
    from ...runtime.telemetry.samples import Samples
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from .node_quotas import NodeQuotas
    from .request_meter import RequestMeter

Answered = Callable[[Any, "Sequence[Buffer]"], None]  # body or KafkaError, None without a response; frames


@dataclass(slots=True, eq=False)
class OwnRequest:
    """A request made inside this process. Implements Incoming.

    `answered` is called exactly once, possibly within another event: it must not send the node a request
    before the event loop's next turn. Frames may lie in a bytearray that is reused after `handle`.
    """

    peer: Sender
    api: Api
    body: Any
    frames: Sequence[Buffer]
    answered: Answered
    takes_runs: bool = False  # frames of the response may be LentRuns
    begun_s: float = -1.0  # see RequestMeter
    turn_s: float = -1.0

    @property
    def raw_body(self) -> bytes:
        """The encoded body, for forwarding."""
        raw: bytes = encode(self.body)
        return raw


class BothPlanes:
    """Sends responses to requests of the node's own listener and of its gateway. Implements Replies."""

    def __init__(self, own: Replies, meter: RequestMeter) -> None:
        self._own, self._meter = own, meter

    def reply(self, request: Any, body: Any, frames: Sequence[Buffer] = ()) -> None:
        """Send the response, followed by `frames`."""
        self._meter.replied(request)
        if isinstance(request, OwnRequest):
            request.answered(body, frames)
        else:
            self._own.reply(request, body, frames)

    def reply_error(self, request: Any, error: KafkaError) -> None:
        """The request was not executed."""
        self._meter.refused(request, error)
        if isinstance(request, OwnRequest):
            request.answered(error, ())
        else:
            self._own.reply_error(request, error)

    def no_reply(self, request: Any) -> None:
        """The request is complete and has no response."""
        self._meter.replied(request)
        if isinstance(request, OwnRequest):
            request.answered(None, ())
        else:
            self._own.no_reply(request)


class GatewayHost(Protocol):
    """The interface of the node for its gateway, on the loop's thread."""

    @property
    def config(self) -> LiveConfig:
        """The node's configuration."""

    @property
    def image(self) -> MetadataImage:
        """The metadata of the node."""

    @property
    def quotas(self) -> NodeQuotas:
        """Shared by both listeners."""

    @property
    def gate(self) -> Gate:
        """Authorization for responses of the gateway itself."""

    @property
    def node_id(self) -> int:
        """The id of the node."""

    def handle(self, request: OwnRequest) -> None:
        """Handle a request as from the node's own listener. Only from the top of an event of the loop."""

    def ask(self, node_id: int, request: OwnRequest, timeout_ms: int) -> None:
        """Send a request to another node; `answered` gets the body or the KafkaError, once, and no
        frames."""

    def connection_gone(self, session: int) -> None:
        """A connection of the gateway is closed."""

    def stored_port(self, name: str) -> int:
        """The port of a listener in the node's last run, 0 without one."""

    def store_port(self, name: str, port: int) -> None:
        """Store the port for the next run."""

    def fail(self, error: BaseException) -> None:
        """Fail the node: the gateway has a bug."""


class Gateway(Protocol):
    """The interface of a gateway for the node's server."""

    @property
    def pending_response_bytes(self) -> int:
        """Response bytes that clients have not received."""

    def bind(self) -> tuple[ListenerEndpoint, ...]:
        """Bind the listeners; the addresses to advertise. Errors: OSError."""

    async def start(self) -> None:
        """Accept connections; the node is unfenced."""

    def check(self, config: NodeConfig) -> None:
        """Load the key stores of this configuration, without using them. Errors: ConfigError."""

    async def stop(self) -> None:
        """Stop accepting connections, complete requests in flight for a short time, close all connections."""

    def close(self) -> None:
        """Close all connections at once; no callback is called any more."""

    def status(self) -> dict[str, Any]:
        """JSON-able."""

    def measure(self, samples: Samples) -> None:
        """Add the values of the gateway's metrics."""


GatewayFactory = Callable[[GatewayHost], Gateway]
