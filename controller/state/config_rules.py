"""Rules of dynamic configs of topics, groups, nodes and the cluster: allowed keys, and values that must
agree. Pure.

The files of nodes are unknown here: a node ignores values that contradict its own file, and logs that.
Source: Kafka DynamicBrokerConfig.java; KIP-226, 339.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, InvalidConfigError, InvalidRequestError
from ...protocol.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ...runtime.config import Config, nearest_key, text_of
from ...storage_node.configs.client_metrics_config import ClientMetricsConfig
from ...storage_node.configs.config_entries import BROKER_NAMES
from ...storage_node.configs.dynamic_listeners import PREFIX, STORE_KEYS, listener_key
from ...storage_node.configs.group_config import GROUP_KEY_SYNONYMS, GroupConfig
from ...storage_node.configs.node_config import CLUSTER_WIDE_KEYS, NodeConfig
from ...storage_node.log.config import RELATED_KEYS, LogConfig
from ...storage_node.log.log_defaults import TOPIC_KEY_SYNONYMS, merged_as_far_as_possible
from ..config import ControllerConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from ...protocol.metadata.image import MetadataImage

    ResourceKey = tuple[int, str]

MAX_LENGTH = (
    500  # Bound: of names and plain values; longer than any valid one, and short enough for an error message
)
MAX_LIST_LENGTH = 32_767  # Bound: of a list. Source: Kafka ConfigurationControlManager.java, a short string
# Required keys of a configuration that a resource never has.
_REQUIRED: dict[type[Config], dict[str, Any]] = {
    LogConfig: {},
    GroupConfig: {},
    ClientMetricsConfig: {},
    NodeConfig: {"log.dirs": ("unknown",)},
    ControllerConfig: {"metadata.log.dir": "unknown"},
}
_RECORD_BYTES = 16  # of a record besides its names and its value: kind, type, lengths
_ANY_NODE = NodeConfig.of(_REQUIRED[NodeConfig])


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind of resource, which `what` names: the live ones, or all of a topic. `broker_names`
    are their synonyms at nodes. `takes_listener_keys`: also those of dynamic_listeners.py,
    which the node itself has checked."""

    what: str
    kinds: tuple[type[Config], ...]
    left_out: Set[str] = frozenset()
    broker_names: Mapping[str, str] = field(default_factory=dict)
    takes_listener_keys: bool = False
    _homes: dict[str, type[Config]] = field(default_factory=dict)
    _spellings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            for name, facts in kind.keys().items():
                is_free = facts.live or kind is LogConfig
                if is_free and name not in self.left_out and name not in self._homes:
                    self._homes[name] = kind
                    spellings = (name.replace(".", "_"), kind.field_of(name))
                    self._spellings.update(dict.fromkeys(spellings, name))

    def dotted(self, name: str) -> str:
        """The name with dots. Errors: InvalidConfigError or InvalidRequestError, with the reason why it
        cannot be set."""
        if name in self._homes:
            return name
        if name in self._spellings:
            return self._spellings[name]
        if self.takes_listener_keys and listener_key(name):
            return listener_key(name)
        if ClientMetricsConfig in self.kinds:  # Kafka's error code for it
            raise InvalidRequestError(self._why_not(name[:MAX_LENGTH]))
        raise InvalidConfigError(self._why_not(name[:MAX_LENGTH]))

    def default(self, name: str) -> Any:
        """The built-in default of a dotted name."""
        home = self._homes.get(name)
        return "" if home is None else home.defaults()[name]  # the keys of listeners are texts

    def checked(self, values: Mapping[str, str]) -> dict[str, str]:
        """Values of dotted names in canonical form; unknown names stay as they are.

        Errors: InvalidConfigError for a value that is too long, out of range or contradicts another.
        """
        found = dict(values)
        for name, value in values.items():
            if name in self._homes:
                _check_length(value, MAX_LIST_LENGTH if self._is_list(name) else MAX_LENGTH, name)
            elif self.takes_listener_keys and listener_key(name):
                _check_length(value, MAX_LIST_LENGTH, name)
        for kind in self.kinds:
            part = {name: values[name] for name in values if self._homes.get(name) is kind}
            if not part:
                continue
            try:
                parsed = kind.of({**_REQUIRED[kind], **part}).to_mapping()
            except ConfigError as error:
                raise InvalidConfigError(str(error)[:MAX_LENGTH]) from None
            left_open = [name for name in part if parsed[name] is None]
            if left_open:
                raise InvalidConfigError(f"{left_open[0]} must have a value; delete it to leave it open")
            found |= {name: text_of(parsed[name]) for name in part}
        return found

    def _is_list(self, name: str) -> bool:
        return isinstance(self.default(name), tuple)

    def _why_not(self, name: str) -> str:
        dotted = name if "." in name else name.replace("_", ".")
        if listener_key(name):
            return f"{name} is a key of one node, not of {self.what}"
        if dotted in STORE_KEYS:
            return f"{dotted} can be changed for one listener of a node only: {PREFIX}<name>.{dotted}"
        for server, kind in (("node", NodeConfig), ("controller", ControllerConfig)):
            facts = kind.keys().get(dotted)
            if facts is not None and not self.broker_names:
                if facts.live:
                    return f"{dotted} holds for the whole cluster, not for one node"
                return f"{dotted} is read-only: set it in the {server}'s configuration and restart it"
        mine = {broker: own for own, broker in self.broker_names.items()}
        here = (mine or BROKER_NAMES | GROUP_KEY_SYNONYMS).get(dotted)
        if here is not None:
            return f"{dotted} is not a key of {self.what}; there it is {here}"
        return f"unknown config key {name!r} of {self.what}{nearest_key(name, self._homes)}"


