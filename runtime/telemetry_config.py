"""The config keys of metrics that storage nodes and controllers have in common."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from .config import DAY, key
from .listener_address import MAX_PORT
from .otlp_config import OtlpConfig


@dataclass(frozen=True, kw_only=True)
class TelemetryConfig(OtlpConfig):
    """Keys of the exporters. The listener's key has another name for each kind of server, since they may run
    on one machine."""

    metrics_max_partitions: int = key(
        "metrics.max.partitions",
        2_000,
        low=0,
        high=200_000,
        doc="Partitions of a node with series of their own (size, offsets, lag); others are in sums only.",
    )
    metrics_max_topics: int = key(
        "metrics.max.topics",
        2_000,
        low=0,
        high=200_000,
        doc="Topics of a node with series of their own (traffic, size).",
    )
    metrics_ssl_certificate_file: str = key(
        "metrics.ssl.certificate.file",
        "",
        doc="PEM file with the certificate chain of the metrics endpoint; empty: plain HTTP.",
    )
    metrics_ssl_key_file: str = key(
        "metrics.ssl.key.file", "", doc="PEM file with the private key of that certificate."
    )
    metrics_basic_auth: str = key(
        "metrics.basic.auth",
        "",
        sensitive=True,
        doc="user:password that scrapes of the metrics endpoint must have; empty: none.",
    )

    metrics_otlp_enable: bool = key(
        "metrics.otlp.enable", False, doc="Push the metrics of each server by OTLP to otlp.endpoint."
    )
    metrics_otlp_interval_ms: int = key(
        "metrics.otlp.interval.ms",
        0,
        low=0,
        high=DAY,
        unit="ms",
        doc="Time between two pushes; 0: OTEL_METRIC_EXPORT_INTERVAL, or a minute.",
    )
    metrics_ray_enable: bool = key(
        "metrics.ray.enable",
        False,
        doc="Pass the metrics of each server to Ray's own pipeline, once per metrics.ray.interval.ms.",
    )
    metrics_ray_interval_ms: int = key(
        "metrics.ray.interval.ms", 1_000, low=100, high=DAY, unit="ms", doc="Time between two updates."
    )

    @property
    def metrics_endpoint(self) -> tuple[str, int] | None:
        """Where the endpoint listens, None without one. Errors: ConfigError."""
        name, text = self._metrics_listener
        if not text:
            return None
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > MAX_PORT:
            raise ConfigError(f"{name} must be host:port, not {text!r}")
        return host.strip("[]"), int(port)

    @property
    def _metrics_listener(self) -> tuple[str, str]:
        """The key of the listener and its value."""
        return "metrics.listener", ""

    def check_telemetry(self) -> None:
        """Errors: ConfigError."""
        _ = self.metrics_endpoint
        if bool(self.metrics_ssl_certificate_file) != bool(self.metrics_ssl_key_file):
            raise ConfigError("metrics.ssl.certificate.file and metrics.ssl.key.file must be set together")
        user, colon, password = self.metrics_basic_auth.partition(":")
        if self.metrics_basic_auth and not (user and colon and password):
            raise ConfigError("metrics.basic.auth must be user:password")


@dataclass(frozen=True, kw_only=True)
class ApplicationTelemetryConfig(TelemetryConfig):
    """Keys of the exporters of an application."""

    metrics_listener: str = key(
        "metrics.listener",
        "",
        doc="host:port of the endpoint for Prometheus, port 0 for a free one; empty: no endpoint.",
    )

    @property
    def _metrics_listener(self) -> tuple[str, str]:
        return "metrics.listener", self.metrics_listener

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_telemetry()
