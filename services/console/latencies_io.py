"""Reads the metrics of a node over HTTP, as Prometheus does."""

from __future__ import annotations

import asyncio
import http.client
from typing import TYPE_CHECKING

from ...clients.cluster.network import Address
from ...runtime.clock_io import monotonic_ms
from .latencies import latencies_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .latencies import Latency

PATIENCE_MS = 2_000
MOST_BYTES = 32 << 20  # Bound: of one reading; a node with 10,000 partitions has a few MB


def endpoint_of(listener: str, host: str) -> Address | None:
    """Where a node with this `metrics.listener` is scraped; None if it has none, or any free port. `host`:
    that of the node, for a listener on all addresses."""
    name, _, port = listener.rpartition(":")
    name = name.strip("[]")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65_535):
        return None
    return Address(host if name in ("", "0.0.0.0", "::") else name, int(port))  # noqa: S104 - a comparison


async def read_latencies(endpoint: Address) -> list[Latency]:
    """The times of requests at a node. Errors: OSError, TimeoutError included."""
    return await asyncio.to_thread(lambda: latencies_of(_lines(endpoint)))


def _lines(endpoint: Address) -> Iterator[str]:
    deadline_ms = monotonic_ms() + PATIENCE_MS
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=PATIENCE_MS / 1000)
    try:
        connection.request("GET", "/metrics", headers={"accept": "text/plain"})
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"{endpoint.host}:{endpoint.port} answered {response.status}")
        left = MOST_BYTES
        while left > 0 and (line := response.readline(min(left, 10_000))):
            left -= len(line)
            if monotonic_ms() > deadline_ms:
                raise TimeoutError(f"{endpoint.host}:{endpoint.port} sends too slowly")
            yield line.decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise OSError(f"{endpoint.host}:{endpoint.port}: {error!r}") from error
    finally:
        connection.close()
