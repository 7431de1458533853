"""The actors of a cluster's servers, with the configs and the keys of each. Imports Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..controller.controller_actor import controller_actor
from ..coordinators.assembly import new_coordinators
from ..protocol.security.server_keys import server_name
from ..runtime.server_security_config import PLAINTEXT
from ..storage_node.node_actor import node_actor
from .data_dirs_io import index_of
from .discovery import NAMESPACE_PREFIX
from .kafka_listener.assembly import new_kafka_listener
from .native_sasl import NativeMechanisms
from .placement import PIN_SHARE
from .secure_up_io import key_folder
from .server_config import of_controller, of_node, replicated, scaled, split_config
from .telemetry.assembly import new_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .cluster_files_io import ClusterFile


def create_servers(
    cluster_file: ClusterFile, controllers: Sequence[str], nodes: Sequence[str], pins: Mapping[str, str]
) -> dict[str, Any]:
    """The handles of all servers by name: of those that run, or of new ones."""
    namespace = NAMESPACE_PREFIX + cluster_file.cluster
    node_config, controller_config = split_config(cluster_file.config)
    node_config = scaled(node_config, cluster_file.nodes)
    controller_config = replicated(controller_config, cluster_file.nodes)
    loopback = {"listener.host": "127.0.0.1"} if cluster_file.own_ray is not None else {}
    data_dir = Path(cluster_file.data_dir)
    keys_of = _keys(cluster_file, [*controllers, *nodes])
    # Order: only the first controller may form a quorum alone on an empty disk. Further ones join.
    actors = {}
    for index, name in enumerate(controllers, 1):
        config = {
            **loopback,
            **of_controller(controller_config, index),
            "metadata.log.dir": str(data_dir / name),
            **keys_of(name),
        }
        pin = {pins[name]: PIN_SHARE}
        actors[name] = controller_actor(index, namespace, controllers, config, pin, new_telemetry)
    residents = new_coordinators, new_kafka_listener, NativeMechanisms, new_telemetry
    for name in nodes:
        index = index_of(name)[0]
        config = {**loopback, **of_node(node_config, index, str(data_dir / name)), **keys_of(name)}
        pin = {pins[name]: PIN_SHARE}
        actors[name] = node_actor(index, namespace, controllers, config, pin, *residents)
    return actors


def _keys(cluster_file: ClusterFile, names: Sequence[str]) -> Callable[[str], dict[str, str]]:
    """The config keys with the key files of a server; makes keys that are missing."""
    if cluster_file.config.get("native.security.protocol", PLAINTEXT) == PLAINTEXT:
        return lambda _name: {}
    folder = key_folder(cluster_file)
    folder.make(map(server_name, names))
    return lambda name: folder.config_of(server_name(name))