TOPIC_KEYS = Keys("a topic", (LogConfig,), broker_names=BROKER_NAMES)
GROUP_KEYS = Keys("a group", (GroupConfig,), broker_names=GROUP_KEY_SYNONYMS)
CLIENT_METRICS_KEYS = Keys("a subscription to clients' metrics", (ClientMetricsConfig,))
NODE_KEYS = Keys("a node", (NodeConfig,), left_out=CLUSTER_WIDE_KEYS, takes_listener_keys=True)
CLUSTER_KEYS = Keys("the cluster", (NodeConfig, ControllerConfig))
_KEYS_OF = {
    TOPIC_RESOURCE: TOPIC_KEYS,
    GROUP_RESOURCE: GROUP_KEYS,
    CLIENT_METRICS_RESOURCE: CLIENT_METRICS_KEYS,
}


def keys_of(resource: ResourceKey) -> Keys:
    """The keys of a resource."""
    if resource == CLUSTER_DEFAULT:
        return CLUSTER_KEYS
    return _KEYS_OF.get(resource[0], NODE_KEYS)


def live_config(own: ControllerConfig, image: MetadataImage) -> ControllerConfig:
    """The effective configuration of a controller: the cluster's values over those of its start. Values of a
    newer version that are invalid here are ignored."""
    known = ControllerConfig.keys()
    values = image.configs.get(CLUSTER_DEFAULT, {})
    live = {name: value for name, value in values.items() if name in known and known[name].live}
    return merged_as_far_as_possible(own, live)[0]


def checked_configs(configs: Mapping[str, str], keys: Keys = TOPIC_KEYS) -> dict[str, str]:
    """Configs by their dotted names, values in canonical form.

    Errors: InvalidConfigError for an unknown key, a value out of range, or values that contradict each other.
    """
    values: dict[str, str] = {}
    for name, value in configs.items():
        _check_length(name, MAX_LENGTH, name)
        dotted = keys.dotted(name)
        if dotted in values:
            raise InvalidConfigError(f"{dotted} is named twice, with dots and with underscores")
        values[dotted] = value
    return keys.checked(values)


