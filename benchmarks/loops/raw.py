"""Produce requests of ready 64-KB batches on a bare socket, several in flight: what the node can take.

The same loop as `bare.bareclient`, with headrace's frames around each batch, so that the client's cost is the
same on both sides of the comparison.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from headrace.protocol.messages.data import MetadataRequest, ProducePartition, ProduceRequest
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader
from headrace.protocol.messages.registry import API_VERSIONS, METADATA, PRODUCE
from headrace.protocol.records.codec import active_codec
from headrace.protocol.transport import wire
from headrace.runtime.clock_io import wall_ms

from .. import payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.protocol.messages.envelope import Api

    from ..worker import Clock

VALUE_BYTES = 1000
TIMEOUT_MS = 30_000
WARM_UP = 200


class RawClient:
    """One connection without an event loop."""

    def __init__(self, bootstrap: str) -> None:
        import zmq

        self._more = zmq.SNDMORE
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.connect(f"tcp://{bootstrap}")
        self._numbers = itertools.count(1)
        self._session = 0
        self._session = self.call(API_VERSIONS, ApiVersionsRequest("bench", "1", "bench")).session

    def call(self, api: Api, body: Any) -> Any:
        """Send a request and wait for its response."""
        self.send(api, wire.encode(body), ())
        return wire.response_decoder(api)(self.receive())

    def send(self, api: Api, body: bytes, frames: Sequence[bytes]) -> None:
        """Send a request with its batches in `frames`."""
        header = RequestHeader(api.key, api.max_version, next(self._numbers), self._session)
        if api is API_VERSIONS:
            header = RequestHeader(api.key, 0, 1, 0)
        self._socket.send(wire.encode(header), self._more)
        self._socket.send(body, self._more if frames else 0)
        for place, frame in enumerate(frames, 1):
            self._socket.send(frame, self._more if place < len(frames) else 0, copy=False)

    def receive(self) -> bytes:
        """The body of the next response. Errors: RuntimeError when the node rejected the request."""
        head, body = self._socket.recv_multipart()
        error = wire.decode_response_header(head).error_code
        if error:
            raise RuntimeError(f"the node rejected the request with error {error}")
        return body

    def close(self) -> None:
        """Without linger."""
        self._socket.close(0)


def raw(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `count` requests of `batches` batches of `size` bytes each, `window` of them in flight."""
    client, batches, window = RawClient(spec["bootstrap"]), spec["batches"], spec["window"]
    topic = client.call(METADATA, MetadataRequest((spec["topic"],))).topics[0]
    targets = itertools.cycle(ProducePartition(topic.topic_id, place.partition) for place in topic.partitions)
    rounds = len(topic.partitions)
    bodies = itertools.cycle(
        wire.encode(ProduceRequest(1, TIMEOUT_MS, tuple(itertools.islice(targets, batches))))
        for _ in range(rounds)
    )
    batch, records = ready_batch(spec["size"])
    frames = [batch] * batches
    decode = wire.response_decoder(PRODUCE)

    def run(count: int) -> None:
        for number in range(count + window):
            if number >= window:
                response = decode(client.receive())
                if any(partition.error_code for partition in response.partitions):
                    raise RuntimeError(f"the node rejected a batch: {response}")
            if number < count:
                client.send(PRODUCE, next(bodies), frames)

    run(WARM_UP)
    clock.ready()
    clock.start()
    run(spec["count"])
    timed = clock.stop()
    client.close()
    sent = spec["count"] * batches
    return {**timed, "records": sent * records, "requests": spec["count"], "bytes": sent * len(batch),
            "sent": (spec["count"] + WARM_UP) * batches * records}  # fmt: skip


def ready_batch(size: int) -> tuple[bytes, int]:
    """A batch of at most `size` bytes, and its number of records."""
    builder = active_codec().builder(max_bytes=size)
    values = itertools.cycle(payload.pool(VALUE_BYTES))
    while builder.append(wall_ms(), None, next(values)) >= 0:
        pass
    return builder.build(), builder.count
