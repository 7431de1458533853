"""One request of a Kafka client on its way: asked of the node, then answered. Pure.

A handler takes the call, turns it into headrace's own request, `ask`s the node, and turns the answer back. It
may ask again; what it asks later than in its own turn waits for the event loop's next turn, because answers
come in the middle of the node's events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.errors import KafkaError, ThrottlingQuotaExceededError
from ...protocol.metadata.quotas import ANONYMOUS_USER
from ...storage_node.edge.gateway import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ...storage_node.edge.gateway import GatewayHost
    from ...storage_node.log.lending import Part
    from .encoded import EncodedAnswers
    from .entities import Layout
    from .fetch_sessions import FetchSessions
    from .ready import ReadyAnswers
    from .telemetry import ClientTelemetry
    from .throttling import Throttle

    Answer = Mapping[str, Any]
    Then = Callable[[Any], None]

# A node that has no room for a request now is asked again: Kafka's brokers would not read it yet.
AGAIN_MS = 50
AGAIN_FOR_MS = 20_000


class Principal(NamedTuple):
    """Who is at the other end of a connection."""

    kind: str
    name: str


ANONYMOUS = Principal("User", ANONYMOUS_USER)


@dataclass(slots=True, eq=False)
class KafkaPeer:
    """A client's connection; fulfils Sender. The principal is its own for as long as it lives."""

    session: int
    listener: str
    address: str
    client_id: str = ""
    software: tuple[str, str] = ("unknown", "unknown")  # name and version, as ApiVersions says
    principal: Principal = ANONYMOUS
    is_connected: bool = True


class KafkaApi(NamedTuple):
    """One api that Kafka's clients may ask for. `low` to `high` are served; more may be advertised, where
    clients read something else out of the range."""

    key: int
    name: str
    low: int
    high: int
    handle: Callable[[Call], None]
    failed: Callable[[Call, int, str], Answer]  # the answer to a request that never ran: error code and text
    advertised_low: int | None = None
    is_pipelined: bool = False  # the next requests of the same connection need not wait for its answer
    is_silent: Callable[[Any], bool] | None = None  # whether a request wants no answer


def allow_all(_peer: KafkaPeer, _api: KafkaApi, _body: Any) -> KafkaError | None:
    """Whether somebody may ask something: None, or why not. Here everybody may ask everything."""
    return None


class Plane(Protocol):
    """What all calls of a listener share."""

    @property
    def host(self) -> GatewayHost:
        """The node."""

    @property
    def served(self) -> Mapping[int, KafkaApi]:
        """What is advertised, by key."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """Of all clients."""

    @property
    def encoded(self) -> EncodedAnswers:
        """Answers that many clients get alike."""

    @property
    def ready(self) -> ReadyAnswers:
        """Whole answers to what many ask alike."""

    @property
    def telemetry(self) -> ClientTelemetry:
        """What clients push of their metrics."""

    @property
    def throttle(self) -> Throttle:
        """Whom quotas keep waiting."""

    def now_ms(self) -> int:
        """Monotonic."""

    def soon(self, action: Callable[[], None]) -> None:
        """In the event loop's next turn."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """After a while."""

    def wall_ms(self) -> int:
        """The time of day."""

    def new_member_id(self) -> str:
        """One that nobody has."""


class Caller(Protocol):
    """The connection, as its calls see it."""

    @property
    def takes_runs(self) -> bool:
        """Whether buffers of an answer may be LentRuns."""

    def finished(self, call: Call, buffers: Sequence[Part]) -> None:
        """The call has its answer; none to be sent if there are no buffers."""

    def hung_up(self, call: Call) -> None:
        """The connection ends, which is all that can be said to who wants no answer."""

    def broken(self, call: Call, error: Exception) -> None:
        """A bug of ours in translating: the connection ends."""


