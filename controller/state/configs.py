"""Configs of topics, of the cluster and of nodes: incremental changes with validation, and their description.
Pure.

A smaller min.insync.replicas changes who is eligible to lead in the same decision: where the ISR is large
enough now, the ELR is over, because from now on the high watermark may pass it.
"""

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
from ...protocol.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, MetadataImage
from ...protocol.metadata.records import ConfigRecord, MetadataRecord, PartitionChangeRecord
from ...protocol.model import effective_min_isr
from ...runtime.config import Config, text_of
from ...storage_node.log.config import LogConfig
from .cluster_config import ClusterDynamicConfig, NodeDynamicConfig
from .decision import Decision
from .partition_changes import Wish, change_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..config import ControllerConfig
    from .standing import Standing

SOURCE_TOPIC = 1
SOURCE_NODE = 2
SOURCE_CLUSTER = 3
SOURCE_DEFAULT = 5
MIN_ISR = "min.insync.replicas"
MAX_LENGTH = 500  # Bound: of names and values; longer than any legal one, and fit to appear in an error
MAX_CHANGES = 200  # Bound: changes of one resource; several times the keys that exist


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def checked_configs(configs: Mapping[str, str], kind: type[Config] = LogConfig) -> dict[str, str]:
    """The configs of a topic (or of another `kind`) by their dotted names, values in canonical text.

    Errors: InvalidConfigError for an unknown key, a value out of range, or values that do not go together.
    """
    for name, value in configs.items():
        if len(name) > MAX_LENGTH or len(value) > MAX_LENGTH:
            raise InvalidConfigError(f"a config has at most {MAX_LENGTH} characters: {name[:60]!r}")
    try:
        parsed = kind.of(configs)
        fields = {kind.field_of(name) for name in configs}
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from error
    if len(fields) != len(configs):
        raise InvalidConfigError("a config is named twice, with dots and with underscores")
    return {
        facts_name: text_of(value)
        for facts_name, value in parsed.to_mapping().items()
        if kind.field_of(facts_name) in fields
    }


def changed_configs(
    current: Mapping[str, str], changes: tuple[ConfigChange, ...], kind: type[Config] = LogConfig
) -> dict[str, str]:
    """The configs after the changes, in their order. Errors: InvalidConfigError, InvalidRequestError."""
    if len(changes) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(changes)} changes of one resource, at most {MAX_CHANGES}")
    names = [_dotted(kind, change.name) for change in changes]
    if len(set(names)) != len(names):
        raise InvalidRequestError("a config is changed twice in one request")
    result = dict(current)
    for name, change in zip(names, changes, strict=True):
        _change(result, name, change, kind.defaults()[name])
    return checked_configs(result, kind)


def _change(configs: dict[str, str], name: str, change: ConfigChange, default: object) -> None:
    if change.operation == Operation.SET:
        configs[name] = change.value
    elif change.operation == Operation.DELETE:
        configs.pop(name, None)
    elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
        configs[name] = _list_changed(configs.get(name), name, change, default)
    else:
        raise InvalidRequestError(f"operation {change.operation} on {name} does not exist")


def _list_changed(current: str | None, name: str, change: ConfigChange, default: object) -> str:
    if not isinstance(default, tuple):
        raise InvalidConfigError(f"{name} is not a list: it can be set or deleted only")
    items = _items(text_of(default) if current is None else current)
    given = _items(change.value)
    if change.operation == Operation.APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    return ",".join(item for item in items if item not in given)


