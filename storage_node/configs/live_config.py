"""The dynamic configuration of a node: its own values below those of the metadata for the cluster and for
this node. Pure.

Components read `now` each time, or register with `on_change`. Keys that are not live keep the values of the
node's start. Source: Kafka DynamicBrokerConfig.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT
from ...runtime.config import text_of
from ..log.log_defaults import merged_as_far_as_possible
from .dynamic_listeners import is_applied, listener_key
from .node_config import NodeConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from ..log.config import LogConfig

    Configs = Mapping[tuple[int, str], Mapping[str, str]]  # by resource, as in an image

LIVE_KEYS = frozenset(name for name, facts in NodeConfig.keys().items() if facts.live)


class _Merged(NamedTuple):
    cluster: dict[str, str]  # live keys, for all nodes
    node: dict[str, str]  # live keys and those of listeners, for this node
    config: NodeConfig
    topic_defaults: LogConfig
    faults: tuple[str, ...]


class LiveConfig:
    """`own` is the configuration of the node's start, `now` the effective one: replaced at each change,
    immutable."""

    def __init__(self, own: NodeConfig) -> None:
        self.own = own
        self.now = own
        self._listeners: list[tuple[frozenset[str], Callable[[NodeConfig], None]]] = []
        self._merged = self._followed = _Merged({}, {}, own, own.log_defaults(), ())

    def on_change(self, names: Iterable[str], act: Callable[[NodeConfig], None]) -> None:
        """Call `act` with the new configuration after a change of one of the keys `names`."""
        keys = frozenset(names)
        assert keys <= LIVE_KEYS, f"declare them live first: {sorted(keys - LIVE_KEYS)}"
        self._listeners.append((keys, act))

    def follow(self, configs: Configs, node_id: int) -> tuple[str, ...]:
        """Apply the configs of the metadata and call the listeners; returns messages about values that are
        new and cannot be applied: a newer controller may allow values that this node does not know."""
        old, merged = self._followed, self._merge(configs, node_id)
        if merged is old:
            return ()
        self._followed, self.now = merged, merged.config
        for names, act in self._listeners:
            if any(_value(old.config, name) != _value(self.now, name) for name in names):
                act(self.now)
        return merged.faults

    def applied(self, configs: Configs, node_id: int) -> Configs:
        """The configs of the cluster and of this node, without those that contradict the node's file; empty
        where all apply."""
        merged = self._merge(configs, node_id)
        if not merged.faults:
            return {}
        node = {name for name, text in merged.node.items() if _has(merged.config, name, text)}
        cluster = {name for name, text in merged.cluster.items() if _has(merged.config, name, text)}
        resource = (BROKER_RESOURCE, str(node_id))
        return {
            CLUSTER_DEFAULT: _without(
                configs.get(CLUSTER_DEFAULT, {}), merged.cluster.keys() - cluster - node
            ),
            resource: _without(configs.get(resource, {}), merged.node.keys() - node),
        }

    def topic_defaults(self, configs: Configs, node_id: int) -> LogConfig:
        """The defaults of topics under these configs, which may be those of the next image."""
        return self._merge(configs, node_id).topic_defaults

    def _merge(self, configs: Configs, node_id: int) -> _Merged:
        cluster = _live(configs.get(CLUSTER_DEFAULT, {}))
        of_node = configs.get((BROKER_RESOURCE, str(node_id)), {})
        node = _live(of_node) | {name: of_node[name] for name in sorted(of_node) if listener_key(name)}
        if (cluster, node) != (self._merged.cluster, self._merged.node):
            config, faults = merged_as_far_as_possible(self.own, {**cluster, **node})
            if faults:  # where the node's own value is invalid, the cluster's may apply
                config, faults = merged_as_far_as_possible(self.own, cluster)
                config, more = merged_as_far_as_possible(config, node)
                faults += more
            self._merged = _Merged(cluster, node, config, config.log_defaults(), faults)
        return self._merged


def _live(values: Mapping[str, str]) -> dict[str, str]:
    return {name: values[name] for name in sorted(values) if name in LIVE_KEYS}


def _value(config: NodeConfig, name: str) -> object:
    return getattr(config, NodeConfig.field_of(name))


def _has(config: NodeConfig, name: str, text: str) -> bool:
    return is_applied(config, name, text) if listener_key(name) else text_of(_value(config, name)) == text


def _without(values: Mapping[str, str], names: Container[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}
