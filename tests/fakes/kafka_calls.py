"""Requests of Kafka clients without a connection: the handlers, with a scripted node behind them."""

import itertools
from collections.abc import Sequence
from typing import Any

from headrace.protocol.metadata.image import MetadataImage
from headrace.runtime.authorization.gate import Gate
from headrace.services.kafka_listener.calls import Call, KafkaApi, KafkaPeer
from headrace.services.kafka_listener.encoded import EncodedResponses
from headrace.services.kafka_listener.entities import layout
from headrace.services.kafka_listener.fetch_sessions import FetchSessions
from headrace.services.kafka_listener.framing import read_header
from headrace.services.kafka_listener.ready import ReadyResponses
from headrace.services.kafka_listener.served import SERVED
from headrace.services.kafka_listener.skimming import no_tags
from headrace.services.kafka_listener.telemetry import ClientTelemetry
from headrace.services.kafka_listener.throttling import Throttle
from headrace.storage_node.configs.live_config import LiveConfig
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.node_quotas import NodeQuotas
from kafka_listener_rig import NODE, as_asked, small_image
from kafka_wire import answer_of, decoded, example_request, request_frame


class FakePlane:
    """Implements Plane, GatewayHost and Caller."""

    served = SERVED
    takes_runs = False

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.host = self
        self.config = LiveConfig(NodeConfig.of({"log.dirs": "/nowhere"}))
        self.image = small_image() if image is None else image
        self.node_id = NODE
        self.quotas = NodeQuotas(lambda: self.config.now, lambda: self.image)
        self.gate = Gate(None, lambda: self.image)
        self.encoded = EncodedResponses()
        self.ready = ReadyResponses()
        numbers = itertools.count(1)
        self.fetch_sessions = FetchSessions(lambda: 2, lambda: next(numbers))
        self.telemetry = ClientTelemetry()
        self.busy_s, self.handler_s = 0.0, 0.0  # total, and of each request of a handler
        self.throttle = Throttle(self, self.now_ms, lambda: self.busy_s)  # type: ignore[arg-type]
        self.asked: list[Any] = []  # OwnRequest, or a request to another node
        self.sent: list[bytes] = []
        self.is_hung_up = False
        self.clock_ms = 0

    def handle(self, request: Any) -> None:
        self.busy_s += self.handler_s
        self.asked.append(request)

    def ask(self, node_id: int, request: Any, timeout_ms: int) -> None:
        self.asked.append(as_asked(node_id, request, timeout_ms))

    def now_ms(self) -> int:
        return self.clock_ms

    def soon(self, action: Any) -> None:
        action()

    def soon_from_thread(self, action: Any) -> None:
        action()

    def later(self, _delay_ms: int, action: Any) -> None:
        action()

    def wall_ms(self) -> int:
        return 1_000_000

    def new_member_id(self) -> str:
        return "new"

    def finished(self, _call: Call, buffers: Sequence[Any]) -> None:
        self.sent.append(b"".join(map(bytes, buffers)))

    def close_for(self, _call: Call) -> None:
        self.is_hung_up = True

    def broken(self, _call: Call, error: Exception) -> None:
        raise error

    def start(self, api_key: int, version: int, body: Any = None, **values: Any) -> Call:
        """Run a handler with `body`, or with an example request that has these values."""
        body = example_request(api_key, version, **values) if body is None else body
        call = self.call(SERVED[api_key], version, body)
        call.start()
        return call

    def call(self, api: KafkaApi, version: int, body: Any) -> Call:
        """A call with the request decoded from bytes."""
        frame = memoryview(request_frame(api.key, version, body))
        header = read_header(frame)
        shape = layout(api.key, version)
        start = no_tags(frame, header.end) if shape.is_flexible else header.end
        peer = KafkaPeer(1, "PLAINTEXT", "127.0.0.1:1", "client")
        read = decoded(shape, frame, start)
        return Call(api, version, header.correlation_id, shape, read, peer, self, self, len(frame))  # type: ignore[arg-type]

    def answer(self, body: Any, frames: Sequence[Any] = ()) -> None:
        """Answer the last request to the node."""
        asked = self.asked[-1]
        if isinstance(asked, tuple):
            asked[-1](body)
        else:
            asked.answered(body, frames)

    def only_response(self, api_key: int, version: int) -> Any:
        """The only response so far."""
        (sent,) = self.sent
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        return answer_of(api_key, version, sent[4:])[1]
