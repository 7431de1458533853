"""Descriptions of configs: every key with its value on each level, in Kafka's order. Pure.

A topic's own value precedes that of the node, of all nodes, of the node's file, and the built-in default; the
broker levels have names of their own for topic keys (synonyms). Values of sensitive and unknown keys are
masked. Source: Kafka ConfigHelper.scala, DynamicBrokerConfig.java brokerConfigSynonyms; KIP-226.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import InvalidRequestError, UnknownTopicOrPartitionError
from ...protocol.messages.control import ConfigEntry, ConfigSynonym
from ...protocol.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ...protocol.model import MAX_TOPIC_NAME_LENGTH
from ...runtime.config import MAX_INT, Config, text_of
from ..log.config import RELATED_KEYS, LogConfig
from ..log.log_defaults import STAND_INS, TOPIC_KEY_SYNONYMS, effective_log_config
from .client_metrics_config import MAX_SUBSCRIPTION_NAME_LENGTH, ClientMetricsConfig
from .dynamic_listeners import is_secret, listener_key
from .group_config import GROUP_KEY_SYNONYMS, MAX_GROUP_ID_LENGTH, GroupConfig
from .node_config import NodeConfig

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from ...protocol.messages.control import ConfigResource, DescribeConfigsRequest
    from ...protocol.metadata.image import MetadataImage
    from ...runtime.config import KeyDeclaration
    from .live_config import LiveConfig

    Configs = Mapping[tuple[int, str], Mapping[str, str]]  # by (type, name)

SOURCE_TOPIC, SOURCE_NODE, SOURCE_CLUSTER, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
SOURCE_CLIENT_METRICS, SOURCE_GROUP = 7, 8
BROKER_NAMES = {topic: broker for broker, topic in TOPIC_KEY_SYNONYMS.items()}
# Topic keys whose built-in default is a synonym, as in Kafka: keys with a broker config for their default,
# unless Kafka derives that default from another broker config.
_DERIVED = frozenset(("segment.ms", "segment.jitter.ms", "flush.ms"))
_WITH_DEFAULT_SYNONYM = (BROKER_NAMES.keys() - _DERIVED) | {"unclean.leader.election.enable"}
_TYPES: dict[Any, int] = {bool: 1, str: 2, int: 5, int | None: 5, float: 6}
_INT, _LONG, _LIST, _PASSWORD = 3, 5, 7, 9


def existing(image: MetadataImage, resource: ConfigResource) -> tuple[int, str]:
    """The (type, name) of a resource: a topic, a node that is registered or has configs, the whole cluster,
    or a group or client metrics subscription, which need not exist yet. Errors: UnknownTopicOrPartitionError,
    InvalidRequestError."""
    kind, name = resource.resource_type, resource.name
    if kind == TOPIC_RESOURCE:
        if name not in image.topics:
            raise UnknownTopicOrPartitionError(f"topic {name[:MAX_TOPIC_NAME_LENGTH]!r} does not exist")
    elif kind == GROUP_RESOURCE:
        if not 0 < len(name) <= MAX_GROUP_ID_LENGTH:
            raise InvalidRequestError(f"a group's name has 1 to {MAX_GROUP_ID_LENGTH} characters")
    elif kind == CLIENT_METRICS_RESOURCE:
        if not 0 < len(name) <= MAX_SUBSCRIPTION_NAME_LENGTH:
            raise InvalidRequestError(
                f"a subscription's name has 1 to {MAX_SUBSCRIPTION_NAME_LENGTH} characters"
            )
    elif kind != BROKER_RESOURCE:
        raise InvalidRequestError(
            f"resource type {kind}: only topics ({TOPIC_RESOURCE}), nodes ({BROKER_RESOURCE}), groups"
            f" ({GROUP_RESOURCE}) and subscriptions of metrics ({CLIENT_METRICS_RESOURCE}) have configs"
        )
    elif name and (kind, name) not in image.configs and name not in {str(each) for each in image.brokers}:
        raise InvalidRequestError(f"node {name[:20]!r} is not registered; no name: all nodes")
    return kind, name


class Describer:
    """Describes the configs of an image. `live` is the configuration of the node that answers, None for a
    controller; `node_id` is its id. Values that the node rejected are not described."""

    def __init__(
        self,
        configs: Configs,
        request: DescribeConfigsRequest,
        live: LiveConfig | None = None,
        node_id: int = -1,
    ) -> None:
        self._configs = configs
        self._request = request
        self._live = live
        self._node = None if live is None else live.own
        self._node_id = node_id
        applied = {} if live is None else live.applied(configs, node_id)
        if applied:
            self._configs = {**configs, **applied}
        # The levels that all topics inherit, described once.
        self._inherited: dict[str, list[ConfigSynonym]] = {}
        self._entries: dict[str, ConfigEntry] = {}

    def resource(self, key: tuple[int, str]) -> tuple[ConfigEntry, ...]:
        """All keys of a topic, group, client metrics subscription or node, by (type, name)."""
        kind, name = key
        if kind == CLIENT_METRICS_RESOURCE:
            return self._client_metrics(name)
        if kind == GROUP_RESOURCE:
            return self._group(name)
        return self._topic(name) if kind == TOPIC_RESOURCE else self._broker(name)

    def _group(self, name: str) -> tuple[ConfigEntry, ...]:
        """All keys of a group."""
        own = self._configs.get((GROUP_RESOURCE, name), {})
        entries = []
        for key, default in GroupConfig.defaults().items():
            inherited = self._broker_levels(GROUP_KEY_SYNONYMS[key], default)
            entries.append(self._entry(GroupConfig, key, [*_level(own, key, SOURCE_GROUP), *inherited], own))
        return (*entries, *_unknown(own, GroupConfig.keys(), SOURCE_GROUP))

    def _client_metrics(self, name: str) -> tuple[ConfigEntry, ...]:
        """All keys of a subscription; there are no other levels."""
        own = self._configs.get((CLIENT_METRICS_RESOURCE, name), {})
        entries = []
        for key, default in ClientMetricsConfig.defaults().items():
            mine = _level(own, key, SOURCE_CLIENT_METRICS)
            levels = [*mine, ConfigSynonym(key, text_of(default), SOURCE_DEFAULT)]
            entries.append(_without_default_synonym(self._entry(ClientMetricsConfig, key, levels, own)))
        return (*entries, *_unknown(own, ClientMetricsConfig.keys(), SOURCE_CLIENT_METRICS))

    def _topic(self, name: str) -> tuple[ConfigEntry, ...]:
        """All keys of a topic."""
        if not self._entries:
            for key, default in LogConfig.defaults().items():
                self._inherited[key] = [*self._broker_levels(BROKER_NAMES.get(key, key), default)]
                self._entries[key] = self._topic_entry(key, self._inherited[key], {})
        own = self._configs.get((TOPIC_RESOURCE, name), {})
        applied = self._applied(own)
        mine = {
            key: self._topic_entry(key, [*_level(applied, key, SOURCE_TOPIC), *levels], own)
            for key, levels in self._inherited.items()
            if key in own
        }
        return (*{**self._entries, **mine}.values(), *_unknown(own, self._entries, SOURCE_TOPIC))

    def _topic_entry(self, key: str, levels: list[ConfigSynonym], own: Mapping[str, str]) -> ConfigEntry:
        entry = self._entry(LogConfig, key, levels, own)
        return entry if key in _WITH_DEFAULT_SYNONYM else _without_default_synonym(entry)

    def _applied(self, own: Mapping[str, str]) -> Mapping[str, str]:
        """A topic's values without those that contradict the file of the answering node."""
        if self._live is None or RELATED_KEYS.isdisjoint(own):
            return own
        defaults = self._live.topic_defaults(self._configs, self._node_id)
        config, faults = effective_log_config(defaults, own)
        if not faults:
            return own
        values = config.to_mapping()
        return _without(own, {key for key in own if key in values and text_of(values[key]) != own[key]})

    def _broker(self, name: str) -> tuple[ConfigEntry, ...]:
        """All keys of the answering node; of another node only the dynamic ones, because its file is unknown
        here."""
        own = self._configs.get((BROKER_RESOURCE, name), {})
        cluster = self._configs.get(CLUSTER_DEFAULT, {})
        is_here = self._node is not None and name == str(self._node_id)
        entries = []
        for key, declaration in NodeConfig.keys().items():
            levels = [*_level(own, key, SOURCE_NODE), *_level(cluster, key, SOURCE_CLUSTER)]
            if is_here:
                levels += self._own_levels(key)
            if levels:
                entries.append(self._entry(NodeConfig, key, levels, own, is_read_only=not declaration.live))
        known = {*NodeConfig.keys(), *filter(listener_key, own)}
        return (*entries, *_of_listeners(own), *_unknown(own, known, SOURCE_NODE))

    def cluster(self, controller: Config) -> tuple[ConfigEntry, ...]:
        """The keys that may be set cluster-wide: those of nodes, and those of controllers with the values of
        `controller`, the configuration of the one that answers."""
        own = self._configs.get(CLUSTER_DEFAULT, {})
        entries, known = [], set[str]()
        for kind, file in ((NodeConfig, None), (type(controller), controller)):
            for key, declaration in kind.keys().items():
                if declaration.live and key not in known:
                    known.add(key)
                    levels = [*_level(own, key, SOURCE_CLUSTER), *_file_levels(kind, file, key)]
                    entries.append(self._entry(kind, key, levels, own))
        return (*entries, *_unknown(own, known, SOURCE_CLUSTER))

    def _broker_levels(self, name: str, default: Any) -> Iterator[ConfigSynonym]:
        """The node levels of a topic's key, which they call `name`."""
        if self._node is not None:
            yield from _level(self._configs.get((BROKER_RESOURCE, str(self._node_id)), {}), name, SOURCE_NODE)
        yield from _level(self._configs.get(CLUSTER_DEFAULT, {}), name, SOURCE_CLUSTER)
        if name in NodeConfig.defaults():
            yield from self._own_levels(name)
        else:
            yield ConfigSynonym(name, text_of(default), SOURCE_DEFAULT)

    def _own_levels(self, name: str) -> list[ConfigSynonym]:
        return _file_levels(NodeConfig, self._node, name)

    def _entry(
        self,
        kind: type[Config],
        name: str,
        levels: list[ConfigSynonym],
        own: Mapping[str, str],
        *,
        is_read_only: bool = False,
    ) -> ConfigEntry:
        declaration = kind.keys()[name]
        value = self._in_the_unit_of(name, levels[0])
        if declaration.is_sensitive:
            levels = [ConfigSynonym(level.name, None, level.source) for level in levels]
        return ConfigEntry(
            name,
            None if declaration.is_sensitive else value,
            levels[0].source,
            name not in own,
            declaration.doc if self._request.include_documentation else "",
            is_read_only,
            declaration.is_sensitive,
            _type_of(declaration, kind.types()[name]),
            tuple(levels) if self._request.include_synonyms else (),
        )

    def _in_the_unit_of(self, name: str, level: ConfigSynonym) -> str | None:
        """The value of a level in the unit of key `name`: minutes and hours become milliseconds."""
        if level.name == name or not any(level.name in others for others in STAND_INS.values()):
            return level.value
        key = TOPIC_KEY_SYNONYMS.get(name, name)
        defaults = LogConfig.defaults() if self._node is None else self._node.log_defaults().to_mapping()
        return text_of(defaults[key])


