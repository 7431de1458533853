"""Version 3: configs of topics, of brokers, and of all brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import ConfigSource, Resource, append, subtract
from ...protocol.errors import UnknownTopicOrPartitionError
from ...runtime.config import HOUR, MINUTE
from ..web.problems import Problem
from ..web.routes import Route
from .shapes import (
    BrokerConfig,
    ClusterConfig,
    ConfigChange,
    ConfigChanges,
    ConfigValue,
    Page,
    Synonym,
    TopicConfig,
)
from .v3_clusters import CLUSTER, broker_id, links_of
from .v3_topics import TOPIC, TOPICS, no_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.admin.admin_types import ConfigValue as FoundValue
    from ..web.calls_io import Call
    from .links import Links

_TAG = "v3 Configs"
_BROKER = f"{CLUSTER}/brokers/{{broker_id}}"
_UNITS = {".hours": HOUR, ".minutes": MINUTE}
_SOURCES = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.CLUSTER_DEFAULT: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC: "STATIC_BROKER_CONFIG",
    ConfigSource.BUILT_IN: "DEFAULT_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "GROUP_CONFIG",
}


# --- topics --------------------------------------------------------------------------------------------


async def _topic_configs(call: Call) -> Page[TopicConfig]:
    links, topic = await links_of(call), call.params["topic_name"]
    found = await _values(call, Resource.topic(topic))
    data = [_topic_config(links, topic, each) for each in found.values()]
    return links.page("KafkaTopicConfigList", data, "topics", topic, "configs")


async def _all_topic_configs(call: Call) -> Page[TopicConfig]:
    links = await links_of(call)
    names = [each.name for each in await call.clients.admin.list_topics(internal=True)]
    results = await call.clients.admin.describe_configs(*names, synonyms=True) if names else {}
    data = [
        _topic_config(links, resource.name, each)
        for resource in results
        if resource not in getattr(results, "errors", {})
        for each in results[resource].values()
    ]
    return links.page("KafkaTopicConfigList", data, "topics", "-", "configs")


async def _topic_defaults(call: Call) -> Page[TopicConfig]:
    """The values that apply without those of the topic itself."""
    links, topic = await links_of(call), call.params["topic_name"]
    data: list[TopicConfig] = []
    for each in (await _values(call, Resource.topic(topic))).values():
        document = _topic_config(links, topic, each)
        rest = [level for level in document.synonyms if level.source != _SOURCES[ConfigSource.TOPIC]]
        if rest:
            document.value, document.source = _in_unit_of(each.name, rest[0]), rest[0].source
            document.synonyms, document.is_default = rest, True
            data.append(document)
    return links.page("KafkaTopicConfigList", data, "topics", topic, "default-configs")


async def _topic_config_of(call: Call) -> TopicConfig:
    links, topic = await links_of(call), call.params["topic_name"]
    return _topic_config(links, topic, await _value(call, Resource.topic(topic)))


async def _set_topic_config(call: Call) -> None:
    await _set(call, Resource.topic(call.params["topic_name"]))


async def _reset_topic_config(call: Call) -> None:
    await _reset(call, Resource.topic(call.params["topic_name"]))


async def _alter_topic_configs(call: Call) -> None:
    await _alter(call, Resource.topic(call.params["topic_name"]))


# --- brokers -------------------------------------------------------------------------------------------


async def _broker_configs(call: Call) -> Page[BrokerConfig]:
    links, node = await links_of(call), broker_id(call)
    found = await _values(call, Resource.broker(node))
    data = [_broker_config(links, node, each) for each in found.values()]
    return links.page("KafkaBrokerConfigList", data, "brokers", node, "configs")


async def _all_broker_configs(call: Call) -> Page[BrokerConfig]:
    """The dynamic configs of all brokers, as Confluent's."""
    links = await links_of(call)
    nodes = (await call.clients.admin.describe_cluster()).nodes
    data: list[BrokerConfig] = []
    for node in nodes:
        found = await _values(call, Resource.broker(node.node_id))
        dynamic = (
            x for x in found.values() if x.source in (ConfigSource.BROKER, ConfigSource.CLUSTER_DEFAULT)
        )
        data += [_broker_config(links, node.node_id, each) for each in dynamic]
    return links.page("KafkaBrokerConfigList", data, "brokers", "-", "configs")


