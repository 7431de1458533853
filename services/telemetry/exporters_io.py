"""The exporters that a configuration asks for: the Prometheus endpoint, OTLP, Ray's pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .endpoint_io import Endpoint
from .otlp_io import OtlpPush
from .ray_io import RayPush

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.telemetry_config import TelemetryConfig
    from .gathering_io import MetricReader


class Exporters:
    """Those of one server or application."""

    def __init__(self, config: TelemetryConfig, gatherer: MetricReader) -> None:
        """Errors: ConfigError."""
        self._address = config.metrics_endpoint
        self._endpoint = None if self._address is None else Endpoint(config, gatherer)
        self._pushes: list[OtlpPush | RayPush] = []
        if config.metrics_otlp_enable:
            self._pushes.append(OtlpPush(config, gatherer))
        if config.metrics_ray_enable:
            self._pushes.append(RayPush(config, gatherer))

    def start(self, listen: Callable[[Endpoint, str, int], object] = Endpoint.start) -> None:
        """Begin to export; `listen` binds the endpoint. Errors: OSError."""
        if self._endpoint is not None and self._address is not None:
            listen(self._endpoint, *self._address)
        for push in self._pushes:
            push.start()

    def close(self) -> list[Callable[[], None]]:
        """End them at once; what is returned waits for pushes under way, and is to be called once, on any
        threads."""
        if self._endpoint is not None:
            self._endpoint.close()
        pushes, self._pushes = self._pushes, []
        for push in pushes:
            push.close()
        return [push.finish for push in pushes]

    @property
    def url(self) -> str | None:
        """Of the endpoint; None without one."""
        return None if self._endpoint is None else self._endpoint.url

    def status(self) -> dict[str, Any]:
        """JSON-able."""
        facts: dict[str, Any] = {
            push.name: {"pushes": push.pushes, "failures": push.failures} for push in self._pushes
        }
        return facts if self.url is None else {"prometheus": self.url, **facts}
