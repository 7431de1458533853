"""What a node's listener takes from its peers, by the node's configuration and the machine's bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.transport.router_io import RouterLimits
from .log.files_io import raise_descriptor_limit

if TYPE_CHECKING:
    from .config import NodeConfig

log = logging.getLogger("headrace.storage_node")

LIVE_KEYS = (
    "max.connections",
    "connections.max.idle.ms",
    "queued.max.request.bytes",
    "queued.max.response.bytes",
)


def router_limits(config: NodeConfig) -> RouterLimits:
    """The limits as the configuration has them; those of LIVE_KEYS may be changed while it listens."""
    return RouterLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_in_flight=config.max_in_flight_requests,
        max_peers=_connection_limit(config.max_connections),
        max_queued_bytes=config.queued_max_request_bytes,
        max_response_bytes_pending=config.queued_max_response_bytes,
        idle_timeout_ms=config.connections_max_idle_ms,
    )


def _connection_limit(wanted: int) -> int:
    """As configured, but never so many that segments and checkpoints find no descriptor left: a log that
    cannot open its next file takes its log dir offline."""
    allowed = max(raise_descriptor_limit() // 2, 1)
    if wanted > allowed:
        log.warning("max.connections is %d instead of %d: raise the open files limit", allowed, wanted)
    return min(wanted, allowed)