async def _broker_config_of(call: Call) -> BrokerConfig:
    links, node = await links_of(call), broker_id(call)
    return _broker_config(links, node, await _value(call, Resource.broker(node)))


async def _set_broker_config(call: Call) -> None:
    await _set(call, Resource.broker(broker_id(call)))


async def _reset_broker_config(call: Call) -> None:
    await _reset(call, Resource.broker(broker_id(call)))


async def _alter_broker_configs(call: Call) -> None:
    await _alter(call, Resource.broker(broker_id(call)))


# --- all brokers ---------------------------------------------------------------------------------------


async def _cluster_configs(call: Call) -> Page[ClusterConfig]:
    links = await links_of(call)
    found = await _values(call, Resource.broker())
    data = [_cluster_config(links, each) for each in found.values()]
    return links.page("KafkaClusterConfigList", data, "broker-configs")


async def _cluster_config_of(call: Call) -> ClusterConfig:
    links = await links_of(call)
    return _cluster_config(links, await _value(call, Resource.broker()))


async def _set_cluster_config(call: Call) -> None:
    await _set(call, Resource.broker())


async def _reset_cluster_config(call: Call) -> None:
    await _reset(call, Resource.broker())


async def _alter_cluster_configs(call: Call) -> None:
    await _alter(call, Resource.broker())


# --- what they share -----------------------------------------------------------------------------------


async def _values(call: Call, resource: Resource) -> Mapping[str, FoundValue]:
    try:
        return (await call.clients.admin.describe_configs(resource, synonyms=True))[resource]
    except UnknownTopicOrPartitionError:
        raise no_topic(resource.name) from None


async def _value(call: Call, resource: Resource) -> FoundValue:
    name = call.params["name"]
    found = (await _values(call, resource)).get(name)
    if found is None:
        raise Problem(404, f"config {name!r} of {resource.kind} {resource.name!r} cannot be found")
    return found


async def _set(call: Call, resource: Resource) -> None:
    await links_of(call)
    wanted = await call.json(ConfigValue)
    await _change(call, resource, {call.params["name"]: wanted.value})


async def _reset(call: Call, resource: Resource) -> None:
    await links_of(call)
    await _change(call, resource, {call.params["name"]: None})


async def _alter(call: Call, resource: Resource) -> None:
    await links_of(call)
    wanted = await call.json(ConfigChanges)
    changes = {each.name: _changed(each) for each in wanted.data}
    if len(changes) < len(wanted.data):
        raise Problem(422, "data has two changes of one config")
    await _change(call, resource, changes, validate_only=wanted.validate_only)


def _changed(change: ConfigChange) -> Any:
    operation = (change.operation or "SET").upper()
    if operation == "DELETE":
        return None
    if operation not in ("SET", "APPEND", "SUBTRACT"):
        raise Problem(422, f"operation must be SET, DELETE, APPEND or SUBTRACT, not {change.operation!r}")
    if change.value is None:
        raise Problem(422, f"{operation} of {change.name} needs a value")
    if operation == "SET":
        return change.value
    return append(change.value) if operation == "APPEND" else subtract(change.value)


async def _change(
    call: Call, resource: Resource, changes: Mapping[str, Any], *, validate_only: bool = False
) -> None:
    results = await call.clients.admin.alter_configs({resource: changes}, validate_only=validate_only)
    error = results.errors.get(resource)
    if isinstance(error, UnknownTopicOrPartitionError):
        raise no_topic(resource.name)
    if error is not None:
        raise error