class _Question(NamedTuple):
    """What a call asks its node; `then` and `failed` hear the answer."""

    api: Api
    body: Any
    then: Any
    frames: Sequence[Buffer]
    with_frames: bool
    failed: Callable[[KafkaError], None] | None


class Call:
    """One request and, once it is there, its answer."""

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
        self.buffers: Sequence[Part] | None = None  # of the answer, once there is one
        self._layout, self._caller = layout, caller
        self.reason: KafkaError | None = None  # it is not to run
        self.ready_key: bytes | None = None  # if others may ask the same
        self._is_in_turn = False
        self.throttle: Throttle | None = None  # if anybody has quotas
        self.throttle_ms = 0  # its connection is not read for so long once it is answered
        self.busy_since_s: float | None = None

    def start(self) -> None:
        """Run the handler; from the top of an event of the loop."""
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
        """The node."""
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
    ) -> None:
        """Ask this node; `then` gets the body of the answer, and its frames if it wants them. An error of the
        whole request goes to `failed`, which otherwise refuses the call; no answer answers nothing."""

        # Order: those behind a pipelined one have been started, so it may not be asked again behind them; and
        # a Produce may have been appended before there was no room for it to wait.
        left_ms = 0 if self.api.is_pipelined else AGAIN_FOR_MS
        question = _Question(api, body, then, frames, with_frames, failed)
        request = self._request(question, left_ms)
        if self._is_in_turn:
            self._is_in_turn = False
            self.host.handle(request)
        else:
            self.plane.soon(lambda: self.host.handle(request))

    def _request(self, question: _Question, left_ms: int) -> OwnRequest:
        # It is not known to what is called with its answer: else both would wait for a garbage collector.
        answered = partial(self._answered, question, left_ms)
        takes_runs = question.with_frames and self._caller.takes_runs
        return OwnRequest(self.peer, question.api, question.body, question.frames, answered, takes_runs)

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
        """Ask another node; errors go to `failed`."""

        def answered(outcome: Any) -> None:
            self._settle(outcome, (), then, failed)

        self.host.ask(node_id, api, body, timeout_ms, answered)

    def _settle(
        self,
        outcome: Any,
        more: tuple[Any, ...],
        then: Any,
        failed: Callable[[KafkaError], None] | None,
    ) -> None:
        """The node has answered. What goes wrong here must not go wrong in the node."""
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
        """Whether nobody waits for an answer."""
        return self.api.is_silent is not None and self.body is not None and self.api.is_silent(self.body)

    def done(self) -> None:
        """There is no answer."""
        self._settle_quotas()
        self._caller.finished(self, ())

    def hang_up(self) -> None:
        """What cannot be told: by the end of its connection a client knows that something went wrong."""
        self._caller.hung_up(self)

    def answer(self, fields: Answer) -> None:
        """The answer, under the names of Kafka's schemas."""
        if self._settle_quotas():
            fields = self._with_throttle(fields)
        self._caller.finished(self, self._layout.encode(self.correlation_id, fields))

    def answer_alike(self, key: Hashable, make: Callable[[], Answer], *, is_ready: bool) -> None:
        """An answer that others get, too: `key` names all that it is made of, but api and version. It
        `is_ready` for whoever asks the same while the metadata are the same."""
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
        """Whether the client is to wait."""
        if self.throttle is not None:
            self.throttle.settle(self)
        return self.throttle_ms > 0

    def _with_throttle(self, fields: Answer) -> Answer:
        return {**fields, "throttle_time": self.throttle_ms}

    def refuse(self, error: KafkaError) -> None:
        """The request never ran."""
        try:
            if self.is_silent:
                self.hang_up()
            else:
                self.answer(self.api.failed(self, error.code, error.detail))
        except Exception as failure:  # noqa: BLE001 -- as in `start`
            self._caller.broken(self, failure)


def error_alone(_call: Call, code: int, _text: str) -> Answer:
    """The answer of apis that have one error code for all."""
    return {"error_code": code}