def _items(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _dotted(kind: type[Config], name: str) -> str:
    try:
        field = kind.field_of(name[:MAX_LENGTH])
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from error
    return next(dotted for dotted in kind.defaults() if kind.field_of(dotted) == field)


@dataclass(frozen=True, slots=True)
class Configs:
    """Decides changes of configs, and describes them."""

    config: ControllerConfig

    def decide_alter(self, standing: Standing, request: IncrementalAlterConfigsRequest) -> Decision:
        """Each resource succeeds or fails as a whole and on its own."""
        image = standing.image
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
        records.extend(
            _min_isr_changes(standing, [each for each in records if isinstance(each, ConfigRecord)])
        )
        if request.validate_only:
            records.clear()
        reply = IncrementalAlterConfigsResponse(tuple(results), image.offset + len(records))
        return Decision(tuple(records), reply)

    def _changes(self, image: MetadataImage, alter: AlterConfigs) -> list[ConfigRecord]:
        key = _resource(image, alter.resource)
        before = image.configs.get(key, {})
        after = changed_configs(before, alter.changes, _kind(key))
        names = sorted(before.keys() | after.keys())
        return [
            ConfigRecord(*key, name, after.get(name)) for name in names if before.get(name) != after.get(name)
        ]

    def describe(self, image: MetadataImage, request: DescribeConfigsRequest) -> Decision:
        """All configs of each resource: its own value, the cluster's or the built-in default, with the
        doc."""
        self._check_count(len(request.resources))
        results = []
        for resource in request.resources:
            try:
                entries = _entries(image, _resource(image, resource))
            except KafkaError as error:
                results.append(DescribedConfigs(resource, error.code, str(error)))
            else:
                results.append(DescribedConfigs(resource, NO_ERROR, "", entries))
        return Decision((), DescribeConfigsResponse(tuple(results)))

    def _check_count(self, count: int) -> None:
        limit = self.config.max_topics_per_request
        if count > limit:
            raise InvalidRequestError(f"{count} resources in one request, at most {limit}")


def _min_isr_changes(standing: Standing, changed: list[ConfigRecord]) -> Iterator[PartitionChangeRecord]:
    """What a new min.insync.replicas changes of the partitions that it holds for."""
    values = {
        (each.resource_type, each.resource_name): each.value for each in changed if each.name == MIN_ISR
    }
    if not values:
        return
    image = standing.image
    cluster = values.get(CLUSTER_DEFAULT, image.configs.get(CLUSTER_DEFAULT, {}).get(MIN_ISR))
    for topic in image.topics.values():
        key = (TOPIC_RESOURCE, topic.name)
        own = values.get(key, image.configs.get(key, {}).get(MIN_ISR))
        before, after = standing.min_isr(topic.name), int(own or cluster or 1)
        for number, partition in enumerate(topic.partitions):
            record = None
            count = len(partition.replicas)
            if effective_min_isr(after, count) > effective_min_isr(before, count):
                # Only the partition epoch: a leader that does not know the new value yet is refused to shrink
                # the ISR. It would go on acknowledging by the old value what those it drops do not have.
                record = PartitionChangeRecord(topic.topic_id, number)
            elif after < before and partition.elr:
                rules = standing.rules(topic, number)._replace(min_isr=after)
                record = change_partition(topic.topic_id, number, partition, Wish(), rules)
            if record is not None:
                yield record


def _entries(image: MetadataImage, key: tuple[int, str]) -> tuple[ConfigEntry, ...]:
    kind = _kind(key)
    own, cluster = image.configs.get(key, {}), image.configs.get(CLUSTER_DEFAULT, {})
    own_source = {(TOPIC_RESOURCE, key[1]): SOURCE_TOPIC, CLUSTER_DEFAULT: SOURCE_CLUSTER}
    defaults = kind.defaults()
    entries = []
    for name, facts in kind.keys().items():
        if name in own:
            value, source = own[name], own_source.get(key, SOURCE_NODE)
        elif name in cluster:
            value, source = cluster[name], SOURCE_CLUSTER
        else:
            value, source = text_of(defaults[name]), SOURCE_DEFAULT
        entries.append(ConfigEntry(name, value, source, name not in own, facts.doc))
    return tuple(entries)


def _kind(key: tuple[int, str]) -> type[Config]:
    if key == CLUSTER_DEFAULT:
        return ClusterDynamicConfig
    return LogConfig if key[0] == TOPIC_RESOURCE else NodeDynamicConfig


def _resource(image: MetadataImage, resource: ConfigResource) -> tuple[int, str]:
    if resource.resource_type == TOPIC_RESOURCE:
        if resource.name not in image.topics:
            raise UnknownTopicOrPartitionError(f"topic {resource.name[:249]!r} does not exist")
    elif resource.resource_type == BROKER_RESOURCE:
        known = {str(node_id) for node_id in image.brokers}
        if resource.name and resource.name not in known:
            raise InvalidRequestError(f"node {resource.name[:20]!r} is not registered; no name: all nodes")
    else:
        raise InvalidRequestError(
            f"resource type {resource.resource_type}: only topics ({TOPIC_RESOURCE}) and nodes "
            f"({BROKER_RESOURCE}) have configs"
        )
    return resource.resource_type, resource.name


def _check_first(seen: set[tuple[int, str]], resource: ConfigResource) -> None:
    key = (resource.resource_type, resource.name)
    if key in seen:
        raise InvalidRequestError(f"resource {resource.name[:249]!r} is named twice")
    seen.add(key)
