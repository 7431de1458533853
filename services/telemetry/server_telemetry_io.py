"""The exporters of one server."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...protocol.transport.listen_errors import listen_error
from .exporters_io import Exporters
from .gathering_io import Gatherer

if TYPE_CHECKING:
    from ...runtime.telemetry.exporting import Measured
    from ...runtime.telemetry_config import TelemetryConfig
    from .endpoint_io import Endpoint

log = logging.getLogger("headrace.telemetry")

LISTENER = "metrics"  # names the file with the port of the last run


class ServerTelemetry:
    """Implements Telemetry."""

    def __init__(self, measured: Measured, config: TelemetryConfig) -> None:
        """Errors: ConfigError."""
        self._measured = measured
        self._gatherer = Gatherer(measured)
        self._exporters = Exporters(config, self._gatherer)

    def start(self) -> None:
        """Begin to export; called on the server's loop. Errors: OSError, which names the address."""
        self._gatherer.start()
        self._exporters.start(self._listen)

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
        await asyncio.gather(*map(asyncio.to_thread, self._exporters.close()))

    def close(self) -> None:
        """End them at once."""
        self._exporters.close()

    def status(self) -> dict[str, Any]:
        """JSON-able."""
        return self._exporters.status()
