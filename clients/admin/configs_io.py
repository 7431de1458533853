"""The configs part of the admin client: describe configs with their sources, alter them, list resources.

A storage node's own file is known to that node alone, so it is asked itself while it can be reached; any
other node tells what is set dynamically.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import BrokerIdNotRegisteredError, ConfigError, KafkaError
from ...protocol.messages import control
from ...protocol.messages import registry as apis
from ...runtime.config import text_of
from .admin_types import (
    AlterConfig,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ConfigValue,
    Resource,
    Results,
)
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .requester_io import AdminRequester, Call

_LOGGERS = "broker-loggers"
TYPES = {"topic": 2, "broker": 4, _LOGGERS: 8, "client-metrics": 16, "group": 32}
# Loggers are not listed: every node has them.
_KINDS = {number: kind for kind, number in TYPES.items() if kind != _LOGGERS}
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


class ConfigEngine:
    """Runs on the loop of the client."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe(
        self, resources: Sequence[Resource], *, synonyms: bool, docs: bool, timeout: float | None
    ) -> Results[Resource, dict[str, ConfigValue]]:
        """The effective configs of each resource by name, or the error."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[Resource]) -> dict[Resource, dict[str, ConfigValue] | KafkaError]:
            groups: dict[str, list[Resource]] = {}
            for item in wanted:
                node = item.name if item.kind in ("broker", _LOGGERS) else ""
                groups.setdefault(node, []).append(item)
            found: dict[Resource, dict[str, ConfigValue] | KafkaError] = {}
            for node, items in groups.items():
                request = control.DescribeConfigsRequest(tuple(map(_resource, items)), synonyms, docs)
                response = await self._ask(node, request, call)
                for item, answer in zip(items, response.results, strict=False):
                    found[item] = error_of(answer) or _values(answer)
            return found

        return await self._requester.retried(list(resources), ask, call)

    async def _ask(self, node: str, request: control.DescribeConfigsRequest, call: Call) -> Any:
        """Ask the node with this id if it responds; otherwise any node."""
        if node.isdecimal():
            try:
                return await self._requester.ask_node(int(node), apis.DESCRIBE_CONFIGS, request, call)
            except BrokerIdNotRegisteredError:
                if _is_of_loggers(request):
                    raise
                # another node has the same values
            except KafkaError as error:
                if not error.retriable or _is_of_loggers(request):
                    raise
        return await self._requester.ask(apis.DESCRIBE_CONFIGS, request, call)

    async def alter(
        self,
        changes: Mapping[Resource, Mapping[str, Any]],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Results[Resource, None]:
        """None for each resource, or the error; none of its changes was made then."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[Resource]) -> dict[Resource, KafkaError | None]:
            groups: dict[str, list[Resource]] = {}
            for item in wanted:
                groups.setdefault(_altered_by(item, changes[item]), []).append(item)
            found: dict[Resource, KafkaError | None] = {}
            for node, items in groups.items():
                alters = tuple(
                    control.AlterConfigs(_resource(item), _changes(changes[item])) for item in items
                )
                request = control.IncrementalAlterConfigsRequest(alters, validate_only)
                api = apis.INCREMENTAL_ALTER_CONFIGS
                try:
                    if node:
                        response = await self._requester.ask_node(int(node), api, request, call)
                    else:
                        response = await self._requester.ask(api, request, call)
                except KafkaError as error:
                    if not node:
                        raise
                    found |= dict.fromkeys(items, error)  # other resources may have been altered
                    continue
                found |= {item: error_of(each) for item, each in zip(items, response.results, strict=False)}
            return found

        return await self._requester.retried(list(changes), ask, call)

    async def list_resources(self, *, configured_only: bool, timeout: float | None) -> list[Resource]:
        """As `Admin.list_config_resources`, without types that this client does not know."""
        call = self._requester.call(timeout)

        async def ask() -> list[Resource] | KafkaError:
            request = control.ListConfigResourcesRequest((), configured_only)
            response = await self._requester.ask(apis.LIST_CONFIG_RESOURCES, request, call)
            known = [each for each in response.resources if each.resource_type in _KINDS]
            return error_of(response) or [Resource(_KINDS[each.resource_type], each.name) for each in known]

        return await self._requester.one("the configs", ask, call)


def _altered_by(resource: Resource, changes: Mapping[str, Any]) -> str:
    """The node that has to be asked, which checks keys of its listeners; empty for any."""
    if resource.kind == _LOGGERS:
        return resource.name  # no other node has them
    is_of_listener = any(name.lower().startswith("listener.name.") for name in changes)
    return resource.name if resource.kind == "broker" and resource.name.isdecimal() and is_of_listener else ""


def _is_of_loggers(request: control.DescribeConfigsRequest) -> bool:
    return any(each.resource_type == TYPES[_LOGGERS] for each in request.resources)


def resources_of(items: Iterable[str | Resource]) -> list[Resource]:
    """Resources; a plain string names a topic."""
    return [Resource.topic(item) if isinstance(item, str) else item for item in items]


def _resource(resource: Resource) -> control.ConfigResource:
    if resource.kind not in TYPES:
        raise ConfigError(f"a resource is one of {', '.join(TYPES)}, not {resource.kind!r}")
    return control.ConfigResource(TYPES[resource.kind], resource.name)


def _values(answer: control.DescribedConfigs) -> dict[str, ConfigValue]:
    return {entry.name: _value(entry) for entry in answer.entries}


def _value(entry: control.ConfigEntry) -> ConfigValue:
    known = entry.config_type in ConfigType._value2member_map_
    return ConfigValue(
        entry.name,
        entry.value,
        ConfigSource(entry.source),
        entry.is_default,
        entry.doc,
        entry.is_read_only,
        entry.is_sensitive,
        ConfigType(entry.config_type) if known else ConfigType.UNKNOWN,
        tuple(ConfigSynonym(each.name, each.value, ConfigSource(each.source)) for each in entry.synonyms),
    )


def _changes(changes: Mapping[str, Any]) -> tuple[control.ConfigChange, ...]:
    return tuple(_change(name, value) for name, value in changes.items())


def _change(name: str, value: Any) -> control.ConfigChange:
    if value is None:
        return control.ConfigChange(name, _OPERATIONS["delete"])
    if isinstance(value, AlterConfig):
        if value.operation not in _OPERATIONS:
            raise ConfigError(f"{name}: no such operation: {value.operation!r}")
        return control.ConfigChange(name, _OPERATIONS[value.operation], text_of(value.value))
    return control.ConfigChange(name, _OPERATIONS["set"], text_of(value))
