"""The tracer provider of a server: that of its process if the application has set one, else its own.

Spans wait in a bounded queue for the thread of the SDK that exports them. A collector that is slow or gone
costs the memory of that queue, and nothing waits for it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ..extras import missing_extra
from ..otlp_target_io import otlp_target
from .names import SERVER_SERVICE
from .sdk_io import process_provider

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SpanExporter

    from ..otlp_config import OtlpConfig, TracingServerConfig

CLOSE_TIMEOUT_S = 2.0
_BATCH_SPANS = 512


class ServerTracing:
    """The provider of one server; `close` it if the server made it."""

    def __init__(self, config: TracingServerConfig, instance_id: str) -> None:
        self._own: TracerProvider | None = None
        provider = process_provider()
        if provider is None:
            provider = self._own = _own_provider(config, instance_id)
        self.provider: trace.TracerProvider = provider

    def close(self) -> None:
        """Export the last spans, for at most CLOSE_TIMEOUT_S. Blocks."""
        own, self._own = self._own, None
        if own is None:
            return
        # On a thread: an exporter that retries does not look at the timeout of its shutdown.
        ending = threading.Thread(target=own.shutdown, name="headrace-spans", daemon=True)
        ending.start()
        ending.join(CLOSE_TIMEOUT_S)


def _own_provider(config: TracingServerConfig, instance_id: str) -> TracerProvider:
    attributes = {"service.instance.id": instance_id}
    if "OTEL_SERVICE_NAME" not in os.environ:
        attributes[SERVICE_NAME] = SERVER_SERVICE
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    queue_spans = config.tracing_queue_spans
    provider.add_span_processor(
        BatchSpanProcessor(
            span_exporter(config), queue_spans, max_export_batch_size=min(_BATCH_SPANS, queue_spans)
        )
    )
    return provider


def span_exporter(config: OtlpConfig) -> SpanExporter:
    """The exporter of otlp.protocol. Errors: ImportError without the extra."""
    target = otlp_target(config, "traces")
    try:
        if target.is_grpc:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

            return GrpcExporter(**target.arguments)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
    except ImportError as error:
        raise missing_extra(error, "enable.tracing of servers", "otel") from error
    return HttpExporter(**target.arguments)
