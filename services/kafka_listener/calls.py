"""One request of a Kafka client: translated to a request of headrace, sent to a node, answered. Pure.

A handler takes the call, makes headrace's request, `ask`s the node, and translates the response. It may ask
again: what it asks after its own turn waits for the event loop's next turn, because responses come in the
middle of the node's events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.errors import KafkaError, ThrottlingQuotaExceededError
from ...protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from ...storage_node.edge.gateway import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from concurrent.futures import Future

    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ...protocol.security.acls import Resource
    from ...protocol.transport.replies import Sender
    from ...storage_node.edge.gateway import GatewayHost
    from ...storage_node.log.lending import Part
    from .encoded import EncodedResponses
    from .entities import Layout
    from .fetch_sessions import FetchSessions
    from .ready import ReadyResponses
    from .sasl_session import SaslSession
    from .telemetry import ClientTelemetry
    from .throttling import Throttle

    Answer = Mapping[str, Any]
    Then = Callable[[Any], None]

# Retries of a request for which the node has no room: a Kafka broker would not have read it yet.
AGAIN_MS = 50
AGAIN_FOR_MS = 20_000


@dataclass(slots=True, eq=False)
class KafkaPeer:
    """A client's connection; fulfils Sender."""

    session: int
    listener: str
    address: str
    client_id: str = ""
    software: tuple[str, str] = ("unknown", "unknown")  # name and version, from ApiVersions
    identity: Identity = ANONYMOUS_IDENTITY
    sasl: SaslSession | None = None  # of a listener whose clients authenticate by SASL
    is_connected: bool = True


_OF_NODE = Identity(is_server=True)


@dataclass(slots=True, eq=False)
class _Node:
    """The node itself as the sender of a request that a call needs for its own; fulfils Sender."""

    session: int
    address: str
    client_id: str
    identity: Identity = _OF_NODE
    is_connected: bool = True


class KafkaApi(NamedTuple):
    """One api of Kafka. Versions `low` to `high` are served; the advertised range may begin lower, where
    clients derive a feature from it."""

    key: int
    name: str
    low: int
    high: int
    handle: Callable[[Call], None]
    failed: Callable[[Call, int, str], Answer]  # the error response: call, error code and message
    advertised_low: int | None = None
    is_pipelined: bool = False  # later requests of the connection need not wait for its response
    is_silent: Callable[[Any], bool] | None = None  # whether a request has no response


class Plane(Protocol):
    """What all calls of a listener share."""

    @property
    def host(self) -> GatewayHost:
        """The node."""

    @property
    def served(self) -> Mapping[int, KafkaApi]:
        """The advertised apis, by key."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """Of all clients."""

    @property
    def encoded(self) -> EncodedResponses:
        """Answers that many clients get alike."""

    @property
    def ready(self) -> ReadyResponses:
        """Whole answers to what many ask alike."""

    @property
    def telemetry(self) -> ClientTelemetry:
        """What clients push of their metrics."""

    @property
    def throttle(self) -> Throttle:
        """Whom quotas keep waiting."""

    def now_ms(self) -> int:
        """The monotonic clock."""

    def soon(self, action: Callable[[], None]) -> None:
        """Call in the event loop's next turn."""

    def soon_from_thread(self, action: Callable[[], None]) -> None:
        """As `soon`, from any thread."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call after `delay_ms`."""

    def wall_ms(self) -> int:
        """The wall clock."""

    @property
    def failure_delay_ms(self) -> int:
        """How long the answer to a failed authentication is held back."""

    def new_member_id(self) -> str:
        """A random group member id."""


class Caller(Protocol):
    """The connection, as its calls see it."""

    @property
    def takes_runs(self) -> bool:
        """Whether buffers of a response may be LentRuns."""

    def finished(self, call: Call, buffers: Sequence[Part]) -> None:
        """The call is complete; without buffers no response is sent."""

    def close_for(self, call: Call) -> None:
        """Close the connection: acks=0 and the append failed."""

    def broken(self, call: Call, error: Exception) -> None:
        """The handler raised an exception: close the connection."""


class _Question(NamedTuple):
    """A request to the node, and the functions that take its response."""

    api: Api
    body: Any
    then: Any
    frames: Sequence[Buffer]
    with_frames: bool
    failed: Callable[[KafkaError], None] | None
    sender: Sender


