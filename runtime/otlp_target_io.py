"""The collector of a signal, from a server's config and the variables OTEL_EXPORTER_OTLP_*."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .otlp_config import OtlpConfig

_PROTOCOLS = {
    "metrics": "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "traces": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
}


class OtlpTarget(NamedTuple):
    """The protocol, and the arguments of its exporter in the SDK."""

    is_grpc: bool
    arguments: dict[str, Any]


def otlp_target(config: OtlpConfig, signal: str) -> OtlpTarget:
    """`signal`: traces or metrics. Without otlp.endpoint the exporter itself reads the variables."""
    protocol = (
        config.otlp_protocol
        or os.environ.get(_PROTOCOLS[signal])
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    endpoint = config.otlp_endpoint
    if protocol == "grpc":
        return OtlpTarget(
            True, {"endpoint": endpoint or None, "insecure": endpoint.startswith("http://") or None}
        )
    # As OTEL_EXPORTER_OTLP_ENDPOINT, the key has the base of the URLs of all signals.
    return OtlpTarget(False, {"endpoint": f"{endpoint.rstrip('/')}/v1/{signal}" if endpoint else None})
