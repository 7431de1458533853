"""The config file of one server process, in the format of Kafka's `server.properties`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...controller.config import ControllerConfig
from ...protocol.errors import ConfigError
from ...runtime.config import nearest_key
from ...storage_node.configs.node_config import NodeConfig
from ..secured_files import parse_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NODE, CONTROLLER = "node", "controller"
BOOTSTRAP = "controller.quorum.bootstrap.servers"
AUTO_JOIN = "controller.quorum.auto.join.enable"
PROCESS_ROLES = "process.roles"
# Kafka's name of each role in process.roles.
ROLES = {NODE: "broker", CONTROLLER: "controller"}
CONFIGS: dict[str, type[NodeConfig | ControllerConfig]] = {NODE: NodeConfig, CONTROLLER: ControllerConfig}
# Keys of Kafka's files with another name here.
ALIASES = {CONTROLLER: {"node.id": "controller.id", "log.dirs": "metadata.log.dir"}, NODE: {}}


@dataclass(frozen=True)
class ServerFile:
    """The config of one server. `controllers` are the addresses of controllers, without its own."""

    role: str
    config: NodeConfig | ControllerConfig
    controllers: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """As of the actors on Ray: node-3, controller-1; "node" while the node has no id."""
        if isinstance(self.config, ControllerConfig):
            return f"{CONTROLLER}-{self.config.controller_id}"
        return f"{NODE}-{self.config.node_id}" if self.config.node_id >= 0 else NODE

    @property
    def directory(self) -> str:
        """Its first data dir."""
        if isinstance(self.config, ControllerConfig):
            return self.config.metadata_log_dir
        return self.config.log_dirs[0]


def server_file(
    role: str,
    text: str,
    overrides: Mapping[str, str],
    resolve: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> ServerFile:
    """The config of a server of this role; `overrides` precede the text, `resolve` resolves references.

    Errors: ConfigError for an invalid line, key or value, and for a process.roles that is another role.
    """
    try:
        values: dict[str, Any] = {**parse_properties(text), **overrides}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    check_role(role, str(values.pop(PROCESS_ROLES, ROLES[role])))
    for theirs, ours in ALIASES[role].items():
        if theirs in values:
            values.setdefault(ours, values.pop(theirs))
            values.pop(theirs, None)
    values = resolve(values)
    if role == NODE:
        return _node(values)
    return _controller(values)


def role_of(values: Mapping[str, Any]) -> str:
    """The role that the keys of a file describe."""
    if values.get(PROCESS_ROLES) == ROLES[CONTROLLER] or "controller.id" in values:
        return CONTROLLER
    return CONTROLLER if "metadata.log.dir" in values and "log.dirs" not in values else NODE


def directory_of(text: str, overrides: Mapping[str, str]) -> str:
    """The first data dir of a server of either role, of a file that needs further keys to run. Errors:
    ConfigError."""
    try:
        values = {**parse_properties(text), **overrides}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    is_controller = role_of(values) == CONTROLLER
    found = (is_controller and values.get("metadata.log.dir")) or values.get("log.dirs") or ""
    directory = found.partition(",")[0].strip()
    if not directory:
        raise ConfigError("log.dirs or metadata.log.dir must name a folder")
    return directory


def _node(values: dict[str, Any]) -> ServerFile:
    bootstrap = str(values.pop(BOOTSTRAP, ""))
    if not bootstrap:
        raise ConfigError(f"{BOOTSTRAP} must name the controllers, as host:port,host:port")
    _check_keys(values, NodeConfig)
    config = NodeConfig.of(values)
    # the controllers' key validates the addresses
    servers = ControllerConfig.of({BOOTSTRAP: bootstrap, "metadata.log.dir": "anywhere"})
    return ServerFile(NODE, config, servers.bootstrap_endpoints)


def _controller(values: dict[str, Any]) -> ServerFile:
    values = {AUTO_JOIN: True, **values}
    _check_keys(values, ControllerConfig)
    given = ControllerConfig.of(values)
    own = (given.host, given.advertised_port or given.listener_port)
    others = tuple(each for each in given.bootstrap_endpoints if each != own)
    config = ControllerConfig.of({**values, BOOTSTRAP: ",".join(f"{host}:{port}" for host, port in others)})
    return ServerFile(CONTROLLER, config, others)


def _check_keys(values: Mapping[str, Any], kind: type[NodeConfig | ControllerConfig]) -> None:
    """Errors: ConfigError for a key of the other role, before the nearest key of this one is proposed."""
    other = ControllerConfig if kind is NodeConfig else NodeConfig
    own, others = set(kind.keys()), set(other.keys())
    for name in values:
        if name not in own and name in others:
            role = ROLES[CONTROLLER if other is ControllerConfig else NODE]
            raise ConfigError(f"{name} is a key of a {role}{nearest_key(name, sorted(own))}")


def check_role(role: str, given: str) -> None:
    """Errors: ConfigError for a process.roles that is not this role alone."""
    roles = {word.strip() for word in given.split(",") if word.strip()}
    if roles != {ROLES[role]}:
        raise ConfigError(
            f"{PROCESS_ROLES}={given}: `headrace server {role}` runs the role {ROLES[role]} alone; run one"
            " process for each role"
        )
