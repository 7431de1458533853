"""Configs of topics, groups, nodes and the cluster: incremental changes, and descriptions. Pure.

A smaller min.insync.replicas changes the ELR in the same decision: where the ISR has the new minimum, the ELR
is emptied, because the high watermark may pass it from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NO_ERROR,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
)
from ...protocol.messages.control import (
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ItemError,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ...protocol.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    RESOURCE_TYPES,
    TOPIC_RESOURCE,
    MetadataImage,
)
from ...protocol.metadata.records import ConfigRecord, MetadataRecord, PartitionChangeRecord
from ...protocol.model import effective_min_isr
from ...runtime.config import text_of
from ...storage_node.configs.config_entries import Describer, existing
from .config_rules import TOPIC_KEYS, ConfigSizes, Inheritance, Keys, keys_of, live_config
from .decision import Decision
from .partition_changes import Target, change_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..config import ControllerConfig
    from .cluster_state import ClusterState

MIN_ISR = "min.insync.replicas"
MAX_CHANGES = 200  # Bound: changes of one resource; several times the keys that exist


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def changed_configs(
    current: Mapping[str, str], changes: tuple[ConfigChange, ...], keys: Keys = TOPIC_KEYS
) -> dict[str, str]:
    """The configs after the changes, in order. Errors: InvalidConfigError, InvalidRequestError."""
    if len(changes) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(changes)} changes of one resource, at most {MAX_CHANGES}")
    # a key of a newer version can be deleted
    names = [
        change.name
        if change.operation == Operation.DELETE and change.name in current
        else keys.dotted(change.name)
        for change in changes
    ]
    if len(set(names)) != len(names):
        raise InvalidRequestError("a config is changed twice in one request")
    result = dict(current)
    for name, change in zip(names, changes, strict=True):
        if change.operation == Operation.DELETE:
            result.pop(name, None)
        else:
            _change(result, name, change, keys.default(name))
    return keys.checked(result)


def _change(configs: dict[str, str], name: str, change: ConfigChange, default: object) -> None:
    if change.operation == Operation.SET:
        configs[name] = change.value
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


@dataclass(frozen=True, slots=True)
class Configs:
    """Changes and describes configs. `own` is the configuration of this controller's start."""

    own: ControllerConfig
    sizes: ConfigSizes

    def decide_alter(self, cluster: ClusterState, request: IncrementalAlterConfigsRequest) -> Decision:
        """Each resource succeeds or fails as a whole and on its own; later ones see the changes of earlier
        ones."""
        image = cluster.image
        self._check_count(len(request.resources))
        records: list[MetadataRecord] = []
        results = []
        seen: set[tuple[int, str]] = set()
        inheritance = Inheritance(image, self.sizes)
        for alter in request.resources:
            try:
                _check_first(seen, alter.resource)
                made = self._changes(image, inheritance, alter)
            except KafkaError as error:
                results.append(ItemError(alter.resource.name, error.code, str(error)))
            else:
                results.append(ItemError(alter.resource.name))
                records.extend(made)
        records.extend(
            _min_isr_changes(cluster, [each for each in records if isinstance(each, ConfigRecord)])
        )
        if request.validate_only:
            records.clear()
        reply = IncrementalAlterConfigsResponse(tuple(results), image.offset + len(records))
        return Decision(tuple(records), reply)

    def _changes(
        self, image: MetadataImage, inheritance: Inheritance, alter: AlterConfigs
    ) -> list[ConfigRecord]:
        key = existing(image, alter.resource)
        before = inheritance.of(key)
        after = changed_configs(before, alter.changes, keys_of(key))
        if key == CLUSTER_DEFAULT and MIN_ISR in before and MIN_ISR not in after:
            # The controller elects by this value: it must not be replaced by a node's file, which is unknown
            # here.
            raise InvalidConfigError(f"the cluster-wide {MIN_ISR} cannot be removed, only set")
        names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
        if key[0] == GROUP_RESOURCE:
            live_config(self.own, image).check_group({each: after[each] for each in names if each in after})
        inheritance.take(key, after)
        return [ConfigRecord(*key, name, after.get(name)) for name in names]

    def describe(self, image: MetadataImage, request: DescribeConfigsRequest) -> Decision:
        """All configs of each resource, as far as they are known here: a node's file is not."""
        self._check_count(len(request.resources))
        describer = Describer(image.configs, request)
        results = []
        for resource in request.resources:
            try:
                key = existing(image, resource)
            except KafkaError as error:
                results.append(DescribedConfigs(resource, error.code, str(error)))
                continue
            is_cluster = key == CLUSTER_DEFAULT
            entries = describer.cluster(self.own) if is_cluster else describer.resource(key)
            results.append(DescribedConfigs(resource, NO_ERROR, "", entries))
        return Decision((), DescribeConfigsResponse(tuple(results), image.offset))

    def list_resources(self, image: MetadataImage, request: ListConfigResourcesRequest) -> Decision:
        """The resources of the requested types, or of all types.

        Errors: UNSUPPORTED_VERSION in the response for a type without configs. Source: KIP-1142; Kafka
        KafkaApis.scala, handleListConfigResources.
        """
        unknown = [each for each in request.resource_types if each not in RESOURCE_TYPES]
        if unknown:
            error = UnsupportedVersionError(f"resource type {unknown[0]} has no configs")
            return Decision((), ListConfigResourcesResponse(error.code, str(error)))
        configured = set(image.configs)
        keys = configured if request.is_configured_only else _resources(image, configured)
        types = request.resource_types or RESOURCE_TYPES
        found = tuple(ConfigResource(*key) for key in sorted(keys) if key[0] in types)
        return Decision((), ListConfigResourcesResponse(NO_ERROR, "", found))

    def _check_count(self, count: int) -> None:
        limit = self.own.max_topics_per_request
        if count > limit:
            raise InvalidRequestError(f"{count} resources in one request, at most {limit}")


