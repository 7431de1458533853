"""Splits the `key=value` pairs of a cluster into configs of its nodes and controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..controller.config import ControllerConfig
from ..protocol.errors import ConfigError
from ..runtime.config import FAMILY, nearest_key
from ..runtime.config_references import has_reference, is_provider_key
from ..storage_node.configs.node_config import CLUSTER_WIDE_KEYS, NodeConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runtime.config import Config

# Set by the host for each server.
_HOST_SETS = {
    "node.id",
    "log.dirs",
    "listener.port",
    "advertised.port",
    "controller.id",
    "metadata.log.dir",
    "controller.quorum.bootstrap.servers",
    "server.key.file",
    "trusted.server.keys.file",
}

DURABLE_REPLICAS = 3  # Kafka's default for internal topics, and common practice for other topics


def split_config(pairs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Node and controller configs by dotted names; a key that both declare goes to both.

    Errors: ConfigError for an unknown key (with the nearest name), a key that the host sets, or a value out
    of range.
    """
    node: dict[str, Any] = {}
    controller: dict[str, Any] = {}
    for name, value in pairs.items():
        if is_provider_key(name):
            node[name] = controller[name] = value
            continue
        homes = ((node, _dotted(NodeConfig, name)), (controller, _dotted(ControllerConfig, name)))
        taken = [(target, dotted) for target, dotted in homes if dotted is not None]
        if not taken:
            known = {*NodeConfig.keys(), *ControllerConfig.keys()} - _HOST_SETS
            raise ConfigError(f"unknown config key {name!r}{nearest_key(name, sorted(known))}")
        for target, dotted in taken:
            if dotted in _HOST_SETS:
                raise ConfigError(f"{dotted} is set by the host and cannot be configured")
            target[dotted] = value
    # validates types, ranges and combinations before anything is started
    NodeConfig.of({**_without_references(node), "log.dirs": "anywhere"})
    ControllerConfig.of({**_without_references(controller), "metadata.log.dir": "anywhere"})
    return node, controller


def _without_references(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are known here; the process of a server resolves the others."""
    return {
        name: value for name, value in config.items() if not (is_provider_key(name) or has_reference(value))
    }


def scaled(node: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """The node config with replication factors of internal topics that a cluster of `nodes` can have, unless
    they are set: Kafka's default of three would make their creation fail."""
    replicas = min(nodes, DURABLE_REPLICAS)
    return {
        "offsets.topic.replication.factor": replicas,
        "audit.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        **node,
    }


def replicated(controller: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """The controller config of a cluster whose `nodes` fail independently, unless the keys are set: topics
    get three replicas (or one per node, if fewer), and acks=all tolerates one replica outside of the ISR."""
    replicas = min(nodes, DURABLE_REPLICAS)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": max(replicas - 1, 1),
        **controller,
    }


def of_node(node: Mapping[str, Any], index: int, log_dir: str) -> dict[str, Any]:
    """The config of node `index` (from 1). The port of a Kafka listener is that of the first node; the others
    use the following ports."""
    found = {**node, "node.id": index, "log.dirs": log_dir}
    _own_metrics_port(found, "metrics.listener", index)
    for name in ("listeners", "advertised.listeners"):
        if name in found:
            values = NodeConfig.of(_without_references(found)).to_mapping()[name]
            found[name] = tuple(_with_own_port(value, index) for value in values)
    return found


def of_controller(controller: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The config of controller `index` (from 1). The port of its metrics follows that of the first one."""
    found = {**controller, "controller.id": index}
    _own_metrics_port(found, "controller.metrics.listener", index)
    return found


def _own_metrics_port(config: dict[str, Any], name: str, index: int) -> None:
    if name in _without_references(config) and config[name]:
        config[name] = _with_own_port(config[name], index)


def _with_own_port(address: str, index: int) -> str:
    head, _, port = address.rpartition(":")
    return f"{head}:{int(port) and int(port) + index - 1}" if port.isdecimal() else address


def changed_while_running(name: str) -> str | None:
    """The dotted name of a key that `config alter --cluster-wide` can change; None if it needs a restart."""
    for cls in (NodeConfig, ControllerConfig):
        dotted = _dotted(cls, name)
        if dotted is not None and (cls.keys()[dotted].live or dotted in CLUSTER_WIDE_KEYS):
            return dotted
    return None


def _dotted(cls: type[Config], name: str) -> str | None:
    for dotted in list(cls.keys()):
        if dotted.endswith(FAMILY) and name.startswith(dotted[:-1]):
            return name
        if name in (dotted, dotted.replace(".", "_"), cls.field_of(dotted)):
            return dotted
    return None
