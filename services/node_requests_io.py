"""Requests to chosen nodes of a cluster, not to the leaders of partitions, for tools that compare nodes."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..clients.cluster.environment_io import resolved
from ..clients.cluster.network_io import ZmqNetwork
from ..clients.config import AdminConfig, ConnectionConfig, given
from ..runtime.clock_io import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@asynccontextmanager
async def node_network(config: Mapping[str, str]) -> AsyncIterator[ZmqNetwork]:
    """Connections with the client config of an admin client. Errors: ConfigError."""
    values = given(config, {}, (AdminConfig, ConnectionConfig))
    network = ZmqNetwork(resolved(ConnectionConfig, values), monotonic_ms, random.SystemRandom())
    try:
        yield network
    finally:
        await network.close()