def _in_unit_of(name: str, level: Synonym) -> str | None:
    """The value of a level under another name, such as log.retention.hours, in the unit of the key."""
    factor = next((each for unit, each in _UNITS.items() if level.name.endswith(unit)), None)
    if factor is None or level.value is None or not name.endswith(".ms"):
        return level.value
    return str(int(level.value) * factor)


def _topic_config(links: Links, topic: str, found: FoundValue) -> TopicConfig:
    return TopicConfig(
        metadata=links.metadata(
            "topics", topic, "configs", found.name, name=f"topic={topic}/config={found.name}"
        ),
        topic_name=topic,
        **_fields(links, found),
    )


def _broker_config(links: Links, node: int, found: FoundValue) -> BrokerConfig:
    return BrokerConfig(
        metadata=links.metadata(
            "brokers", node, "configs", found.name, name=f"broker={node}/config={found.name}"
        ),
        broker_id=node,
        **_fields(links, found),
    )


def _cluster_config(links: Links, found: FoundValue) -> ClusterConfig:
    return ClusterConfig(
        metadata=links.metadata("broker-configs", found.name, name=f"broker-config={found.name}"),
        **_fields(links, found),
    )


def _fields(links: Links, found: FoundValue) -> dict[str, Any]:
    return {
        "cluster_id": links.cluster_id,
        "name": found.name,
        "value": found.value,
        "is_default": found.is_default,
        "is_read_only": found.is_read_only,
        "is_sensitive": found.is_sensitive,
        "source": _SOURCES[found.source],
        "synonyms": [Synonym(each.name, each.value, _SOURCES[each.source]) for each in found.synonyms],
    }


def _routes(
    path: str, what: str, page: Any, one: Any, handlers: tuple[Any, Any, Any, Any, Any]
) -> tuple[Route, ...]:
    """The routes of the configs at a path: list, get, set, reset, alter."""
    listed, got, changed, reset, altered = handlers
    return (
        Route("GET", path, listed, f"List the configs of {what}", _TAG, None, page),
        Route("GET", f"{path}/{{name}}", got, f"Get a config of {what}", _TAG, None, one),
        Route("PUT", f"{path}/{{name}}", changed, f"Set a config of {what}", _TAG, ConfigValue, status=204),
        Route("DELETE", f"{path}/{{name}}", reset, f"Reset a config of {what}", _TAG, status=204),
        Route("POST", f"{path}:alter", altered, f"Change configs of {what}", _TAG, ConfigChanges, status=204),
    )


_TOPIC_HANDLERS = (
    _topic_configs,
    _topic_config_of,
    _set_topic_config,
    _reset_topic_config,
    _alter_topic_configs,
)
_BROKER_HANDLERS = (
    _broker_configs, _broker_config_of, _set_broker_config, _reset_broker_config, _alter_broker_configs,
)  # fmt: skip
_CLUSTER_HANDLERS = (
    _cluster_configs, _cluster_config_of, _set_cluster_config, _reset_cluster_config, _alter_cluster_configs,
)  # fmt: skip
ROUTES = (
    *_routes(f"{TOPIC}/configs", "a topic", Page[TopicConfig], TopicConfig, _TOPIC_HANDLERS),
    *_routes(f"{_BROKER}/configs", "a broker", Page[BrokerConfig], BrokerConfig, _BROKER_HANDLERS),
    *_routes(
        f"{CLUSTER}/broker-configs", "all brokers", Page[ClusterConfig], ClusterConfig, _CLUSTER_HANDLERS
    ),
    Route(
        "GET", f"{TOPICS}/-/configs", _all_topic_configs, "List the configs of all topics", _TAG, None,
        Page[TopicConfig],
    ),
    Route(
        "GET", f"{TOPIC}/default-configs", _topic_defaults, "List the defaults of a topic", _TAG, None,
        Page[TopicConfig],
    ),
    Route(
        "GET", f"{CLUSTER}/brokers/-/configs", _all_broker_configs, "List dynamic configs of brokers", _TAG,
        None, Page[BrokerConfig],
    ),
)  # fmt: skip