class Call:
    """One request of a client, and later its response."""

    __slots__ = (
        "_caller",
        "_is_in_turn",
        "_layout",
        "api",
        "body",
        "buffers",
        "busy_since_s",
        "correlation_id",
        "peer",
        "plane",
        "ready_key",
        "reason",
        "size",
        "throttle",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        api: KafkaApi,
        version: int,
        correlation_id: int,
        layout: Layout,
        body: Any,
        peer: KafkaPeer,
        plane: Plane,
        caller: Caller,
        size: int,
    ) -> None:
        self.api, self.version, self.correlation_id = api, version, correlation_id
        self.body, self.peer, self.plane, self.size = body, peer, plane, size
        self.buffers: Sequence[Part] | None = None  # of the response, once it is made
        self._layout, self._caller = layout, caller
        self.reason: KafkaError | None = None  # the error of a request that must not run
        self.ready_key: bytes | None = None  # if equal requests may share the response
        self._is_in_turn = False
        self.throttle: Throttle | None = None  # if there is any quota
        self.throttle_ms = 0  # the connection is muted for so long after the response
        self.busy_since_s: float | None = None

    def start(self) -> None:
        """Run the handler; called from the top of an event of the loop."""
        if self.reason is not None:
            self.refuse(self.reason)
            return
        self._is_in_turn = True
        throttle = self.throttle = self.plane.throttle.active
        if throttle is not None:
            throttle.begin(self)
        try:
            self.api.handle(self)
        except KafkaError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 -- a bug of the translation ends this connection alone
            self._caller.broken(self, error)
        finally:
            self._is_in_turn = False
            if throttle is not None:
                throttle.end(self)

    @property
    def host(self) -> GatewayHost:
        return self.plane.host

    def ask(
        self,
        api: Api,
        body: Any,
        then: Then | Callable[[Any, Sequence[Buffer]], None],
        frames: Sequence[Buffer] = (),
        *,
        with_frames: bool = False,
        failed: Callable[[KafkaError], None] | None = None,
        as_node: bool = False,
    ) -> None:
        """Send a request to this node. `then` gets the body of the response, and with `with_frames` its
        frames. An error of the whole request goes to `failed`, which by default refuses the call. Without a
        response the call has none, either. `as_node`: the client needs no right for it and does not see the
        response."""

        # Order: later pipelined requests have been started, so that this one may not be retried behind them;
        # and a Produce may have been appended before there was no room for it to wait.
        left_ms = 0 if self.api.is_pipelined else AGAIN_FOR_MS
        peer = self.peer
        sender = _Node(peer.session, peer.address, peer.client_id) if as_node else peer
        question = _Question(api, body, then, frames, with_frames, failed, sender)
        request = self._request(question, left_ms)
        if self._is_in_turn:
            self._is_in_turn = False
            self.host.handle(request)
        else:
            self.plane.soon(lambda: self.host.handle(request))

    def _request(self, question: _Question, left_ms: int) -> OwnRequest:
        # The request holds the call, and not the other way round: no cycle for the garbage collector.
        answered = partial(self._answered, question, left_ms)
        takes_runs = question.with_frames and self._caller.takes_runs
        return OwnRequest(question.sender, question.api, question.body, question.frames, answered, takes_runs)

    def _answered(self, question: _Question, left_ms: int, outcome: Any, frames: Sequence[Buffer]) -> None:
        if isinstance(outcome, ThrottlingQuotaExceededError) and left_ms > 0 and self.peer.is_connected:
            request = self._request(question, left_ms - AGAIN_MS)
            self.plane.later(AGAIN_MS, lambda: self.host.handle(request))
        else:
            more = (frames,) if question.with_frames else ()
            self._settle(outcome, more, question.then, question.failed)

    def ask_node(
        self,
        node_id: int,
        api: Api,
        body: Any,
        then: Then,
        failed: Callable[[KafkaError], None],
        timeout_ms: int,
    ) -> None:
        """Send a request to another node; errors go to `failed`."""

        def answered(outcome: Any, _frames: Sequence[Buffer]) -> None:
            self._settle(outcome, (), then, failed)

        self.host.ask(node_id, OwnRequest(self.peer, api, body, (), answered), timeout_ms)

    def ask_thread(self, outcome: Future[Any], then: Callable[[Any], None]) -> None:
        """Wait for what another thread computes. A cancelled future has no effect: the listener is being
        closed."""

        def arrived(future: Future[Any]) -> None:
            if not future.cancelled():
                self.plane.soon_from_thread(lambda: self._resume(future, then))

        outcome.add_done_callback(arrived)

    def _resume(self, outcome: Future[Any], then: Callable[[Any], None]) -> None:
        try:
            then(outcome.result())
        except KafkaError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 -- as in `start`
            self._caller.broken(self, error)

    # --- authorization -----------------------------------------------------------------------------------

    def hides_topic(self, name: str) -> bool:
        """Whether the client must not learn that the node has no topic of this name."""
        return self.host.gate.hides_topic(self.peer.identity, self.api.key, name)

    def shows_topic(self, name: str) -> bool:
        """Whether the client may learn that this topic exists."""
        return self.host.gate.shows_topic(self.peer.identity, name)

    def operations(self, resource: Resource) -> int:
        """The operations allowed to the client on a topic or group, as Kafka's bits."""
        return self.host.gate.operations(self.peer.identity, resource)

    def operations_on_cluster(self) -> int:
        """The operations allowed to the client on the cluster, as Kafka's bits."""
        return self.host.gate.operations_on_cluster(self.peer.identity)

    @property
    def audience(self) -> tuple[Any, ...] | None:
        """Whom a response is for, as far as it depends on rights; None: it is the same for all clients."""
        if self.host.gate.authorizer is None:
            return None
        return self.peer.identity.principal, self.peer.identity.host

    def _settle(
        self,
        outcome: Any,
        more: tuple[Any, ...],
        then: Any,
        failed: Callable[[KafkaError], None] | None,
    ) -> None:
        """Translate the node's response. An exception here must not reach the node's event."""
        try:
            if outcome is None:
                self.done()
            elif not isinstance(outcome, KafkaError):
                then(outcome, *more)
            elif failed is not None:
                failed(outcome)
            else:
                self.refuse(outcome)
        except KafkaError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 -- as in `start`
            self._caller.broken(self, error)

    @property
    def is_silent(self) -> bool:
        """Whether the client expects no response (acks=0)."""
        return self.api.is_silent is not None and self.body is not None and self.api.is_silent(self.body)

    def done(self) -> None:
        """Complete the call without a response."""
        self._settle_quotas()
        self._caller.finished(self, ())

    def close_connection(self) -> None:
        """Close the connection: the only error that a client without a response can notice."""
        self._caller.close_for(self)

    def answer(self, fields: Answer) -> None:
        """Send the response; `fields` have the names of Kafka's schemas."""
        if self._settle_quotas():
            fields = self._with_throttle(fields)
        self._caller.finished(self, self._layout.encode(self.correlation_id, fields))

    def answer_shared(self, key: Hashable, make: Callable[[], Answer], *, is_ready: bool) -> None:
        """Send a response that other requests share: `key` names everything that it depends on except api and
        version. With `is_ready` equal requests get it without a handler while the metadata is the same."""
        if self._settle_quotas():
            body, is_ready = self._layout.body(self._with_throttle(make())), False
        else:
            body = self.plane.encoded.get(
                (self.api.key, self.version, key), lambda: self._layout.body(make())
            )
        framed = self._layout.framed(self.correlation_id, body)
        if is_ready:
            self.plane.ready.remember(self, *framed)
        self._caller.finished(self, framed)

    def _settle_quotas(self) -> bool:
        """Whether the client is throttled."""
        if self.throttle is not None:
            self.throttle.settle(self)
        return self.throttle_ms > 0

    def _with_throttle(self, fields: Answer) -> Answer:
        return {**fields, "throttle_time": self.throttle_ms}

    def refuse(self, error: KafkaError) -> None:
        """Send an error response for a request that did not run."""
        try:
            if self.is_silent:
                self.close_connection()
            else:
                self.answer(self.api.failed(self, error.code, error.detail))
        except Exception as failure:  # noqa: BLE001 -- as in `start`
            self._caller.broken(self, failure)


def error_alone(_call: Call, code: int, _text: str) -> Answer:
    """The error response of apis that have nothing but an error code."""
    return {"error_code": code}
