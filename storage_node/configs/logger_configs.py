"""Log levels of a node's process as configs of its BROKER_LOGGER resource. Pure. Source: KIP-412; Kafka
LoggingController.java, ConfigAdminManager.scala."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import NO_ERROR, InvalidConfigError, InvalidRequestError, KafkaError
from ...protocol.messages.control import ConfigEntry, DescribedConfigs, ItemError
from ...protocol.metadata.image import BROKER_LOGGER_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.messages.control import AlterConfigs, ConfigChange, ConfigResource

SOURCE_LOGGER = 6
ROOT = "root"
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SET, _DELETE = 0, 1
MAX_NAME = 100  # Bound: of a name in an error message


class Loggers(Protocol):
    """The loggers of the process."""

    def levels(self) -> Mapping[str, str]:
        """The effective level of each logger by its name, one of LEVELS; the root logger is `root`."""

    def set_level(self, name: str, level: str | None) -> None:
        """Set a logger's level; None inherits it from the parent."""


def is_logger(resource: ConfigResource) -> bool:
    """Whether the resource is the loggers of a node, which only that node has."""
    return resource.resource_type == BROKER_LOGGER_RESOURCE


def describe_loggers(node_id: int, resource: ConfigResource, loggers: Loggers) -> DescribedConfigs:
    """One config for each logger of the node. Another node's loggers have the error INVALID_REQUEST."""
    try:
        _check_node(node_id, resource)
    except KafkaError as error:
        return DescribedConfigs(resource, error.code, str(error))
    entries = (ConfigEntry(name, level, SOURCE_LOGGER, False) for name, level in loggers.levels().items())
    return DescribedConfigs(resource, NO_ERROR, "", tuple(entries))


def alter_loggers(node_id: int, alter: AlterConfigs, loggers: Loggers, *, validate_only: bool) -> ItemError:
    """Set levels: all changes of the resource, or none and the error of the first invalid one."""
    try:
        _check_node(node_id, alter.resource)
        levels = loggers.levels()
        names = [change.name for change in alter.changes]
        if len(set(names)) != len(names):
            raise InvalidRequestError("a logger is changed twice in one request")
        changes = [(each.name, _level(each, levels)) for each in alter.changes]
    except KafkaError as error:
        return ItemError(alter.resource.name, error.code, str(error))
    for name, level in changes if not validate_only else ():
        loggers.set_level(name, level)
    return ItemError(alter.resource.name)


def _check_node(node_id: int, resource: ConfigResource) -> None:
    """Errors: InvalidRequestError."""
    if resource.name != str(node_id):
        raise InvalidRequestError(f"this is node {node_id}, not {resource.name[:MAX_NAME]!r}: ask that node")


def _level(change: ConfigChange, levels: Mapping[str, str]) -> str | None:
    """The level that a change sets, None to inherit it. Errors: InvalidConfigError, InvalidRequestError."""
    name, operation, value = change.name, change.operation, change.value
    if operation not in (_SET, _DELETE):
        raise InvalidRequestError("a log level can be set or deleted only")
    if name not in levels:
        raise InvalidConfigError(f"there is no logger {name[:MAX_NAME]!r}")
    if operation == _SET:
        if value not in LEVELS:
            raise InvalidConfigError(f"log level {value[:MAX_NAME]!r}: one of {', '.join(LEVELS)}")
        return value
    if name == ROOT:
        raise InvalidRequestError("the level of the root logger cannot be deleted")
    return None
