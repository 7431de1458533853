"""Config keys of servers for what they send to a collector of OpenTelemetry, and of their traces."""

from __future__ import annotations

from dataclasses import dataclass

from .config import Config, key


@dataclass(frozen=True, kw_only=True)
class OtlpConfig(Config):
    """Where telemetry goes. The variables OTEL_EXPORTER_OTLP_* have headers, certificates and timeouts."""

    otlp_endpoint: str = key(
        "otlp.endpoint",
        "",
        doc="URL of the collector, as http://host:4317; empty: OTEL_EXPORTER_OTLP_ENDPOINT, or the default of"
        " the protocol on this host.",
    )
    otlp_protocol: str = key(
        "otlp.protocol",
        "",
        choices=("", "grpc", "http/protobuf"),
        doc="Protocol of the collector; empty: OTEL_EXPORTER_OTLP_PROTOCOL, or grpc.",
    )


@dataclass(frozen=True, kw_only=True)
class TracingServerConfig(OtlpConfig):
    """Keys of the spans that a server makes for sampled records."""

    enable_tracing: bool = key(
        "enable.tracing",
        False,
        doc="Make spans for records whose headers have a sampled traceparent: append, replicate, fetch.",
    )
    tracing_compressed_ratio: float = key(
        "tracing.compressed.ratio",
        0.0,
        low=0,
        high=1,
        doc="Share of the compressed batches of Kafka clients that are decompressed to find a traceparent.",
    )
    tracing_spans_per_second: int = key(
        "tracing.spans.per.second",
        1000,
        low=1,
        high=1_000_000,
        doc="Bound of the spans that this server makes, whatever clients have sampled: each takes about 20 us"
        " of its event loop.",
    )
    tracing_queue_spans: int = key(
        "tracing.queue.spans",
        2048,
        low=1,
        high=1_000_000,
        doc="Bound of spans that wait for the collector; further ones are dropped.",
    )
