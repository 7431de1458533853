"""Ready 64-KB batches through the transport, several requests under way: what the node can take."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from headrace.protocol.messages.data import MetadataRequest, ProducePartition, ProduceRequest
from headrace.protocol.messages.registry import METADATA, PRODUCE
from headrace.protocol.records.codec import active_codec
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.clock_io import wall_ms
from headrace.runtime.loop_io import new_event_loop

from .. import payload

if TYPE_CHECKING:
    from ..worker import Clock

VALUE_BYTES = 1000
TIMEOUT_MS = 30_000


def raw(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `count` requests of one batch of `size` bytes each, `window` of them under way."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_raw(spec, clock))


async def _raw(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    host, _, port = spec["bootstrap"].rpartition(":")
    connection = await Connection.open(host, int(port), client_id="bench", timeout_s=10)
    found = await connection.request(METADATA, MetadataRequest((spec["topic"],)), timeout_s=10)
    topic = found.body.topics[0]
    bodies = itertools.cycle(
        [
            ProduceRequest(1, TIMEOUT_MS, (ProducePartition(topic.topic_id, partition.partition),))
            for partition in topic.partitions
        ]
    )
    batch, records = _batch(spec["size"])
    # each partition takes its requests in turn, so that all of the window may be under way at once
    await _send(connection, bodies, batch, 200, spec["window"])
    clock.ready()
    clock.start()
    await _send(connection, bodies, batch, spec["count"], spec["window"])
    timed = clock.stop()
    connection.close()
    return {**timed, "records": spec["count"] * records, "requests": spec["count"],
            "bytes": spec["count"] * len(batch), "sent": (spec["count"] + 200) * records}  # fmt: skip


async def _send(connection: Connection, bodies: Any, batch: bytes, count: int, window: int) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left = [count, count]  # to send, to be answered

    def answered(future: asyncio.Future[Any]) -> None:
        left[1] -= 1
        error = future.exception()
        code = 0 if error is not None else future.result().body.partitions[0].error_code
        if (error is not None or code) and not done.done():
            done.set_exception(error or RuntimeError(f"the node answers with error {code}"))
        elif not left[1] and not done.done():
            done.set_result(None)
        else:
            post()

    def post() -> None:
        if left[0]:
            left[0] -= 1
            connection.send(PRODUCE, next(bodies), (batch,)).add_done_callback(answered)

    for _ in range(window):
        post()
    await done


def _batch(size: int) -> tuple[bytes, int]:
    builder = active_codec().builder(max_bytes=size)
    values = itertools.cycle(payload.pool(VALUE_BYTES))
    while builder.append(wall_ms(), None, next(values)) >= 0:
        pass
    return builder.build(), builder.count
