"""Key stores and trust stores of a listener as configs of its node, changed while it runs. Pure.

As in Kafka they have the listener's prefix, and are those of one node. The node checks a change before the
controller has it: the files are on its machine. Source: Kafka DynamicBrokerConfig.java, KIP-226.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, InvalidConfigError, InvalidRequestError, KafkaError
from ...protocol.messages.control import ItemError
from ...protocol.metadata.image import BROKER_RESOURCE
from .listener_security import ListenerSecurityConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.messages.control import AlterConfigs
    from .node_config import NodeConfig

PREFIX = "listener.name."
STORE_KEYS = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
# The native listener has no TLS.
_KEY = re.compile(
    rf"listener\.name\.(?!native\.)([a-z0-9_.-]{{1,100}})\.({'|'.join(map(re.escape, STORE_KEYS))})"
)
_SET, _DELETE = 0, 1


def listener_key(name: str) -> str:
    """The canonical name of such a key; empty for another one. Names of listeners have no case."""
    lower = name.lower()
    return lower if _KEY.fullmatch(lower) else ""


def is_secret(name: str) -> bool:
    """Whether values of the key are not shown."""
    match = _KEY.fullmatch(name)
    assert match is not None, "a key of a listener"
    return ListenerSecurityConfig.keys()[match[2]].is_sensitive


def is_applied(config: NodeConfig, name: str, value: str) -> bool:
    """Whether the configuration has this value of a listener's key."""
    return f"{name.removeprefix(PREFIX)}={value}" in config.listener_name


def names_listeners(alter: AlterConfigs) -> bool:
    """Whether the changes are of one node and some of them of its listeners."""
    kind, name = alter.resource.resource_type, alter.resource.name
    return kind == BROKER_RESOURCE and bool(name) and any(listener_key(each.name) for each in alter.changes)


def refusal_of(
    node_id: int,
    alter: AlterConfigs,
    current: Mapping[str, str],
    own: NodeConfig,
    check: Callable[[NodeConfig], None],
) -> ItemError | None:
    """Why the listeners of the node cannot have the changes; None if they can. `current`: the configs of the
    node's resource, `own`: of its start; `check` loads the stores. Errors of `check`: ConfigError."""
    name = alter.resource.name
    try:
        if name != str(node_id):
            raise InvalidRequestError(f"this is node {node_id}, not {name[:20]!r}: ask that node")
        values = {key: value for key, value in current.items() if listener_key(key)}
        for change in alter.changes:
            key = listener_key(change.name)
            if key and change.operation == _SET:
                values[key] = change.value
            elif key and change.operation == _DELETE:
                values.pop(key, None)
        check(own.merged(values))
    except ConfigError as error:
        return ItemError(name, InvalidConfigError.code, str(error))
    except KafkaError as error:
        return ItemError(name, error.code, str(error))
    return None
