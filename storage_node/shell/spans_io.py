"""Makes the spans that the node core notes. Imported only with enable.tracing.

A span begins at a monotonic time in whole ms, and ends when the shell performs the effect.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind, Status, StatusCode

from ...protocol.errors import error_from_code
from ...runtime.clock_io import monotonic_ms
from ...runtime.tracing.contexts import sampled_context
from ...runtime.tracing.guard_io import guarded
from ...runtime.tracing.names import REPLICATE, SCOPE, span_name
from ...runtime.tracing.sdk_io import names, remote, under
from ...runtime.tracing.server_io import ServerTracing

if TYPE_CHECKING:
    from ...runtime.tracing.names import AttributeValue
    from ..configs.node_config import NodeConfig
    from ..effects import NoteSpan


class NodeSpans:
    """The spans of one storage node, below those of the clients that sent the records."""

    def __init__(self, config: NodeConfig, node_id: int, cluster_id: str) -> None:
        self._tracing = ServerTracing(config, f"node-{node_id}")
        self._tracer = self._tracing.provider.get_tracer(SCOPE)
        self._names = names()
        self._spans_per_second = config.tracing_spans_per_second
        self._second = self._left = 0
        self._own: dict[str, AttributeValue | None] = {
            "node_id": node_id,
            "cluster_id": cluster_id,
            "host": config.host,
        }

    def listens_at(self, port: int) -> None:
        """The port of the node, once it is bound."""
        self._own["port"] = port

    @guarded
    def record(self, effect: NoteSpan) -> None:
        """Perform the effect: a span for each context of the batch, up to tracing.spans.per.second."""
        if not self._may_make(len(effect.batch.traceparents)):
            return
        end_ns = time.time_ns()
        begin_ns = end_ns - (monotonic_ms() - effect.began_ms) * 1_000_000
        topic, partition = effect.topic_partition
        batch, error = effect.batch, None
        if effect.error_code:
            error = type(error_from_code(effect.error_code)).__name__
        attributes = self._names.of_operation(
            effect.operation,
            topic,
            partition=str(partition),
            offset=batch.base_offset,
            last_offset=batch.last_offset,
            batch_count=batch.last_offset - batch.base_offset + 1,
            client_id=effect.client_id,
            acks=effect.acks,
            error=error,
            **self._own,
        )
        kind = SpanKind.INTERNAL if effect.operation == REPLICATE else SpanKind.SERVER
        for text in batch.traceparents:
            context = sampled_context(text.encode())
            assert context is not None, "the core keeps valid ones only"
            span = self._tracer.start_span(
                span_name(effect.operation, topic),
                under(remote(context)),
                kind,
                attributes,
                start_time=begin_ns,
            )
            if error is not None:
                span.set_status(Status(StatusCode.ERROR, error))
            span.end(end_ns)

    def _may_make(self, count: int) -> bool:
        second = monotonic_ms() // 1000
        if second != self._second:
            self._second, self._left = second, self._spans_per_second
        if count > self._left:
            return False
        self._left -= count
        return True

    async def close(self) -> None:
        """Export what is left, for a short time."""
        await asyncio.to_thread(self._tracing.close)
