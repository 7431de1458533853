"""Makes the exporters of a server; the hosts pass `new_telemetry` to their servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .server_telemetry_io import ServerTelemetry

if TYPE_CHECKING:
    from ...runtime.telemetry.exporting import Measured, Telemetry
    from ...runtime.telemetry_config import TelemetryConfig


def new_telemetry(measured: Measured, config: TelemetryConfig) -> Telemetry:
    """A TelemetryFactory. Errors: ConfigError."""
    return ServerTelemetry(measured, config)