def _type_of(declaration: KeyDeclaration, python_type: Any) -> int:
    """Kafka's number of the type; tools check values by it."""
    if declaration.is_sensitive:
        return _PASSWORD
    found = _TYPES.get(python_type, _LIST)
    is_int = found == _LONG and declaration.high is not None and declaration.high <= MAX_INT
    return _INT if is_int else found


def _without(values: Mapping[str, str], names: Container[str]) -> Mapping[str, str]:
    return {name: value for name, value in values.items() if name not in names}


def _level(values: Mapping[str, str], name: str, source: int) -> list[ConfigSynonym]:
    return [ConfigSynonym(name, values[name], source)] if name in values else []


def _file_levels(kind: type[Config], file: Config | None, name: str) -> list[ConfigSynonym]:
    """The value of a server's file, if it is not the default, and the default."""
    defaults, levels = kind.defaults(), []
    names = (name, *STAND_INS.get(name, ()))
    for each in names if file is not None else ():
        value = getattr(file, kind.field_of(each))
        if value != defaults[each]:
            levels.append(ConfigSynonym(each, text_of(value), SOURCE_STATIC))
    built_in = next((each for each in names if defaults[each] is not None), name)
    return [*levels, ConfigSynonym(built_in, text_of(defaults[built_in]), SOURCE_DEFAULT)]


def _without_default_synonym(entry: ConfigEntry) -> ConfigEntry:
    """The entry without the built-in default among its synonyms."""
    levels = tuple(level for level in entry.synonyms if level.source != SOURCE_DEFAULT)
    return msgspec.structs.replace(entry, synonyms=levels)


def _of_listeners(values: Mapping[str, str]) -> list[ConfigEntry]:
    """The keys of the node's listeners that are set dynamically."""
    return [
        ConfigEntry(
            name, None if is_secret(name) else value, SOURCE_NODE, False, is_sensitive=is_secret(name)
        )
        for name, value in sorted(values.items())
        if listener_key(name)
    ]


def _unknown(values: Mapping[str, str], known: Container[str], source: int) -> list[ConfigEntry]:
    """A key of a newer version: its value may be sensitive."""
    return [
        ConfigEntry(name, None, source, False, is_sensitive=True)
        for name in sorted(values)
        if name not in known
    ]
