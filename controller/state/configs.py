"""Topic configs: incremental changes with validation, and their description. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NO_ERROR,
    ConfigError,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import (
    AlterConfigs,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ItemError,
)
from ...protocol.metadata.image import TOPIC_RESOURCE, MetadataImage
from ...protocol.metadata.records import ConfigRecord, MetadataRecord
from ...runtime.config import text_of
from ...storage_node.log.config import LogConfig
from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config import ControllerConfig

SOURCE_TOPIC = 1
SOURCE_DEFAULT = 5
MAX_LENGTH = 500  # Bound: of names and values; longer than any legal one, and fit to appear in an error
MAX_CHANGES = 200  # Bound: changes of one resource; several times the keys that exist

_DEFAULTS = LogConfig()
_DOTTED = {LogConfig.field_of(dotted): dotted for dotted in _DEFAULTS.to_mapping()}


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def checked_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """The configs of a topic by their dotted names, values in canonical text.

    Errors: InvalidConfigError for an unknown key, a value out of range, or values that do not go together.
    """
    for name, value in configs.items():
        if len(name) > MAX_LENGTH or len(value) > MAX_LENGTH:
            raise InvalidConfigError(f"a config has at most {MAX_LENGTH} characters: {name[:60]!r}")
    try:
        parsed = LogConfig.of(configs)
        fields = {LogConfig.field_of(name) for name in configs}
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from error
    if len(fields) != len(configs):
        raise InvalidConfigError("a config is named twice, with dots and with underscores")
    return {
        facts_name: text_of(value)
        for facts_name, value in parsed.to_mapping().items()
        if LogConfig.field_of(facts_name) in fields
    }


def changed_configs(current: Mapping[str, str], changes: tuple[ConfigChange, ...]) -> dict[str, str]:
    """The configs after the changes, in their order. Errors: InvalidConfigError, InvalidRequestError."""
    if len(changes) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(changes)} changes of one resource, at most {MAX_CHANGES}")
    names = [_dotted(change.name) for change in changes]
    if len(set(names)) != len(names):
        raise InvalidRequestError("a config is changed twice in one request")
    result = dict(current)
    for name, change in zip(names, changes, strict=True):
        _change(result, name, change)
    return checked_configs(result)


def _change(configs: dict[str, str], name: str, change: ConfigChange) -> None:
    if change.operation == Operation.SET:
        configs[name] = change.value
    elif change.operation == Operation.DELETE:
        configs.pop(name, None)
    elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
        configs[name] = _list_changed(configs.get(name), name, change)
    else:
        raise InvalidRequestError(f"operation {change.operation} on {name} does not exist")


def _list_changed(current: str | None, name: str, change: ConfigChange) -> str:
    default = _DEFAULTS.to_mapping()[name]
    if not isinstance(default, tuple):
        raise InvalidConfigError(f"{name} is not a list: it can be set or deleted only")
    items = _items(text_of(default) if current is None else current)
    given = _items(change.value)
    if change.operation == Operation.APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    return ",".join(item for item in items if item not in given)


def _items(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _dotted(name: str) -> str:
    try:
        field = LogConfig.field_of(name[:MAX_LENGTH])
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from error
    return _DOTTED[field]


@dataclass(frozen=True, slots=True)
class Configs:
    """Decides changes of configs, and describes them."""

    config: ControllerConfig

    def decide_alter(self, image: MetadataImage, request: IncrementalAlterConfigsRequest) -> Decision:
        """Each resource succeeds or fails as a whole and on its own."""
        self._check_count(len(request.resources))
        records: list[MetadataRecord] = []
        results = []
        seen: set[tuple[int, str]] = set()
        for alter in request.resources:
            try:
                _check_first(seen, alter.resource)
                made = self._changes(image, alter)
            except KafkaError as error:
                results.append(ItemError(alter.resource.name, error.code, str(error)))
            else:
                results.append(ItemError(alter.resource.name))
                records.extend(made)
        if request.validate_only:
            records.clear()
        reply = IncrementalAlterConfigsResponse(tuple(results), image.offset + len(records))
        return Decision(tuple(records), reply)

    def _changes(self, image: MetadataImage, alter: AlterConfigs) -> list[ConfigRecord]:
        key = _topic_resource(image, alter.resource)
        before = image.configs.get(key, {})
        after = changed_configs(before, alter.changes)
        names = sorted(before.keys() | after.keys())
        return [
            ConfigRecord(*key, name, after.get(name)) for name in names if before.get(name) != after.get(name)
        ]

    def describe(self, image: MetadataImage, request: DescribeConfigsRequest) -> Decision:
        """All configs of each resource: its own value or the built-in default, with the doc."""
        self._check_count(len(request.resources))
        results = []
        for resource in request.resources:
            try:
                values = image.configs.get(_topic_resource(image, resource), {})
            except KafkaError as error:
                results.append(DescribedConfigs(resource, error.code, str(error)))
            else:
                results.append(DescribedConfigs(resource, NO_ERROR, "", _entries(values)))
        return Decision((), DescribeConfigsResponse(tuple(results)))

    def _check_count(self, count: int) -> None:
        limit = self.config.max_topics_per_request
        if count > limit:
            raise InvalidRequestError(f"{count} resources in one request, at most {limit}")


def _entries(values: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
    defaults = _DEFAULTS.to_mapping()
    return tuple(
        ConfigEntry(
            name=name,
            value=values.get(name, text_of(defaults[name])),
            source=SOURCE_TOPIC if name in values else SOURCE_DEFAULT,
            is_default=name not in values,
            doc=facts.doc,
        )
        for name, facts in LogConfig.keys().items()
    )


def _topic_resource(image: MetadataImage, resource: ConfigResource) -> tuple[int, str]:
    if resource.resource_type != TOPIC_RESOURCE:
        raise InvalidRequestError(
            f"resource type {resource.resource_type}: only topics ({TOPIC_RESOURCE}) have dynamic configs"
        )
    if resource.name not in image.topics:
        raise UnknownTopicOrPartitionError(f"topic {resource.name[:249]!r} does not exist")
    return TOPIC_RESOURCE, resource.name


def _check_first(seen: set[tuple[int, str]], resource: ConfigResource) -> None:
    key = (resource.resource_type, resource.name)
    if key in seen:
        raise InvalidRequestError(f"resource {resource.name[:249]!r} is named twice")
    seen.add(key)