class ConfigSizes:
    """The size of an image's configs in a snapshot, which readers must be able to load."""

    def __init__(self, image: MetadataImage, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = sum(_size(resource, values) for resource, values in image.configs.items())

    @property
    def room_bytes(self) -> int:
        """The remaining size."""
        return self._limit_bytes - self.used_bytes

    def follow(self, old: MetadataImage, new: MetadataImage, changed: Iterable[ResourceKey]) -> None:
        """The image changed; `changed` are the resources with other configs."""
        for resource in changed:
            self.used_bytes += _size(resource, new.configs.get(resource, {}))
            self.used_bytes -= _size(resource, old.configs.get(resource, {}))


def _size(resource: ResourceKey, values: Mapping[str, str]) -> int:
    name_bytes = len(resource[1].encode()) + _RECORD_BYTES
    return sum(name_bytes + len(name.encode()) + len(value.encode()) for name, value in values.items())


class Inheritance:
    """Checks the changes of one request: their size, and the effective configs of all topics that inherit
    them."""

    def __init__(self, image: MetadataImage, sizes: ConfigSizes) -> None:
        self._image = image
        self._room_bytes = sizes.room_bytes
        self._new: dict[ResourceKey, Mapping[str, str]] = {}
        self._bases: list[tuple[str, LogConfig]] | None = None

    def of(self, resource: ResourceKey) -> Mapping[str, str]:
        """The configs of a resource with the changes so far."""
        new = self._new.get(resource)
        return self._image.configs.get(resource, {}) if new is None else new

    def take(self, resource: ResourceKey, values: Mapping[str, str]) -> None:
        """Set the configs of a resource.

        Errors: InvalidConfigError if there is no room, or values contradict each other, with the node or
        topic; nothing is changed then.
        """
        before = self.of(resource)
        changed = {name for name in before.keys() | values.keys() if before.get(name) != values.get(name)}
        growth = _size(resource, values) - _size(resource, before)
        if growth > max(self._room_bytes, 0):
            raise InvalidConfigError(
                f"{growth} bytes more of configs; the cluster has room for {max(self._room_bytes, 0)}"
            )
        self._new[resource] = values
        try:
            if resource[0] == TOPIC_RESOURCE:
                self._check_topic(resource[1], values, changed)
            elif resource[0] == BROKER_RESOURCE:
                self._bases = None
                self._check_broker(resource, changed)
        except InvalidConfigError:
            self._new[resource] = before
            raise
        self._room_bytes -= growth

    def _check_topic(self, topic: str, own: Mapping[str, str], changed: Set[str]) -> None:
        if RELATED_KEYS.isdisjoint(changed):
            return
        if self._bases is None:
            self._bases = [
                (_where(node), merged_as_far_as_possible(_ANY_NODE, self._dynamic(node))[0].log_defaults())
                for node in self._levels()
            ]
        for where, base in self._bases:
            _check(base, where, topic, own)

    def _check_broker(self, resource: ResourceKey, changed: Set[str]) -> None:
        for node in self._levels() if resource == CLUSTER_DEFAULT else (resource[1],):
            where = _where(node)
            try:
                base = _ANY_NODE.merged(self._dynamic(node)).log_defaults()
            except ConfigError as error:
                raise InvalidConfigError(f"{where}{error}"[:MAX_LENGTH]) from None
            if any(TOPIC_KEY_SYNONYMS.get(name) in RELATED_KEYS for name in changed):
                for own, topic in self._combinations().items():
                    _check(base, where, topic, dict(own))

    def _levels(self) -> list[str]:
        """The levels that topics inherit from: nodes in general (no name), and nodes with values of their
        own."""
        nodes = [str(node_id) for node_id in self._image.brokers]
        return ["", *(node for node in nodes if self.of((BROKER_RESOURCE, node)))]

    def _dynamic(self, node: str) -> dict[str, str]:
        values = {**self.of(CLUSTER_DEFAULT), **self.of((BROKER_RESOURCE, node))}
        known = NodeConfig.keys()
        return {name: value for name, value in values.items() if name in known and known[name].live}

    def _combinations(self) -> dict[frozenset[tuple[str, str]], str]:
        """The combinations of related keys that topics have, each with one such topic."""
        return {
            frozenset((key, values[key]) for key in values if key in RELATED_KEYS): name
            for (kind, name), values in {**self._image.configs, **self._new}.items()
            if kind == TOPIC_RESOURCE and not RELATED_KEYS.isdisjoint(values)
        }


def _check(base: LogConfig, where: str, topic: str, own: Mapping[str, str]) -> None:
    try:
        base.merged({key: own[key] for key in own if key in RELATED_KEYS})
    except ConfigError as error:
        raise InvalidConfigError(f"{where}topic {topic} would have: {error}"[:MAX_LENGTH]) from None


def _where(node: str) -> str:
    return f"node {node}: " if node else ""


def _check_length(text: str, limit: int, name: str) -> None:
    if len(text) > limit:
        raise InvalidConfigError(f"{name[:60]!r}: {len(text)} characters, at most {limit} are allowed")
