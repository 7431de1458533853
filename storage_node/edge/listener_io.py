"""A node's own listener: its port, and its limits by configuration and machine."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from ...protocol.transport.listen_errors import listen_error
from ...protocol.transport.router_io import RouterLimits
from ...runtime.files.files_io import raise_descriptor_limit
from ...runtime.listener_address import store_port, stored_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.transport.router_io import Router
    from ...runtime.files.file_layer import Files
    from ..configs.node_config import NodeConfig

log = logging.getLogger("headrace.storage_node")

LIVE_KEYS = (
    "max.connections",
    "connections.max.idle.ms",
    "queued.max.request.bytes",
    "queued.max.response.bytes",
)


def router_limits(config: NodeConfig) -> RouterLimits:
    """The limits of the configuration; those of LIVE_KEYS may change while it listens."""
    return RouterLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_in_flight=config.max_in_flight_requests,
        max_peers=_connection_limit(config.max_connections),
        max_queued_bytes=config.queued_max_request_bytes,
        max_response_bytes_pending=config.queued_max_response_bytes,
        idle_timeout_ms=config.connections_max_idle_ms,
    )


def bind(config: NodeConfig, files: Files, new_router: Callable[[int], Router]) -> tuple[Router, int]:
    """A started router and its port: the configured one, or with port 0 that of the last run if it is free.
    Errors: OSError, which names node and address."""
    first_dir = config.log_dirs[0]
    port = config.listener_port or stored_port(files, first_dir)
    router = new_router(port)
    try:
        bound = router.start()
    except OSError as error:
        if config.listener_port or not port:
            raise listen_error(f"node {config.node_id}", error) from error
        log.warning(
            "node %d: %s: a free port is taken instead; clients with the old address find this node only"
            " through the others",
            *(config.node_id, error.strerror),
        )
        router = new_router(0)
        bound = router.start()
    if not config.listener_port:
        with contextlib.suppress(KafkaStorageError):  # the log manager reports disk failures
            store_port(files, first_dir, bound)
    return router, bound


def _connection_limit(configured: int) -> int:
    """The configured limit, bounded so that segments and checkpoints have descriptors left: a log that cannot
    open its next file takes its log dir offline."""
    allowed = max(raise_descriptor_limit() // 2, 1)
    if configured > allowed:
        log.warning("max.connections is %d instead of %d: raise the open files limit", allowed, configured)
    return min(configured, allowed)
