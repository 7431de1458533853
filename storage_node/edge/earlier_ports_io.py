"""The ports of a node whose log dirs are empty: those of its registration in the metadata.

Clients keep addresses, so that a node must use the same ports also after its disk was replaced. A node with
log dirs has them there (`runtime/listener_address.py`) and does not ask the controller.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError, KafkaStorageError, error_from_code
from ...protocol.messages import registry
from ...protocol.messages.control import FetchMetadataRequest
from ...protocol.metadata.image import MetadataImage
from ...protocol.metadata.replay import image_of, replay
from ...runtime.listener_address import FILE_NAME, port_file_name, store_port, stored_port
from ..configs.gateway_config import parse_listeners
from ..links.leader_search_io import ElectingError, LeaderSearch

if TYPE_CHECKING:
    from ...protocol.messages.control import FetchMetadataResponse
    from ...protocol.metadata.image import BrokerRegistration
    from ...protocol.transport.dealer_io import Connection
    from ...protocol.transport.security import ConnectionSecurity
    from ...runtime.files.file_layer import Files
    from ..configs.node_config import NodeConfig
    from ..links.leader_search_io import ControllerLocators

log = logging.getLogger("headrace.storage_node")


async def adopt_registered_ports(
    config: NodeConfig,
    files: Files,
    node_id: int,
    locators: ControllerLocators,
    security: ConnectionSecurity | None = None,
) -> None:
    """Write the registered ports of `node_id` into its first log dir, if that has none of them. Waits for a
    controller, without which the node cannot register either. Does nothing if all ports are configured. A
    directory that cannot be written is left to the log manager."""
    directory, files_by_listener = config.log_dirs[0], _ports_to_keep(config)
    if (
        node_id < 0
        or not files_by_listener
        or any(stored_port(files, directory, name) for name in files_by_listener.values())
    ):
        return
    registration = await _registration(config, node_id, locators, security)
    if registration is None:
        return
    ports = {"": registration.port, **{each.name: each.port for each in registration.listeners}}
    for listener, name in files_by_listener.items():
        if port := ports.get(listener, 0):
            log.info("node %d: its log dir is empty, port %d of its registration is kept", node_id, port)
            try:
                store_port(files, directory, port, name)
            except KafkaStorageError as error:
                log.warning("node %d: port %d cannot be written down: %s", node_id, port, error)


def _ports_to_keep(config: NodeConfig) -> dict[str, str]:
    """By listener ("" is the node's own) the file of each port that is neither configured nor given by an
    advertised address."""
    files_by_listener = {} if config.listener_port or config.advertised_port else {"": FILE_NAME}
    advertised = parse_listeners("advertised.listeners", config.advertised_listeners)
    for listener in parse_listeners("listeners", config.listeners).values():
        if not listener.port and not (listener.name in advertised and advertised[listener.name].port):
            files_by_listener[listener.name] = port_file_name(listener.name)
    return files_by_listener


async def _registration(
    config: NodeConfig, node_id: int, locators: ControllerLocators, security: ConnectionSecurity | None
) -> BrokerRegistration | None:
    """The registration in the metadata; None for a node that was never registered."""
    timeout_s = config.controller_request_timeout_ms / 1000
    search, wait_ms = LeaderSearch(locators, timeout_s, security=security), config.controller_backoff_ms
    has_logged = False
    while True:
        try:
            connection = await search.find(f"node-{node_id}")
            try:
                return (await _read_metadata(connection, node_id, timeout_s)).brokers.get(node_id)
            finally:
                connection.close()
        except HeadraceError as error:
            if not isinstance(error, ElectingError) and not has_logged:
                has_logged = True
                log.warning("node %d waits for a controller that knows its earlier ports: %r", node_id, error)
        await asyncio.sleep(wait_ms / 1000)
        wait_ms = min(2 * wait_ms, config.controller_backoff_max_ms)


async def _read_metadata(connection: Connection, node_id: int, timeout_s: float) -> MetadataImage:
    """All committed metadata. Errors: HeadraceError."""
    image = MetadataImage()
    while True:
        request = FetchMetadataRequest(node_id, image.offset, 0)
        response = await connection.request(registry.FETCH_METADATA, request, timeout_s=timeout_s)
        answer: FetchMetadataResponse = response.body
        if answer.error_code:
            raise error_from_code(answer.error_code, answer.error_detail)
        if answer.is_snapshot:
            image = image_of(answer.records, answer.end_offset - 1)
        elif answer.records:
            image, _ = replay(image, answer.base_offset, answer.records)
        else:
            return image