def _min_isr_changes(cluster: ClusterState, changed: list[ConfigRecord]) -> Iterator[PartitionChangeRecord]:
    """The partition changes that follow from a new min.insync.replicas."""
    values = {
        (each.resource_type, each.resource_name): each.value for each in changed if each.name == MIN_ISR
    }
    if not values:
        return
    image = cluster.image
    default = values.get(CLUSTER_DEFAULT, image.configs.get(CLUSTER_DEFAULT, {}).get(MIN_ISR))
    for topic in image.topics.values():
        key = (TOPIC_RESOURCE, topic.name)
        own = values.get(key, image.configs.get(key, {}).get(MIN_ISR))
        before, after = cluster.min_isr(topic.name), int(own or default or 1)
        for number, partition in enumerate(topic.partitions):
            record = None
            count = len(partition.replicas)
            if effective_min_isr(after, count) > effective_min_isr(before, count):
                # Raise the partition epoch only: a leader that does not know the new value yet is refused to
                # shrink the ISR, and acknowledge by the old value what the removed replicas lack.
                record = PartitionChangeRecord(topic.topic_id, number)
            elif after < before and partition.elr:
                rules = cluster.rules(topic, number)._replace(min_isr=after)
                record = change_partition(topic.topic_id, number, partition, Target(), rules)
            if record is not None:
                yield record


def _resources(image: MetadataImage, configured: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """All topics, unfenced nodes and their loggers, and the groups and client metrics subscriptions with
    configs."""
    nodes = [str(node_id) for node_id, broker in image.brokers.items() if not broker.is_fenced]
    found = {(TOPIC_RESOURCE, name) for name in image.topics}
    found |= {(kind, node) for kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE) for node in nodes}
    return found | {key for key in configured if key[0] in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE)}


def _check_first(seen: set[tuple[int, str]], resource: ConfigResource) -> None:
    key = (resource.resource_type, resource.name)
    if key in seen:
        raise InvalidRequestError(f"resource {resource.name[:249]!r} is named twice")
    seen.add(key)
