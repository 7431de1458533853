"""The exporters of one server."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...protocol.transport.listen_errors import listen_error
from .endpoint_io import Endpoint
from .gathering_io import Gatherer
from .otlp_io import OtlpPush
from .ray_io import RayPush

if TYPE_CHECKING:
    from ...runtime.telemetry.exporting import Measured
    from ...runtime.telemetry_config import TelemetryConfig

log = logging.getLogger("headrace.telemetry")

LISTENER = "metrics"  # names the file with the port of the last run


class ServerTelemetry:
    """Implements Telemetry."""

    def __init__(self, measured: Measured, config: TelemetryConfig) -> None:
        """Errors: ConfigError."""
        self._measured = measured
        self._gatherer = Gatherer(measured)
        self._address = config.metrics_endpoint
        self._endpoint = None if self._address is None else Endpoint(config, self._gatherer)
        self._pushes: list[OtlpPush | RayPush] = []
        if config.metrics_otlp_enable:
            self._pushes.append(OtlpPush(config, self._gatherer))
        if config.metrics_ray_enable:
            self._pushes.append(RayPush(config, self._gatherer))

    def start(self) -> None:
        """Begin to export; called on the server's loop. Errors: OSError, which names the address."""
        self._gatherer.start()
        if self._endpoint is not None and self._address is not None:
            self._listen(self._endpoint, *self._address)
        for push in self._pushes:
            push.start()

    def _listen(self, endpoint: Endpoint, host: str, port: int) -> None:
        stored = 0 if port else self._measured.stored_port(LISTENER)
        server = f"the metrics of {self._measured.role} {self._measured.server_id}"
        try:
            bound = endpoint.start(host, port or stored)
        except OSError as error:
            if not stored:
                raise listen_error(server, error) from error
            log.warning("%s: cannot bind the port of the last run (%s): using a free port", server, error)
            bound = endpoint.start(host, 0)
        if not port:
            self._measured.store_port(LISTENER, bound)

    async def stop(self) -> None:
        """Stop the exporters. On threads: a collector that is slow delays the end of a push."""
        pushes = tuple(self._pushes)
        self.close()
        await asyncio.gather(*(asyncio.to_thread(push.finish) for push in pushes))

    def close(self) -> None:
        """End them at once."""
        if self._endpoint is not None:
            self._endpoint.close()
        for push in self._pushes:
            push.close()
        self._pushes.clear()

    def status(self) -> dict[str, Any]:
        """JSON-able."""
        facts: dict[str, Any] = {
            push.name: {"pushes": push.pushes, "failures": push.failures} for push in self._pushes
        }
        return facts if self._endpoint is None else {"prometheus": self._endpoint.url, **facts}
